-- What operators see and do: audit, alerts, erasures and the admin pages.

create table sync.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  by text not null,
  action text not null,
  client text,
  detail text not null,
  outbox_ids bigint[] not null default '{}'
);
create index audit_by_time on sync.audit (at);
-- sync.audit: What operators did, and what workers repaired by themselves
--   by: Worker, user of the command, or page with the address that asked for it
--   action: paused, resumed, run_requested, identity_accepted, schedulers_set, pruned, or outbox_
--     and what was done: retry, done, cancel, replace, reveal
--   outbox_ids: The first rows of the outbox that it concerns
--   client: Client key; null if the action is not about one client

-- Problems that are posted to ALERT_WEBHOOK_URL when they begin and when they end.
create table sync.alerts (
  id uuid primary key,
  scope text not null,
  code text not null,
  client text,
  subject text not null,
  detail text not null,
  severity text not null check (severity in ('bad', 'warn')),
  text text not null,
  remedy text,
  since timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  began_at timestamptz,
  missing_since timestamptz,
  unique (scope, code, subject, detail)
) with (fillfactor = 50);
-- sync.alerts: Open problems. A row is deleted when its problem has ended
--   id: Identity of this occurrence of the problem, in both posts
--   subject: The client, and the job, stream or part of the outbox that is concerned
--   detail: Distinguishes problems of the same code and subject, such as the kind of outbox rows
--   since: First check that found the problem
--   began_at: When the post of its beginning was queued; null: it has not lasted long enough
--   missing_since: First check that no longer found the problem; null: the last check found it

-- Orders and other resources whose personal data was erased. Each later reading of them is masked
-- before it is written. An erased order.create may have reached the service. Its order has no id
-- here yet, so its number is kept (entity outbox) until a reading shows the order.
create table sync.erasures (
  client text not null,
  entity text not null
    check (entity in
      ('orders', 'outbox', 'return_items', 'return_merchandise_authorizations', 'shipments')),
  id bigint not null,
  external_order_number text,
  erased_at timestamptz not null default now(),
  erased_by text not null,
  primary key (client, entity, id)
);
create index erasures_by_number on sync.erasures (client, external_order_number);
-- sync.erasures: Orders and returns whose personal data was erased; each later reading of them is
--   masked before it is written
--   entity: orders; outbox for an order.create whose order was not read yet; or the table of a
--     return or shipment that belongs to no stored order

create view fulfilment.erased_orders as
select client, id as order_id, external_order_number, erased_at
from sync.erasures
where entity = 'orders';
comment on view fulfilment.erased_orders is
  'Orders whose personal data was erased here; erase your own copies too';
comment on column fulfilment.erased_orders.external_order_number is
  'Your order number when it was erased';
comment on column fulfilment.erased_orders.erased_at is 'When it was erased';

create table sync.admin_sessions (
  id text primary key,
  ends_at timestamptz not null,
  used_at timestamptz not null default now()
) with (fillfactor = 50);
-- sync.admin_sessions: Open sessions at the admin pages; delete a row to end its session at every
--   worker
--   id: Hash of the cookie, keyed by the tokens
--   used_at: Time of the last request, to the minute; the session ends an hour later
