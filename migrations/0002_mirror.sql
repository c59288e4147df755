-- What the service has: a table for each resource, and views of what an ERP asks first.
--
-- Indexes. Every child row that is written is checked against its parent's key (client, id), with a
-- plan that Postgres makes once per session. If the tables are still empty then, an index that
-- begins with the client looks as good as the key, and each check reads all rows of the client. So
-- only the key, and what is too small to matter, begins with the client.

-- A date before 1970, such as 0001-01-01, means that there is none. Tables keep it as it came.
-- Whatever counts or compares a date of the service asks for the real one. Postgres puts these
-- functions into the statement, so indexes can use them.
create function sync.real_time(at timestamptz) returns timestamptz
  language sql immutable begin atomic
  select case when at >= '1970-01-01 00:00:00+00' then at end;
end;
create function sync.real_day(day date) returns date language sql immutable begin atomic
  select case when day >= '1970-01-01' then day end;
end;

-- Stream orders: order, orderItem and address of the v3 interface.
create table fulfilment.orders (
  client text not null,
  id bigint not null,
  external_order_number text,
  reference text,
  ordered_on date,
  consumer_reference text,
  promotion_code text,
  currency text,
  locale text,
  email text,
  phone_number text,
  vat_number text,
  fulfill_from text,
  preferred_shipping_date date,
  allow_partial_delivery boolean,
  on_hold boolean,
  metadata jsonb,
  channel_identifier text,
  order_type_id bigint,
  delivery_address_id bigint,
  billing_address_id bigint,
  pick_up_point_id bigint,
  preferred_shipping_method_id bigint,
  pick_up_point jsonb,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
-- Every index of a table that others refer to, except its key, is partial: the check of a foreign
-- key may keep a plan that was made while the table was empty, and such a plan must not be able to
-- read a whole index.
create index orders_by_number on fulfilment.orders (external_order_number, client)
  where external_order_number is not null;
-- For people who search; programs know the number letter by letter.
create index orders_by_number_in_any_case on fulfilment.orders (lower(external_order_number))
  where external_order_number is not null;
create index orders_by_email on fulfilment.orders (lower(email)) where email is not null;
create index orders_by_day on fulfilment.orders (client, ordered_on) where ordered_on is not null;
comment on table fulfilment.orders is 'Orders at the warehouse, one row each (v3 order)';
comment on column fulfilment.orders.external_order_number is
  'Your order number; it can be changed at the service';
comment on column fulfilment.orders.reference is
  'Reference as sent; unlike external_order_number, nothing is found by it';
comment on column fulfilment.orders.consumer_reference is
  'The consumer''s own reference of the order, as you sent it';
comment on column fulfilment.orders.promotion_code is
  'Promotion, as sent (personal data, if it was made for a person)';
comment on column fulfilment.orders.currency is
  'Currency of the prices, a three-letter code; the service sets it';
comment on column fulfilment.orders.locale is 'Language and region of the consumer, such as nl-NL';
comment on column fulfilment.orders.email is
  'Consumer''s address (personal data); '
  'without one, the service uses a no-reply address of its own';
comment on column fulfilment.orders.phone_number is 'Consumer''s number (personal data)';
comment on column fulfilment.orders.vat_number is
  'VAT number of the consumer, as sent (personal data)';
comment on column fulfilment.orders.fulfill_from is 'Warehouse it is to be fulfilled from';
comment on column fulfilment.orders.preferred_shipping_date is
  'The warehouse does not ship the order before this day';
comment on column fulfilment.orders.allow_partial_delivery is
  'True if it may be shipped in parts; null: the default of the order type';
comment on column fulfilment.orders.on_hold is
  'True: the warehouse ships nothing until you insert an order.release row';
comment on column fulfilment.orders.metadata is
  'Your own members extra1 to extra5, as you sent them';
comment on column fulfilment.orders.channel_identifier is
  'Channel of the order; only the service sets it';
comment on column fulfilment.orders.order_type_id is 'Order type (service list orderTypes)';
comment on column fulfilment.orders.delivery_address_id is 'Delivery address at the service';
comment on column fulfilment.orders.billing_address_id is 'Billing address at the service';
comment on column fulfilment.orders.pick_up_point_id is 'Pick-up point at the service';
comment on column fulfilment.orders.preferred_shipping_method_id is
  'Main shipping method asked for';
comment on column fulfilment.orders.pick_up_point is
  'Pick-up point as received, if it was included';

create table fulfilment.order_items (
  client text not null,
  id bigint not null,
  order_id bigint,
  sku text,
  quantity integer,
  ordered_quantity integer,
  fulfill_from text,
  price numeric,
  vat numeric,
  name text,
  channel_identifier text,
  metadata jsonb,
  product_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id),
  foreign key (client, order_id) references fulfilment.orders (client, id)
) with (fillfactor = 90);
create index order_items_by_order on fulfilment.order_items (client, order_id);
comment on table fulfilment.order_items is 'Lines of orders (v3 orderItem)';
comment on column fulfilment.order_items.quantity is 'Pieces; 0 if the whole line was cancelled';
comment on column fulfilment.order_items.ordered_quantity is
  'Largest quantity that was read: the pieces ordered, although a cancel lowers quantity';
comment on column fulfilment.order_items.fulfill_from is 'Warehouse it is to be fulfilled from';
comment on column fulfilment.order_items.price is
  'Price of one piece, with the digits received; the interface does not show whether it '
  'includes VAT, so it means what you sent';
comment on column fulfilment.order_items.vat is
  'VAT rate of the line, such as 0.21, with the digits received';
comment on column fulfilment.order_items.name is 'Name of the article on the order';
comment on column fulfilment.order_items.channel_identifier is
  'Channel of the line; only the service sets it';
comment on column fulfilment.order_items.metadata is
  'serviceLevel, purchases, reference, extra6 and extra7';

-- A cancel overwrites quantity.
create function sync.keep_ordered_quantity() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  new.ordered_quantity := greatest(new.ordered_quantity, new.quantity);
  return new;
end
$$;
create trigger order_items_ordered before insert or update of quantity on fulfilment.order_items
  for each row execute function sync.keep_ordered_quantity();

create table fulfilment.order_addresses (
  client text not null,
  order_id bigint not null,
  role text not null check (role in ('delivery', 'billing')),
  id bigint,
  first_name text,
  last_name text,
  prefix text,
  street1 text,
  postcode text,
  house_number text,
  house_number_extension text,
  city text,
  country_code text,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  primary key (client, order_id, role),
  foreign key (client, order_id) references fulfilment.orders (client, id)
) with (fillfactor = 90);
comment on table fulfilment.order_addresses is
  'Delivery and billing addresses of orders (v3 address); personal data';
comment on column fulfilment.order_addresses.role is 'delivery or billing';
comment on column fulfilment.order_addresses.id is
  'Address id at the service; both roles may share one';
comment on column fulfilment.order_addresses.first_name is 'Given name of the consumer';
comment on column fulfilment.order_addresses.last_name is 'Family name of the consumer';
comment on column fulfilment.order_addresses.prefix is
  'Part of the name; the interface does not say where it stands';
comment on column fulfilment.order_addresses.street1 is
  'Street, perhaps with the house number, as you sent it';
comment on column fulfilment.order_addresses.postcode is
  'Postcode as entered; the area only after an erasure';
comment on column fulfilment.order_addresses.house_number is
  'House number as sent; street1 may hold it instead';
comment on column fulfilment.order_addresses.house_number_extension is
  'Extension of the house number';
comment on column fulfilment.order_addresses.city is 'Town';
comment on column fulfilment.order_addresses.country_code is 'Two letters (ISO 3166)';

