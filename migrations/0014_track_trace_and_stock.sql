-- oldest code: 0.1.0
-- Where parcels were, and the stock of the articles that somebody watches.

create table fulfilment.track_trace_events (
  id bigint generated always as identity primary key,
  client text not null,
  shipment_id bigint not null,
  package_number text not null default '',
  current_track_trace_status integer,
  current_track_trace_status_date_time timestamptz,
  current_track_trace_exception_level integer,
  raw jsonb not null,
  seen_at timestamptz not null default now()
);
create index track_trace_events_by_package on fulfilment.track_trace_events (client, shipment_id, package_number, id);
create index track_trace_events_by_time on fulfilment.track_trace_events (seen_at);
comment on table fulfilment.track_trace_events is 'A row for each change of where a package is; those in between two readings, an hour apart, are never seen';
comment on column fulfilment.track_trace_events.id is 'Number of the event';
comment on column fulfilment.track_trace_events.client is 'Client key';
comment on column fulfilment.track_trace_events.shipment_id is 'Shipment the package belongs to';
comment on column fulfilment.track_trace_events.package_number is 'packageNumber; empty where there is none';
comment on column fulfilment.track_trace_events.current_track_trace_status is 'Status from then on';
comment on column fulfilment.track_trace_events.current_track_trace_status_date_time is 'Time of the status, as the carrier tells it';
comment on column fulfilment.track_trace_events.current_track_trace_exception_level is 'Exception level from then on';
comment on column fulfilment.track_trace_events.raw is 'The item as received';
comment on column fulfilment.track_trace_events.seen_at is 'When it was read';
create index track_traces_listed on fulfilment.track_traces (client) where unlisted_since is null;

create table fulfilment.stock_watch (
  client text not null default 'default',
  sku text not null check (sku <> ''),
  created_at timestamptz not null default now(),
  primary key (client, sku)
);
comment on table fulfilment.stock_watch is 'Articles whose stock the job pull-stock asks for: insert and delete as you like';
comment on column fulfilment.stock_watch.client is 'Client key';
comment on column fulfilment.stock_watch.sku is 'Article';
comment on column fulfilment.stock_watch.created_at is 'When it was put here';

create table fulfilment.stock_levels (
  client text not null,
  sku text not null,
  stock integer,
  asked_at timestamptz not null,
  changed_at timestamptz not null default now(),
  primary key (client, sku)
) with (fillfactor = 70);
comment on table fulfilment.stock_levels is 'Stock of the watched articles, as the service last told it';
comment on column fulfilment.stock_levels.client is 'Client key';
comment on column fulfilment.stock_levels.sku is 'Article';
comment on column fulfilment.stock_levels.stock is 'Pieces; null where the service has told none so far';
comment on column fulfilment.stock_levels.asked_at is 'When it was last asked';
comment on column fulfilment.stock_levels.changed_at is 'When stock last changed here';

do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant insert (client, sku), delete on fulfilment.stock_watch to fulfilment_writer;
  end if;
end
$$;
