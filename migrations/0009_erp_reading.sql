-- oldest code: 0.1.0
-- What an ERP reads with: the feed by cursor, views for what is asked first, and the table of track-trace they show.

create table fulfilment.track_traces (
  client text not null,
  shipment_id bigint not null,
  package_number text not null default '',
  external_order_number text,
  shipment_method text,
  current_track_trace_status integer,
  current_track_trace_status_date_time timestamptz,
  current_track_trace_exception_level integer,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, shipment_id, package_number)
) with (fillfactor = 80);
comment on table fulfilment.track_traces is 'Where parcels are, by package (v2 track-trace item); filled by the job track-trace';
comment on column fulfilment.track_traces.client is 'Client key';
comment on column fulfilment.track_traces.shipment_id is 'Shipment the package belongs to';
comment on column fulfilment.track_traces.package_number is 'packageNumber; empty where there is none';
comment on column fulfilment.track_traces.external_order_number is 'externalOrderNumber as received';
comment on column fulfilment.track_traces.shipment_method is 'shipmentMethod as received';
comment on column fulfilment.track_traces.current_track_trace_status is 'Status; its values are not shown in the interface';
comment on column fulfilment.track_traces.current_track_trace_status_date_time is 'Time of the status, read in the client''s zone';
comment on column fulfilment.track_traces.current_track_trace_exception_level is 'Exception level; its values are not shown in the interface';
comment on column fulfilment.track_traces.raw is 'The item as received';
comment on column fulfilment.track_traces.first_seen_at is 'When it was first stored here';
comment on column fulfilment.track_traces.changed_at is 'When its content last changed here';
comment on column fulfilment.track_traces.unlisted_since is 'Since when it left the list: its final status is never seen';

create table sync.feed_mark (
  only_row boolean primary key default true check (only_row),
  pruned_until bigint not null default 0
);
insert into sync.feed_mark default values;
comment on table sync.feed_mark is 'How far the feed was pruned';
comment on column sync.feed_mark.only_row is 'There is one row';
comment on column sync.feed_mark.pruned_until is 'Changes up to this seq are no longer kept';

-- Whoever may read the feed need not be let into schema sync.
create function fulfilment.changes_since(after bigint, max integer default 1000)
returns setof fulfilment.changes language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  pruned bigint := (select pruned_until from sync.feed_mark);
  given_out bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('fulfilment.changes', 'seq')::regclass), 0);
  -- Only what is committed: a reader that goes on from a seq that is still being written would miss it.
  newest bigint := coalesce((select c.seq from fulfilment.changes c order by c.seq desc limit 1), pruned);
begin
  if after is null or after < 0 then
    raise exception 'after must be the last seq that was read, or 0 to begin' using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  if after < pruned then
    raise exception 'changes after % are no longer all kept (pruned until %): read the tables anew, then go on from %',
      after, pruned, newest using errcode = '22023';
  end if;
  if after > given_out then
    raise exception 'seq % was never given out here: was the database restored? Read the tables anew, then go on from %',
      after, newest using errcode = '22023';
  end if;
  -- seq rises in the order of commit, so nothing that commits later can come in before what is read here.
  return query select c.* from fulfilment.changes c where c.seq > after order by c.seq limit max;
end
$$;
comment on function fulfilment.changes_since is 'The feed after a seq, at most max changes; raises where some of them are no longer kept';

create view fulfilment.shipment_lines as
select s.client, s.external_order_number, s.order_id, s.id as shipment_id, s.status, s.shipped_on, s.warehouse_code,
  i.id as shipment_item_id, i.order_item_id, i.sku, i.quantity, i.lot_number, i.expiration_date, i.serial_numbers,
  t.package_numbers, t.track_trace_statuses, t.track_trace_at, s.unlisted_since
