-- Business events that workers post to webhooks. They are made from the feed, and hold ids only: what is posted is read then.

create table sync.event_subscribers (
  name text primary key,
  types text[],
  clients text[],
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  missed_at timestamptz
);
comment on table sync.event_subscribers is 'Receivers of business events, as workers were configured with them';
comment on column sync.event_subscribers.name is 'Name in EVENT_SUBSCRIBERS_FILE; default: EVENT_WEBHOOK_URL';
comment on column sync.event_subscribers.types is 'Types of its events; null: all';
comment on column sync.event_subscribers.clients is 'Clients of its events; null: all';
comment on column sync.event_subscribers.started_at is 'When a worker first had it; it gets later changes only';
comment on column sync.event_subscribers.seen_at is 'When a worker last had it, within some minutes. After 7 days without one it is deleted';
comment on column sync.event_subscribers.missed_at is
  'When the feed no longer had all changes that events had to be made from, because no worker had made any for too long';

create table sync.events (
  id bigint generated always as identity primary key,
  message_id uuid not null default gen_random_uuid(),
  subscriber text not null references sync.event_subscribers on delete cascade,
  type text not null,
  client text not null,
  source_id bigint,
  source_key text,
  number text,
  lanes text[] not null,
  happened_at timestamptz not null,
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error text,
  delivered_at timestamptz,
  dead_at timestamptz
);
create index events_due on sync.events (subscriber, next_attempt_at, id) where delivered_at is null and dead_at is null;
create index events_by_lane on sync.events using gin (lanes) where delivered_at is null and dead_at is null;
create index events_dead on sync.events (subscriber, id) where dead_at is not null;
create index events_awaited on sync.events (client, source_id) where type = 'shipment.shipped' and delivered_at is null;
comment on table sync.events is 'Business events, one row for each subscriber';
comment on column sync.events.id is 'Order in which they were made';
comment on column sync.events.message_id is 'webhook-id of every attempt. Random: after a restore, no receiver takes a new event for an old one';
comment on column sync.events.subscriber is 'Receiver (sync.event_subscribers.name)';
comment on column sync.events.type is 'Type, such as shipment.shipped';
comment on column sync.events.client is 'Client key';
comment on column sync.events.source_id is 'Id of the row it is about: an outbox row, shipment, return item or inbound';
comment on column sync.events.source_key is 'Article it is about, for stock.changed';
comment on column sync.events.number is 'Order number, or reference of an inbound, when it was made';
comment on column sync.events.lanes is
  'Names of the order and of its number, or of what it is about. It waits for undelivered, earlier events that share one';
comment on column sync.events.happened_at is 'Transaction time of the change';
comment on column sync.events.attempts is 'Number of attempts';
comment on column sync.events.next_attempt_at is
  'When the next attempt may begin; while one is under way, when another worker may take over';
comment on column sync.events.last_error is 'Why the last attempt failed';
comment on column sync.events.delivered_at is 'When the receiver took it';
comment on column sync.events.dead_at is 'When it was given up; events retry sends it again';
