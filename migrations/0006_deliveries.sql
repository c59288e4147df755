-- What workers post to webhooks: business events, which are made from the feed, and problems that
-- begin and end.

create table sync.receivers (
  name text primary key,
  kind text not null check (kind in ('event', 'alert')),
  types text[],
  clients text[],
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  missed_at timestamptz,
  places integer not null default 8 check (places > 0),
  failures integer not null default 0 check (failures >= 0),
  away_since timestamptz,
  next_at timestamptz,
  last_error text,
  check ((away_since is null) = (next_at is null))
) with (fillfactor = 50);
-- sync.receivers: Receivers of deliveries, as workers were configured with them. Who adds or
--   finishes deliveries locks the row of their receiver
--   name: Name in EVENT_SUBSCRIBERS_FILE; default: EVENT_WEBHOOK_URL; ALERT_WEBHOOK_URL: the
--     receiver of problems
--   types: Types of its events; null: all
--   clients: Clients of its events; null: all
--   started_at: When a worker first had it; it gets later changes only
--   seen_at: When a worker last had it, within some minutes. After 7 days without one it is deleted
--   missed_at: When events were last not made for it: the feed no longer had all changes, it had
--     been away for 7 days, or the database had been a copy
--   places: Number of deliveries that each worker may post at the same time
--   failures: Number of posts in vain since it went away
--   away_since: Since when it does not answer, answers 5xx or asks to wait; null: it answers
--   next_at: When one delivery tries whether it is back; null: it is not away

create table sync.deliveries (
  id bigint generated always as identity primary key,
  message_id uuid not null default gen_random_uuid(),
  receiver text not null references sync.receivers on delete cascade,
  type text not null,
  client text not null,
  turn text not null,
  lane text not null,
  source_id bigint,
  source_key text,
  number text,
  body jsonb,
  happened_at timestamptz not null,
  created_at timestamptz not null default now(),
  status text not null default 'waiting' check (status in ('waiting', 'delivered', 'dead')),
  tries integer not null default 0 check (tries >= 0),
  not_before timestamptz,
  next_at timestamptz,
  last_error_code text,
  last_error text,
  finished_at timestamptz,
  check (status = 'waiting' or next_at is null),
  check ((status = 'waiting') = (finished_at is null)),
  check ((last_error is null) = (last_error_code is null))
) with (fillfactor = 70);
create index deliveries_new on sync.deliveries (receiver, turn, next_at, id)
  where next_at is not null and tries = 0;
create index deliveries_again on sync.deliveries (receiver, turn, next_at, id)
  where next_at is not null and tries > 0;
create index deliveries_by_lane on sync.deliveries (receiver, lane, id) where status = 'waiting';
create index deliveries_by_number on sync.deliveries (receiver, client, number, id)
  where status = 'waiting' and number is not null;
create index deliveries_by_source on sync.deliveries (client, type, source_id);
create index deliveries_dead on sync.deliveries (receiver, id) where status = 'dead';
create index deliveries_finished on sync.deliveries (finished_at) where finished_at is not null;
-- sync.deliveries: What is posted to receivers: a row for each event or problem and each receiver
--   message_id: webhook-id of every attempt. Random: after a restore, no receiver takes a new
--     delivery for an old one
--   client: Client key; empty: every client
--   turn: Clients take turns. The client key; empty for all clients that were not known here,
--     because a role can invent any number
--   lane: Order, or what else it is about. Only the first waiting delivery of a lane has a next_at
--   source_id: Id of the row it is about: an outbox row, shipment, return item or inbound
--   source_key: Article or package it is about
--   body: What is posted; null for events: their row is read when they are posted
--   happened_at: Transaction time of the change, or when the problem began or ended
--   status: waiting, delivered, or dead: given up; events retry sends it again
--   not_before: shipment.shipped without packages waits for them until then
--   next_at: When the next attempt may begin; while one is under way, when another worker may take
--     over; null: an earlier one of its lane waits, or it is finished

create table sync.event_checkpoint (
  only_row boolean primary key default true check (only_row),
  seq bigint not null
) with (fillfactor = 50);
-- sync.event_checkpoint: How far business events are made from the feed

create table sync.rescanned_changes (
  first_seq bigint primary key,
  last_seq bigint not null
);
-- sync.rescanned_changes: Changes that a reconciliation, backfill, refetch or replay found.
--   Business events are made of recent ones only
