-- oldest code: 0.1.0
--
-- Every child row that is written is checked against its parent's key (client, id), by a plan that Postgres makes once a
-- session. Where the tables were still empty then, an index that begins with the client alone looks as good to it as the
-- key, and each check goes through all rows of the client: a first load got slower with every page. So none but the key,
-- and what is too small to matter, begins with the client.
--
-- Rebuilds indexes: writes to these tables wait meanwhile.
drop index fulfilment.shipments_by_number;
create index shipments_by_number on fulfilment.shipments (external_order_number, client);
drop index fulfilment.shipments_by_order;
create index shipments_by_order on fulfilment.shipments (order_id, client);
drop index fulfilment.orders_by_number;
create index orders_by_number on fulfilment.orders (external_order_number, client);
drop index fulfilment.inbounds_by_slip;
create index inbounds_by_slip on fulfilment.inbounds (inbound_packing_slip_id, client);
drop index fulfilment.return_merchandise_authorizations_by_reference;
create index return_merchandise_authorizations_by_reference
  on fulfilment.return_merchandise_authorizations (external_reference, client);
