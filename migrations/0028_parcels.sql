-- oldest code: 0.1.0

-- The packages of shipped shipments. Track-trace lists only packages on their way; the look-up by criteria also names
-- those that were delivered before this program started, during an outage, or without track-trace.

create table fulfilment.parcels (
  client text not null,
  shipment_id bigint not null,
  package_number text not null default '',
  collo_number text,
  track_and_trace_code text,
  track_and_trace_bar_code text,
  return_package_number text,
  current_track_trace_status text,
  current_track_trace_exception_level text,
  shipping_date timestamptz,
  read_at timestamptz,
  read_no bigint not null,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, shipment_id, package_number)
) with (fillfactor = 80);
comment on table fulfilment.parcels is 'Packages of shipped shipments, with their latest known status; filled by the jobs pull-parcels and track-trace';
comment on column fulfilment.parcels.client is 'Client key';
comment on column fulfilment.parcels.shipment_id is 'Shipment that the package belongs to';
comment on column fulfilment.parcels.package_number is 'packageNumber; empty if there is none';
comment on column fulfilment.parcels.collo_number is 'colloNr; null unless the service gives it';
comment on column fulfilment.parcels.track_and_trace_code is 'trackAndTraceCode; it may be a URL';
comment on column fulfilment.parcels.track_and_trace_bar_code is 'trackAndTraceBarCode';
comment on column fulfilment.parcels.return_package_number is 'returnPackageNumber';
comment on column fulfilment.parcels.current_track_trace_status is 'Latest known status: of the look-up, or of the track-trace list while the package is listed there';
comment on column fulfilment.parcels.current_track_trace_exception_level is 'Exception level, from the same source as the status';
comment on column fulfilment.parcels.shipping_date is 'shippingDate, read in the client''s zone';
comment on column fulfilment.parcels.read_at is 'When a look-up last returned the package; null if only the track-trace list has named it';
comment on column fulfilment.parcels.read_no is 'Number of the reading that the row comes from';
comment on column fulfilment.parcels.raw is 'The item of the look-up as received; of the track-trace list, if read_at is null';
comment on column fulfilment.parcels.first_seen_at is 'When it was first stored here';
comment on column fulfilment.parcels.changed_at is 'When its content last changed here';
comment on column fulfilment.parcels.unlisted_since is 'Since when the look-up of its shipment no longer returns the package';

create table sync.parcel_reads (
  client text not null,
  shipment_id bigint not null,
  shipped_on timestamptz,
  requested_at timestamptz not null default now(),
  due_at timestamptz,
  requests bigint not null default 1 check (requests > 0),
  reads integer not null default 0 check (reads >= 0),
  unanswered integer not null default 0 check (unanswered >= 0),
  last_read_at timestamptz,
  last_problem text,
  primary key (client, shipment_id)
) with (fillfactor = 80);
create index parcel_reads_due on sync.parcel_reads (client, due_at) where due_at is not null;
create index parcel_reads_by_request on sync.parcel_reads (requested_at);
comment on table sync.parcel_reads is 'Shipments whose packages pull-parcels looks up, and when';
comment on column sync.parcel_reads.client is 'Client key';
comment on column sync.parcel_reads.shipment_id is 'Shipment';
comment on column sync.parcel_reads.shipped_on is 'When the shipment was shipped, by the service''s clock';
comment on column sync.parcel_reads.requested_at is 'When the look-up was last requested';
comment on column sync.parcel_reads.due_at is 'When the next look-up is due, by sync.clock(); null: none is planned';
comment on column sync.parcel_reads.requests is 'Number of requests so far; a look-up plans the next one only if no request came meanwhile';
comment on column sync.parcel_reads.reads is 'Number of look-ups so far';
comment on column sync.parcel_reads.unanswered is 'Number of look-ups without an answer since the last one that had one';
comment on column sync.parcel_reads.last_read_at is 'When the last look-up was made';
comment on column sync.parcel_reads.last_problem is 'Why the last look-up returned no package; null if it did';

insert into sync.parcel_reads (client, shipment_id, shipped_on, due_at)
select s.client, s.id, s.shipped_on, now()
from fulfilment.shipments s
where s.status = 'SHIPPED' and s.unlisted_since is null
  and (s.shipped_on is null or s.shipped_on > now() - interval '90 days');

-- Packages that only track-trace has named. Their shipments may be too old to be looked up.
insert into fulfilment.parcels (client, shipment_id, package_number, current_track_trace_status,
  current_track_trace_exception_level, read_no, raw)
select t.client, t.shipment_id, t.package_number, t.current_track_trace_status::text,
  t.current_track_trace_exception_level::text, 0, t.raw
from fulfilment.track_traces t;

create or replace view fulfilment.shipment_lines as
select s.client, s.external_order_number, s.order_id, s.id as shipment_id, s.status, s.shipped_on, s.warehouse_code,
  i.id as shipment_item_id, i.order_item_id, i.sku, i.quantity, i.lot_number, i.expiration_date, i.serial_numbers,
  p.package_numbers, p.track_trace_statuses, p.track_trace_at, s.unlisted_since, p.package_statuses,
  p.track_and_trace_codes, coalesce(p.tracking_url, s.raw #>> '{attributes,tracking,url}') as tracking_url
from fulfilment.shipments s
join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id
left join lateral (
  select array_agg(nullif(p.package_number, '') order by p.package_number) as package_numbers,
    array_agg(case when p.current_track_trace_status ~ '^-?\d{1,9}$' then p.current_track_trace_status::integer end
      order by p.package_number) as track_trace_statuses,
    array_agg(p.current_track_trace_status order by p.package_number) as package_statuses,
    array_agg(p.track_and_trace_code order by p.package_number) as track_and_trace_codes,
    min(p.track_and_trace_code) filter (where p.track_and_trace_code ~* '^https?://') as tracking_url,
    max(t.current_track_trace_status_date_time) as track_trace_at
  from fulfilment.parcels p
  left join fulfilment.track_traces t
    on t.client = p.client and t.shipment_id = p.shipment_id and t.package_number = p.package_number
  where p.client = s.client and p.shipment_id = s.id and p.unlisted_since is null
) p on true;
comment on column fulfilment.shipment_lines.package_numbers is 'Packages of the whole shipment; it is not known which line is in which package';
comment on column fulfilment.shipment_lines.track_trace_statuses is 'Their latest known statuses in the same order, as numbers; null if a status is not a number';
comment on column fulfilment.shipment_lines.track_trace_at is 'Latest time that track-trace gives for these packages';
comment on column fulfilment.shipment_lines.package_statuses is 'Their latest known statuses in the same order, as received';
comment on column fulfilment.shipment_lines.track_and_trace_codes is 'Their track-and-trace codes, in the same order';
comment on column fulfilment.shipment_lines.tracking_url is 'Address for tracking: a code that is a URL, else attributes.tracking.url of the shipment; null if there is neither';
comment on column fulfilment.track_traces.unlisted_since is 'Since when the list no longer has the package; its last status is read for fulfilment.parcels';

-- The last statement, because all writers of the feed wait from here to the commit.
insert into fulfilment.changes (client, entity, key, operation)
select p.client, 'parcels', p.shipment_id || ':' || p.package_number, 'created'
from fulfilment.parcels p
order by p.client, p.shipment_id, p.package_number;
