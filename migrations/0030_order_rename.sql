-- oldest code: 0.1.0

-- The order that an order.rename row is about. After a lost answer, the order can be found only by its id: it has the
-- former or the new number.
create table sync.outbox_targets (
  outbox_id bigint primary key references fulfilment.outbox (id) on delete cascade,
  target_id bigint not null
);
create index outbox_targets_by_order on sync.outbox_targets (target_id);
comment on table sync.outbox_targets is 'Orders that order.rename rows were sent for, stored before the request';
comment on column sync.outbox_targets.outbox_id is 'The order.rename row';
comment on column sync.outbox_targets.target_id is 'Id of the order at the service';