-- Stream shipments: shipment and shipmentItem of the v3 interface.
create table fulfilment.shipments (
  client text not null,
  id bigint not null,
  status text,
  ready_to_pick_on timestamptz,
  ready_to_ship_on timestamptz,
  shipped_on timestamptz,
  warehouse_code text,
  return_label text,
  order_id bigint,
  order_type_id bigint,
  shipping_method_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
create index shipments_by_order on fulfilment.shipments (order_id, client)
  where order_id is not null;
create index shipments_open on fulfilment.shipments (client, id)
  where status is distinct from 'SHIPPED';
-- A summary for each range of pages is enough: rows are stored nearly in the order of their
-- arrival.
create index shipments_by_arrival on fulfilment.shipments using brin (first_seen_at);
comment on table fulfilment.shipments is 'Shipments of the warehouse, one row each (v3 shipment)';
comment on column fulfilment.shipments.status is
  'READY_TO_PICK, READY_TO_SORT, READY_TO_SHIP, SHIPPED or ERROR; '
  'another value is kept as received';
comment on column fulfilment.shipments.ready_to_pick_on is
  'When it became READY_TO_PICK, read in the client''s zone';
comment on column fulfilment.shipments.ready_to_ship_on is
  'When it became READY_TO_SHIP, read in the client''s zone';
comment on column fulfilment.shipments.shipped_on is
  'When the carrier took it, read in the client''s zone; before 1970 it means none';
comment on column fulfilment.shipments.return_label is
  'Return label as received; the interface does not show what it holds';
comment on column fulfilment.shipments.order_type_id is 'Order type (service list orderTypes)';
comment on column fulfilment.shipments.shipping_method_id is
  'Shipping method; the interface does not show whether it is a main or a nested id';

create table fulfilment.shipment_items (
  client text not null,
  id bigint not null,
  shipment_id bigint,
  sku text,
  quantity integer,
  lot_number text,
  expiration_date date,
  serial_numbers text[] not null default '{}',
  order_item_id bigint,
  product_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id),
  foreign key (client, shipment_id) references fulfilment.shipments (client, id)
) with (fillfactor = 90);
create index shipment_items_by_shipment on fulfilment.shipment_items (client, shipment_id);
comment on table fulfilment.shipment_items is 'Lines of shipments (v3 shipmentItem)';
comment on column fulfilment.shipment_items.serial_numbers is 'Serial numbers of the pieces';
comment on column fulfilment.shipment_items.order_item_id is 'Order line it fulfils';

-- Stream return-items: returnItem of the v3 interface.
create table fulfilment.return_items (
  client text not null,
  id bigint not null,
  sku text,
  quantity integer,
  condition text,
  processed_on date,
  processed_in text,
  restock_in text,
  restock_on timestamptz,
  comment text,
  redeliver boolean,
  external_order_number text,
  order_id bigint,
  order_item_id bigint,
  product_id bigint,
  return_id bigint,
  return_merchandise_authorization_item_id bigint,
  return_reason_id bigint,
  shipment_item_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
create index return_items_by_order on fulfilment.return_items (client, order_id);
-- Of return items that name their line, but not their order.
create index return_items_by_line on fulfilment.return_items (order_item_id, client)
  where order_id is null and order_item_id is not null;
-- The same for a line of a shipment.
create index return_items_by_shipment_line on fulfilment.return_items (shipment_item_id, client)
  where order_id is null and shipment_item_id is not null;
create index return_items_by_day on fulfilment.return_items (client, processed_on)
  where processed_on is not null;
create index return_items_to_restock on fulfilment.return_items (client, processed_on)
  where sync.real_time(restock_on) is null;
comment on table fulfilment.return_items is
  'Return lines that a warehouse has processed (v3 returnItem)';
comment on column fulfilment.return_items.condition is
  'Condition in which it arrived; the interface shows only the value RETURN';
comment on column fulfilment.return_items.processed_on is
  'Day the warehouse processed it; before 1970 it means none';
comment on column fulfilment.return_items.restock_in is
  'Warehouse in which it was restocked; null if it was not';
comment on column fulfilment.return_items.restock_on is
  'restockOn, read in the client''s zone if it names no zone; before 1970 it means none';
comment on column fulfilment.return_items.comment is 'Remark of the warehouse';
comment on column fulfilment.return_items.external_order_number is
  'Your order number, from the return item itself';
comment on column fulfilment.return_items.order_id is 'Order it comes back from';
comment on column fulfilment.return_items.order_item_id is 'Order line it comes back from';
comment on column fulfilment.return_items.return_id is 'Return it arrived with';
comment on column fulfilment.return_items.return_merchandise_authorization_item_id is
  'Line of the return authorization that announced it; null if there is none';
comment on column fulfilment.return_items.return_reason_id is
  'Return reason (service list returnReasons)';
comment on column fulfilment.return_items.shipment_item_id is 'Shipment line that delivered it';

-- Announced returns: returnMerchandiseAuthorization of the v3 interface, from the answers to outbox
-- rows.
create table fulfilment.return_merchandise_authorizations (
  client text not null,
  id bigint not null,
  external_reference text,
  comments text,
  metadata jsonb,
  status text,
  created_on date,
  modified_on date,
  shipment_id bigint,
  raw jsonb not null,
  read_no bigint not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id)
) with (fillfactor = 90);
create index return_merchandise_authorizations_by_reference
  on fulfilment.return_merchandise_authorizations (external_reference, client)
  where external_reference is not null;
create index return_merchandise_authorizations_by_shipment
  on fulfilment.return_merchandise_authorizations (client, shipment_id)
  where shipment_id is not null;
comment on table fulfilment.return_merchandise_authorizations is
  'Announced returns (v3 returnMerchandiseAuthorization) that were pushed from here';
comment on column fulfilment.return_merchandise_authorizations.external_reference is
  'Your number of the return: reference of its outbox row';
comment on column fulfilment.return_merchandise_authorizations.comments is
  'Remarks that were sent with the announcement';
comment on column fulfilment.return_merchandise_authorizations.metadata is
  'Members that were sent with the announcement';
comment on column fulfilment.return_merchandise_authorizations.status is
  'PENDING is the only value the interface shows';
comment on column fulfilment.return_merchandise_authorizations.created_on is 'Day it was announced';
comment on column fulfilment.return_merchandise_authorizations.modified_on is
  'Day the service last changed it';
comment on column fulfilment.return_merchandise_authorizations.shipment_id is
  'Shipment that comes back';

create table fulfilment.return_merchandise_authorization_items (
  client text not null,
  id bigint not null,
  return_merchandise_authorization_id bigint,
  external_reference text,
  sku text,
  quantity integer,
  reason_code text,
  metadata jsonb,
  shipment_item_id bigint,
  product_id bigint,
  return_reason_id bigint,
  return_item_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id),
  foreign key (client, return_merchandise_authorization_id)
    references fulfilment.return_merchandise_authorizations (client, id)
) with (fillfactor = 90);
create index return_merchandise_authorization_items_by_parent
  on fulfilment.return_merchandise_authorization_items
    (client, return_merchandise_authorization_id);
comment on table fulfilment.return_merchandise_authorization_items is
  'Lines of announced returns (v3 returnMerchandiseAuthorizationItem)';
comment on column
  fulfilment.return_merchandise_authorization_items.return_merchandise_authorization_id is
  'Announced return it is a line of';
comment on column fulfilment.return_merchandise_authorization_items.external_reference is
  'Your number of the line';
comment on column fulfilment.return_merchandise_authorization_items.reason_code is
  'Code of the return reason';
comment on column fulfilment.return_merchandise_authorization_items.metadata is
  'Members that were sent with the line';
comment on column fulfilment.return_merchandise_authorization_items.shipment_item_id is
  'Line of the shipment that comes back';
comment on column fulfilment.return_merchandise_authorization_items.return_reason_id is
  'Reason (service list returnReasons)';
comment on column fulfilment.return_merchandise_authorization_items.return_item_id is
  'Return item, once the warehouse has processed it';

-- Stream inbounds: inbound and inboundItem of the v3 interface.
create table fulfilment.inbounds (
  client text not null,
  id bigint not null,
  reference text,
  status text,
  received_in text,
  created_on timestamptz,
  checking_on timestamptz,
  completed_on timestamptz,
  inbound_packing_slip_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
create index inbounds_open on fulfilment.inbounds (client, id)
  where status is distinct from 'COMPLETED';
create index inbounds_by_slip on fulfilment.inbounds (inbound_packing_slip_id, client)
  where inbound_packing_slip_id is not null;
comment on table fulfilment.inbounds is
  'Goods that have arrived, one row for each delivery (v3 inbound)';
comment on column fulfilment.inbounds.reference is 'Your reference of the delivery, as announced';
comment on column fulfilment.inbounds.status is
  'PROCESSING, CHECKING, CHECKED or COMPLETED; another value is kept as received';
comment on column fulfilment.inbounds.created_on is
  'When the inbound was created, read in the client''s zone';
comment on column fulfilment.inbounds.checking_on is
  'When it became CHECKING, read in the client''s zone';
comment on column fulfilment.inbounds.completed_on is
  'When it became COMPLETED, read in the client''s zone; before 1970 it means none';
comment on column fulfilment.inbounds.inbound_packing_slip_id is
  'Inbound packing slip that announced it; null if there is none';

create table fulfilment.inbound_items (
  client text not null,
  id bigint not null,
  inbound_id bigint,
  sku text,
  quantity integer,
  lot_number text,
  expiration_date date,
  product_id bigint,
  inbound_packing_slip_item_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id),
  foreign key (client, inbound_id) references fulfilment.inbounds (client, id)
) with (fillfactor = 90);
create index inbound_items_by_inbound on fulfilment.inbound_items (client, inbound_id);
comment on table fulfilment.inbound_items is 'Lines of inbounds (v3 inboundItem)';
comment on column fulfilment.inbound_items.inbound_packing_slip_item_id is
  'Line of the slip that announced it';