from fulfilment.shipments s
join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id
left join lateral (
  select array_agg(nullif(p.package_number, '') order by p.package_number) as package_numbers,
    array_agg(p.current_track_trace_status order by p.package_number) as track_trace_statuses,
    max(p.current_track_trace_status_date_time) as track_trace_at
  from fulfilment.track_traces p where p.client = s.client and p.shipment_id = s.id
) t on true;
comment on view fulfilment.shipment_lines is 'What was or will be sent, line by line, with the order it is for and where its packages are';
comment on column fulfilment.shipment_lines.client is 'Client key';
comment on column fulfilment.shipment_lines.external_order_number is 'Your order number; null until the order is stored';
comment on column fulfilment.shipment_lines.order_id is 'Order';
comment on column fulfilment.shipment_lines.shipment_id is 'Shipment';
comment on column fulfilment.shipment_lines.status is 'Status of the shipment';
comment on column fulfilment.shipment_lines.shipped_on is 'When the carrier took it';
comment on column fulfilment.shipment_lines.warehouse_code is 'Warehouse it comes from';
comment on column fulfilment.shipment_lines.shipment_item_id is 'Line of the shipment';
comment on column fulfilment.shipment_lines.order_item_id is 'Line of the order';
comment on column fulfilment.shipment_lines.sku is 'Article';
comment on column fulfilment.shipment_lines.quantity is 'Pieces';
comment on column fulfilment.shipment_lines.lot_number is 'Lot';
comment on column fulfilment.shipment_lines.expiration_date is 'Use before';
comment on column fulfilment.shipment_lines.serial_numbers is 'Serial numbers of the pieces';
comment on column fulfilment.shipment_lines.package_numbers is 'Packages of the whole shipment; which line is in which is not known';
comment on column fulfilment.shipment_lines.track_trace_statuses is 'Their track-trace statuses, in the same order';
comment on column fulfilment.shipment_lines.track_trace_at is 'Latest time of those statuses';
comment on column fulfilment.shipment_lines.unlisted_since is 'Since when the service no longer knows the shipment';

create view fulfilment.open_inbound_expectations as
select s.client, s.id as inbound_packing_slip_id, s.reference, s.expected_in, s.expected_on, s.status, s.received_on,
  i.id as inbound_packing_slip_item_id, i.sku, i.quantity, i.received,
  greatest(coalesce(i.quantity, 0) - coalesce(i.received, 0), 0) as outstanding, s.inbound_id
from fulfilment.inbound_packing_slips s
join fulfilment.inbound_packing_slip_items i on i.client = s.client and i.inbound_packing_slip_id = s.id
where s.status is distinct from 'COMPLETED' and s.unlisted_since is null;
comment on view fulfilment.open_inbound_expectations is 'Goods that were announced and are not all in';
comment on column fulfilment.open_inbound_expectations.client is 'Client key';
comment on column fulfilment.open_inbound_expectations.inbound_packing_slip_id is 'Inbound packing slip';
comment on column fulfilment.open_inbound_expectations.reference is 'Its reference';
comment on column fulfilment.open_inbound_expectations.expected_in is 'Warehouse it is announced for';
comment on column fulfilment.open_inbound_expectations.expected_on is 'Day it is announced for';
comment on column fulfilment.open_inbound_expectations.status is 'Status of the slip';
comment on column fulfilment.open_inbound_expectations.received_on is 'When the first goods came';
comment on column fulfilment.open_inbound_expectations.inbound_packing_slip_item_id is 'Line of the slip';
comment on column fulfilment.open_inbound_expectations.sku is 'Article';
comment on column fulfilment.open_inbound_expectations.quantity is 'Pieces expected';
comment on column fulfilment.open_inbound_expectations.received is 'Pieces received so far';
comment on column fulfilment.open_inbound_expectations.outstanding is 'Pieces still to come';
comment on column fulfilment.open_inbound_expectations.inbound_id is 'Inbound that receives it';

create view fulfilment.returns_to_restock as
select r.client, r.id as return_item_id, r.external_order_number, r.order_id, r.order_item_id, r.sku, r.quantity,
  r.condition, r.processed_on, r.processed_in, r.return_reason_id, r.redeliver, r.comment
from fulfilment.return_items r
where r.restock_on is null and r.unlisted_since is null;
comment on view fulfilment.returns_to_restock is 'Returns that were processed and are not back in stock';
comment on column fulfilment.returns_to_restock.client is 'Client key';
comment on column fulfilment.returns_to_restock.return_item_id is 'Return item';
comment on column fulfilment.returns_to_restock.external_order_number is 'Your order number';
comment on column fulfilment.returns_to_restock.order_id is 'Order';
comment on column fulfilment.returns_to_restock.order_item_id is 'Line of the order';
comment on column fulfilment.returns_to_restock.sku is 'Article';
comment on column fulfilment.returns_to_restock.quantity is 'Pieces';
comment on column fulfilment.returns_to_restock.condition is 'Condition they came in';
comment on column fulfilment.returns_to_restock.processed_on is 'Day they were processed';
comment on column fulfilment.returns_to_restock.processed_in is 'Warehouse that processed them';
comment on column fulfilment.returns_to_restock.return_reason_id is 'Reason (settings list returnReasons)';
comment on column fulfilment.returns_to_restock.redeliver is 'Whether something is to be sent instead';
comment on column fulfilment.returns_to_restock.comment is 'Comment of the warehouse';

-- What these views are asked by.
create index shipments_by_number on fulfilment.shipments (client, external_order_number);
create index return_items_to_restock on fulfilment.return_items (client, processed_on) where restock_on is null;
