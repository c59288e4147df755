-- oldest code: 0.1.0
-- online

-- An erased order.create may have reached the service. Its order has no id here yet, so its number is kept until a
-- reading shows the order.
alter table sync.erasures drop constraint if exists erasures_entity_check,
  add constraint erasures_entity_check
    check (entity in ('orders', 'outbox', 'return_items', 'return_merchandise_authorizations'));
comment on column sync.erasures.entity is
  'orders; outbox for an order.create whose order was not read yet; or the table of a return that belongs to no stored order';

-- An erasure finds the announcements of returns by their shipments.
drop index concurrently if exists fulfilment.outbox_by_shipment;
create index concurrently outbox_by_shipment on fulfilment.outbox ((payload ->> 'shipmentId'), client) where family = 'return';