-- Stream inbound-packing-slips: inboundPackingSlip and inboundPackingSlipItem of the v3 interface.
create table fulfilment.inbound_packing_slips (
  client text not null,
  id bigint not null,
  expected_in text,
  expected_on date,
  received_on timestamptz,
  completed_on timestamptz,
  reference text,
  status text,
  comments text,
  metadata jsonb,
  inbound_id bigint,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
create index inbound_packing_slips_by_reference
  on fulfilment.inbound_packing_slips (client, reference);
create index inbound_packing_slips_open on fulfilment.inbound_packing_slips (client, id)
  where status is distinct from 'COMPLETED';
comment on table fulfilment.inbound_packing_slips is
  'Announced deliveries, one row each (v3 inboundPackingSlip)';
comment on column fulfilment.inbound_packing_slips.received_on is
  'When the inbound started; its own zone, else the client''s';
comment on column fulfilment.inbound_packing_slips.completed_on is
  'When it finished with no further items expected; its own zone, else the client''s; '
  'before 1970 it means none';
comment on column fulfilment.inbound_packing_slips.reference is 'Your number of the delivery';
comment on column fulfilment.inbound_packing_slips.status is
  'EXPECTED, IN_PROGRESS, CHECKING or COMPLETED; another value is kept as received';
comment on column fulfilment.inbound_packing_slips.comments is
  'Remarks that were sent with the announcement';
comment on column fulfilment.inbound_packing_slips.metadata is
  'serviceLevel, purchases and reference';
comment on column fulfilment.inbound_packing_slips.inbound_id is 'Inbound that received it';
comment on column fulfilment.inbound_packing_slips.unlisted_since is
  'Since when two complete walks lacked it; null while it is listed';

create table fulfilment.inbound_packing_slip_items (
  client text not null,
  id bigint not null,
  inbound_packing_slip_id bigint,
  sku text,
  quantity integer,
  received integer,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, id),
  foreign key (client, inbound_packing_slip_id)
    references fulfilment.inbound_packing_slips (client, id)
) with (fillfactor = 90);
create index inbound_packing_slip_items_by_slip
  on fulfilment.inbound_packing_slip_items (client, inbound_packing_slip_id);
comment on table fulfilment.inbound_packing_slip_items is
  'Lines of announced deliveries (v3 inboundPackingSlipItem)';
comment on column fulfilment.inbound_packing_slip_items.quantity is 'Pieces expected';
comment on column fulfilment.inbound_packing_slip_items.received is 'Pieces received so far';

-- Packages. Track-trace lists only packages on their way. The look-up by criteria also returns
-- those that were delivered before this program started, during an outage, or without track-trace.
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
  missing_since timestamptz,
  primary key (client, shipment_id, package_number)
) with (fillfactor = 80);
create index track_traces_listed on fulfilment.track_traces (client) where unlisted_since is null;
comment on table fulfilment.track_traces is
  'Status of packages that are on their way (v2 track-trace item); filled by the job track-trace';
comment on column fulfilment.track_traces.external_order_number is
  'Your order number as the list has it';
comment on column fulfilment.track_traces.shipment_method is
  'Name of the shipping method as the list has it';
comment on column fulfilment.track_traces.current_track_trace_status is
  'Status; its values are not shown in the interface';
comment on column fulfilment.track_traces.current_track_trace_status_date_time is
  'Time of the status, read in the client''s zone';
comment on column fulfilment.track_traces.current_track_trace_exception_level is
  'Exception level; its values are not shown in the interface';
comment on column fulfilment.track_traces.raw is 'The item as received';
comment on column fulfilment.track_traces.unlisted_since is
  'Since when the list no longer has the package; its last status is read for fulfilment.parcels';
comment on column fulfilment.track_traces.missing_since is
  'Since when a list that was not believed lacks the package; the next list decides. '
  'Null otherwise';

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
create index track_trace_events_by_package
  on fulfilment.track_trace_events (client, shipment_id, package_number, id);
create index track_trace_events_by_time on fulfilment.track_trace_events (seen_at);
comment on table fulfilment.track_trace_events is
  'One row for each change of a package''s status. Changes between two readings, an hour apart, '
  'are not seen';
comment on column fulfilment.track_trace_events.current_track_trace_status is 'Status from then on';
comment on column fulfilment.track_trace_events.current_track_trace_status_date_time is
  'Time of the status, from the carrier';
comment on column fulfilment.track_trace_events.current_track_trace_exception_level is
  'Exception level from then on';
comment on column fulfilment.track_trace_events.raw is 'The item as received';

-- History: a row overwrites its status, and the feed has no values. The trigger sync.record_events
-- fills these tables.
create table fulfilment.shipment_events (
  id bigint generated always as identity primary key,
  client text not null,
  shipment_id bigint not null,
  status text,
  warehouse_code text,
  source_time timestamptz,
  seen_at timestamptz not null default now()
);
create index shipment_events_by_shipment on fulfilment.shipment_events (client, shipment_id, id);
create index shipment_events_by_time on fulfilment.shipment_events (seen_at);
comment on table fulfilment.shipment_events is
  'The first status of each shipment that was read, '
  'and a row for each change of status or warehouse. Changes between two readings are not seen';
comment on column fulfilment.shipment_events.warehouse_code is 'Warehouse from then on';

create table fulfilment.inbound_events (
  id bigint generated always as identity primary key,
  client text not null,
  inbound_id bigint not null,
  status text,
  received_in text,
  source_time timestamptz,
  seen_at timestamptz not null default now()
);
create index inbound_events_by_inbound on fulfilment.inbound_events (client, inbound_id, id);
create index inbound_events_by_time on fulfilment.inbound_events (seen_at);
comment on table fulfilment.inbound_events is
  'The first status of each inbound that was read, '
  'and a row for each change of status or warehouse. Changes between two readings are not seen';
comment on column fulfilment.inbound_events.received_in is 'Warehouse from then on';

create table fulfilment.inbound_packing_slip_events (
  id bigint generated always as identity primary key,
  client text not null,
  inbound_packing_slip_id bigint not null,
  status text,
  expected_in text,
  expected_on date,
  source_time timestamptz,
  seen_at timestamptz not null default now()
);
create index inbound_packing_slip_events_by_slip
  on fulfilment.inbound_packing_slip_events (client, inbound_packing_slip_id, id);
create index inbound_packing_slip_events_by_time
  on fulfilment.inbound_packing_slip_events (seen_at);
comment on table fulfilment.inbound_packing_slip_events is
  'The first status of each inbound packing slip that was read, and a row for each change of '
  'status, expected warehouse or day. Changes between two readings are not seen';
comment on column fulfilment.inbound_packing_slip_events.expected_in is
  'Warehouse it is announced for from then on';
comment on column fulfilment.inbound_packing_slip_events.expected_on is
  'Day it is announced for from then on';

create table fulfilment.order_line_events (
  id bigint generated always as identity primary key,
  client text not null,
  order_item_id bigint not null,
  order_id bigint,
  sku text,
  quantity integer,
  unlisted_since timestamptz,
  seen_at timestamptz not null default now()
);
create index order_line_events_by_order on fulfilment.order_line_events (client, order_id, id);
create index order_line_events_by_time on fulfilment.order_line_events (seen_at);
comment on table fulfilment.order_line_events is
  'Each line of an order as it was first read, and a row for each change of article or quantity, '
  'and if the service no longer has the line. Changes between two readings are not seen';
comment on column fulfilment.order_line_events.sku is 'Article from then on';
comment on column fulfilment.order_line_events.quantity is
  'Pieces from then on; fewer than before, or 0, if some were cancelled';
comment on column fulfilment.order_line_events.unlisted_since is
  'When the service no longer had the line; null if it has the line from then on';

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
  number_of_colli integer,
  tracking_number text,
  shipment_items jsonb,
  read_at timestamptz,
  read_no bigint not null,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  primary key (client, shipment_id, package_number)
) with (fillfactor = 80);
create index parcels_by_code on fulfilment.parcels (track_and_trace_code)
  where track_and_trace_code is not null;
create index parcels_by_package on fulfilment.parcels (package_number) where package_number <> '';
comment on table fulfilment.parcels is
  'Packages of shipped shipments, with their latest known status; '
  'filled by the jobs pull-parcels and track-trace';
