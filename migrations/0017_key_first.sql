-- oldest code: 0.1.0
--
-- Every child row that is written is checked against its parent's key (client, id), by a plan that Postgres makes once a
-- session. Where the tables were still empty then, an index that begins with the client alone looks as good to it as the
-- key, and each check goes through all rows of the client: a first load got slower with every page. So none but the key,
-- and what is too small to matter, begins with the client.
--
-- Builds the new indexes before it drops the old ones: writes to these tables wait meanwhile, reads only at the end.
-- Orders before shipments, as the workers lock them.
create index orders_by_number_first on fulfilment.orders (external_order_number, client);
create index shipments_by_number_first on fulfilment.shipments (external_order_number, client);
create index shipments_by_order_first on fulfilment.shipments (order_id, client);
create index inbounds_by_slip_first on fulfilment.inbounds (inbound_packing_slip_id, client);
create index rma_by_reference_first on fulfilment.return_merchandise_authorizations (external_reference, client);
drop index fulfilment.orders_by_number, fulfilment.shipments_by_number, fulfilment.shipments_by_order,
  fulfilment.inbounds_by_slip, fulfilment.return_merchandise_authorizations_by_reference;
alter index fulfilment.orders_by_number_first rename to orders_by_number;
alter index fulfilment.shipments_by_number_first rename to shipments_by_number;
alter index fulfilment.shipments_by_order_first rename to shipments_by_order;
alter index fulfilment.inbounds_by_slip_first rename to inbounds_by_slip;
alter index fulfilment.rma_by_reference_first rename to return_merchandise_authorizations_by_reference;
