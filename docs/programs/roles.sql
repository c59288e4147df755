-- The roles of the ERP, if the role that migrates may not create them (docs/erp.md): as a superuser,
-- after migrate. Run the last statement as the role that migrates.
create role fulfilment_reader nologin;
create role fulfilment_writer nologin;
grant usage on schema fulfilment to fulfilment_reader, fulfilment_writer;
grant select on all tables in schema fulfilment to fulfilment_reader, fulfilment_writer;
grant insert (client, kind, reference, payload, not_before) on fulfilment.outbox to fulfilment_writer;
grant execute on function fulfilment.outbox_replace, fulfilment.outbox_cancel, fulfilment.start_consumer,
  fulfilment.consume_changes, fulfilment.drop_consumer to fulfilment_writer;
grant execute on function fulfilment.changes_since, fulfilment.outbox_schema, fulfilment.order_state,
  fulfilment.order_history to fulfilment_reader, fulfilment_writer;
grant insert (client, sku), delete on fulfilment.stock_watch to fulfilment_writer;
grant insert (client, sku, is_pattern), delete on fulfilment.service_products to fulfilment_writer;
grant insert (client, shipping_method, url), delete on fulfilment.carrier_links to fulfilment_writer;
alter default privileges in schema fulfilment grant select on tables to fulfilment_reader, fulfilment_writer;