comment on column fulfilment.parcels.collo_number is
  'Number of the package (colloNr); null unless the service gives it';
comment on column fulfilment.parcels.track_and_trace_code is 'Code of the carrier; it may be a URL';
comment on column fulfilment.parcels.track_and_trace_bar_code is 'Bar code of the carrier';
comment on column fulfilment.parcels.return_package_number is 'Number of the package for a return';
comment on column fulfilment.parcels.current_track_trace_status is
  'Latest known status: of the look-up, '
  'or of the track-trace list while the package is listed there';
comment on column fulfilment.parcels.current_track_trace_exception_level is
  'Exception level, from the same source as the status';
comment on column fulfilment.parcels.shipping_date is
  'When it was shipped, read in the client''s zone';
comment on column fulfilment.parcels.number_of_colli is 'Packages of the whole shipment';
comment on column fulfilment.parcels.tracking_number is
  'A number for tracking; the interface does not say whose';
comment on column fulfilment.parcels.shipment_items is
  'shipmentItems: an array of {shipmentItemId, quantity, sku, lotNumber}, which each package '
  'of a shipment repeats; do not add them up: parcel_overview has the contents of packages, '
  'shipment_items the lines. Null if the look-up names none';
comment on column fulfilment.parcels.read_at is
  'When a look-up last returned the package; null if only the track-trace list has named it';
comment on column fulfilment.parcels.raw is
  'The item of the look-up as received; of the track-trace list, if read_at is null';
comment on column fulfilment.parcels.unlisted_since is
  'Since when the look-up of its shipment no longer returns the package';

-- The service's configuration lists (settings/get).
create table fulfilment.setting_options (
  client text not null,
  list text not null,
  id bigint not null,
  code text,
  name text,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  removed_at timestamptz,
  primary key (client, list, id)
);
comment on table fulfilment.setting_options is
  'Entries of the service''s configuration lists (settings/get). '
  'Outbox payloads name them by their codes';
comment on column fulfilment.setting_options.list is
  'mainShippingMethods, shippingMethods, returnShippingMethods, orderTypes, returnReasons, '
  'languages, countries or paymentMethods';
comment on column fulfilment.setting_options.id is 'Id at the service, unique within the list';
comment on column fulfilment.setting_options.code is 'What outbox payloads name the entry by';
comment on column fulfilment.setting_options.name is 'Name for people';
comment on column fulfilment.setting_options.raw is 'The entry as received';
comment on column fulfilment.setting_options.removed_at is
  'Since when the list no longer holds it; null while it does';

create table fulfilment.main_shipping_method_warehouses (
  client text not null,
  main_shipping_method_id bigint not null,
  shipping_method_id bigint not null,
  warehouse text not null,
  removed_at timestamptz,
  primary key (client, main_shipping_method_id, shipping_method_id, warehouse)
);
comment on table fulfilment.main_shipping_method_warehouses is
  'The shipping method that each warehouse uses for a main shipping method';
comment on column fulfilment.main_shipping_method_warehouses.main_shipping_method_id is
  'Entry of the list mainShippingMethods';
comment on column fulfilment.main_shipping_method_warehouses.shipping_method_id is
  'Method of that warehouse';
comment on column fulfilment.main_shipping_method_warehouses.warehouse is 'Warehouse code';
comment on column fulfilment.main_shipping_method_warehouses.removed_at is
  'Since when the list no longer holds it; null while it does';

-- Stock of the articles that the ERP watches.
create table fulfilment.stock_watch (
  client text not null default 'default',
  sku text not null check (sku <> ''),
  created_at timestamptz not null default now(),
  primary key (client, sku)
);
comment on table fulfilment.stock_watch is
  'Articles whose stock the job pull-stock reads: insert and delete as you like';
do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant insert (client, sku), delete on fulfilment.stock_watch to fulfilment_writer;
  end if;
end
$$;

create table fulfilment.stock_levels (
  client text not null,
  sku text not null,
  stock integer,
  asked_at timestamptz not null,
  changed_at timestamptz not null default now(),
  primary key (client, sku)
) with (fillfactor = 70);
comment on table fulfilment.stock_levels is
  'Stock of the watched articles, as the service last returned it';
comment on column fulfilment.stock_levels.stock is
  'Pieces; null if the service has not returned any yet';
comment on column fulfilment.stock_levels.asked_at is 'When it was last asked';
comment on column fulfilment.stock_levels.changed_at is 'When stock last changed here';

create table fulfilment.stock_events (
  id bigint generated always as identity primary key,
  client text not null,
  sku text not null,
  stock integer,
  seen_at timestamptz not null default now()
);
create index stock_events_by_sku on fulfilment.stock_events (client, sku, id);
create index stock_events_by_time on fulfilment.stock_events (seen_at);
comment on table fulfilment.stock_events is
  'The first stock of each watched article that was read, and a row for each change';
comment on column fulfilment.stock_events.stock is 'Pieces from then on';

-- Records history: a row for each new row of a table whose watched columns are not all null, and
-- for each change of one. Its arguments: the table of events; the key of the watched table beside
-- the client; the columns of the events for this key; the watched columns, which have the same
-- names there; further columns of the events, and their values of the written row n.
--
-- The transition tables have no index. Sessions of pushes do without hash joins, so that the join
-- would compare each pair of rows.
create function sync.record_events() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp set enable_hashjoin = on as $$
declare
  written_key text := 'n.' || replace(tg_argv[1], ', ', ', n.');
  written_values text := 'n.' || replace(tg_argv[3], ', ', ', n.');
  former_values text := 'f.' || replace(tg_argv[3], ', ', ', f.');
begin
  -- Most statements write nothing.
  if not exists (select from written) then
    return null;
  end if;
  execute format('insert into fulfilment.%I (client, %s, %s%s) '
      'select n.client, %s, %s%s from written n ',
      tg_argv[0], tg_argv[2], tg_argv[3], ', ' || nullif(tg_argv[4], ''),
      written_key, written_values, ', ' || nullif(tg_argv[5], ''))
    || case tg_op
      when 'INSERT' then format('where not (row(%s) is null) ', written_values)
      else format('join former f using (client, %s) where row(%s) is distinct from row(%s) ',
        tg_argv[1], former_values, written_values)
    end
    || format('order by %s', written_key);
  return null;
end
$$;

do $$
declare
  w record;
  arguments text;
begin
  for w in
    select *
    from (values
      ('shipments', 'shipment_events', 'id', 'shipment_id', 'status, warehouse_code', 'source_time',
        $v$sync.real_time(case n.status when 'READY_TO_PICK' then n.ready_to_pick_on
          when 'READY_TO_SHIP' then n.ready_to_ship_on when 'SHIPPED' then n.shipped_on end)$v$),
      ('inbounds', 'inbound_events', 'id', 'inbound_id', 'status, received_in', 'source_time',
        $v$sync.real_time(case n.status when 'PROCESSING' then n.created_on
          when 'CHECKING' then n.checking_on
          when 'COMPLETED' then n.completed_on end)$v$),
      ('inbound_packing_slips', 'inbound_packing_slip_events', 'id', 'inbound_packing_slip_id',
        'status, expected_in, expected_on', 'source_time',
        $v$sync.real_time(case n.status when 'IN_PROGRESS' then n.received_on
          when 'COMPLETED' then n.completed_on end)$v$),
      ('order_items', 'order_line_events', 'id', 'order_item_id', 'sku, quantity, unlisted_since',
        'order_id', 'n.order_id'),
      ('track_traces', 'track_trace_events',
        'shipment_id, package_number', 'shipment_id, package_number',
        'current_track_trace_status, current_track_trace_status_date_time, '
        'current_track_trace_exception_level', 'raw', 'n.raw'),
      ('stock_levels', 'stock_events', 'sku', 'sku', 'stock', '', '')
    ) as w (name, events, key, event_key, watched, further, further_values)
  loop
    arguments := format('%L, %L, %L, %L, %L, %L', w.events, w.key, w.event_key, w.watched,
      w.further, w.further_values);
    execute format('create trigger %I after insert on fulfilment.%I
      referencing new table as written
      for each statement execute function sync.record_events(%s)',
      w.name || '_first', w.name, arguments);
    execute format('create trigger %I after update on fulfilment.%I
      referencing old table as former new table as written
      for each statement execute function sync.record_events(%s)',
      w.name || '_changed', w.name, arguments);
  end loop;
end
$$;

-- A line that its order no longer lists is deleted.
create function sync.record_dropped_lines() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into fulfilment.order_line_events (client, order_item_id, order_id, sku, quantity,
    unlisted_since)
  select d.client, d.id, d.order_id, d.sku, d.quantity, now()
  from dropped d
  order by d.id;
  return null;
