-- oldest code: 0.1.0

-- Orders and other resources whose personal data was erased. Each later reading of them is masked before it is written.
create table sync.erasures (
  client text not null,
  entity text not null check (entity in ('orders', 'return_items', 'return_merchandise_authorizations')),
  id bigint not null,
  external_order_number text,
  erased_at timestamptz not null default now(),
  erased_by text not null,
  primary key (client, entity, id)
);
create index erasures_by_number on sync.erasures (client, external_order_number);
comment on table sync.erasures is
  'Orders and returns whose personal data was erased; each later reading of them is masked before it is written';
comment on column sync.erasures.client is 'Client key';
comment on column sync.erasures.entity is 'orders; or the table of a return that belongs to no stored order';
comment on column sync.erasures.id is 'Id of the row of that table';
comment on column sync.erasures.external_order_number is 'Your order number when it was erased';
comment on column sync.erasures.erased_at is 'When it was erased';
comment on column sync.erasures.erased_by is 'Who erased it: a worker, or the user of the command';

alter table fulfilment.outbox add column erased_at timestamptz;
comment on column fulfilment.outbox.erased_at is 'When personal data was removed from the row; null if it was not';

create view fulfilment.erased_orders as
select client, id as order_id, external_order_number, erased_at
from sync.erasures
where entity = 'orders';
comment on view fulfilment.erased_orders is
  'Orders whose personal data was erased here; erase your own copies too';
comment on column fulfilment.erased_orders.client is 'Client key';
comment on column fulfilment.erased_orders.order_id is 'Order (orders.id)';
comment on column fulfilment.erased_orders.external_order_number is 'Your order number when it was erased';
comment on column fulfilment.erased_orders.erased_at is 'When it was erased';

alter table fulfilment.documents add column erased_at timestamptz;
comment on column fulfilment.documents.erased_at is 'When personal data was removed from the row; null if it was not';
