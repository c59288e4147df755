-- What operators see and do: audit, alerts, figures, erasures and the admin pages.

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
comment on table sync.audit is 'What operators did, and what workers repaired by themselves';
comment on column sync.audit.by is
  'Worker, user of the command, or page with the address that asked for it';
comment on column sync.audit.action is
  'paused, resumed, run_requested, identity_accepted, schedulers_set, pruned, '
  'or outbox_ and what was done: retry, done, cancel, replace, reveal';
comment on column sync.audit.outbox_ids is 'The first rows of the outbox that it concerns';
comment on column sync.audit.client is 'Client key; null if the action is not about one client';

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
comment on table sync.alerts is 'Open problems. A row is deleted when its problem has ended';
comment on column sync.alerts.id is 'Identity of this occurrence of the problem, in both posts';
comment on column sync.alerts.subject is
  'The client, and the job, stream or part of the outbox that is concerned';
comment on column sync.alerts.detail is
  'Distinguishes problems of the same code and subject, such as the kind of outbox rows';
comment on column sync.alerts.since is 'First check that found the problem';
comment on column sync.alerts.began_at is
  'When the post of its beginning was queued; null: it has not lasted long enough';
comment on column sync.alerts.missing_since is
  'First check that no longer found the problem; null: the last check found it';

-- A worker makes the figures each minute from other tables. Pushes and polls do not write here.
create table sync.figures (
  client text not null,
  at timestamptz not null,
  measure text not null,
  part text not null default '',
  value double precision not null,
  primary key (client, at, measure, part)
) with (fillfactor = 70);
create index figures_by_time on sync.figures (at);
comment on table sync.figures is
  'Figures for the charts of the pages, of spans of 5 minutes, kept for two days';
comment on column sync.figures.client is 'Client key; empty: all clients together';
comment on column sync.figures.at is 'Beginning of the span';
comment on column sync.figures.measure is
  'rows (that polls wrote), pushes (outcomes of attempts), waits (rows done, '
  'by time since their insert) or oldest_pending (seconds, the largest seen)';
comment on column sync.figures.part is
  'rows: stream; pushes: outcome; waits: '
  'n, for a time from 2^(n/4) to 2^((n+1)/4) milliseconds; else empty';
comment on column sync.figures.value is 'A number of rows or attempts, or seconds';

create table sync.figure_marks (
  at timestamptz primary key,
  attempt_id bigint not null
);
insert into sync.figure_marks (at, attempt_id) values (date_bin('5 minutes', now(), 'epoch'), 0);
comment on table sync.figure_marks is
  'Times up to which figures are made. The last mark is the end of the last roll-up';
comment on column sync.figure_marks.at is
  'Time of a roll-up. What was committed three minutes before it is in sync.figures';
comment on column sync.figure_marks.attempt_id is
  'Attempts of transactions that began at this time or later have larger ids in '
  'sync.outbox_attempts';

-- Orders and other resources whose personal data was erased. Each later reading of them is masked
-- before it is written. An erased order.create may have reached the service. Its order has no id
-- here yet, so its number is kept (entity outbox) until a reading shows the order.
create table sync.erasures (
  client text not null,
  entity text not null
    check (entity in ('orders', 'outbox', 'return_items', 'return_merchandise_authorizations')),
  id bigint not null,
  external_order_number text,
  erased_at timestamptz not null default now(),
  erased_by text not null,
  primary key (client, entity, id)
);
create index erasures_by_number on sync.erasures (client, external_order_number);
comment on table sync.erasures is
  'Orders and returns whose personal data was erased; '
  'each later reading of them is masked before it is written';
comment on column sync.erasures.entity is
  'orders; outbox for an order.create whose order was not read yet; '
  'or the table of a return that belongs to no stored order';

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
comment on table sync.admin_sessions is
  'Open sessions at the admin pages; delete a row to end its session at every worker';
comment on column sync.admin_sessions.id is 'Hash of the cookie, keyed by the tokens';
comment on column sync.admin_sessions.used_at is
  'Time of the last request, to the minute; the session ends an hour later';
