-- More questions of an ERP team (docs/erp.md). Replace default by your client key.

-- Orders that were partly shipped since yesterday
-- Not by state: a shipment with an error makes it warehouse_error.
select external_order_number, shipped, to_come, parcels, last_shipped_on, problem
from fulfilment.order_overview
where client = 'default' and shipped > 0 and to_come > 0 and unlisted_since is null and order_id in (
  select order_id from fulfilment.shipments where client = 'default' and shipped_on >= now() - interval '1 day')
order by last_shipped_on, order_id;

-- How much of each line was shipped
-- ordered = cancelled + shipped + to_come; to_come = in_warehouse + missing. A line counts at most
-- quantity as shipped; the rest is over_shipped.
select sku, ordered, cancelled, quantity, shipped, over_shipped, in_warehouse, missing, to_come, returned
from fulfilment.order_lines
where client = 'default' and external_order_number = 'SO-1001'
order by order_item_id;

-- Goods receipts to book
select inbound_id, slip_reference, sku, quantity, lot_number, expiration_date, line_expected, line_received, slip_expected, slip_received
from fulfilment.received_goods
where client = 'default' and status = 'COMPLETED' and unlisted_since is null
order by completed_on, inbound_item_id;

-- Parcels with trouble, or without news for three days
select external_order_number, package_number, current_track_trace_status, current_track_trace_status_date_time
from fulfilment.track_traces
where client = 'default' and unlisted_since is null
  and (current_track_trace_exception_level > 0 or current_track_trace_status_date_time is null
    or current_track_trace_status_date_time < now() - interval '3 days')
order by current_track_trace_status_date_time nulls first;

-- Is it delivered?
-- A package that left the track-trace list (ended) is delivered in the broad sense: also at a
-- pick-up point, or returned to the sender. Null: the list never had it.
select external_order_number, state, parcels, tracking_state, tracking_since
from fulfilment.order_overview
where client = 'default' and external_order_number = 'SO-1001';
select package_number, tracking_state, tracking_since, current_track_trace_status, tracking_url
from fulfilment.parcel_overview
where client = 'default' and external_order_number = 'SO-1001' and unlisted_since is null
order by package_number;

-- Shipments with a problem in the warehouse
select external_order_number, id as shipment_id, status, warehouse_code, changed_at
from fulfilment.shipment_overview
where client = 'default' and unlisted_since is null
  and (status = 'ERROR' or status <> 'SHIPPED' and ready_to_pick_on < now() - interval '2 days')
order by changed_at;

-- Announced returns that have not arrived
select a.external_reference, a.created_on, a.shipment_id, i.sku, i.quantity, i.reason_code
from fulfilment.return_merchandise_authorizations a
join fulfilment.return_merchandise_authorization_items i
  on i.client = a.client and i.return_merchandise_authorization_id = a.id
where a.client = 'default' and a.unlisted_since is null and i.return_item_id is null
  and not exists (
    select from fulfilment.return_items r
    where r.client = i.client and r.return_merchandise_authorization_item_id = i.id and r.unlisted_since is null)
order by a.created_on, i.id;

-- Return labels
-- The interface does not name the member that holds the document; in the sandbox it is content.
-- Attachments of orders have the kind order_attachment.
select id, file_name, package_number, decode(result ->> 'content', 'base64') as document
from fulfilment.documents
where client = 'default' and kind = 'return_label' and reference = 'SO-1001'
order by id;

-- How far behind each consumer is
-- A consumer that is behind by more than RETENTION_DAYS has to start anew.
select name, moved_at, (select count(*) from fulfilment.changes c where c.seq > n.seq) as waiting
from fulfilment.consumers n
order by waiting desc;