end
$$;
create trigger order_items_dropped after delete on fulfilment.order_items
  referencing old table as dropped for each statement
  execute function sync.record_dropped_lines();

-- Workers and views read what the ERP edits from private copies. A role that may delete from a
-- table may also lock it, and such a lock would stop every statement that reads the table. Triggers
-- name the copy, and its columns besides the client; the first of these is part of the key.
create function sync.copy_edited() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  copy constant text := format('sync.%I', tg_argv[0]);
  columns constant text := (select string_agg(quote_ident(c), ', ') from unnest(tg_argv[1:]) c);
begin
  if tg_op = 'TRUNCATE' then
    execute format('delete from %s', copy);
  end if;
  if tg_op in ('DELETE', 'UPDATE') then
    execute format('delete from %1$s c using gone g where c.client = g.client and c.%2$I = g.%2$I',
      copy, tg_argv[1]);
  end if;
  if tg_op in ('INSERT', 'UPDATE') then
    execute format('insert into %1$s (client, %2$s)
      select client, %2$s from added on conflict do nothing', copy, columns);
  end if;
  return null;
end
$$;

create table sync.watched_articles (
  client text not null,
  sku text not null,
  primary key (client, sku)
);
-- sync.watched_articles: Copy of fulfilment.stock_watch, kept by triggers; the roles of the ERP
--   cannot lock it
create trigger stock_watch_added after insert on fulfilment.stock_watch
  referencing new table as added for each statement
  execute function sync.copy_edited('watched_articles', 'sku');
create trigger stock_watch_gone after delete on fulfilment.stock_watch
  referencing old table as gone for each statement
  execute function sync.copy_edited('watched_articles', 'sku');
create trigger stock_watch_changed after update on fulfilment.stock_watch
  referencing old table as gone new table as added for each statement
  execute function sync.copy_edited('watched_articles', 'sku');
create trigger stock_watch_emptied after truncate on fulfilment.stock_watch for each statement
  execute function sync.copy_edited('watched_articles', 'sku');

-- Costs are sent as order items (docs/interface.md, 16.3 Rules). They are never on a shipment, and
-- only the ERP knows which skus they have. A pattern must not end with a single backslash: LIKE
-- would raise an error in every query.
create table fulfilment.service_products (
  client text not null default 'default',
  sku text not null check (sku <> ''),
  is_pattern boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (client, sku),
  constraint service_products_pattern check (not is_pattern or sku !~ '(^|[^\\])(\\\\)*\\$')
);
comment on table fulfilment.service_products is
  'Articles that are never shipped, such as shipping costs and discounts: '
  'insert and delete as you like. Views and functions leave them out of pieces';
comment on column fulfilment.service_products.sku is
  'Article; if is_pattern, a pattern as of LIKE for several articles';
comment on column fulfilment.service_products.is_pattern is
  'True if sku is a pattern, such as SHIP-%; else it is one article';
do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant insert (client, sku, is_pattern), delete
      on fulfilment.service_products to fulfilment_writer;
  end if;
end
$$;

create table sync.service_products (
  client text not null,
  sku text not null,
  is_pattern boolean not null,
  primary key (client, sku)
);
-- sync.service_products: Copy of fulfilment.service_products, kept by triggers; the roles of the
--   ERP cannot lock it
create trigger service_products_added after insert on fulfilment.service_products
  referencing new table as added for each statement
  execute function sync.copy_edited('service_products', 'sku', 'is_pattern');
create trigger service_products_gone after delete on fulfilment.service_products
  referencing old table as gone for each statement
  execute function sync.copy_edited('service_products', 'sku', 'is_pattern');
create trigger service_products_changed after update on fulfilment.service_products
  referencing old table as gone new table as added for each statement
  execute function sync.copy_edited('service_products', 'sku', 'is_pattern');
create trigger service_products_emptied after truncate on fulfilment.service_products
  for each statement
  execute function sync.copy_edited('service_products', 'sku', 'is_pattern');

-- The service names a carrier's link only for some carriers. A link is filled with values of the
-- parcel and of its order.
create table fulfilment.carrier_links (
  client text not null default 'default',
  shipping_method text not null check (shipping_method <> ''),
  url text not null check (url ~ '^https?://[^/]'),
  created_at timestamptz not null default now(),
  primary key (client, shipping_method),
  constraint carrier_links_placeholders check (
    regexp_replace(url, '\{(code|barcode|package|postcode|country)\}', '', 'g') !~ '[{}]')
);
comment on table fulfilment.carrier_links is
  'Address for tracking of each shipping method: insert and delete as you like. '
  '{code}, {barcode}, {package}, {postcode} and {country} are filled in';
comment on column fulfilment.carrier_links.shipping_method is
  'Code of the list mainShippingMethods or shippingMethods, as shipping_method of the views';
comment on column fulfilment.carrier_links.url is
  'Such as https://carrier.example/track?code={code}&zip={postcode}';
do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant insert (client, shipping_method, url), delete
      on fulfilment.carrier_links to fulfilment_writer;
  end if;
end
$$;

create table sync.carrier_links (
  client text not null,
  shipping_method text not null,
  url text not null,
  primary key (client, shipping_method)
);
-- sync.carrier_links: Copy of fulfilment.carrier_links, kept by triggers; the roles of the ERP
--   cannot lock it
create trigger carrier_links_added after insert on fulfilment.carrier_links
  referencing new table as added for each statement
  execute function sync.copy_edited('carrier_links', 'shipping_method', 'url');
create trigger carrier_links_gone after delete on fulfilment.carrier_links
  referencing old table as gone for each statement
  execute function sync.copy_edited('carrier_links', 'shipping_method', 'url');
create trigger carrier_links_changed after update on fulfilment.carrier_links
  referencing old table as gone new table as added for each statement
  execute function sync.copy_edited('carrier_links', 'shipping_method', 'url');
create trigger carrier_links_emptied after truncate on fulfilment.carrier_links for each statement
  execute function sync.copy_edited('carrier_links', 'shipping_method', 'url');

create function sync.encode_for_url(value text) returns text language sql immutable begin atomic
  select coalesce(string_agg(
    case when c ~ '^[A-Za-z0-9._~-]$' then c
      else regexp_replace(upper(encode(convert_to(c, 'UTF8'), 'hex')), '(..)', '%\1', 'g') end,
    '' order by n), '')
  from regexp_split_to_table(value, '') with ordinality as t (c, n);
end;

-- The interface does not show this member; some services send it.
create function sync.read_tracking_link(raw jsonb) returns text language sql immutable begin atomic
  select substring(raw #>> '{attributes,tracking,url}' from '(?i)^https?://.*');
end;

-- The list may name a shipment without the numbers of its packages.
create view sync.tracked_parcels as
select p.*,
  case when t.listed_since is not null
    then case when t.unlisted_since is null then 'on_its_way' else 'ended' end end
    as tracking_state, coalesce(t.unlisted_since, t.listed_since) as tracking_since
from fulfilment.parcels p
left join lateral (
  select t.first_seen_at as listed_since, t.unlisted_since
  from fulfilment.track_traces t
  where t.client = p.client and t.shipment_id = p.shipment_id
    and t.package_number in (p.package_number, '')
  order by t.package_number desc
  limit 1
) t on true;
-- Packages, with whether the track-trace list has them.

-- A shipment may name a main or a nested shipping method (docs/assumptions.md): the main one is
-- taken if both have the id.
create view fulfilment.parcel_overview as
select p.client, p.shipment_id, p.package_number, s.order_id, o.external_order_number, s.status,
  sync.real_time(s.shipped_on) as shipped_on, s.warehouse_code, m.code as shipping_method,
  m.name as shipping_method_name, p.track_and_trace_code, p.track_and_trace_bar_code,
  case
    when p.track_and_trace_code ~* '^https?://' then p.track_and_trace_code
    else coalesce((
      select replace(replace(replace(replace(replace(l.url,
        '{code}', sync.encode_for_url(coalesce(p.track_and_trace_code, ''))),
        '{barcode}', sync.encode_for_url(coalesce(p.track_and_trace_bar_code, ''))),
        '{package}', sync.encode_for_url(p.package_number)),
        '{postcode}', sync.encode_for_url(coalesce(replace(a.postcode, ' ', ''), ''))),
        '{country}', sync.encode_for_url(coalesce(a.country_code, '')))
      from sync.carrier_links l
      left join fulfilment.order_addresses a on a.client = s.client and a.order_id = s.order_id
        and a.role = 'delivery'
      where l.client = p.client and l.shipping_method = m.code
        and (l.url not like '%{code}%' or p.track_and_trace_code is not null)
        and (l.url not like '%{barcode}%' or p.track_and_trace_bar_code is not null)),
      sync.read_tracking_link(s.raw))
  end as tracking_url,
  p.current_track_trace_status, p.current_track_trace_exception_level,
  p.number_of_colli, p.tracking_number, c.items, p.unlisted_since,
  c.items is not null as items_known,
  p.tracking_state, p.tracking_since
from sync.tracked_parcels p
-- The look-up lists the lines of the whole shipment for each of its packages (docs/assumptions.md).
cross join lateral (
  select case
    when p.unlisted_since is null and coalesce(p.number_of_colli, 1) <= 1 and not exists (
      select from fulfilment.parcels o
      where o.client = p.client and o.shipment_id = p.shipment_id
        and o.package_number <> p.package_number
        and o.unlisted_since is null) then p.shipment_items end as items
  offset 0
) c
left join fulfilment.shipments s on s.client = p.client and s.id = p.shipment_id
left join fulfilment.orders o on o.client = s.client and o.id = s.order_id
left join lateral (
  select t.code, t.name
  from fulfilment.setting_options t
  where t.client = s.client and t.id = s.shipping_method_id
    and t.list in ('mainShippingMethods', 'shippingMethods')
  order by t.list
  limit 1
) m on true;
comment on view fulfilment.parcel_overview is
  'Packages with their order, shipping method, address for tracking and contents';
comment on column fulfilment.parcel_overview.external_order_number is
  'Your order number; null until the order is stored';
comment on column fulfilment.parcel_overview.status is 'Status of the shipment';
comment on column fulfilment.parcel_overview.shipped_on is 'When the carrier took the shipment';
comment on column fulfilment.parcel_overview.track_and_trace_code is
  'Code of the carrier, or a link';
comment on column fulfilment.parcel_overview.track_and_trace_bar_code is 'Bar code of the carrier';
comment on column fulfilment.parcel_overview.tracking_url is
  'Address for tracking: a code that is a link, else the link of carrier_links, '
  'else the one that the service gives for the shipment';
comment on column fulfilment.parcel_overview.current_track_trace_status is 'Latest known status';
comment on column fulfilment.parcel_overview.current_track_trace_exception_level is
  'Exception level';
comment on column fulfilment.parcel_overview.number_of_colli is
  'Number of packages of the shipment';
comment on column fulfilment.parcel_overview.tracking_number is 'trackingNumber of the look-up';
comment on column fulfilment.parcel_overview.items is
  'What the package holds: an array of {shipmentItemId, quantity, sku, lotNumber}; '
  'null if that is not known';
comment on column fulfilment.parcel_overview.unlisted_since is
  'Since when the look-up no longer returns the package';
comment on column fulfilment.parcel_overview.items_known is
  'True if items has the contents; false if the shipment has several packages, '
  'because the look-up does not say which line is in which (shipment_lines has all lines, once), '
  'or if it names no lines';
comment on column fulfilment.parcel_overview.tracking_state is
  'on_its_way: the track-trace list has the package; ended: it has left the list, '
  'so it is delivered, at a pick-up point, or returned to the sender; null: it was never listed';
comment on column fulfilment.parcel_overview.tracking_since is
  'When the list first had the package; if ended: when it was missing for the first time, '
  'up to an hour late';

-- It is not known whether the shipping method of a shipment is a main or a nested one.
create view fulfilment.shipment_overview as
select s.client, s.id, s.status, sync.real_time(s.ready_to_pick_on) as ready_to_pick_on,
  sync.real_time(s.ready_to_ship_on) as ready_to_ship_on,
  sync.real_time(s.shipped_on) as shipped_on, s.warehouse_code, s.return_label, s.order_id,
  s.order_type_id, s.shipping_method_id, s.raw, s.first_seen_at, s.changed_at, s.unlisted_since,
  s.read_no, o.external_order_number, t.code as order_type, t.name as order_type_name,
  case when m.id is null then n.code else m.code end as shipping_method,
  case when m.id is null then n.name else m.name end as shipping_method_name,
  n.code as carrier_code, n.name as carrier_name
from fulfilment.shipments s
left join fulfilment.orders o on o.client = s.client and o.id = s.order_id
left join fulfilment.setting_options t on t.client = s.client and t.list = 'orderTypes'
  and t.id = s.order_type_id
left join fulfilment.setting_options m
  on m.client = s.client and m.list = 'mainShippingMethods' and m.id = s.shipping_method_id
left join fulfilment.setting_options n on n.client = s.client and n.list = 'shippingMethods'
  and n.id = case
  when m.id is null then s.shipping_method_id
  else (
    select min(w.shipping_method_id)
    from fulfilment.main_shipping_method_warehouses w
    where w.client = s.client and w.main_shipping_method_id = m.id
      and w.warehouse = s.warehouse_code
      and w.removed_at is null) end;
comment on view fulfilment.shipment_overview is
  'Shipments with the number of their order, and code and name of order type, '
  'shipping method and carrier';
comment on column fulfilment.shipment_overview.external_order_number is
  'Your order number; null until the order is stored';
comment on column fulfilment.shipment_overview.carrier_code is
  'Code of the nested shipping method, which names the carrier; '
  'of a main method, that of the shipment''s warehouse';
-- The columns of shipments mean here what they mean there.
do $$
declare
  shared record;
begin
  for shared in
    select o.attname, col_description(t.attrelid, t.attnum) as meaning
    from pg_attribute o
    join pg_attribute t on t.attrelid = 'fulfilment.shipments'::regclass and t.attname = o.attname
    where o.attrelid = 'fulfilment.shipment_overview'::regclass and o.attnum > 0
  loop
    execute format('comment on column fulfilment.shipment_overview.%I is %L', shared.attname,
      shared.meaning);
  end loop;
end
$$;

create view fulfilment.shipment_lines as
select s.client, s.external_order_number, s.order_id, s.id as shipment_id, s.status, s.shipped_on,
  s.warehouse_code, i.id as shipment_item_id, i.order_item_id, i.sku, i.quantity, i.lot_number,
  i.expiration_date, i.serial_numbers,
  p.package_numbers, p.track_trace_statuses, p.track_trace_at, s.unlisted_since, p.package_statuses,
  p.track_and_trace_codes, coalesce(p.tracking_url, sync.read_tracking_link(s.raw)) as tracking_url,
  s.order_type, s.order_type_name, s.shipping_method, s.shipping_method_name,
  s.carrier_code, s.carrier_name
from fulfilment.shipment_overview s
join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id
left join lateral (
  select array_agg(nullif(p.package_number, '') order by p.package_number) as package_numbers,
    array_agg(case when p.current_track_trace_status ~ '^-?\d{1,9}$'
      then p.current_track_trace_status::integer end
      order by p.package_number) as track_trace_statuses,
    array_agg(p.current_track_trace_status order by p.package_number) as package_statuses,
    array_agg(p.track_and_trace_code order by p.package_number) as track_and_trace_codes,
    min(p.tracking_url) as tracking_url,
    max(sync.real_time(t.current_track_trace_status_date_time)) as track_trace_at
  from fulfilment.parcel_overview p
  left join fulfilment.track_traces t
    on t.client = p.client and t.shipment_id = p.shipment_id and t.package_number = p.package_number
  where p.client = s.client and p.shipment_id = s.id and p.unlisted_since is null
) p on true;
comment on view fulfilment.shipment_lines is
  'Lines of shipments, shipped or not, with their orders and packages';
comment on column fulfilment.shipment_lines.external_order_number is
  'Your order number; null until the order is stored';
comment on column fulfilment.shipment_lines.status is 'Status of the shipment';
comment on column fulfilment.shipment_lines.shipped_on is 'When the carrier took it';
comment on column fulfilment.shipment_lines.shipment_item_id is 'Line of the shipment';
comment on column fulfilment.shipment_lines.serial_numbers is 'Serial numbers of the pieces';
comment on column fulfilment.shipment_lines.package_numbers is
  'Packages of the whole shipment; it is not known which line is in which package';
comment on column fulfilment.shipment_lines.track_trace_statuses is
  'Their latest known statuses in the same order, as numbers; null if a status is not a number';
comment on column fulfilment.shipment_lines.track_trace_at is
  'Latest time that track-trace gives for these packages';
comment on column fulfilment.shipment_lines.package_statuses is
  'Their latest known statuses in the same order, as received';
comment on column fulfilment.shipment_lines.track_and_trace_codes is
  'Their track-and-trace codes, in the same order';
comment on column fulfilment.shipment_lines.tracking_url is
  'Address for tracking of a package, as in parcel_overview; '
  'without packages, the one that the service gives for the shipment';
comment on column fulfilment.shipment_lines.carrier_code is
  'Code of the nested shipping method, which names the carrier';

-- The one definition of what of an order was shipped, is in the warehouse, is missing, and came
-- back. A line counts at most the pieces that it wants, because a line that was shipped twice must
-- not hide one that is missing. Pieces that name no line of the order fill the lines of their
-- article, oldest first; without an article, those of the first article.
create view fulfilment.order_lines as
select o.client, o.external_order_number, o.id as order_id, l.id as order_item_id, l.sku,
  l.name, l.is_service,
  l.price, l.vat, l.metadata, l.ordered, l.ordered::bigint - l.wanted as cancelled, l.quantity,
  l.shipped, l.over_shipped, l.moved - l.shipped as in_warehouse,
  case when l.is_service then 0 else l.wanted - l.moved end as missing,
  case when l.is_service then 0 else l.wanted - l.shipped end as to_come,
  l.returned, l.first_shipped_on, l.last_shipped_on, o.unlisted_since
from fulfilment.orders o
cross join lateral (
  with lines as (
    -- Lines of less than nothing, such as discounts, take nothing from what the other lines want.
    select i.*, greatest(coalesce(i.quantity, 0), 0)::bigint as wanted,
      case when i.ordered_quantity < 0 then 0 else i.ordered_quantity end as ordered, exists (
      select from sync.service_products p
      where p.client = i.client
        and case when p.is_pattern then i.sku like p.sku else i.sku = p.sku end) as is_service
    from fulfilment.order_items i
    where i.client = o.client and i.order_id = o.id and i.unlisted_since is null
  ), moves as (
    select i.order_item_id, i.sku, s.status = 'SHIPPED' as is_shipped,
      sync.real_time(s.shipped_on) as shipped_on, i.quantity as moved, 0 as returned
    from fulfilment.shipments s
    join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id
    where s.client = o.client and s.order_id = o.id and s.unlisted_since is null
      and i.unlisted_since is null
    union all
    select r.order_item_id, r.sku, null, null, 0, r.quantity
    from fulfilment.return_items r
    where r.client = o.client and r.order_id = o.id and r.unlisted_since is null
    union all
    select r.order_item_id, r.sku, null, null, 0, r.quantity
    from lines l
    join fulfilment.return_items r on r.client = o.client and r.order_item_id = l.id
      and r.order_id is null and r.unlisted_since is null
  ), pieces as (
    select l.id as line,
      case when l.id is null then coalesce(m.sku, (
        select f.sku from lines f where not f.is_service order by f.id limit 1)) end as sku,
      greatest(coalesce(sum(m.moved) filter (where m.is_shipped), 0), 0) as shipped,
      greatest(coalesce(sum(m.moved), 0), 0) as moved,
      greatest(coalesce(sum(m.returned), 0), 0) as returned,
      min(m.shipped_on) filter (where m.is_shipped) as first_shipped_on,
      max(m.shipped_on) filter (where m.is_shipped) as last_shipped_on
    from moves m
    left join lines l on l.id = m.order_item_id
    group by 1, 2
  ), own as (
    select l.id, l.sku, l.wanted, coalesce(p.shipped, 0) as all_shipped,
      least(l.wanted, coalesce(p.shipped, 0)) as shipped,
      least(l.wanted, coalesce(p.moved, 0)) as moved,
      least(l.wanted, coalesce(p.returned, 0)) as returned,
      p.first_shipped_on, p.last_shipped_on
    from lines l
    left join pieces p on p.line = l.id
  ), room as (
    select w.*, lead(w.id) over earlier is null as is_last,
      coalesce(sum(w.wanted - w.shipped) over earlier, 0) as to_ship_before,
      coalesce(sum(w.wanted - w.moved) over earlier, 0) as to_move_before,
      coalesce(sum(w.wanted - w.returned) over earlier, 0) as to_return_before
    from own w
    window earlier as (
      partition by w.sku order by w.id rows between unbounded preceding and 1 preceding)
  ), spread as (
    select r.*, coalesce(p.shipped, 0) - r.to_ship_before as left_to_ship,
      coalesce(p.moved, 0) - r.to_move_before as left_to_move,
      coalesce(p.returned, 0) - r.to_return_before as left_to_return,
      p.first_shipped_on as first_without_line, p.last_shipped_on as last_without_line
    from room r
    left join pieces p on p.line is null and p.sku = r.sku
  )
  select l.*,
    (s.shipped + greatest(least(s.wanted - s.shipped, s.left_to_ship), 0))::bigint as shipped,
    (s.moved + greatest(least(s.wanted - s.moved, s.left_to_move), 0))::bigint as moved,
    (s.returned + greatest(least(s.wanted - s.returned, s.left_to_return), 0))::bigint as returned,
    (s.all_shipped - s.shipped
      + case when s.is_last then greatest(s.left_to_ship - (s.wanted - s.shipped), 0)
        else 0 end)::bigint as over_shipped,
    case when s.left_to_ship > 0 then least(s.first_shipped_on, s.first_without_line)
      else s.first_shipped_on end
      as first_shipped_on,
    case when s.left_to_ship > 0 then greatest(s.last_shipped_on, s.last_without_line)
      else s.last_shipped_on end
      as last_shipped_on
  from lines l
  join spread s on s.id = l.id
) l;
comment on view fulfilment.order_lines is
  'Lines of orders, with the pieces that were shipped, are in the warehouse, are to come, '
  'and came back. ordered = cancelled + shipped + to_come, and to_come = in_warehouse + missing. '
  'Name orders: it computes each order whole';
comment on column fulfilment.order_lines.name is
  'Name of the article on the order (personal data, if it was made for a person)';
comment on column fulfilment.order_lines.is_service is
  'True if the article is in service_products: it is never shipped';
comment on column fulfilment.order_lines.price is
  'Price of one piece in orders.currency; the interface does not show whether it includes '
  'VAT, so it means what you sent';
comment on column fulfilment.order_lines.vat is 'VAT rate of the line, such as 0.21';
comment on column fulfilment.order_lines.metadata is
  'serviceLevel, purchases, reference, extra6 and extra7';
comment on column fulfilment.order_lines.ordered is 'Pieces that were ordered first';
comment on column fulfilment.order_lines.cancelled is 'Pieces of them that were cancelled';
comment on column fulfilment.order_lines.quantity is 'Pieces that were not cancelled';
comment on column fulfilment.order_lines.shipped is 'Pieces that a carrier took, at most quantity';
comment on column fulfilment.order_lines.over_shipped is
  'Pieces that a carrier took beyond quantity';
comment on column fulfilment.order_lines.in_warehouse is
  'Pieces of shipments that have not left, as far as they are to come';
comment on column fulfilment.order_lines.missing is
  'Pieces that are to come and on no shipment; 0 for a service product';
comment on column fulfilment.order_lines.to_come is
  'Pieces that are still to be shipped; 0 for a service product';
comment on column fulfilment.order_lines.returned is
  'Pieces that came back and were processed, at most quantity';
comment on column fulfilment.order_lines.first_shipped_on is 'When the first of its pieces left';
comment on column fulfilment.order_lines.last_shipped_on is
  'When the last of its shipped pieces left';

create view fulfilment.backorders as
select l.client, l.external_order_number, l.order_id, l.order_item_id, l.sku, l.quantity, l.shipped,
  l.in_warehouse, l.missing,
  sync.real_day(o.ordered_on) as ordered_on, t.stock
from fulfilment.orders o
join fulfilment.order_lines l on l.client = o.client and l.order_id = o.id
left join fulfilment.stock_levels t on t.client = l.client and t.sku = l.sku
where l.missing > 0 and o.unlisted_since is null and o.on_hold is not true
  and (o.preferred_shipping_date is null or o.preferred_shipping_date <= current_date)
  and (coalesce(sync.real_day(o.ordered_on), o.first_seen_at::date) < current_date or exists (
    select from fulfilment.shipments s where s.client = o.client and s.order_id = o.id
      and s.unlisted_since is null));
comment on view fulfilment.backorders is
  'Lines with pieces that are on no shipment, although the order is not on hold, is due, '
  'and was placed before today or has a shipment';
comment on column fulfilment.backorders.quantity is 'Pieces that were not cancelled';
comment on column fulfilment.backorders.shipped is 'Pieces that a carrier took';
comment on column fulfilment.backorders.in_warehouse is 'Pieces of shipments that have not left';
comment on column fulfilment.backorders.missing is 'Pieces that are on no shipment';
comment on column fulfilment.backorders.stock is
  'Stock as last told; null if the article is not in stock_watch';

create view fulfilment.open_inbound_expectations as
select s.client, s.id as inbound_packing_slip_id, s.reference, s.expected_in, s.expected_on,
  s.status, sync.real_time(s.received_on) as received_on, i.id as inbound_packing_slip_item_id,
  i.sku, i.quantity, i.received,
  greatest(coalesce(i.quantity, 0)::bigint - coalesce(i.received, 0), 0) as outstanding,
  s.inbound_id
from fulfilment.inbound_packing_slips s
join fulfilment.inbound_packing_slip_items i on i.client = s.client
  and i.inbound_packing_slip_id = s.id
where s.status is distinct from 'COMPLETED' and s.unlisted_since is null
  and i.unlisted_since is null;
comment on view fulfilment.open_inbound_expectations is
  'Announced goods that have not arrived completely';
comment on column fulfilment.open_inbound_expectations.reference is 'Your number of the delivery';
comment on column fulfilment.open_inbound_expectations.status is 'Status of the slip';
comment on column fulfilment.open_inbound_expectations.received_on is 'When the first goods came';
comment on column fulfilment.open_inbound_expectations.inbound_packing_slip_item_id is
  'Line of the slip';
comment on column fulfilment.open_inbound_expectations.quantity is 'Pieces expected';
comment on column fulfilment.open_inbound_expectations.received is 'Pieces received so far';
comment on column fulfilment.open_inbound_expectations.outstanding is 'Pieces still to come';
comment on column fulfilment.open_inbound_expectations.inbound_id is 'Inbound that receives it';

create view fulfilment.received_goods as
select i.client, i.id as inbound_id, i.reference, i.status, i.received_in,
  sync.real_time(i.created_on) as created_on, sync.real_time(i.checking_on) as checking_on,
  sync.real_time(i.completed_on) as completed_on,
  l.id as inbound_item_id, l.sku, l.quantity, l.lot_number, l.expiration_date,
  coalesce(e.inbound_packing_slip_id, i.inbound_packing_slip_id) as inbound_packing_slip_id,
  s.reference as slip_reference, s.status as slip_status, s.expected_on,
  e.id as inbound_packing_slip_item_id, e.quantity as line_expected,
  e.received as line_received, t.slip_expected, t.slip_received, i.unlisted_since
from fulfilment.inbounds i
join fulfilment.inbound_items l on l.client = i.client and l.inbound_id = i.id
  and l.unlisted_since is null
left join fulfilment.inbound_packing_slip_items e on e.client = l.client
  and e.id = l.inbound_packing_slip_item_id
left join fulfilment.inbound_packing_slips s
  on s.client = i.client and s.id = coalesce(e.inbound_packing_slip_id, i.inbound_packing_slip_id)
left join lateral (
  select sum(e.quantity) as slip_expected, sum(e.received) as slip_received
  from fulfilment.inbound_packing_slip_items e
  where e.client = s.client and e.inbound_packing_slip_id = s.id and e.unlisted_since is null
) t on true;
comment on view fulfilment.received_goods is
  'Lines of inbounds with their lots, '
  'and what the inbound packing slip that announced them expected and received in all';
comment on column fulfilment.received_goods.reference is
  'Your reference of the delivery, as announced';
comment on column fulfilment.received_goods.status is
  'PROCESSING, CHECKING, CHECKED or COMPLETED. Book it when it is COMPLETED';
comment on column fulfilment.received_goods.created_on is 'When it arrived';
comment on column fulfilment.received_goods.checking_on is 'When checking began';
comment on column fulfilment.received_goods.completed_on is 'When it was completed';
comment on column fulfilment.received_goods.inbound_item_id is 'Line of the inbound';
comment on column fulfilment.received_goods.quantity is 'Pieces of this line';
comment on column fulfilment.received_goods.inbound_packing_slip_id is
  'Slip that announced the goods; null if there is none';
comment on column fulfilment.received_goods.slip_reference is
  'Your number of the announced delivery';
comment on column fulfilment.received_goods.slip_status is
  'EXPECTED, IN_PROGRESS, CHECKING or COMPLETED';
comment on column fulfilment.received_goods.inbound_packing_slip_item_id is 'Line of the slip';
comment on column fulfilment.received_goods.line_expected is
  'Pieces that this line of the slip announced';
comment on column fulfilment.received_goods.line_received is
  'Pieces of it that were received so far, by all inbounds';
comment on column fulfilment.received_goods.slip_expected is 'Pieces that the whole slip announced';
comment on column fulfilment.received_goods.slip_received is
  'Pieces of them that were received so far, by all inbounds';

create view fulfilment.return_overview as
select r.client, r.id as return_item_id, r.external_order_number, r.order_id, r.order_item_id,
  a.external_reference, r.sku, r.quantity, g.lot_number, g.expiration_date, g.serial_numbers,
  r.condition, coalesce(t.code, l.reason_code) as return_reason,
  t.name as return_reason_name, sync.real_day(r.processed_on) as processed_on, r.processed_in,
  sync.real_time(r.restock_on) as restock_on, r.restock_in, r.redeliver, r.comment,
  o.currency, i.price, i.vat, i.price * r.quantity as amount, r.unlisted_since
from fulfilment.return_items r
left join fulfilment.order_items i on i.client = r.client and i.id = r.order_item_id
left join fulfilment.orders o on o.client = r.client and o.id = coalesce(r.order_id, i.order_id)
left join fulfilment.shipment_items g on g.client = r.client and g.id = r.shipment_item_id
left join fulfilment.setting_options t on t.client = r.client and t.list = 'returnReasons'
  and t.id = r.return_reason_id
left join fulfilment.return_merchandise_authorization_items l
  on l.client = r.client and l.id = r.return_merchandise_authorization_item_id
left join fulfilment.return_merchandise_authorizations a
  on a.client = l.client and a.id = l.return_merchandise_authorization_id;
comment on view fulfilment.return_overview is
  'Returned lines that a warehouse has processed, with reason, price of the order line, '
  'and lot and serial numbers that were shipped';
comment on column fulfilment.return_overview.return_item_id is
  'Returned line (return_items.id); a unique key for your credit lines';
comment on column fulfilment.return_overview.external_reference is
  'Your number of the announced return; null if it was not announced from here';
comment on column fulfilment.return_overview.lot_number is
  'Lot of the shipment line that delivered it';
comment on column fulfilment.return_overview.expiration_date is 'Use before, of the same line';
comment on column fulfilment.return_overview.serial_numbers is
  'Serial numbers of the same line; of several pieces it is not known which one came back';
comment on column fulfilment.return_overview.condition is 'Condition in which they arrived';
comment on column fulfilment.return_overview.return_reason is
  'Code of the return reason; if the return item has none, that of its announcement';
comment on column fulfilment.return_overview.return_reason_name is 'Name of the return reason';
comment on column fulfilment.return_overview.processed_on is 'Day they were processed';
comment on column fulfilment.return_overview.restock_on is
  'When they were back in stock; null if they are not';
comment on column fulfilment.return_overview.restock_in is 'Warehouse in which they were restocked';
comment on column fulfilment.return_overview.comment is 'Comment of the warehouse';
comment on column fulfilment.return_overview.currency is
  'Currency of price and amount: that of the order';
comment on column fulfilment.return_overview.price is
  'Price of one piece, of the order line; the interface does not show whether it includes '
  'VAT, so it means what you sent';
comment on column fulfilment.return_overview.vat is 'VAT rate of the order line, such as 0.21';
comment on column fulfilment.return_overview.amount is
  'Price times pieces, to credit; it includes VAT if your prices do';

create view fulfilment.returns_to_restock as
select r.client, r.return_item_id, r.external_order_number, r.order_id, r.order_item_id, r.sku,
  r.quantity, r.condition,
  r.return_reason, r.return_reason_name, r.processed_on, r.processed_in, r.redeliver, r.comment
from fulfilment.return_overview r
where r.restock_on is null and r.unlisted_since is null;
comment on view fulfilment.returns_to_restock is
  'Returns that were processed and are not yet back in stock';
comment on column fulfilment.returns_to_restock.return_item_id is 'Returned line (return_items.id)';
comment on column fulfilment.returns_to_restock.condition is 'Condition in which they arrived';
comment on column fulfilment.returns_to_restock.processed_on is 'Day they were processed';
comment on column fulfilment.returns_to_restock.return_reason is 'Code of the return reason';
comment on column fulfilment.returns_to_restock.return_reason_name is 'Name of the return reason';
comment on column fulfilment.returns_to_restock.comment is 'Comment of the warehouse';
