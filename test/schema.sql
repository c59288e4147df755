-- The schema after all migrations; renewed with: npm run golden

create schema fulfilment; -- What the ERP reads: the resources of the warehouse service, and a feed of their changes
create schema sync; -- State of fulfilment-sync itself; not for the ERP

create sequence sync.read_no; -- 

create table fulfilment.carrier_links (
  client text not null default 'default'::text, -- Client key
  shipping_method text not null, -- Code of the list mainShippingMethods or shippingMethods, as shipping_method of the views
  url text not null, -- Such as https://carrier.example/track?code={code}&zip={postcode}
  created_at timestamp with time zone not null default now(), -- When it was inserted
); -- Address for tracking of each shipping method: insert and delete as you like. {code}, {barcode}, {package}, {postcode} and {country} are filled in
create table fulfilment.changes (
  seq bigint not null generated always as identity, -- Place in the feed; it rises in the order of commit, so keep the last one that you handled
  client text not null, -- Client key
  entity text not null, -- Table of the row that changed; outbox for a row that became done, dead, unknown or cancelled
  id bigint, -- Id of the row that changed
  key text, -- Key of the row, if its table has no bigint id
  operation text not null, -- created, updated, unlisted or removed
  changed_columns text[], -- updated: names of the columns whose values changed, without changed_at and what is derived from others; raw alone: a member without a column. Null otherwise
  changed_at timestamp with time zone not null default now(), -- Transaction time of the change
); -- Feed of every change of the tables in this schema, in the order of commit
create table fulfilment.consumers (
  name text not null, -- Name that the program chose, at most 64 characters
  seq bigint not null, -- Last seq that the consumer has read
  created_at timestamp with time zone not null default now(), -- When it was started first
  moved_at timestamp with time zone not null default now(), -- When seq last changed
) with (fillfactor=50); -- Programs that follow the feed with consume_changes, and how far each has read; written by functions only
create table fulfilment.documents (
  id bigint not null, -- Id of the outbox row that asked for it
  client text not null, -- Client key
  kind text not null, -- return_label or order_attachment
  reference text not null, -- Reference of the outbox row: your order number
  order_id bigint, -- Order, if it was known here
  shipment_id bigint, -- return_label: shipment that the label is for
  order_attachment_id bigint, -- order_attachment: its id at the service; null if no answer shows it
  state text not null default 'stored'::text, -- stored: the service answered with it; sent: the first attachment of an order, which went with it, and which the answer does not show
  file_name text, -- File name as received, or of the attachment as sent
  mime_type text, -- mimeType as received; application/pdf for attachments
  package_number text, -- return_label: packageNumber as received
  shipping_method_id bigint, -- return_label: shippingMethodId (service list returnShippingMethods)
  is_paperless boolean, -- return_label: isPaperlessReturnShippingMethod as received
  result jsonb not null, -- result of the outbox row, of an order only the ids: for a return_label the answer as received, with the content of the document
  created_at timestamp with time zone not null default now(), -- When the outbox row became done
  erased_at timestamp with time zone, -- When personal data was removed from the row; null if it was not
); -- Return labels and order attachments that the service made for outbox rows; kept until an operator deletes them; personal data
create table fulfilment.inbound_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  inbound_id bigint not null, -- Inbound (inbounds.id)
  status text, -- Status from then on
  received_in text, -- Warehouse from then on
  source_time timestamp with time zone, -- Time that the service gives for this status; null for a status without a time
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- The first status of each inbound that was read, and a row for each change of status or warehouse. Changes between two readings are not seen
create table fulfilment.inbound_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  inbound_id bigint, -- Inbound (inbounds.id)
  sku text, -- Your article number
  quantity integer, -- Number of pieces
  lot_number text, -- Lot (batch) of the pieces
  expiration_date date, -- Day before which it is to be used
  product_id bigint, -- Id of the article at the service
  inbound_packing_slip_item_id bigint, -- Line of the slip that announced it
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Lines of inbounds (v3 inboundItem)
create table fulfilment.inbound_packing_slip_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  inbound_packing_slip_id bigint not null, -- Inbound packing slip (inbound_packing_slips.id)
  status text, -- Status from then on
  expected_in text, -- Warehouse it is announced for from then on
  expected_on date, -- Day it is announced for from then on
  source_time timestamp with time zone, -- Time that the service gives for this status; null for a status without a time
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- The first status of each inbound packing slip that was read, and a row for each change of status, expected warehouse or day. Changes between two readings are not seen
create table fulfilment.inbound_packing_slip_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  inbound_packing_slip_id bigint, -- Inbound packing slip (inbound_packing_slips.id)
  sku text, -- Your article number
  quantity integer, -- Pieces expected
  received integer, -- Pieces received so far
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Lines of announced deliveries (v3 inboundPackingSlipItem)
create table fulfilment.inbound_packing_slips (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  expected_in text, -- Warehouse it is announced for
  expected_on date, -- Day it is announced for
  received_on timestamp with time zone, -- When the inbound started; its own zone, else the client's
  completed_on timestamp with time zone, -- When it finished with no further items expected; its own zone, else the client's; before 1970 it means none
  reference text, -- Your number of the delivery
  status text, -- EXPECTED, IN_PROGRESS, CHECKING or COMPLETED; another value is kept as received
  comments text, -- Remarks that were sent with the announcement
  metadata jsonb, -- serviceLevel, purchases and reference
  inbound_id bigint, -- Inbound that received it
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when two complete walks lacked it; null while it is listed
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
) with (fillfactor=90); -- Announced deliveries, one row each (v3 inboundPackingSlip)
create table fulfilment.inbounds (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  reference text, -- Your reference of the delivery, as announced
  status text, -- PROCESSING, CHECKING, CHECKED or COMPLETED; another value is kept as received
  received_in text, -- Warehouse that received it
  created_on timestamp with time zone, -- When the inbound was created, read in the client's zone
  checking_on timestamp with time zone, -- When it became CHECKING, read in the client's zone
  completed_on timestamp with time zone, -- When it became COMPLETED, read in the client's zone; before 1970 it means none
  inbound_packing_slip_id bigint, -- Inbound packing slip that announced it; null if there is none
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
) with (fillfactor=90); -- Goods that have arrived, one row for each delivery (v3 inbound)
create table fulfilment.main_shipping_method_warehouses (
  client text not null, -- Client key
  main_shipping_method_id bigint not null, -- Entry of the list mainShippingMethods
  shipping_method_id bigint not null, -- Method of that warehouse
  warehouse text not null, -- Warehouse code
  removed_at timestamp with time zone, -- Since when the list no longer holds it; null while it does
); -- The shipping method that each warehouse uses for a main shipping method
create table fulfilment.order_addresses (
  client text not null, -- Client key
  order_id bigint not null, -- Order (orders.id)
  role text not null, -- delivery or billing
  id bigint, -- Address id at the service; both roles may share one
  first_name text, -- Given name of the consumer
  last_name text, -- Family name of the consumer
  prefix text, -- Part of the name; the interface does not say where it stands
  street1 text, -- Street, perhaps with the house number, as you sent it
  postcode text, -- Postcode as entered; the area only after an erasure
  house_number text, -- House number as sent; street1 may hold it instead
  house_number_extension text, -- Extension of the house number
  city text, -- Town
  country_code text, -- Two letters (ISO 3166)
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
) with (fillfactor=90); -- Delivery and billing addresses of orders (v3 address); personal data
create table fulfilment.order_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  order_id bigint, -- Order (orders.id)
  sku text, -- Your article number
  quantity integer, -- Pieces; 0 if the whole line was cancelled
  ordered_quantity integer, -- Largest quantity that was read: the pieces ordered, although a cancel lowers quantity
  fulfill_from text, -- Warehouse it is to be fulfilled from
  price numeric, -- Price of one piece, with the digits received; the interface does not show whether it includes VAT, so it means what you sent
  vat numeric, -- VAT rate of the line, such as 0.21, with the digits received
  name text, -- Name of the article on the order
  channel_identifier text, -- Channel of the line; only the service sets it
  metadata jsonb, -- serviceLevel, purchases, reference, extra6 and extra7
  product_id bigint, -- Id of the article at the service
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Lines of orders (v3 orderItem)
create table fulfilment.order_line_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  order_item_id bigint not null, -- Line of the order (order_items.id)
  order_id bigint, -- Order (orders.id)
  sku text, -- Article from then on
  quantity integer, -- Pieces from then on; fewer than before, or 0, if some were cancelled
  unlisted_since timestamp with time zone, -- When the service no longer had the line; null if it has the line from then on
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- Each line of an order as it was first read, and a row for each change of article or quantity, and if the service no longer has the line. Changes between two readings are not seen
create table fulfilment.orders (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  external_order_number text, -- Your order number; it can be changed at the service
  reference text, -- Reference as sent; unlike external_order_number, nothing is found by it
  ordered_on date, -- Day the order was placed: orderedOn of your order.create
  consumer_reference text, -- The consumer's own reference of the order, as you sent it
  promotion_code text, -- Promotion, as sent (personal data, if it was made for a person)
  currency text, -- Currency of the prices, a three-letter code; the service sets it
  locale text, -- Language and region of the consumer, such as nl-NL
  email text, -- Consumer's address (personal data); without one, the service uses a no-reply address of its own
  phone_number text, -- Consumer's number (personal data)
  vat_number text, -- VAT number of the consumer, as sent (personal data)
  fulfill_from text, -- Warehouse it is to be fulfilled from
  preferred_shipping_date date, -- The warehouse does not ship the order before this day
  allow_partial_delivery boolean, -- True if it may be shipped in parts; null: the default of the order type
  on_hold boolean, -- True: the warehouse ships nothing until you insert an order.release row
  metadata jsonb, -- Your own members extra1 to extra5, as you sent them
  channel_identifier text, -- Channel of the order; only the service sets it
  order_type_id bigint, -- Order type (service list orderTypes)
  delivery_address_id bigint, -- Delivery address at the service
  billing_address_id bigint, -- Billing address at the service
  pick_up_point_id bigint, -- Pick-up point at the service
  preferred_shipping_method_id bigint, -- Main shipping method asked for
  pick_up_point jsonb, -- Pick-up point as received, if it was included
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
) with (fillfactor=90); -- Orders at the warehouse, one row each (v3 order)
create table fulfilment.outbox (
  id bigint not null generated always as identity, -- Number of the row; rows of one lane (client, family, reference) are sent in this order
  client text not null default 'default'::text, -- Client key, at most 64 characters
  kind text not null, -- What the row asks for, such as order.create (docs/outbox.md); at most 64 characters
  reference text not null, -- External order number, external reference, slip reference or sku; at most 200 characters
  payload jsonb not null default '{}'::jsonb, -- Contents of the request, at most 16 MB of JSON text; fulfilment.outbox_schema(kind) returns its JSON Schema
  status text not null default 'pending'::text, -- pending, sending, unknown (the service may have carried it out), done, dead (refused or given up) or cancelled
  attempts integer not null default 0, -- Number of sends; look-ups and checks before a send do not count
  next_attempt_at timestamp with time zone default now(), -- pending: not sent before this time; unknown: when it is looked up, or null if an operator has to decide
  lease_until timestamp with time zone, -- While sending: when another worker may take the row over
  last_error text, -- Why the row is not done, as text
  result jsonb, -- Answer of the service; docs/outbox.md lists its members by kind
  created_at timestamp with time zone not null default now(), -- When it was inserted
  finished_at timestamp with time zone, -- When it became done, dead or cancelled
  not_before timestamp with time zone, -- The row is not sent before this time, within 100 years; the writer may set it. Later rows of its lane wait for it
  family text not null default 
CASE
    WHEN (split_part(kind, '.'::text, 1) = ANY (ARRAY['order'::text, 'order_item'::text, 'order_attachment'::text, 'return_label'::text])) THEN 'order'::text
    ELSE split_part(kind, '.'::text, 1)
END, -- Kinds that share a lane: order (with order_item, order_attachment, return_label), return, inbound_packing_slip, product
  claim_no bigint, -- Number of the last claim. It identifies late outcomes, and is the read_no of the answer
  sent_at timestamp with time zone, -- While sending: set before the request is written; null means that no request was written
  written_at timestamp with time zone, -- Last attempt that the service may have carried out; null: none
  refusal text, -- While unknown: the reason with which the service refused the row. The row becomes dead with it unless a look-up finds the change
  refused_as text, -- taken: refusal says that the service already has what the row asks for. perhaps taken: it may say so. Null: it was no refusal of the service
  lookups integer not null default 0, -- Look-ups since the last attempt
  absences integer not null default 0, -- Look-ups since the last attempt that did not find the change, and count
  absent_at timestamp with time zone, -- Time of the last look-up since the last attempt that did not find the change
  replaced_at timestamp with time zone, -- When its payload was last replaced
  limits_from timestamp with time zone not null default now(), -- PUSH_MAX_AGE counts from here: the first attempt that counted, or the last retry or replacement by a person
  tries integer not null default 0, -- Tries since limits_from that PUSH_MAX_ATTEMPTS counts: sends, and checks before a send that failed; without a try that is under way
  refused_for_others integer not null default 0, -- Sends since the last attempt that counted which were refused with 429 or for the token; each makes the pause longer
  table_mark text default sync.table_mark(), -- Identity of the table in which the row was inserted (sync.table_mark)
  erased_at timestamp with time zone, -- When personal data was removed from the row; null if it was not
  payload_bytes integer not null default 0, -- Bytes of payload as text, measured when it is written: a number such as 1e100000 is stored in few bytes
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=5000); -- Requests of the ERP to the service: insert client, kind, reference and payload, and read status and result
create table fulfilment.parcels (
  client text not null, -- Client key
  shipment_id bigint not null, -- Shipment (shipments.id)
  package_number text not null default ''::text, -- Number of the package; empty if it has none
  collo_number text, -- Number of the package (colloNr); null unless the service gives it
  track_and_trace_code text, -- Code of the carrier; it may be a URL
  track_and_trace_bar_code text, -- Bar code of the carrier
  return_package_number text, -- Number of the package for a return
  current_track_trace_status text, -- Latest known status: of the look-up, or of the track-trace list while the package is listed there
  current_track_trace_exception_level text, -- Exception level, from the same source as the status
  shipping_date timestamp with time zone, -- When it was shipped, read in the client's zone
  number_of_colli integer, -- Packages of the whole shipment
  tracking_number text, -- A number for tracking; the interface does not say whose
  shipment_items jsonb, -- shipmentItems: an array of {shipmentItemId, quantity, sku, lotNumber}, which each package of a shipment repeats; do not add them up: parcel_overview has the contents of packages, shipment_items the lines. Null if the look-up names none
  read_at timestamp with time zone, -- When a look-up last returned the package; null if only the track-trace list has named it
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
  raw jsonb not null, -- The item of the look-up as received; of the track-trace list, if read_at is null
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the look-up of its shipment no longer returns the package
) with (fillfactor=80); -- Packages of shipped shipments, with their latest known status; filled by the jobs pull-parcels and track-trace
create table fulfilment.return_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  sku text, -- Your article number
  quantity integer, -- Number of pieces
  condition text, -- Condition in which it arrived; the interface shows only the value RETURN
  processed_on date, -- Day the warehouse processed it; before 1970 it means none
  processed_in text, -- Warehouse that processed it
  restock_in text, -- Warehouse in which it was restocked; null if it was not
  restock_on timestamp with time zone, -- restockOn, read in the client's zone if it names no zone; before 1970 it means none
  comment text, -- Remark of the warehouse
  redeliver boolean, -- True if it is to be delivered again
  external_order_number text, -- Your order number, from the return item itself
  order_id bigint, -- Order it comes back from
  order_item_id bigint, -- Order line it comes back from
  product_id bigint, -- Id of the article at the service
  return_id bigint, -- Return it arrived with
  return_merchandise_authorization_item_id bigint, -- Line of the return authorization that announced it; null if there is none
  return_reason_id bigint, -- Return reason (service list returnReasons)
  shipment_item_id bigint, -- Shipment line that delivered it
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
) with (fillfactor=90); -- Return lines that a warehouse has processed (v3 returnItem)
create table fulfilment.return_merchandise_authorization_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  return_merchandise_authorization_id bigint, -- Announced return it is a line of
  external_reference text, -- Your number of the line
  sku text, -- Your article number
  quantity integer, -- Number of pieces
  reason_code text, -- Code of the return reason
  metadata jsonb, -- Members that were sent with the line
  shipment_item_id bigint, -- Line of the shipment that comes back
  product_id bigint, -- Id of the article at the service
  return_reason_id bigint, -- Reason (service list returnReasons)
  return_item_id bigint, -- Return item, once the warehouse has processed it
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Lines of announced returns (v3 returnMerchandiseAuthorizationItem)
create table fulfilment.return_merchandise_authorizations (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  external_reference text, -- Your number of the return: reference of its outbox row
  comments text, -- Remarks that were sent with the announcement
  metadata jsonb, -- Members that were sent with the announcement
  status text, -- PENDING is the only value the interface shows
  created_on date, -- Day it was announced
  modified_on date, -- Day the service last changed it
  shipment_id bigint, -- Shipment that comes back
  raw jsonb not null, -- The resource as received, without the resources that came with it
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Announced returns (v3 returnMerchandiseAuthorization) that were pushed from here
create table fulfilment.service_products (
  client text not null default 'default'::text, -- Client key
  sku text not null, -- Article; if is_pattern, a pattern as of LIKE for several articles
  is_pattern boolean not null default false, -- True if sku is a pattern, such as SHIP-%; else it is one article
  created_at timestamp with time zone not null default now(), -- When it was inserted
); -- Articles that are never shipped, such as shipping costs and discounts: insert and delete as you like. Views and functions leave them out of pieces
create table fulfilment.setting_options (
  client text not null, -- Client key
  list text not null, -- mainShippingMethods, shippingMethods, returnShippingMethods, orderTypes, returnReasons, languages, countries or paymentMethods
  id bigint not null, -- Id at the service, unique within the list
  code text, -- What outbox payloads name the entry by
  name text, -- Name for people
  raw jsonb not null, -- The entry as received
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  removed_at timestamp with time zone, -- Since when the list no longer holds it; null while it does
); -- Entries of the service's configuration lists (settings/get). Outbox payloads name them by their codes
create table fulfilment.shipment_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  shipment_id bigint not null, -- Shipment (shipments.id)
  status text, -- Status from then on
  warehouse_code text, -- Warehouse from then on
  source_time timestamp with time zone, -- Time that the service gives for this status; null for a status without a time
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- The first status of each shipment that was read, and a row for each change of status or warehouse. Changes between two readings are not seen
create table fulfilment.shipment_items (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  shipment_id bigint, -- Shipment (shipments.id)
  sku text, -- Your article number
  quantity integer, -- Number of pieces
  lot_number text, -- Lot (batch) of the pieces
  expiration_date date, -- Day before which it is to be used
  serial_numbers text[] not null default '{}'::text[], -- Serial numbers of the pieces
  order_item_id bigint, -- Order line it fulfils
  product_id bigint, -- Id of the article at the service
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
) with (fillfactor=90); -- Lines of shipments (v3 shipmentItem)
create table fulfilment.shipments (
  client text not null, -- Client key
  id bigint not null, -- Id at the service
  status text, -- READY_TO_PICK, READY_TO_SORT, READY_TO_SHIP, SHIPPED or ERROR; another value is kept as received
  ready_to_pick_on timestamp with time zone, -- When it became READY_TO_PICK, read in the client's zone
  ready_to_ship_on timestamp with time zone, -- When it became READY_TO_SHIP, read in the client's zone
  shipped_on timestamp with time zone, -- When the carrier took it, read in the client's zone; before 1970 it means none
  warehouse_code text, -- Warehouse that fulfils it
  return_label text, -- Return label as received; the interface does not show what it holds
  order_id bigint, -- Order (orders.id)
  order_type_id bigint, -- Order type (service list orderTypes)
  shipping_method_id bigint, -- Shipping method; the interface does not show whether it is a main or a nested id
  raw jsonb not null, -- The resource as received, without the resources that came with it
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the service no longer knows it; null while it does
  read_no bigint not null, -- Number of the reading that the row comes from; a larger number is a later reading
) with (fillfactor=90); -- Shipments of the warehouse, one row each (v3 shipment)
create table fulfilment.stock_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  sku text not null, -- Your article number
  stock integer, -- Pieces from then on
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- The first stock of each watched article that was read, and a row for each change
create table fulfilment.stock_levels (
  client text not null, -- Client key
  sku text not null, -- Your article number
  stock integer, -- Pieces; null if the service has not returned any yet
  asked_at timestamp with time zone not null, -- When it was last asked
  changed_at timestamp with time zone not null default now(), -- When stock last changed here
) with (fillfactor=70); -- Stock of the watched articles, as the service last returned it
create table fulfilment.stock_watch (
  client text not null default 'default'::text, -- Client key
  sku text not null, -- Your article number
  created_at timestamp with time zone not null default now(), -- When it was inserted
); -- Articles whose stock the job pull-stock reads: insert and delete as you like
create table fulfilment.track_trace_events (
  id bigint not null generated always as identity, -- Number of the event
  client text not null, -- Client key
  shipment_id bigint not null, -- Shipment (shipments.id)
  package_number text not null default ''::text, -- Number of the package; empty if it has none
  current_track_trace_status integer, -- Status from then on
  current_track_trace_status_date_time timestamp with time zone, -- Time of the status, from the carrier
  current_track_trace_exception_level integer, -- Exception level from then on
  raw jsonb not null, -- The item as received
  seen_at timestamp with time zone not null default now(), -- When it was read
); -- One row for each change of a package's status. Changes between two readings, an hour apart, are not seen
create table fulfilment.track_traces (
  client text not null, -- Client key
  shipment_id bigint not null, -- Shipment (shipments.id)
  package_number text not null default ''::text, -- Number of the package; empty if it has none
  external_order_number text, -- Your order number as the list has it
  shipment_method text, -- Name of the shipping method as the list has it
  current_track_trace_status integer, -- Status; its values are not shown in the interface
  current_track_trace_status_date_time timestamp with time zone, -- Time of the status, read in the client's zone
  current_track_trace_exception_level integer, -- Exception level; its values are not shown in the interface
  raw jsonb not null, -- The item as received
  first_seen_at timestamp with time zone not null default now(), -- When it was first stored here
  changed_at timestamp with time zone not null default now(), -- When its content last changed here
  unlisted_since timestamp with time zone, -- Since when the list no longer has the package; its last status is read for fulfilment.parcels
  missing_since timestamp with time zone, -- Since when a list that was not believed lacks the package; the next list decides. Null otherwise
) with (fillfactor=80); -- Status of packages that are on their way (v2 track-trace item); filled by the job track-trace
create table sync.admin_sessions (
  id text not null,
  ends_at timestamp with time zone not null,
  used_at timestamp with time zone not null default now(),
) with (fillfactor=50); -- 
create table sync.alerts (
  id uuid not null,
  scope text not null,
  code text not null,
  client text,
  subject text not null,
  detail text not null,
  severity text not null,
  text text not null,
  remedy text,
  since timestamp with time zone not null default now(),
  seen_at timestamp with time zone not null default now(),
  began_at timestamp with time zone,
  missing_since timestamp with time zone,
) with (fillfactor=50); -- 
create table sync.api_keys (
  client text not null,
  token text not null,
  key text not null,
  body_hash text not null,
  ids bigint[] not null,
  created_at timestamp with time zone not null default now(),
); -- 
create table sync.audit (
  id bigint not null generated always as identity,
  at timestamp with time zone not null default now(),
  by text not null,
  action text not null,
  client text,
  detail text not null,
  outbox_ids bigint[] not null default '{}'::bigint[],
); -- 
create table sync.awake_clients (
  client text not null,
  awake_until timestamp with time zone not null,
) with (fillfactor=50); -- 
create table sync.carrier_links (
  client text not null,
  shipping_method text not null,
  url text not null,
); -- 
create table sync.clients (
  client text not null,
  identity text not null,
  base_url text not null,
  accepted_at timestamp with time zone not null default now(),
  served_at timestamp with time zone,
  offered_identity text,
  offered_base_url text,
  offered_at timestamp with time zone,
  queue_away_since timestamp with time zone,
  queue_error text,
) with (fillfactor=50); -- 
create table sync.confirmations (
  client text not null,
  stream text not null,
  read_no bigint not null,
  no bigint not null generated always as identity,
  ids bigint[] not null,
); -- 
create table sync.cursors (
  client text not null,
  stream text not null,
  pass text not null,
  query text,
  meaning text not null default 'unknown'::text,
  last_id bigint,
  largest_seen date,
  watermark date,
  completed_at timestamp with time zone,
  updated_at timestamp with time zone not null default now(),
) with (fillfactor=50); -- 
create table sync.deliveries (
  id bigint not null generated always as identity,
  message_id uuid not null default gen_random_uuid(),
  receiver text not null,
  type text not null,
  client text not null,
  turn text not null,
  lane text not null,
  source_id bigint,
  source_key text,
  number text,
  body jsonb,
  happened_at timestamp with time zone not null,
  created_at timestamp with time zone not null default now(),
  status text not null default 'waiting'::text,
  tries integer not null default 0,
  not_before timestamp with time zone,
  next_at timestamp with time zone,
  last_error_code text,
  last_error text,
  finished_at timestamp with time zone,
) with (fillfactor=70); -- 
create table sync.erasures (
  client text not null,
  entity text not null,
  id bigint not null,
  external_order_number text,
  erased_at timestamp with time zone not null default now(),
  erased_by text not null,
); -- 
create table sync.event_checkpoint (
  only_row boolean not null default true,
  seq bigint not null,
) with (fillfactor=50); -- 
create table sync.feed_mark (
  only_row boolean not null default true,
  pruned_until bigint not null default 0,
  unused_from bigint not null default 0,
  unused_until bigint not null default 0,
  numbered pg_snapshot,
  numbered_at timestamp with time zone not null default '-infinity'::timestamp with time zone,
) with (fillfactor=50); -- 
create table sync.findings (
  client text not null,
  stream text not null,
  finding text not null,
  id bigint not null,
  found_at timestamp with time zone not null default now(),
  late_seconds double precision,
  no bigint not null generated always as identity,
); -- 
create table sync.freshness (
  client text not null,
  stream text not null,
  complete_at timestamp with time zone,
  newest_source_at timestamp with time zone,
  usual_fetched double precision,
  loaded_at timestamp with time zone not null default now(),
) with (fillfactor=50); -- 
create table sync.gaps (
  client text not null,
  stream text not null,
  from_at timestamp with time zone not null,
  to_at timestamp with time zone not null,
  noticed_at timestamp with time zone not null default now(),
); -- 
create table sync.installation (
  only_row boolean not null default true,
  id uuid not null default gen_random_uuid(),
); -- 
create table sync.jobs (
  client text not null,
  job text not null,
  stream text,
  next_at timestamp with time zone not null default now(),
  soon_at timestamp with time zone,
  last_started_at timestamp with time zone,
  last_finished_at timestamp with time zone,
  last_success_at timestamp with time zone,
  last_change_at timestamp with time zone,
  last_outcome text,
  last_error text,
  last_code text,
  last_http_status integer,
  last_operation text,
  last_fetched integer not null default 0,
  last_changed integer not null default 0,
  consecutive_failures integer not null default 0,
  failing_since timestamp with time zone,
  failed_alone boolean not null default false,
  uneventful_runs bigint not null default 0,
  skips bigint not null default 0,
  last_skip_at timestamp with time zone,
  last_skip_reason text,
  warnings text[] not null default '{}'::text[],
  last_push_at timestamp with time zone,
) with (fillfactor=50); -- 
create table sync.leases (
  client text not null,
  name text not null,
  key bigint not null default 1,
  holder text,
  expires_at timestamp with time zone,
) with (fillfactor=50); -- 
create table sync.list_lags (
  client text not null,
  longest_ms bigint not null,
  longest_at timestamp with time zone not null,
  exceeded_at timestamp with time zone,
); -- 
create table sync.locks (
  name text not null,
); -- 
create table sync.migration_lock (

); -- Has no columns. A migration locks it, so that no two run at once
create table sync.migrations (
  name text not null,
  applied_by text not null,
  applied_at timestamp with time zone not null default now(),
); -- 
create table sync.new_changes (
  xid xid8 not null default pg_current_xact_id(),
  place bigint not null generated always as identity,
  client text not null,
  entity text not null,
  id bigint,
  key text,
  operation text not null,
  changed_columns text[],
  changed_at timestamp with time zone not null default now(),
  is_rescan boolean not null default false,
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000); -- 
create table sync.outbox_attempts (
  id bigint not null generated always as identity,
  outbox_id bigint not null,
  step text not null,
  by text not null,
  claim_no bigint,
  at timestamp with time zone not null default now(),
  duration_ms integer,
  became text not null,
  error_code text,
  http_status integer,
  operation text,
  error text,
); -- 
create table sync.outbox_kinds (
  kind text not null,
  schema jsonb not null,
  lingers boolean not null,
  overtaken_by text[] not null,
  awaits_products boolean not null,
  document jsonb,
); -- 
create table sync.outbox_targets (
  outbox_id bigint not null,
  target_id bigint not null,
  present text[] not null default '{}'::text[],
  is_open boolean not null default true,
); -- 
create table sync.outbox_waits (
  outbox_id bigint not null,
  waits_for bigint not null,
); -- 
create table sync.pauses (
  client text not null default ''::text,
  job text not null,
  since timestamp with time zone not null default now(),
  by text not null,
); -- 
create table sync.proven_kinds (
  client text not null,
  kind text not null,
  method text not null,
  path text not null,
); -- 
create table sync.push_database (
  only_row boolean not null default true,
  mark text not null,
  accepted_as text not null,
  accepted_at timestamp with time zone not null default now(),
  accepted_by text not null,
  changed_at timestamp with time zone,
  found_mark text,
  former_rows_until bigint,
  seen_at timestamp with time zone,
  failover_expected_until timestamp with time zone,
); -- 
create table sync.push_places (
  place text not null,
  asked_since timestamp with time zone,
  asked_at timestamp with time zone,
  accepted_at timestamp with time zone,
  accepted_by text,
) with (fillfactor=50); -- 
create table sync.push_workers (
  worker text not null,
  seen_at timestamp with time zone not null default now(),
  confirmed_mark text,
) with (fillfactor=50); -- 
create table sync.quarantine (
  id bigint not null generated always as identity,
  client text not null,
  stream text not null,
  resource_key text not null,
  resource_id bigint,
  order_id bigint,
  shipment_id bigint,
  order_item_id bigint,
  shipment_item_id bigint,
  return_merchandise_authorization_item_id bigint,
  external_order_number text,
  member_path text not null,
  reason text not null,
  document text not null,
  run_worker text not null,
  run_job text,
  run_lease_key bigint,
  read_no bigint not null default 0,
  times integer not null default 1,
  first_seen_at timestamp with time zone not null default now(),
  last_seen_at timestamp with time zone not null default now(),
); -- 
create table sync.receivers (
  name text not null,
  kind text not null,
  types text[],
  clients text[],
  started_at timestamp with time zone not null default now(),
  seen_at timestamp with time zone not null default now(),
  missed_at timestamp with time zone,
  places integer not null default 8,
  failures integer not null default 0,
  away_since timestamp with time zone,
  next_at timestamp with time zone,
  last_error text,
) with (fillfactor=50); -- 
create table sync.request_budgets (
  identity text not null,
  next_at timestamp with time zone not null,
  taken_at timestamp with time zone not null,
) with (fillfactor=50); -- 
create table sync.rescan_pages (
  rescan_id bigint not null,
  no bigint not null generated always as identity,
  ids bigint[] not null,
); -- 
create table sync.rescanned_changes (
  first_seq bigint not null,
  last_seq bigint not null,
); -- 
create table sync.rescans (
  id bigint not null generated always as identity,
  client text not null,
  stream text not null,
  kind text not null,
  from_day date,
  to_day date,
  background boolean not null default false,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  outcome text,
  error text,
  windows jsonb,
  read_no bigint,
  step integer not null default 0,
  query text,
  meaning text not null default 'unknown'::text,
  last_id bigint,
  full_list boolean not null default true,
  pages integer not null default 0,
  fetched integer not null default 0,
  expected integer,
  missing integer not null default 0,
  stale integer not null default 0,
  extra integer not null default 0,
) with (fillfactor=70); -- 
create table sync.runs (
  id bigint not null generated always as identity,
  client text not null,
  job text not null,
  trigger text not null,
  worker text not null,
  lease_key bigint not null,
  status text not null,
  started_at timestamp with time zone not null,
  finished_at timestamp with time zone,
  pages integer not null default 0,
  fetched integer not null default 0,
  created integer not null default 0,
  updated integer not null default 0,
  removed integer not null default 0,
  unchanged integer not null default 0,
  stale integer not null default 0,
  quarantined integer not null default 0,
  error_code text,
  http_status integer,
  operation text,
  error text,
  warnings text[] not null default '{}'::text[],
) with (fillfactor=70); -- 
create table sync.schema_parts (
  part text not null,
); -- 
create table sync.service_health (
  client text not null,
  scope text not null,
  worker text not null,
  code text not null,
  reason text not null,
  error_code text not null,
  http_status integer,
  operation text,
  failures integer not null,
  send_window integer,
  since timestamp with time zone not null,
  next_at timestamp with time zone not null,
  void_at timestamp with time zone not null,
) with (fillfactor=50); -- 
create table sync.service_products (
  client text not null,
  sku text not null,
  is_pattern boolean not null,
); -- 
create table sync.turns (
  name text not null,
  scope text not null,
  client text not null,
  next_at timestamp with time zone not null,
  taken_at timestamp with time zone not null,
  finished_at timestamp with time zone,
  taken bigint not null default 1,
  spent bigint not null default 0,
) with (fillfactor=50); -- 
create table sync.waiting_reads (
  client text not null,
  resource text not null,
  id bigint not null,
  reason text not null,
  words text,
  next_at timestamp with time zone not null,
  tries integer not null default 0,
  asked_no bigint not null default 0,
  since timestamp with time zone not null default now(),
) with (fillfactor=70); -- 
create table sync.watched_articles (
  client text not null,
  sku text not null,
); -- 

alter table fulfilment.carrier_links add constraint carrier_links_pkey PRIMARY KEY (client, shipping_method);
alter table fulfilment.carrier_links add constraint carrier_links_placeholders CHECK ((regexp_replace(url, '\{(code|barcode|package|postcode|country)\}'::text, ''::text, 'g'::text) !~ '[{}]'::text));
alter table fulfilment.carrier_links add constraint carrier_links_shipping_method_check CHECK ((shipping_method <> ''::text));
alter table fulfilment.carrier_links add constraint carrier_links_url_check CHECK ((url ~ '^https?://[^/]'::text));
alter table fulfilment.changes add constraint changes_check CHECK (((id IS NOT NULL) OR (key IS NOT NULL)));
alter table fulfilment.changes add constraint changes_check1 CHECK (((operation = 'updated'::text) = (changed_columns IS NOT NULL)));
alter table fulfilment.changes add constraint changes_operation_check CHECK ((operation = ANY (ARRAY['created'::text, 'updated'::text, 'unlisted'::text, 'removed'::text])));
alter table fulfilment.changes add constraint changes_pkey PRIMARY KEY (seq);
alter table fulfilment.consumers add constraint consumers_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64)));
alter table fulfilment.consumers add constraint consumers_pkey PRIMARY KEY (name);
alter table fulfilment.consumers add constraint consumers_seq_check CHECK ((seq >= 0));
alter table fulfilment.documents add constraint documents_kind_check CHECK ((kind = ANY (ARRAY['return_label'::text, 'order_attachment'::text])));
alter table fulfilment.documents add constraint documents_pkey PRIMARY KEY (id);
alter table fulfilment.documents add constraint documents_state_check CHECK ((state = ANY (ARRAY['stored'::text, 'sent'::text])));
alter table fulfilment.inbound_events add constraint inbound_events_pkey PRIMARY KEY (id);
alter table fulfilment.inbound_items add constraint inbound_items_client_inbound_id_fkey FOREIGN KEY (client, inbound_id) REFERENCES fulfilment.inbounds(client, id);
alter table fulfilment.inbound_items add constraint inbound_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.inbound_packing_slip_events add constraint inbound_packing_slip_events_pkey PRIMARY KEY (id);
alter table fulfilment.inbound_packing_slip_items add constraint inbound_packing_slip_items_client_inbound_packing_slip_id_fkey FOREIGN KEY (client, inbound_packing_slip_id) REFERENCES fulfilment.inbound_packing_slips(client, id);
alter table fulfilment.inbound_packing_slip_items add constraint inbound_packing_slip_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.inbound_packing_slips add constraint inbound_packing_slips_pkey PRIMARY KEY (client, id);
alter table fulfilment.inbounds add constraint inbounds_pkey PRIMARY KEY (client, id);
alter table fulfilment.main_shipping_method_warehouses add constraint main_shipping_method_warehouses_pkey PRIMARY KEY (client, main_shipping_method_id, shipping_method_id, warehouse);
alter table fulfilment.order_addresses add constraint order_addresses_client_order_id_fkey FOREIGN KEY (client, order_id) REFERENCES fulfilment.orders(client, id);
alter table fulfilment.order_addresses add constraint order_addresses_pkey PRIMARY KEY (client, order_id, role);
alter table fulfilment.order_addresses add constraint order_addresses_role_check CHECK ((role = ANY (ARRAY['delivery'::text, 'billing'::text])));
alter table fulfilment.order_items add constraint order_items_client_order_id_fkey FOREIGN KEY (client, order_id) REFERENCES fulfilment.orders(client, id);
alter table fulfilment.order_items add constraint order_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.order_line_events add constraint order_line_events_pkey PRIMARY KEY (id);
alter table fulfilment.orders add constraint orders_pkey PRIMARY KEY (client, id);
alter table fulfilment.outbox add constraint outbox_attempts CHECK (((attempts >= 0) AND (tries >= 0)));
alter table fulfilment.outbox add constraint outbox_claimed CHECK (((status <> 'sending'::text) OR (claim_no IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_dead CHECK (((status <> 'dead'::text) OR (last_error IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_done CHECK (((status <> 'done'::text) OR (result IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_finished CHECK (((status = ANY (ARRAY['done'::text, 'dead'::text, 'cancelled'::text])) = (finished_at IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_not_before CHECK (((not_before >= (created_at - '100 years'::interval)) AND (not_before <= (created_at + '100 years'::interval))));
alter table fulfilment.outbox add constraint outbox_not_due CHECK (((status = ANY (ARRAY['pending'::text, 'unknown'::text])) OR (next_attempt_at IS NULL)));
alter table fulfilment.outbox add constraint outbox_notify TRIGGER DEFERRABLE INITIALLY DEFERRED;
alter table fulfilment.outbox add constraint outbox_pending CHECK (((status <> 'pending'::text) OR (next_attempt_at IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_pkey PRIMARY KEY (id);
alter table fulfilment.outbox add constraint outbox_refused_as_check CHECK ((refused_as = ANY (ARRAY['taken'::text, 'perhaps taken'::text])));
alter table fulfilment.outbox add constraint outbox_sending CHECK (((status = 'sending'::text) = (lease_until IS NOT NULL)));
alter table fulfilment.outbox add constraint outbox_sent CHECK (((sent_at IS NULL) OR (status = 'sending'::text)));
alter table fulfilment.outbox add constraint outbox_status CHECK ((status = ANY (ARRAY['pending'::text, 'sending'::text, 'done'::text, 'dead'::text, 'unknown'::text, 'cancelled'::text])));
alter table fulfilment.outbox add constraint outbox_unknown CHECK (((status <> 'unknown'::text) OR (written_at IS NOT NULL) OR (refusal IS NOT NULL)));
alter table fulfilment.parcels add constraint parcels_pkey PRIMARY KEY (client, shipment_id, package_number);
alter table fulfilment.return_items add constraint return_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.return_merchandise_authorization_items add constraint return_merchandise_authorizat_client_return_merchandise_au_fkey FOREIGN KEY (client, return_merchandise_authorization_id) REFERENCES fulfilment.return_merchandise_authorizations(client, id);
alter table fulfilment.return_merchandise_authorization_items add constraint return_merchandise_authorization_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.return_merchandise_authorizations add constraint return_merchandise_authorizations_pkey PRIMARY KEY (client, id);
alter table fulfilment.service_products add constraint service_products_pattern CHECK (((NOT is_pattern) OR (sku !~ '(^|[^\\])(\\\\)*\\$'::text)));
alter table fulfilment.service_products add constraint service_products_pkey PRIMARY KEY (client, sku);
alter table fulfilment.service_products add constraint service_products_sku_check CHECK ((sku <> ''::text));
alter table fulfilment.setting_options add constraint setting_options_pkey PRIMARY KEY (client, list, id);
alter table fulfilment.shipment_events add constraint shipment_events_pkey PRIMARY KEY (id);
alter table fulfilment.shipment_items add constraint shipment_items_client_shipment_id_fkey FOREIGN KEY (client, shipment_id) REFERENCES fulfilment.shipments(client, id);
alter table fulfilment.shipment_items add constraint shipment_items_pkey PRIMARY KEY (client, id);
alter table fulfilment.shipments add constraint shipments_pkey PRIMARY KEY (client, id);
alter table fulfilment.stock_events add constraint stock_events_pkey PRIMARY KEY (id);
alter table fulfilment.stock_levels add constraint stock_levels_pkey PRIMARY KEY (client, sku);
alter table fulfilment.stock_watch add constraint stock_watch_pkey PRIMARY KEY (client, sku);
alter table fulfilment.stock_watch add constraint stock_watch_sku_check CHECK ((sku <> ''::text));
alter table fulfilment.track_trace_events add constraint track_trace_events_pkey PRIMARY KEY (id);
alter table fulfilment.track_traces add constraint track_traces_pkey PRIMARY KEY (client, shipment_id, package_number);
alter table sync.admin_sessions add constraint admin_sessions_pkey PRIMARY KEY (id);
alter table sync.alerts add constraint alerts_pkey PRIMARY KEY (id);
alter table sync.alerts add constraint alerts_scope_code_subject_detail_key UNIQUE (scope, code, subject, detail);
alter table sync.alerts add constraint alerts_severity_check CHECK ((severity = ANY (ARRAY['bad'::text, 'warn'::text])));
alter table sync.api_keys add constraint api_keys_pkey PRIMARY KEY (client, token, key);
alter table sync.audit add constraint audit_pkey PRIMARY KEY (id);
alter table sync.awake_clients add constraint awake_clients_pkey PRIMARY KEY (client);
alter table sync.carrier_links add constraint carrier_links_pkey PRIMARY KEY (client, shipping_method);
alter table sync.clients add constraint clients_check CHECK (((queue_away_since IS NULL) = (queue_error IS NULL)));
alter table sync.clients add constraint clients_check1 CHECK ((((offered_identity IS NULL) = (offered_at IS NULL)) AND ((offered_identity IS NULL) = (offered_base_url IS NULL))));
alter table sync.clients add constraint clients_pkey PRIMARY KEY (client);
alter table sync.confirmations add constraint confirmations_pkey PRIMARY KEY (client, stream, read_no, no);
alter table sync.cursors add constraint cursors_meaning_check CHECK ((meaning = ANY (ARRAY['unknown'::text, 'id'::text, 'offset'::text, 'opaque'::text])));
alter table sync.cursors add constraint cursors_pkey PRIMARY KEY (client, stream, pass);
alter table sync.deliveries add constraint deliveries_check CHECK (((status = 'waiting'::text) OR (next_at IS NULL)));
alter table sync.deliveries add constraint deliveries_check1 CHECK (((status = 'waiting'::text) = (finished_at IS NULL)));
alter table sync.deliveries add constraint deliveries_check2 CHECK (((last_error IS NULL) = (last_error_code IS NULL)));
alter table sync.deliveries add constraint deliveries_pkey PRIMARY KEY (id);
alter table sync.deliveries add constraint deliveries_receiver_fkey FOREIGN KEY (receiver) REFERENCES sync.receivers(name) ON DELETE CASCADE;
alter table sync.deliveries add constraint deliveries_status_check CHECK ((status = ANY (ARRAY['waiting'::text, 'delivered'::text, 'dead'::text])));
alter table sync.deliveries add constraint deliveries_tries_check CHECK ((tries >= 0));
alter table sync.erasures add constraint erasures_entity_check CHECK ((entity = ANY (ARRAY['orders'::text, 'outbox'::text, 'return_items'::text, 'return_merchandise_authorizations'::text, 'shipments'::text])));
alter table sync.erasures add constraint erasures_pkey PRIMARY KEY (client, entity, id);
alter table sync.event_checkpoint add constraint event_checkpoint_only_row_check CHECK (only_row);
alter table sync.event_checkpoint add constraint event_checkpoint_pkey PRIMARY KEY (only_row);
alter table sync.feed_mark add constraint feed_mark_only_row_check CHECK (only_row);
alter table sync.feed_mark add constraint feed_mark_pkey PRIMARY KEY (only_row);
alter table sync.findings add constraint findings_finding_check CHECK ((finding = ANY (ARRAY['missing'::text, 'stale'::text, 'extra'::text])));
alter table sync.findings add constraint findings_pkey PRIMARY KEY (client, stream, found_at, no);
alter table sync.freshness add constraint freshness_pkey PRIMARY KEY (client, stream);
alter table sync.gaps add constraint gaps_pkey PRIMARY KEY (client, stream, from_at);
alter table sync.installation add constraint installation_only_row_check CHECK (only_row);
alter table sync.installation add constraint installation_pkey PRIMARY KEY (only_row);
alter table sync.jobs add constraint jobs_check CHECK (((last_error IS NULL) = (last_code IS NULL)));
alter table sync.jobs add constraint jobs_pkey PRIMARY KEY (client, job);
alter table sync.leases add constraint leases_check CHECK (((holder IS NULL) = (expires_at IS NULL)));
alter table sync.leases add constraint leases_pkey PRIMARY KEY (client, name);
alter table sync.list_lags add constraint list_lags_pkey PRIMARY KEY (client);
alter table sync.locks add constraint locks_pkey PRIMARY KEY (name);
alter table sync.migrations add constraint migrations_pkey PRIMARY KEY (name);
alter table sync.new_changes add constraint new_changes_pkey PRIMARY KEY (xid, place);
alter table sync.outbox_attempts add constraint outbox_attempts_outbox_id_fkey FOREIGN KEY (outbox_id) REFERENCES fulfilment.outbox(id) ON DELETE CASCADE;
alter table sync.outbox_attempts add constraint outbox_attempts_pkey PRIMARY KEY (id);
alter table sync.outbox_attempts add constraint outbox_attempts_step_check CHECK ((step = ANY (ARRAY['sent'::text, 'checked'::text, 'looked up'::text, 'taken over'::text, 'retried'::text, 'marked done'::text, 'replaced'::text, 'cancelled'::text])));
alter table sync.outbox_kinds add constraint outbox_kinds_pkey PRIMARY KEY (kind);
alter table sync.outbox_targets add constraint outbox_targets_outbox_id_fkey FOREIGN KEY (outbox_id) REFERENCES fulfilment.outbox(id) ON DELETE CASCADE;
alter table sync.outbox_targets add constraint outbox_targets_pkey PRIMARY KEY (outbox_id);
alter table sync.outbox_waits add constraint outbox_waits_outbox_id_fkey FOREIGN KEY (outbox_id) REFERENCES fulfilment.outbox(id) ON DELETE CASCADE;
alter table sync.outbox_waits add constraint outbox_waits_pkey PRIMARY KEY (outbox_id);
alter table sync.pauses add constraint pauses_pkey PRIMARY KEY (client, job);
alter table sync.proven_kinds add constraint proven_kinds_pkey PRIMARY KEY (client, kind, method, path);
alter table sync.push_database add constraint push_database_accepted_as_check CHECK ((accepted_as = ANY (ARRAY['first'::text, 'failover'::text, 'moved'::text, 'restored'::text, 'copy'::text])));
alter table sync.push_database add constraint push_database_only_row_check CHECK (only_row);
alter table sync.push_database add constraint push_database_pkey PRIMARY KEY (only_row);
alter table sync.push_places add constraint push_places_accepted CHECK (((accepted_at IS NULL) = (accepted_by IS NULL)));
alter table sync.push_places add constraint push_places_pkey PRIMARY KEY (place);
alter table sync.push_workers add constraint push_workers_pkey PRIMARY KEY (worker);
alter table sync.quarantine add constraint quarantine_client_stream_resource_key_key UNIQUE (client, stream, resource_key);
alter table sync.quarantine add constraint quarantine_pkey PRIMARY KEY (id);
alter table sync.receivers add constraint receivers_check CHECK (((away_since IS NULL) = (next_at IS NULL)));
alter table sync.receivers add constraint receivers_failures_check CHECK ((failures >= 0));
alter table sync.receivers add constraint receivers_kind_check CHECK ((kind = ANY (ARRAY['event'::text, 'alert'::text])));
alter table sync.receivers add constraint receivers_pkey PRIMARY KEY (name);
alter table sync.receivers add constraint receivers_places_check CHECK ((places > 0));
alter table sync.request_budgets add constraint request_budgets_pkey PRIMARY KEY (identity);
alter table sync.rescan_pages add constraint rescan_pages_pkey PRIMARY KEY (rescan_id, no);
alter table sync.rescan_pages add constraint rescan_pages_rescan_id_fkey FOREIGN KEY (rescan_id) REFERENCES sync.rescans(id) ON DELETE CASCADE;
alter table sync.rescanned_changes add constraint rescanned_changes_pkey PRIMARY KEY (first_seq);
alter table sync.rescans add constraint rescans_check CHECK (((finished_at IS NULL) = (outcome IS NULL)));
alter table sync.rescans add constraint rescans_check1 CHECK (((NOT (outcome IS DISTINCT FROM 'failed'::text)) = (error IS NOT NULL)));
alter table sync.rescans add constraint rescans_kind_check CHECK ((kind = ANY (ARRAY['reconcile'::text, 'backfill'::text])));
alter table sync.rescans add constraint rescans_meaning_check CHECK ((meaning = ANY (ARRAY['unknown'::text, 'id'::text, 'offset'::text, 'opaque'::text])));
alter table sync.rescans add constraint rescans_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'failed'::text])));
alter table sync.rescans add constraint rescans_pkey PRIMARY KEY (id);
alter table sync.runs add constraint runs_check CHECK (((status = 'running'::text) = (finished_at IS NULL)));
alter table sync.runs add constraint runs_check1 CHECK (((status = 'failed'::text) = (error IS NOT NULL)));
alter table sync.runs add constraint runs_pkey PRIMARY KEY (id);
alter table sync.runs add constraint runs_status_check CHECK ((status = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'stopped'::text, 'abandoned'::text])));
alter table sync.runs add constraint runs_trigger_check CHECK ((trigger = ANY (ARRAY['schedule'::text, 'manual'::text])));
alter table sync.schema_parts add constraint schema_parts_pkey PRIMARY KEY (part);
alter table sync.service_health add constraint service_health_pkey PRIMARY KEY (client, scope, worker);
alter table sync.service_products add constraint service_products_pkey PRIMARY KEY (client, sku);
alter table sync.turns add constraint turns_pkey PRIMARY KEY (name, scope);
alter table sync.waiting_reads add constraint waiting_reads_pkey PRIMARY KEY (client, resource, id);
alter table sync.waiting_reads add constraint waiting_reads_tries_check CHECK ((tries >= 0));
alter table sync.watched_articles add constraint watched_articles_pkey PRIMARY KEY (client, sku);

CREATE INDEX api_keys_by_time ON sync.api_keys USING btree (created_at);
CREATE INDEX audit_by_time ON sync.audit USING btree (at);
CREATE INDEX deliveries_again ON sync.deliveries USING btree (receiver, turn, next_at, id) WHERE ((next_at IS NOT NULL) AND (tries > 0));
CREATE INDEX deliveries_by_lane ON sync.deliveries USING btree (receiver, lane, id) WHERE (status = 'waiting'::text);
CREATE INDEX deliveries_by_number ON sync.deliveries USING btree (receiver, client, number, id) WHERE ((status = 'waiting'::text) AND (number IS NOT NULL));
CREATE INDEX deliveries_by_source ON sync.deliveries USING btree (client, type, source_id);
CREATE INDEX deliveries_dead ON sync.deliveries USING btree (receiver, id) WHERE (status = 'dead'::text);
CREATE INDEX deliveries_finished ON sync.deliveries USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX deliveries_new ON sync.deliveries USING btree (receiver, turn, next_at, id) WHERE ((next_at IS NOT NULL) AND (tries = 0));
CREATE INDEX documents_by_reference ON fulfilment.documents USING btree (client, reference);
CREATE INDEX erasures_by_number ON sync.erasures USING btree (client, external_order_number);
CREATE INDEX inbound_events_by_inbound ON fulfilment.inbound_events USING btree (client, inbound_id, id);
CREATE INDEX inbound_events_by_time ON fulfilment.inbound_events USING btree (seen_at);
CREATE INDEX inbound_items_by_inbound ON fulfilment.inbound_items USING btree (client, inbound_id);
CREATE INDEX inbound_packing_slip_events_by_slip ON fulfilment.inbound_packing_slip_events USING btree (client, inbound_packing_slip_id, id);
CREATE INDEX inbound_packing_slip_events_by_time ON fulfilment.inbound_packing_slip_events USING btree (seen_at);
CREATE INDEX inbound_packing_slip_items_by_slip ON fulfilment.inbound_packing_slip_items USING btree (client, inbound_packing_slip_id);
CREATE INDEX inbound_packing_slips_by_reference ON fulfilment.inbound_packing_slips USING btree (client, reference);
CREATE INDEX inbound_packing_slips_open ON fulfilment.inbound_packing_slips USING btree (client, id) WHERE (status IS DISTINCT FROM 'COMPLETED'::text);
CREATE INDEX inbounds_by_slip ON fulfilment.inbounds USING btree (inbound_packing_slip_id, client) WHERE (inbound_packing_slip_id IS NOT NULL);
CREATE INDEX inbounds_open ON fulfilment.inbounds USING btree (client, id) WHERE (status IS DISTINCT FROM 'COMPLETED'::text);
CREATE INDEX order_items_by_order ON fulfilment.order_items USING btree (client, order_id);
CREATE INDEX order_line_events_by_order ON fulfilment.order_line_events USING btree (client, order_id, id);
CREATE INDEX order_line_events_by_time ON fulfilment.order_line_events USING btree (seen_at);
CREATE INDEX orders_by_day ON fulfilment.orders USING btree (client, ordered_on) WHERE (ordered_on IS NOT NULL);
CREATE INDEX orders_by_email ON fulfilment.orders USING btree (lower(email)) WHERE (email IS NOT NULL);
CREATE INDEX orders_by_number ON fulfilment.orders USING btree (external_order_number, client) WHERE (external_order_number IS NOT NULL);
CREATE INDEX orders_by_number_in_any_case ON fulfilment.orders USING btree (lower(external_order_number)) WHERE (external_order_number IS NOT NULL);
CREATE INDEX outbox_accepted ON fulfilment.outbox USING btree (client, finished_at) WHERE ((status = 'done'::text) AND (kind = 'order.create'::text));
CREATE INDEX outbox_attempts_by_row ON sync.outbox_attempts USING btree (outbox_id, id);
CREATE INDEX outbox_by_end ON fulfilment.outbox USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX outbox_by_reference ON fulfilment.outbox USING btree (client, reference, id);
CREATE INDEX outbox_by_shipment ON fulfilment.outbox USING btree (((payload ->> 'shipmentId'::text)), client) WHERE (family = 'return'::text);
CREATE INDEX outbox_done ON fulfilment.outbox USING btree (client, id) WHERE (status = ANY (ARRAY['done'::text, 'cancelled'::text]));
CREATE INDEX outbox_due ON fulfilment.outbox USING btree (((next_attempt_at - '1970-01-01 00:00:00+00'::timestamp with time zone))) WHERE (status = ANY (ARRAY['pending'::text, 'unknown'::text]));
CREATE INDEX outbox_due_by_kind ON fulfilment.outbox USING btree (client, kind, next_attempt_at, id) WHERE (status = 'pending'::text);
CREATE INDEX outbox_in_flight ON fulfilment.outbox USING btree (client, family, reference, id) WHERE (status = ANY (ARRAY['sending'::text, 'unknown'::text]));
CREATE INDEX outbox_lanes ON fulfilment.outbox USING btree (client, family, reference, id) WHERE (status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text, 'dead'::text]));
CREATE INDEX outbox_stuck ON fulfilment.outbox USING btree (id) WHERE (status = ANY (ARRAY['dead'::text, 'unknown'::text]));
CREATE INDEX outbox_targets_by_order ON sync.outbox_targets USING btree (target_id);
CREATE INDEX outbox_to_settle ON fulfilment.outbox USING btree (client, next_attempt_at, id) WHERE (status = 'unknown'::text);
CREATE INDEX outbox_waits_by_first ON sync.outbox_waits USING btree (waits_for);
CREATE INDEX outbox_written ON fulfilment.outbox USING btree (client, family, reference, written_at) WHERE (written_at IS NOT NULL);
CREATE INDEX parcels_by_code ON fulfilment.parcels USING btree (track_and_trace_code) WHERE (track_and_trace_code IS NOT NULL);
CREATE INDEX parcels_by_package ON fulfilment.parcels USING btree (package_number) WHERE (package_number <> ''::text);
CREATE INDEX quarantine_by_time ON sync.quarantine USING btree (last_seen_at);
CREATE INDEX rescans_by_end ON sync.rescans USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX rescans_by_stream ON sync.rescans USING btree (client, stream, kind, id DESC);
CREATE INDEX return_items_by_day ON fulfilment.return_items USING btree (client, processed_on) WHERE (processed_on IS NOT NULL);
CREATE INDEX return_items_by_line ON fulfilment.return_items USING btree (order_item_id, client) WHERE ((order_id IS NULL) AND (order_item_id IS NOT NULL));
CREATE INDEX return_items_by_order ON fulfilment.return_items USING btree (client, order_id);
CREATE INDEX return_items_by_shipment_line ON fulfilment.return_items USING btree (shipment_item_id, client) WHERE ((order_id IS NULL) AND (shipment_item_id IS NOT NULL));
CREATE INDEX return_items_to_restock ON fulfilment.return_items USING btree (client, processed_on) WHERE (sync.real_time(restock_on) IS NULL);
CREATE INDEX return_merchandise_authorization_items_by_parent ON fulfilment.return_merchandise_authorization_items USING btree (client, return_merchandise_authorization_id);
CREATE INDEX return_merchandise_authorizations_by_reference ON fulfilment.return_merchandise_authorizations USING btree (external_reference, client) WHERE (external_reference IS NOT NULL);
CREATE INDEX return_merchandise_authorizations_by_shipment ON fulfilment.return_merchandise_authorizations USING btree (client, shipment_id) WHERE (shipment_id IS NOT NULL);
CREATE INDEX runs_by_end ON sync.runs USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX runs_by_job ON sync.runs USING btree (client, job, id DESC);
CREATE INDEX runs_running ON sync.runs USING btree (client, job) WHERE (status = 'running'::text);
CREATE INDEX runs_troubled ON sync.runs USING btree (id) WHERE (status = ANY (ARRAY['failed'::text, 'abandoned'::text, 'stopped'::text]));
CREATE INDEX shipment_events_by_shipment ON fulfilment.shipment_events USING btree (client, shipment_id, id);
CREATE INDEX shipment_events_by_time ON fulfilment.shipment_events USING btree (seen_at);
CREATE INDEX shipment_items_by_shipment ON fulfilment.shipment_items USING btree (client, shipment_id);
CREATE INDEX shipments_by_arrival ON fulfilment.shipments USING brin (first_seen_at);
CREATE INDEX shipments_by_order ON fulfilment.shipments USING btree (order_id, client) WHERE (order_id IS NOT NULL);
CREATE INDEX shipments_open ON fulfilment.shipments USING btree (client, id) WHERE (status IS DISTINCT FROM 'SHIPPED'::text);
CREATE INDEX stock_events_by_sku ON fulfilment.stock_events USING btree (client, sku, id);
CREATE INDEX stock_events_by_time ON fulfilment.stock_events USING btree (seen_at);
CREATE INDEX track_trace_events_by_package ON fulfilment.track_trace_events USING btree (client, shipment_id, package_number, id);
CREATE INDEX track_trace_events_by_time ON fulfilment.track_trace_events USING btree (seen_at);
CREATE INDEX track_traces_listed ON fulfilment.track_traces USING btree (client) WHERE (unlisted_since IS NULL);
CREATE INDEX waiting_reads_by_since ON sync.waiting_reads USING btree (since);
CREATE INDEX waiting_reads_due ON sync.waiting_reads USING btree (client, resource, next_at);
CREATE UNIQUE INDEX outbox_sending ON fulfilment.outbox USING btree (client, family, reference) WHERE (status = 'sending'::text);
CREATE UNIQUE INDEX rescans_open ON sync.rescans USING btree (client, stream, kind, background, COALESCE(from_day, '-infinity'::date), COALESCE(to_day, 'infinity'::date)) WHERE (finished_at IS NULL);
CREATE UNIQUE INDEX runs_by_lease ON sync.runs USING btree (client, job, lease_key);

create view fulfilment.backorders as -- Lines with pieces that are on no shipment, although the order is not on hold, is due, and was placed before today or has a shipment
 SELECT l.client,
    l.external_order_number,
    l.order_id,
    l.order_item_id,
    l.sku,
    l.quantity,
    l.shipped,
    l.in_warehouse,
    l.missing,
    sync.real_day(o.ordered_on) AS ordered_on,
    t.stock
   FROM ((fulfilment.orders o
     JOIN fulfilment.order_lines l ON (((l.client = o.client) AND (l.order_id = o.id))))
     LEFT JOIN fulfilment.stock_levels t ON (((t.client = l.client) AND (t.sku = l.sku))))
  WHERE ((l.missing > 0) AND (o.unlisted_since IS NULL) AND (o.on_hold IS NOT TRUE) AND ((o.preferred_shipping_date IS NULL) OR (o.preferred_shipping_date <= CURRENT_DATE)) AND ((COALESCE(sync.real_day(o.ordered_on), (o.first_seen_at)::date) < CURRENT_DATE) OR (EXISTS ( SELECT
           FROM fulfilment.shipments s
          WHERE ((s.client = o.client) AND (s.order_id = o.id) AND (s.unlisted_since IS NULL))))));
create view fulfilment.erased_orders as -- Orders whose personal data was erased here; erase your own copies too
 SELECT client,
    id AS order_id,
    external_order_number,
    erased_at
   FROM sync.erasures
  WHERE (entity = 'orders'::text);
create view fulfilment.open_inbound_expectations as -- Announced goods that have not arrived completely
 SELECT s.client,
    s.id AS inbound_packing_slip_id,
    s.reference,
    s.expected_in,
    s.expected_on,
    s.status,
    sync.real_time(s.received_on) AS received_on,
    i.id AS inbound_packing_slip_item_id,
    i.sku,
    i.quantity,
    i.received,
    GREATEST(((COALESCE(i.quantity, 0))::bigint - COALESCE(i.received, 0)), (0)::bigint) AS outstanding,
    s.inbound_id
   FROM (fulfilment.inbound_packing_slips s
     JOIN fulfilment.inbound_packing_slip_items i ON (((i.client = s.client) AND (i.inbound_packing_slip_id = s.id))))
  WHERE ((s.status IS DISTINCT FROM 'COMPLETED'::text) AND (s.unlisted_since IS NULL) AND (i.unlisted_since IS NULL));
create view fulfilment.order_lines as -- Lines of orders, with the pieces that were shipped, are in the warehouse, are to come, and came back. ordered = cancelled + shipped + to_come, and to_come = in_warehouse + missing. Name orders: it computes each order whole
 SELECT o.client,
    o.external_order_number,
    o.id AS order_id,
    l.id AS order_item_id,
    l.sku,
    l.name,
    l.is_service,
    l.price,
    l.vat,
    l.metadata,
    l.ordered,
    ((l.ordered)::bigint - l.wanted) AS cancelled,
    l.quantity,
    l.shipped,
    l.over_shipped,
    (l.moved - l.shipped) AS in_warehouse,
        CASE
            WHEN l.is_service THEN (0)::bigint
            ELSE (l.wanted - l.moved)
        END AS missing,
        CASE
            WHEN l.is_service THEN (0)::bigint
            ELSE (l.wanted - l.shipped)
        END AS to_come,
    l.returned,
    l.first_shipped_on,
    l.last_shipped_on,
    o.unlisted_since
   FROM (fulfilment.orders o
     CROSS JOIN LATERAL ( WITH lines AS (
                 SELECT i.client,
                    i.id,
                    i.order_id,
                    i.sku,
                    i.quantity,
                    i.ordered_quantity,
                    i.fulfill_from,
                    i.price,
                    i.vat,
                    i.name,
                    i.channel_identifier,
                    i.metadata,
                    i.product_id,
                    i.raw,
                    i.first_seen_at,
                    i.changed_at,
                    i.unlisted_since,
                    (GREATEST(COALESCE(i.quantity, 0), 0))::bigint AS wanted,
                        CASE
                            WHEN (i.ordered_quantity < 0) THEN 0
                            ELSE i.ordered_quantity
                        END AS ordered,
                    (EXISTS ( SELECT
                           FROM sync.service_products p
                          WHERE ((p.client = i.client) AND
                                CASE
                                    WHEN p.is_pattern THEN (i.sku ~~ p.sku)
                                    ELSE (i.sku = p.sku)
                                END))) AS is_service
                   FROM fulfilment.order_items i
                  WHERE ((i.client = o.client) AND (i.order_id = o.id) AND (i.unlisted_since IS NULL))
                ), moves AS (
                 SELECT i.order_item_id,
                    i.sku,
                    (s_1.status = 'SHIPPED'::text) AS is_shipped,
                    sync.real_time(s_1.shipped_on) AS shipped_on,
                    i.quantity AS moved,
                    0 AS returned
                   FROM (fulfilment.shipments s_1
                     JOIN fulfilment.shipment_items i ON (((i.client = s_1.client) AND (i.shipment_id = s_1.id))))
                  WHERE ((s_1.client = o.client) AND (s_1.order_id = o.id) AND (s_1.unlisted_since IS NULL) AND (i.unlisted_since IS NULL))
                UNION ALL
                 SELECT r.order_item_id,
                    r.sku,
                    NULL::boolean,
                    NULL::timestamp with time zone,
                    0,
                    r.quantity
                   FROM fulfilment.return_items r
                  WHERE ((r.client = o.client) AND (r.order_id = o.id) AND (r.unlisted_since IS NULL))
                UNION ALL
                 SELECT r.order_item_id,
                    r.sku,
                    NULL::boolean,
                    NULL::timestamp with time zone,
                    0,
                    r.quantity
                   FROM (lines l_2
                     JOIN fulfilment.return_items r ON (((r.client = o.client) AND (r.order_item_id = l_2.id) AND (r.order_id IS NULL) AND (r.unlisted_since IS NULL))))
                ), pieces AS (
                 SELECT l_2.id AS line,
                        CASE
                            WHEN (l_2.id IS NULL) THEN COALESCE(m.sku, ( SELECT f.sku
                               FROM lines f
                              WHERE (NOT f.is_service)
                              ORDER BY f.id
                             LIMIT 1))
                            ELSE NULL::text
                        END AS sku,
                    GREATEST(COALESCE(sum(m.moved) FILTER (WHERE m.is_shipped), (0)::bigint), (0)::bigint) AS shipped,
                    GREATEST(COALESCE(sum(m.moved), (0)::bigint), (0)::bigint) AS moved,
                    GREATEST(COALESCE(sum(m.returned), (0)::bigint), (0)::bigint) AS returned,
                    min(m.shipped_on) FILTER (WHERE m.is_shipped) AS first_shipped_on,
                    max(m.shipped_on) FILTER (WHERE m.is_shipped) AS last_shipped_on
                   FROM (moves m
                     LEFT JOIN lines l_2 ON ((l_2.id = m.order_item_id)))
                  GROUP BY l_2.id,
                        CASE
                            WHEN (l_2.id IS NULL) THEN COALESCE(m.sku, ( SELECT f.sku
                               FROM lines f
                              WHERE (NOT f.is_service)
                              ORDER BY f.id
                             LIMIT 1))
                            ELSE NULL::text
                        END
                ), own AS (
                 SELECT l_2.id,
                    l_2.sku,
                    l_2.wanted,
                    COALESCE(p.shipped, (0)::bigint) AS all_shipped,
                    LEAST(l_2.wanted, COALESCE(p.shipped, (0)::bigint)) AS shipped,
                    LEAST(l_2.wanted, COALESCE(p.moved, (0)::bigint)) AS moved,
                    LEAST(l_2.wanted, COALESCE(p.returned, (0)::bigint)) AS returned,
                    p.first_shipped_on,
                    p.last_shipped_on
                   FROM (lines l_2
                     LEFT JOIN pieces p ON ((p.line = l_2.id)))
                ), room AS (
                 SELECT w.id,
                    w.sku,
                    w.wanted,
                    w.all_shipped,
                    w.shipped,
                    w.moved,
                    w.returned,
                    w.first_shipped_on,
                    w.last_shipped_on,
                    (lead(w.id) OVER earlier IS NULL) AS is_last,
                    COALESCE(sum((w.wanted - w.shipped)) OVER earlier, (0)::numeric) AS to_ship_before,
                    COALESCE(sum((w.wanted - w.moved)) OVER earlier, (0)::numeric) AS to_move_before,
                    COALESCE(sum((w.wanted - w.returned)) OVER earlier, (0)::numeric) AS to_return_before
                   FROM own w
                  WINDOW earlier AS (PARTITION BY w.sku ORDER BY w.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                ), spread AS (
                 SELECT r.id,
                    r.sku,
                    r.wanted,
                    r.all_shipped,
                    r.shipped,
                    r.moved,
                    r.returned,
                    r.first_shipped_on,
                    r.last_shipped_on,
                    r.is_last,
                    r.to_ship_before,
                    r.to_move_before,
                    r.to_return_before,
                    ((COALESCE(p.shipped, (0)::bigint))::numeric - r.to_ship_before) AS left_to_ship,
                    ((COALESCE(p.moved, (0)::bigint))::numeric - r.to_move_before) AS left_to_move,
                    ((COALESCE(p.returned, (0)::bigint))::numeric - r.to_return_before) AS left_to_return,
                    p.first_shipped_on AS first_without_line,
                    p.last_shipped_on AS last_without_line
                   FROM (room r
                     LEFT JOIN pieces p ON (((p.line IS NULL) AND (p.sku = r.sku))))
                )
         SELECT l_1.client,
            l_1.id,
            l_1.order_id,
            l_1.sku,
            l_1.quantity,
            l_1.ordered_quantity,
            l_1.fulfill_from,
            l_1.price,
            l_1.vat,
            l_1.name,
            l_1.channel_identifier,
            l_1.metadata,
            l_1.product_id,
            l_1.raw,
            l_1.first_seen_at,
            l_1.changed_at,
            l_1.unlisted_since,
            l_1.wanted,
            l_1.ordered,
            l_1.is_service,
            (((s.shipped)::numeric + GREATEST(LEAST(((s.wanted - s.shipped))::numeric, s.left_to_ship), (0)::numeric)))::bigint AS shipped,
            (((s.moved)::numeric + GREATEST(LEAST(((s.wanted - s.moved))::numeric, s.left_to_move), (0)::numeric)))::bigint AS moved,
            (((s.returned)::numeric + GREATEST(LEAST(((s.wanted - s.returned))::numeric, s.left_to_return), (0)::numeric)))::bigint AS returned,
            ((((s.all_shipped - s.shipped))::numeric +
                CASE
                    WHEN s.is_last THEN GREATEST((s.left_to_ship - ((s.wanted - s.shipped))::numeric), (0)::numeric)
                    ELSE (0)::numeric
                END))::bigint AS over_shipped,
                CASE
                    WHEN (s.left_to_ship > (0)::numeric) THEN LEAST(s.first_shipped_on, s.first_without_line)
                    ELSE s.first_shipped_on
                END AS first_shipped_on,
                CASE
                    WHEN (s.left_to_ship > (0)::numeric) THEN GREATEST(s.last_shipped_on, s.last_without_line)
                    ELSE s.last_shipped_on
                END AS last_shipped_on
           FROM (lines l_1
             JOIN spread s ON ((s.id = l_1.id)))) l);
create view fulfilment.order_overview as -- Orders at the service, one row each: state, pieces without service products, parcels, problems. order_state also knows orders that are not there yet
 SELECT o.client,
    o.id AS order_id,
    o.external_order_number,
    o.email,
    o.ordered_on,
    sync.real_day(o.preferred_shipping_date) AS preferred_shipping_date,
    t.state,
    ( SELECT t_1.code
           FROM fulfilment.setting_options t_1
          WHERE ((t_1.client = o.client) AND (t_1.list = 'orderTypes'::text) AND (t_1.id = o.order_type_id))) AS order_type,
    ( SELECT t_1.name
           FROM fulfilment.setting_options t_1
          WHERE ((t_1.client = o.client) AND (t_1.list = 'orderTypes'::text) AND (t_1.id = o.order_type_id))) AS order_type_name,
    ( SELECT m.code
           FROM fulfilment.setting_options m
          WHERE ((m.client = o.client) AND (m.list = ANY (ARRAY['mainShippingMethods'::text, 'shippingMethods'::text])) AND (m.id = o.preferred_shipping_method_id))
          ORDER BY m.list
         LIMIT 1) AS shipping_method,
    ( SELECT m.name
           FROM fulfilment.setting_options m
          WHERE ((m.client = o.client) AND (m.list = ANY (ARRAY['mainShippingMethods'::text, 'shippingMethods'::text])) AND (m.id = o.preferred_shipping_method_id))
          ORDER BY m.list
         LIMIT 1) AS shipping_method_name,
    l.ordered,
    l.cancelled,
    l.shipped,
    l.to_come,
    l.returned,
    s.shipments,
    p.parcels,
    s.first_shipped_on,
    s.last_shipped_on,
    b.problem_code,
    b.problem,
    o.unlisted_since,
        CASE
            WHEN (p.tracked > 0) THEN 'on_its_way'::text
            WHEN ((p.parcels > 0) AND (p.ended = p.parcels)) THEN 'ended'::text
            ELSE NULL::text
        END AS tracking_state,
        CASE
            WHEN (p.tracked > 0) THEN p.tracked_since
            WHEN ((p.parcels > 0) AND (p.ended = p.parcels)) THEN p.ended_at
            ELSE NULL::timestamp with time zone
        END AS tracking_since
   FROM (((((fulfilment.orders o
     CROSS JOIN LATERAL ( SELECT count(*) AS all_lines,
            count(*) FILTER (WHERE (NOT i.is_service)) AS goods_lines,
            COALESCE(sum(GREATEST(i.quantity, 0)), (0)::bigint) AS all_pieces,
            COALESCE(sum((i.shipped + i.to_come)) FILTER (WHERE (NOT i.is_service)), (0)::numeric) AS pieces,
            COALESCE(sum(i.ordered) FILTER (WHERE (NOT i.is_service)), (0)::bigint) AS ordered,
            (COALESCE(sum(i.cancelled) FILTER (WHERE (NOT i.is_service)), (0)::numeric))::bigint AS cancelled,
            (COALESCE(sum(i.shipped) FILTER (WHERE (NOT i.is_service)), (0)::numeric))::bigint AS shipped,
            (COALESCE(sum(i.to_come), (0)::numeric))::bigint AS to_come,
            COALESCE(sum(i.over_shipped), (0)::numeric) AS over_shipped,
            (COALESCE(sum(i.returned) FILTER (WHERE (NOT i.is_service)), (0)::numeric))::bigint AS returned
           FROM fulfilment.order_lines i
          WHERE ((i.client = o.client) AND (i.order_id = o.id))) l)
     CROSS JOIN LATERAL ( SELECT count(*) AS shipments,
            array_agg((s_1.id)::text ORDER BY s_1.id) FILTER (WHERE (s_1.status = 'ERROR'::text)) AS errors,
            min(sync.real_time(s_1.shipped_on)) FILTER (WHERE (s_1.status = 'SHIPPED'::text)) AS first_shipped_on,
            max(sync.real_time(s_1.shipped_on)) FILTER (WHERE (s_1.status = 'SHIPPED'::text)) AS last_shipped_on
           FROM fulfilment.shipments s_1
          WHERE ((s_1.client = o.client) AND (s_1.order_id = o.id) AND (s_1.unlisted_since IS NULL))) s)
     CROSS JOIN LATERAL ( SELECT c.state,
            ((c.state <> ALL (ARRAY['unlisted'::text, 'cancelled'::text, 'nothing_to_ship'::text, 'shipped'::text])) AND (COALESCE(sync.real_day(o.ordered_on), (o.first_seen_at)::date) <= (CURRENT_DATE - 2))) AS is_late
           FROM ( SELECT
                        CASE
                            WHEN (o.unlisted_since IS NOT NULL) THEN 'unlisted'::text
                            WHEN (((l.all_lines > 0) AND (l.all_pieces = 0)) OR ((l.goods_lines > 0) AND (l.pieces = (0)::numeric))) THEN 'cancelled'::text
                            WHEN ((l.all_lines > 0) AND (l.goods_lines = 0)) THEN 'nothing_to_ship'::text
                            WHEN ((l.shipped > 0) AND (l.to_come = 0)) THEN 'shipped'::text
                            WHEN (s.errors IS NOT NULL) THEN 'warehouse_error'::text
                            WHEN (l.shipped > 0) THEN 'partly_shipped'::text
                            WHEN o.on_hold THEN 'on_hold'::text
                            WHEN (s.shipments > 0) THEN 'in_warehouse'::text
                            WHEN (EXISTS ( SELECT
                               FROM fulfilment.order_addresses a
                              WHERE ((a.client = o.client) AND (a.order_id = o.id) AND (a.role = 'delivery'::text) AND (( SELECT (k.schema -> 'x-house-number-countries'::text)
                                       FROM sync.outbox_kinds k
                                      WHERE (k.kind = 'order.create'::text)) ? a.country_code) AND (COALESCE(a.house_number, ''::text) = ''::text) AND (a.street1 !~* '\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$'::text)))) THEN 'check_address'::text
                            ELSE 'accepted'::text
                        END AS state) c
         OFFSET 0) t)
     LEFT JOIN LATERAL ( SELECT count(*) AS parcels,
            array_agg(COALESCE(NULLIF(p_1.package_number, ''::text), ('of shipment '::text || p_1.shipment_id)) ORDER BY p_1.shipment_id, p_1.package_number) FILTER (WHERE (p_1.current_track_trace_exception_level ~ '^[1-9]'::text)) AS exceptions,
            count(*) FILTER (WHERE (p_1.tracking_state = 'on_its_way'::text)) AS tracked,
            count(*) FILTER (WHERE (p_1.tracking_state = 'ended'::text)) AS ended,
            min(p_1.tracking_since) FILTER (WHERE (p_1.tracking_state = 'on_its_way'::text)) AS tracked_since,
            max(p_1.tracking_since) AS ended_at
           FROM (fulfilment.shipments s_1
             JOIN sync.tracked_parcels p_1 ON (((p_1.client = s_1.client) AND (p_1.shipment_id = s_1.id))))
          WHERE ((s_1.client = o.client) AND (s_1.order_id = o.id) AND (s_1.unlisted_since IS NULL) AND (p_1.unlisted_since IS NULL))) p ON (true))
     LEFT JOIN LATERAL ( SELECT (array_agg(r.code ORDER BY r.nth))[1] AS problem_code,
            string_agg(r.words, '; '::text ORDER BY r.nth) AS problem
           FROM ( SELECT 1 AS "?column?",
                    'warehouse_error'::text AS "?column?",
                    ('shipments with the status ERROR: '::text || sync.list_first(s.errors)) AS "?column?"
                  WHERE (s.errors IS NOT NULL)
                UNION ALL
                 SELECT 2,
                    'parcel_exception'::text,
                    ('parcels with an exception level: '::text || sync.list_first(p.exceptions))
                  WHERE (p.exceptions IS NOT NULL)
                UNION ALL
                ( SELECT 3,
                    ('row_'::text ||
                        CASE
                            WHEN (w.status = ANY (ARRAY['dead'::text, 'unknown'::text])) THEN w.status
                            ELSE 'waiting'::text
                        END),
                    format('outbox row %s (%s) is %s%s'::text, w.id, w.kind, w.status, (': '::text || w.last_error)) AS format
                   FROM fulfilment.outbox w
                  WHERE ((w.client = o.client) AND (w.family = 'order'::text) AND (w.reference = o.external_order_number) AND (((w.status = ANY (ARRAY['dead'::text, 'unknown'::text])) AND (w.next_attempt_at IS NULL)) OR (t.is_late AND (w.status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text])))))
                  ORDER BY ((w.status = ANY (ARRAY['dead'::text, 'unknown'::text])) AND (w.next_attempt_at IS NULL)) DESC, w.id
                 LIMIT 1)
                UNION ALL
                 SELECT 4,
                    'on_hold'::text,
                    'it is on hold'::text
                  WHERE (t.is_late AND o.on_hold)
                UNION ALL
                 SELECT 5,
                    'check_address'::text,
                    'its address has no house number that the service could find'::text
                  WHERE (t.state = 'check_address'::text)
                UNION ALL
                 SELECT 6,
                    'not_due'::text,
                    ('it is not to be shipped before '::text || o.preferred_shipping_date)
                  WHERE (t.is_late AND (o.preferred_shipping_date > CURRENT_DATE))
                UNION ALL
                 SELECT 7,
                    'no_lines'::text,
                    'none of its lines is stored here'::text
                  WHERE (t.is_late AND (l.all_lines = 0))
                UNION ALL
                 SELECT 8,
                    'back_order'::text,
                    ('on no shipment: '::text || sync.list_first(array_agg(m.article ORDER BY m.first_line)))
                   FROM ( SELECT min(i.order_item_id) AS first_line,
                            format('%s (%s%s)'::text, i.sku, sum(i.missing), (', stock '::text || min(k.stock))) AS article
                           FROM (fulfilment.order_lines i
                             LEFT JOIN fulfilment.stock_levels k ON (((k.client = i.client) AND (k.sku = i.sku))))
                          WHERE (t.is_late AND (o.on_hold IS NOT TRUE) AND COALESCE((o.preferred_shipping_date <= CURRENT_DATE), true) AND (i.client = o.client) AND (i.order_id = o.id) AND (i.missing > 0))
                          GROUP BY i.sku) m
                 HAVING (count(*) > 0)
                UNION ALL
                 SELECT 9,
                        CASE
                            WHEN bool_or((h.status = 'READY_TO_PICK'::text)) THEN 'not_picked'::text
                            ELSE 'not_shipped'::text
                        END AS "case",
                    ('shipments that have not left: '::text || sync.list_first(array_agg(format('%s (%s)'::text, h.id, "left"(COALESCE(h.status, 'no status'::text), 50)) ORDER BY h.id)))
                   FROM fulfilment.shipments h
                  WHERE (t.is_late AND (h.client = o.client) AND (h.order_id = o.id) AND (h.unlisted_since IS NULL) AND ((h.status = ANY (ARRAY['SHIPPED'::text, 'ERROR'::text])) IS NOT TRUE))
                 HAVING (count(*) > 0)
                UNION ALL
                 SELECT 10,
                    'over_shipped'::text,
                    ('more was shipped than ordered: '::text || string_agg(format('%s (%s)'::text, i.sku, i.over_shipped), ', '::text ORDER BY i.order_item_id))
                   FROM fulfilment.order_lines i
                  WHERE ((l.over_shipped > (0)::numeric) AND (i.client = o.client) AND (i.order_id = o.id) AND (i.over_shipped > 0))
                 HAVING (count(*) > 0)) r(nth, code, words)) b ON (true));
create view fulfilment.outbox_open as -- Rows of the outbox that are not done or cancelled, and what each row waits for
 SELECT o.id,
    o.client,
    o.kind,
    o.reference,
    o.status,
    o.attempts,
    o.next_attempt_at,
    o.created_at,
    COALESCE(b.id, w.id) AS waits_for,
        CASE
            WHEN (b.id IS NOT NULL) THEN format('row %s (%s) of the same reference %s and is %s%s'::text, b.id, b.kind,
            CASE
                WHEN (b.id < o.id) THEN 'comes first'::text
                ELSE 'was begun before'::text
            END, b.status, COALESCE((': '::text || b.last_error), ''::text))
            WHEN ((o.status = 'pending'::text) AND (k.client IS NULL)) THEN format('no worker was ever set up with client %s; known are %s'::text, o.client, COALESCE(s.clients, 'none'::text))
            WHEN ((o.status = 'pending'::text) AND (d.reason IS NOT NULL)) THEN d.reason
            WHEN ((o.status = 'pending'::text) AND (COALESCE(k.served_at, k.accepted_at) < (now() - '00:01:00'::interval))) THEN
            CASE
                WHEN (k.offered_at > (now() - '00:01:00'::interval)) THEN 'the worker has another account than the accepted one, and sends nothing; what to do: fulfilment-sync client list'::text
                ELSE format('no worker has served client %s since %s'::text, o.client, sync.format_time(COALESCE(k.served_at, k.accepted_at)))
            END
            WHEN ((o.status = 'pending'::text) AND (p.since IS NOT NULL)) THEN ('pushes are paused since '::text || sync.format_time(p.since))
            WHEN ((o.status = 'pending'::text) AND (h.reason IS NOT NULL)) THEN h.reason
            WHEN ((o.status = 'pending'::text) AND (o.not_before > now())) THEN ('it is not to be sent before '::text || sync.format_time(o.not_before))
            WHEN ((o.status = 'pending'::text) AND (w.id IS NOT NULL)) THEN format('row %s (%s of %s) comes first and is %s%s'::text, w.id, w.kind, w.reference, w.status, COALESCE((': '::text || w.last_error), ''::text))
            ELSE o.last_error
        END AS because,
    ARRAY( SELECT r.id
           FROM (( SELECT l.id
                   FROM fulfilment.outbox l
                  WHERE ((l.client = o.client) AND (l.family = o.family) AND (l.reference = o.reference) AND (l.status = 'pending'::text) AND ((l.id > o.id) OR ((l.id < o.id) AND (o.status = ANY (ARRAY['sending'::text, 'unknown'::text])))) AND (NOT (((o.status = 'dead'::text) OR ((o.status = 'unknown'::text) AND (o.next_attempt_at IS NULL))) AND (EXISTS ( SELECT
                           FROM sync.outbox_kinds n
                          WHERE ((n.kind = o.kind) AND (l.kind = ANY (n.overtaken_by))))))))
                  ORDER BY l.id
                 LIMIT 100)
                UNION
                ( SELECT l.id
                   FROM (sync.outbox_waits v
                     JOIN fulfilment.outbox l ON ((l.id = v.outbox_id)))
                  WHERE ((v.waits_for = o.id) AND (l.status = 'pending'::text))
                 LIMIT 100)) r
          ORDER BY r.id
         LIMIT 100) AS rows_behind
   FROM (((((((fulfilment.outbox o
     LEFT JOIN LATERAL ( SELECT l.id,
            l.kind,
            l.status,
            l.last_error
           FROM fulfilment.outbox l
          WHERE ((l.client = o.client) AND (l.family = o.family) AND (l.reference = o.reference) AND (((l.id < o.id) AND (l.status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text, 'dead'::text]))) OR ((l.id > o.id) AND (o.status = 'pending'::text) AND (l.status = ANY (ARRAY['sending'::text, 'unknown'::text])))) AND (NOT (((l.status = 'dead'::text) OR ((l.status = 'unknown'::text) AND (l.next_attempt_at IS NULL))) AND (EXISTS ( SELECT
                   FROM sync.outbox_kinds n
                  WHERE ((n.kind = l.kind) AND (o.kind = ANY (n.overtaken_by))))))))
          ORDER BY l.id
         LIMIT 1) b ON (true))
     LEFT JOIN LATERAL ( SELECT min(q.since) AS since
           FROM sync.pauses q
          WHERE ((q.client = ANY (ARRAY[''::text, o.client])) AND (q.job = 'push-outbox'::text))) p ON (true))
     LEFT JOIN LATERAL ( SELECT p_1.reason
           FROM sync.service_health p_1
          WHERE ((p_1.client = o.client) AND (p_1.scope = ANY (ARRAY['client'::text, o.kind])) AND (p_1.void_at > now()) AND ((p_1.scope = 'client'::text) OR (p_1.next_at > now()) OR (p_1.send_window IS NOT NULL)))
          ORDER BY (p_1.scope <> 'client'::text)
         LIMIT 1) h ON (true))
     LEFT JOIN LATERAL ( SELECT l.id,
            l.kind,
            l.reference,
            l.status,
            l.last_error
           FROM (sync.outbox_waits v
             JOIN fulfilment.outbox l ON ((l.id = v.waits_for)))
          WHERE ((v.outbox_id = o.id) AND (l.status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text])))) w ON (true))
     LEFT JOIN sync.clients k ON ((k.client = o.client)))
     CROSS JOIN ( SELECT "left"(string_agg(c.client, ', '::text ORDER BY c.client), 1000) AS clients
           FROM sync.clients c) s)
     CROSS JOIN ( SELECT sync.push_database_hold() AS reason
         OFFSET 0) d)
  WHERE (o.status = ANY (ARRAY['pending'::text, 'sending'::text, 'unknown'::text, 'dead'::text]));
create view fulfilment.parcel_overview as -- Packages with their order, shipping method, address for tracking and contents
 SELECT p.client,
    p.shipment_id,
    p.package_number,
    s.order_id,
    o.external_order_number,
    s.status,
    sync.real_time(s.shipped_on) AS shipped_on,
    s.warehouse_code,
    m.code AS shipping_method,
    m.name AS shipping_method_name,
    p.track_and_trace_code,
    p.track_and_trace_bar_code,
        CASE
            WHEN (p.track_and_trace_code ~* '^https?://'::text) THEN p.track_and_trace_code
            ELSE COALESCE(( SELECT replace(replace(replace(replace(replace(l.url, '{code}'::text, sync.encode_for_url(COALESCE(p.track_and_trace_code, ''::text))), '{barcode}'::text, sync.encode_for_url(COALESCE(p.track_and_trace_bar_code, ''::text))), '{package}'::text, sync.encode_for_url(p.package_number)), '{postcode}'::text, sync.encode_for_url(COALESCE(replace(a.postcode, ' '::text, ''::text), ''::text))), '{country}'::text, sync.encode_for_url(COALESCE(a.country_code, ''::text))) AS replace
               FROM (sync.carrier_links l
                 LEFT JOIN fulfilment.order_addresses a ON (((a.client = s.client) AND (a.order_id = s.order_id) AND (a.role = 'delivery'::text))))
              WHERE ((l.client = p.client) AND (l.shipping_method = m.code) AND ((l.url !~~ '%{code}%'::text) OR (p.track_and_trace_code IS NOT NULL)) AND ((l.url !~~ '%{barcode}%'::text) OR (p.track_and_trace_bar_code IS NOT NULL)))), sync.read_tracking_link(s.raw))
        END AS tracking_url,
    p.current_track_trace_status,
    p.current_track_trace_exception_level,
    p.number_of_colli,
    p.tracking_number,
    c.items,
    p.unlisted_since,
    (c.items IS NOT NULL) AS items_known,
    p.tracking_state,
    p.tracking_since
   FROM ((((sync.tracked_parcels p
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN ((p.unlisted_since IS NULL) AND (COALESCE(p.number_of_colli, 1) <= 1) AND (NOT (EXISTS ( SELECT
                       FROM fulfilment.parcels o_1
                      WHERE ((o_1.client = p.client) AND (o_1.shipment_id = p.shipment_id) AND (o_1.package_number <> p.package_number) AND (o_1.unlisted_since IS NULL)))))) THEN p.shipment_items
                    ELSE NULL::jsonb
                END AS items
         OFFSET 0) c)
     LEFT JOIN fulfilment.shipments s ON (((s.client = p.client) AND (s.id = p.shipment_id))))
     LEFT JOIN fulfilment.orders o ON (((o.client = s.client) AND (o.id = s.order_id))))
     LEFT JOIN LATERAL ( SELECT t.code,
            t.name
           FROM fulfilment.setting_options t
          WHERE ((t.client = s.client) AND (t.id = s.shipping_method_id) AND (t.list = ANY (ARRAY['mainShippingMethods'::text, 'shippingMethods'::text])))
          ORDER BY t.list
         LIMIT 1) m ON (true));
create view fulfilment.received_goods as -- Lines of inbounds with their lots, and what the inbound packing slip that announced them expected and received in all
 SELECT i.client,
    i.id AS inbound_id,
    i.reference,
    i.status,
    i.received_in,
    sync.real_time(i.created_on) AS created_on,
    sync.real_time(i.checking_on) AS checking_on,
    sync.real_time(i.completed_on) AS completed_on,
    l.id AS inbound_item_id,
    l.sku,
    l.quantity,
    l.lot_number,
    l.expiration_date,
    COALESCE(e.inbound_packing_slip_id, i.inbound_packing_slip_id) AS inbound_packing_slip_id,
    s.reference AS slip_reference,
    s.status AS slip_status,
    s.expected_on,
    e.id AS inbound_packing_slip_item_id,
    e.quantity AS line_expected,
    e.received AS line_received,
    t.slip_expected,
    t.slip_received,
    i.unlisted_since
   FROM ((((fulfilment.inbounds i
     JOIN fulfilment.inbound_items l ON (((l.client = i.client) AND (l.inbound_id = i.id) AND (l.unlisted_since IS NULL))))
     LEFT JOIN fulfilment.inbound_packing_slip_items e ON (((e.client = l.client) AND (e.id = l.inbound_packing_slip_item_id))))
     LEFT JOIN fulfilment.inbound_packing_slips s ON (((s.client = i.client) AND (s.id = COALESCE(e.inbound_packing_slip_id, i.inbound_packing_slip_id)))))
     LEFT JOIN LATERAL ( SELECT sum(e_1.quantity) AS slip_expected,
            sum(e_1.received) AS slip_received
           FROM fulfilment.inbound_packing_slip_items e_1
          WHERE ((e_1.client = s.client) AND (e_1.inbound_packing_slip_id = s.id) AND (e_1.unlisted_since IS NULL))) t ON (true));
create view fulfilment.return_overview as -- Returned lines that a warehouse has processed, with reason, price of the order line, and lot and serial numbers that were shipped
 SELECT r.client,
    r.id AS return_item_id,
    r.external_order_number,
    r.order_id,
    r.order_item_id,
    a.external_reference,
    r.sku,
    r.quantity,
    g.lot_number,
    g.expiration_date,
    g.serial_numbers,
    r.condition,
    COALESCE(t.code, l.reason_code) AS return_reason,
    t.name AS return_reason_name,
    sync.real_day(r.processed_on) AS processed_on,
    r.processed_in,
    sync.real_time(r.restock_on) AS restock_on,
    r.restock_in,
    r.redeliver,
    r.comment,
    o.currency,
    i.price,
    i.vat,
    (i.price * (r.quantity)::numeric) AS amount,
    r.unlisted_since
   FROM ((((((fulfilment.return_items r
     LEFT JOIN fulfilment.order_items i ON (((i.client = r.client) AND (i.id = r.order_item_id))))
     LEFT JOIN fulfilment.orders o ON (((o.client = r.client) AND (o.id = COALESCE(r.order_id, i.order_id)))))
     LEFT JOIN fulfilment.shipment_items g ON (((g.client = r.client) AND (g.id = r.shipment_item_id))))
     LEFT JOIN fulfilment.setting_options t ON (((t.client = r.client) AND (t.list = 'returnReasons'::text) AND (t.id = r.return_reason_id))))
     LEFT JOIN fulfilment.return_merchandise_authorization_items l ON (((l.client = r.client) AND (l.id = r.return_merchandise_authorization_item_id))))
     LEFT JOIN fulfilment.return_merchandise_authorizations a ON (((a.client = l.client) AND (a.id = l.return_merchandise_authorization_id))));
create view fulfilment.returns_to_restock as -- Returns that were processed and are not yet back in stock
 SELECT client,
    return_item_id,
    external_order_number,
    order_id,
    order_item_id,
    sku,
    quantity,
    condition,
    return_reason,
    return_reason_name,
    processed_on,
    processed_in,
    redeliver,
    comment
   FROM fulfilment.return_overview r
  WHERE ((restock_on IS NULL) AND (unlisted_since IS NULL));
create view fulfilment.service_product_candidates as -- Articles that seem to be service products: insert those that are into service_products. It reads all orders
 WITH shipped AS (
         SELECT l.client,
            l.order_item_id,
            sum(l.quantity) AS pieces
           FROM (fulfilment.shipment_items l
             JOIN fulfilment.shipments s ON (((s.client = l.client) AND (s.id = l.shipment_id))))
          WHERE ((s.status = 'SHIPPED'::text) AND (s.unlisted_since IS NULL) AND (l.unlisted_since IS NULL))
          GROUP BY l.client, l.order_item_id
        ), never_shipped AS MATERIALIZED (
         SELECT a.client,
            a.sku
           FROM ( SELECT i.client,
                    i.sku
                   FROM fulfilment.order_items i
                  WHERE (i.sku IS NOT NULL)
                EXCEPT
                 SELECT l.client,
                    l.sku
                   FROM fulfilment.shipment_items l) a
          WHERE (NOT (EXISTS ( SELECT
                   FROM sync.service_products p
                  WHERE ((p.client = a.client) AND
                        CASE
                            WHEN p.is_pattern THEN (a.sku ~~ p.sku)
                            ELSE (a.sku = p.sku)
                        END))))
        ), otherwise_shipped AS MATERIALIZED (
         SELECT i.client,
            i.order_id,
            (count(*) FILTER (WHERE ((n.sku IS NULL) AND (s.pieces >= i.quantity))) > 0) AS has_shipped
           FROM ((fulfilment.order_items i
             LEFT JOIN never_shipped n ON (((n.client = i.client) AND (n.sku = i.sku))))
             LEFT JOIN shipped s ON (((s.client = i.client) AND (s.order_item_id = i.id))))
          WHERE ((i.quantity > 0) AND (i.unlisted_since IS NULL))
          GROUP BY i.client, i.order_id
         HAVING (bool_or((n.sku IS NOT NULL)) AND bool_and(((n.sku IS NOT NULL) OR (COALESCE(s.pieces, (0)::bigint) >= i.quantity) OR (EXISTS ( SELECT
                   FROM sync.service_products p
                  WHERE ((p.client = i.client) AND
                        CASE
                            WHEN p.is_pattern THEN (i.sku ~~ p.sku)
                            ELSE (i.sku = p.sku)
                        END))))))
        ), lines AS MATERIALIZED (
         SELECT i.client,
            i.sku,
            i.id,
            o_1.id AS order_id,
            o_1.external_order_number,
            d.has_shipped
           FROM (((otherwise_shipped d
             JOIN fulfilment.order_items i ON (((i.client = d.client) AND (i.order_id = d.order_id))))
             JOIN never_shipped n ON (((n.client = i.client) AND (n.sku = i.sku))))
             JOIN fulfilment.orders o_1 ON (((o_1.client = i.client) AND (o_1.id = i.order_id))))
          WHERE ((i.quantity > 0) AND (i.unlisted_since IS NULL) AND (o_1.unlisted_since IS NULL))
        ), reasons AS (
         SELECT l.client,
            l.sku,
            max(l.order_id) AS order_id,
            format('the other lines of %s orders were shipped in full, and it was never on a shipment'::text, count(DISTINCT l.order_id)) AS reason
           FROM lines l
          WHERE l.has_shipped
          GROUP BY l.client, l.sku
         HAVING (count(DISTINCT l.order_id) >= 5)
        UNION ALL
         SELECT l.client,
            l.sku,
            max(l.order_id) AS max,
            format('order_item.cancel (row %s) did not cancel it, and nothing else of the order was open'::text, max(w.id)) AS format
           FROM (lines l
             JOIN fulfilment.outbox w ON (((w.client = l.client) AND (w.reference = l.external_order_number))))
          WHERE ((w.kind = 'order_item.cancel'::text) AND (((w.status = 'done'::text) AND ((w.result ->> 'modified'::text) = 'false'::text)) OR ((w.status = 'dead'::text) AND (w.attempts > 0))) AND ((((l.id)::text = (w.result ->> 'orderItemId'::text)) OR ((l.id)::text = (w.payload ->> 'orderItemId'::text))) OR (l.sku = (w.payload ->> 'sku'::text))))
          GROUP BY l.client, l.sku
        )
 SELECT r.client,
    r.sku,
    string_agg(r.reason, '; '::text ORDER BY r.reason) AS reason,
    max(o.external_order_number) AS external_order_number
   FROM (reasons r
     JOIN fulfilment.orders o ON (((o.client = r.client) AND (o.id = r.order_id))))
  GROUP BY r.client, r.sku;
create view fulfilment.shipment_lines as -- Lines of shipments, shipped or not, with their orders and packages
 SELECT s.client,
    s.external_order_number,
    s.order_id,
    s.id AS shipment_id,
    s.status,
    s.shipped_on,
    s.warehouse_code,
    i.id AS shipment_item_id,
    i.order_item_id,
    i.sku,
    i.quantity,
    i.lot_number,
    i.expiration_date,
    i.serial_numbers,
    p.package_numbers,
    p.track_trace_statuses,
    p.track_trace_at,
    s.unlisted_since,
    p.package_statuses,
    p.track_and_trace_codes,
    COALESCE(p.tracking_url, sync.read_tracking_link(s.raw)) AS tracking_url,
    s.order_type,
    s.order_type_name,
    s.shipping_method,
    s.shipping_method_name,
    s.carrier_code,
    s.carrier_name
   FROM ((fulfilment.shipment_overview s
     JOIN fulfilment.shipment_items i ON (((i.client = s.client) AND (i.shipment_id = s.id))))
     LEFT JOIN LATERAL ( SELECT array_agg(NULLIF(p_1.package_number, ''::text) ORDER BY p_1.package_number) AS package_numbers,
            array_agg(
                CASE
                    WHEN (p_1.current_track_trace_status ~ '^-?\d{1,9}$'::text) THEN (p_1.current_track_trace_status)::integer
                    ELSE NULL::integer
                END ORDER BY p_1.package_number) AS track_trace_statuses,
            array_agg(p_1.current_track_trace_status ORDER BY p_1.package_number) AS package_statuses,
            array_agg(p_1.track_and_trace_code ORDER BY p_1.package_number) AS track_and_trace_codes,
            min(p_1.tracking_url) AS tracking_url,
            max(sync.real_time(t.current_track_trace_status_date_time)) AS track_trace_at
           FROM (fulfilment.parcel_overview p_1
             LEFT JOIN fulfilment.track_traces t ON (((t.client = p_1.client) AND (t.shipment_id = p_1.shipment_id) AND (t.package_number = p_1.package_number))))
          WHERE ((p_1.client = s.client) AND (p_1.shipment_id = s.id) AND (p_1.unlisted_since IS NULL))) p ON (true));
create view fulfilment.shipment_overview as -- Shipments with the number of their order, and code and name of order type, shipping method and carrier
 SELECT s.client,
    s.id,
    s.status,
    sync.real_time(s.ready_to_pick_on) AS ready_to_pick_on,
    sync.real_time(s.ready_to_ship_on) AS ready_to_ship_on,
    sync.real_time(s.shipped_on) AS shipped_on,
    s.warehouse_code,
    s.return_label,
    s.order_id,
    s.order_type_id,
    s.shipping_method_id,
    s.raw,
    s.first_seen_at,
    s.changed_at,
    s.unlisted_since,
    s.read_no,
    o.external_order_number,
    t.code AS order_type,
    t.name AS order_type_name,
        CASE
            WHEN (m.id IS NULL) THEN n.code
            ELSE m.code
        END AS shipping_method,
        CASE
            WHEN (m.id IS NULL) THEN n.name
            ELSE m.name
        END AS shipping_method_name,
    n.code AS carrier_code,
    n.name AS carrier_name
   FROM ((((fulfilment.shipments s
     LEFT JOIN fulfilment.orders o ON (((o.client = s.client) AND (o.id = s.order_id))))
     LEFT JOIN fulfilment.setting_options t ON (((t.client = s.client) AND (t.list = 'orderTypes'::text) AND (t.id = s.order_type_id))))
     LEFT JOIN fulfilment.setting_options m ON (((m.client = s.client) AND (m.list = 'mainShippingMethods'::text) AND (m.id = s.shipping_method_id))))
     LEFT JOIN fulfilment.setting_options n ON (((n.client = s.client) AND (n.list = 'shippingMethods'::text) AND (n.id =
        CASE
            WHEN (m.id IS NULL) THEN s.shipping_method_id
            ELSE ( SELECT min(w.shipping_method_id) AS min
               FROM fulfilment.main_shipping_method_warehouses w
              WHERE ((w.client = s.client) AND (w.main_shipping_method_id = m.id) AND (w.warehouse = s.warehouse_code) AND (w.removed_at IS NULL)))
        END))));
create view sync.tracked_parcels as -- 
 SELECT p.client,
    p.shipment_id,
    p.package_number,
    p.collo_number,
    p.track_and_trace_code,
    p.track_and_trace_bar_code,
    p.return_package_number,
    p.current_track_trace_status,
    p.current_track_trace_exception_level,
    p.shipping_date,
    p.number_of_colli,
    p.tracking_number,
    p.shipment_items,
    p.read_at,
    p.read_no,
    p.raw,
    p.first_seen_at,
    p.changed_at,
    p.unlisted_since,
        CASE
            WHEN (t.listed_since IS NOT NULL) THEN
            CASE
                WHEN (t.unlisted_since IS NULL) THEN 'on_its_way'::text
                ELSE 'ended'::text
            END
            ELSE NULL::text
        END AS tracking_state,
    COALESCE(t.unlisted_since, t.listed_since) AS tracking_since
   FROM (fulfilment.parcels p
     LEFT JOIN LATERAL ( SELECT t_1.first_seen_at AS listed_since,
            t_1.unlisted_since
           FROM fulfilment.track_traces t_1
          WHERE ((t_1.client = p.client) AND (t_1.shipment_id = p.shipment_id) AND (t_1.package_number = ANY (ARRAY[p.package_number, ''::text])))
          ORDER BY t_1.package_number DESC
         LIMIT 1) t ON (true));

CREATE OR REPLACE FUNCTION fulfilment.changes_since(after bigint, max integer DEFAULT 1000)
 RETURNS SETOF fulfilment.changes
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  pruned bigint := (select pruned_until from sync.feed_mark);
  unused bool := (select after > unused_from and after <= unused_until from sync.feed_mark);
  given_out bigint := coalesce(
    pg_sequence_last_value(pg_get_serial_sequence('fulfilment.changes', 'seq')::regclass), 0);
  -- Only committed entries count: a reader that continued from a seq that is still being written
  -- would miss it.
  newest bigint := coalesce((select c.seq from fulfilment.changes c order by c.seq desc limit 1),
    pruned);
begin
  if after is null or after < 0 then
    raise exception 'after must be the last seq that was read, or 0 to begin'
      using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  if after < pruned then
    raise exception 'changes after % are no longer all kept (pruned until %): '
      'read the tables again, then continue from %',
      after, pruned, newest using errcode = '22023';
  end if;
  if unused or after > given_out then
    raise exception 'seq % was never used here: was the database restored? '
      'Read the tables again, then continue from %',
      after, newest using errcode = '22023';
  end if;
  -- seq grows in the order of commits, so a later commit cannot add an entry before those read
  -- here.
  return query select c.* from fulfilment.changes c where c.seq > after order by c.seq limit max;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.consume_changes(consumer text, max integer DEFAULT 1000)
 RETURNS SETOF fulfilment.changes
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  place bigint := (select c.seq from fulfilment.consumers c where c.name = consumer);
  entry fulfilment.changes;
  last bigint;
begin
  if place is null then
    raise exception 'there is no consumer %; start it with fulfilment.start_consumer',
      coalesce(left(consumer, 100), 'null')
      using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  -- A look that finds nothing locks nothing and writes nothing. The entries of an unfinished reader
  -- are found.
  perform from fulfilment.changes_since(place, 1);
  if not found then
    return;
  end if;
  select c.seq into place from fulfilment.consumers c where c.name = consumer for update;
  if not found then
    raise exception 'consumer % was dropped meanwhile', left(consumer, 100) using errcode = '22023';
  end if;
  for entry in select * from fulfilment.changes_since(place, max) loop
    last := entry.seq;
    return next entry;
  end loop;
  if last is not null then
    update fulfilment.consumers c set seq = last, moved_at = now() where c.name = consumer;
  end if;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.drop_consumer(consumer text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  delete from fulfilment.consumers c where c.name = consumer;
  return found;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.order_history(number text, client text DEFAULT 'default'::text)
 RETURNS TABLE(at timestamp with time zone, service_at timestamp with time zone, is_day boolean, source text, id bigint, what text, detail text, name text, error text)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  with named as materialized (
    (select r.id
     from fulfilment.orders r
     where r.external_order_number = order_history.number
       and r.client = (select order_history.client)
     limit 100)
    union
    (select t.target_id
     from fulfilment.outbox o
     join sync.outbox_targets t on t.outbox_id = o.id
     where o.client = (select order_history.client) and o.reference = order_history.number
       and o.kind = 'order.rename'
     limit 100)
  ), numbers as materialized (
    select order_history.number as number
    union
    select o.reference
    from named n
    join sync.outbox_targets t on t.target_id = n.id
    join fulfilment.outbox o on o.id = t.outbox_id and o.client = (select order_history.client)
    union
    select r.external_order_number
    from named n
    join fulfilment.orders r
      on r.client = (select order_history.client) and r.id = n.id
        and r.external_order_number is not null
  ), sent as materialized (
    select s.*
    from named n
    join fulfilment.shipments s on s.order_id = n.id and s.client = (select order_history.client)
    limit 100
  ), announced as materialized (
    select a.*
    from sent s
    join fulfilment.return_merchandise_authorizations a on a.client = s.client
      and a.shipment_id = s.id
    limit 100
  ), asked as materialized (
    (select o.id, o.kind, o.reference, o.created_at
     from numbers n
     join fulfilment.outbox o
       on o.client = (select order_history.client) and o.reference = n.number and o.family = 'order'
     order by o.id desc
     limit 100)
    union
    (select o.id, o.kind, o.reference, o.created_at
     from announced a
     join fulfilment.outbox o on o.client = a.client and o.reference = a.external_reference
       and o.family = 'return'
     order by o.id desc
     limit 100)
  ), boxes as materialized (
    select p.*
    from sent s
    cross join lateral (
      select * from fulfilment.parcels p
      where p.client = s.client and p.shipment_id = s.id limit 200) p
  ), events as (
    select k.created_at as at, null::timestamptz as service_at, false as is_day,
      'outbox' as source, k.id, 'inserted' as what, k.kind as detail, k.reference as name,
      null::text as error
    from asked k
    union all
    select a.at, null, false, 'outbox', k.id, a.step, a.became, k.reference, left(a.error, 500)
    from asked k
    cross join lateral (
      select * from sync.outbox_attempts a where a.outbox_id = k.id order by a.id desc limit 30) a
    union all
    select d.created_at, null, false, 'document', d.id, 'stored', d.kind, null, null
    from asked k
    join fulfilment.documents d on d.id = k.id
    union all
    select t.at, null, false, 'order', r.id, t.what, null, r.external_order_number, null
    from named n
    join fulfilment.orders r on r.client = (select order_history.client) and r.id = n.id
    cross join sync.list_stored_times(r.first_seen_at, r.changed_at, r.unlisted_since) t
    union all
    select e.seen_at, null, false, 'line', e.order_item_id,
      case when e.unlisted_since is null then 'quantity' else 'unlisted' end,
      e.quantity::text, e.sku, null
    from named n
    join fulfilment.orders r on r.client = (select order_history.client) and r.id = n.id
    cross join lateral (
      select *
      from fulfilment.order_line_events e
      where e.client = r.client and e.order_id = r.id and e.seen_at <> r.first_seen_at
      order by e.id desc
      limit 1000) e
    union all
    select t.at, null, false, 'shipment', s.id, t.what, null, null, null
    from sent s
    cross join lateral (
      values ('stored', s.first_seen_at), ('unlisted', s.unlisted_since)) t (what, at)
    union all
    select e.seen_at,
      sync.real_time(case e.status when 'READY_TO_PICK' then s.ready_to_pick_on
        when 'READY_TO_SHIP' then s.ready_to_ship_on when 'SHIPPED' then s.shipped_on end),
      false, 'shipment', s.id, 'status', e.status, null, null
    from sent s
    cross join lateral (
      select *
      from fulfilment.shipment_events e
      where e.client = s.client and e.shipment_id = s.id
      order by e.id desc
      limit 100) e
    union all
    select t.at, case when t.what = 'stored' then sync.real_time(p.shipping_date) end, false,
      'parcel', p.shipment_id, t.what,
      case when t.what = 'changed' then p.current_track_trace_status end, p.package_number, null
    from boxes p
    cross join sync.list_stored_times(p.first_seen_at, p.changed_at, p.unlisted_since) t
    union all
    select e.seen_at, sync.real_time(e.current_track_trace_status_date_time), false,
      'parcel', s.id, 'status',
      e.current_track_trace_status::text, e.package_number, null
    from sent s
    cross join lateral (
      select *
      from fulfilment.track_trace_events e
      where e.client = s.client and e.shipment_id = s.id
      order by e.package_number, e.id desc
      limit 200) e
    union all
    select t.at, null, false, 'return', a.id, 'announcement ' || t.what, a.status, null, null
    from announced a
    cross join sync.list_stored_times(a.first_seen_at, a.changed_at, a.unlisted_since) t
    union all
    select t.at,
      case when t.what = 'stored' then
        sync.real_day(i.processed_on)::timestamp at time zone 'UTC' end,
      t.what = 'stored', 'return', i.id, t.what, null, null, null
    from named n
    cross join lateral (
      select *
      from fulfilment.return_items i
      where i.client = (select order_history.client) and i.order_id = n.id
      limit 100) i
    cross join sync.list_stored_times(i.first_seen_at, i.changed_at, i.unlisted_since) t
  )
  select e.at, e.service_at, e.is_day, e.source, e.id, e.what, e.detail, e.name, e.error
  from events e
  where e.at is not null
  -- What is known here since the same second is in the order in which it must have happened.
  order by date_trunc('second', e.at), e.what like '%unlisted', array_position(
      array['outbox', 'document', 'order', 'line', 'shipment', 'parcel', 'return'], e.source),
    e.at, e.service_at nulls first, e.id,
    array_position(array['inserted', 'stored', 'sent'], e.what) nulls last, e.what
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.order_state(number text, client text DEFAULT 'default'::text)
 RETURNS TABLE(order_id bigint, state text, waits_for text, open_rows bigint, ordered bigint, cancelled bigint, shipped bigint, to_come bigint, returned bigint, shipments bigint, last_shipped_on timestamp with time zone, tracking_urls text[])
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  with asked as (
    select o.id, o.kind, o.status
    from fulfilment.outbox o
    where o.client = order_state.client and o.reference = order_state.number and o.family = 'order'
  ),
  -- A number may be used again after a rename. The newest order has it.
  found as (
    select *
    from fulfilment.order_overview v
    where v.client = order_state.client and v.external_order_number = order_state.number
    order by v.unlisted_since is not null, v.order_id desc
    limit 1
  ),
  -- The create that counts: an open one, else the last.
  creation as (
    select a.status
    from asked a
    where a.kind in ('order.create', 'order.replace')
    order by a.status in ('pending', 'sending', 'unknown', 'dead') desc, a.id desc
    limit 1
  )
  select
    f.order_id,
    case
      when f.order_id is not null then f.state
      when exists (select from asked a where a.kind = 'order.rename' and a.status = 'done')
        then 'renamed'
      else case c.status
        when 'pending' then 'waiting' when 'sending' then 'waiting' when 'unknown' then 'unknown'
        when 'dead' then 'refused' when 'cancelled' then 'cancelled' when 'done' then 'accepted'
        else 'not_found' end
    end,
    (select w.because
     from fulfilment.outbox_open w
     where w.client = order_state.client and w.reference = order_state.number
       and w.id in (select a.id from asked a)
     order by w.id
     limit 1),
    (select count(*) from asked a where a.status in ('pending', 'sending', 'unknown', 'dead')),
    coalesce(f.ordered, 0), coalesce(f.cancelled, 0), coalesce(f.shipped, 0),
    coalesce(f.to_come, 0), coalesce(f.returned, 0), coalesce(f.shipments, 0), f.last_shipped_on,
    coalesce((
      select array_agg(distinct p.tracking_url)
      from fulfilment.shipments s
      join fulfilment.parcel_overview p on p.client = s.client and p.shipment_id = s.id
      where s.client = order_state.client and s.order_id = f.order_id and s.unlisted_since is null
        and p.unlisted_since is null and p.tracking_url is not null), '{}')
  from (select) one
  left join found f on true
  left join creation c on true
  where f.order_id is not null or exists (select from asked)
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.outbox_cancel(id bigint)
 RETURNS fulfilment.outbox
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  changed fulfilment.outbox;
  problem text;
begin
  -- Locked before the check, so that no worker begins to send it meanwhile.
  perform from fulfilment.outbox o where o.id = outbox_cancel.id for update;
  select sync.find_cancel_problem(o) into problem
  from fulfilment.outbox o
  where o.id = outbox_cancel.id and o.status in ('pending', 'dead');
  if problem is not null then
    raise exception 'outbox row % cannot be cancelled: %', id, problem using errcode = '22023';
  end if;
  update fulfilment.outbox o set status = 'cancelled', next_attempt_at = null,
    finished_at = clock_timestamp(), refusal = null
  where o.id = outbox_cancel.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be cancelled', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_cancel.id),
        'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became)
    values (changed.id, 'cancelled', session_user, 'cancelled');
  return changed;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.outbox_replace(id bigint, payload jsonb)
 RETURNS fulfilment.outbox
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  changed fulfilment.outbox;
begin
  if payload is null then
    raise exception 'payload must not be null' using errcode = '22023';
  end if;
  -- Where an earlier attempt may have been carried out, the worker that claims the row looks it up
  -- first, if its kind can be.
  update fulfilment.outbox o set payload = outbox_replace.payload, status = 'pending',
    next_attempt_at = clock_timestamp(), finished_at = null, last_error = null, refusal = null,
    refused_as = null, claim_no = null, lookups = 0, absences = 0, absent_at = null,
    replaced_at = clock_timestamp(), limits_from = clock_timestamp(), tries = 0,
    refused_for_others = 0
  where o.id = outbox_replace.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be replaced', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_replace.id),
        'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became)
    values (changed.id, 'replaced', session_user, 'pending');
  perform pg_notify('fulfilment_outbox', '') where pg_notification_queue_usage() < 0.5;
  return changed;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.outbox_schema(kind text)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  found_schema jsonb := (
    select k.schema from sync.outbox_kinds k where k.kind = outbox_schema.kind);
begin
  if found_schema is null then
    raise exception 'there is no kind %; known are %', coalesce(kind, 'null'),
      (select string_agg(k.kind, ', ' order by k.kind) from sync.outbox_kinds k)
        using errcode = '22023';
  end if;
  return found_schema;
end
$function$
;
CREATE OR REPLACE FUNCTION fulfilment.start_consumer(consumer text, after bigint DEFAULT NULL::bigint, move boolean DEFAULT false)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  place bigint := (
    select c.seq from fulfilment.consumers c where c.name = consumer and move is not true);
begin
  if place is not null then
    return place;
  end if;
  -- Only committed entries count: an entry that is still being written has a larger seq.
  place := coalesce(after, (select c.seq from fulfilment.changes c order by c.seq desc limit 1),
    (select m.pruned_until from sync.feed_mark m));
  -- Raises if the entries after this place are not all kept, or if the place was never used.
  perform from fulfilment.changes_since(place, 1);
  insert into fulfilment.consumers as c (name, seq) values (consumer, place)
  on conflict (name) do update
  set seq = case when move then excluded.seq else c.seq end,
    moved_at = case when move then now() else c.moved_at end
  returning c.seq into place;
  return place;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.check_outbox_limits()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if length(new.client) > 64 then
    raise exception 'client has % characters; at most 64 are taken',
      length(new.client) using errcode = '22001';
  end if;
  if length(new.kind) > 64 then
    raise exception 'kind has % characters; at most 64 are taken',
      length(new.kind) using errcode = '22001';
  end if;
  if length(new.reference) > 200 then
    raise exception 'reference has % characters; at most 200 are taken',
      length(new.reference) using errcode = '22001';
  end if;
  new.payload_bytes := octet_length(new.payload::text);
  if new.payload_bytes > 16777216 then
    raise exception 'payload has % bytes; at most 16777216 (16 MB) are taken',
      new.payload_bytes using errcode = '22001';
  end if;
  -- Programs cannot hold every time that Postgres can.
  if new.not_before not between
    new.created_at - interval '100 years' and new.created_at + interval '100 years' then
    raise exception 'not_before is %; it must be within 100 years of the insertion',
      new.not_before using errcode = '22008';
  end if;
  if new.status = 'pending' then
    new.next_attempt_at := greatest(new.next_attempt_at, new.not_before);
  end if;
  return new;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$select statement_timestamp()$function$
;
CREATE OR REPLACE FUNCTION sync.copy_edited()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$
;
CREATE OR REPLACE FUNCTION sync.database_mark()
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  server text;
  timeline text;
begin
  begin
    select c.system_identifier::text into server from pg_control_system() c;
  exception when others then
    server := null;
  end;
  begin
    -- A standby has no timeline of its own. Nothing is sent from a standby.
    if not pg_is_in_recovery() then
      timeline := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
    end if;
  exception when others then
    timeline := null;
  end;
  return concat_ws('/', coalesce(server, '-'), sync.table_mark(), coalesce(timeline, '-'));
end
$function$
;
CREATE OR REPLACE FUNCTION sync.encode_for_url(value text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
BEGIN ATOMIC
 SELECT COALESCE(string_agg(
         CASE
             WHEN (t.c ~ '^[A-Za-z0-9._~-]$'::text) THEN t.c
             ELSE regexp_replace(upper(encode(convert_to(t.c, 'UTF8'::name), 'hex'::text)), '(..)'::text, '%\1'::text, 'g'::text)
         END, ''::text ORDER BY t.n), ''::text) AS "coalesce"
    FROM regexp_split_to_table(encode_for_url.value, ''::text) WITH ORDINALITY t(c, n);
END
;
CREATE OR REPLACE FUNCTION sync.enter_document()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if tg_op = 'DELETE' then
    insert into sync.new_changes (client, entity, id, operation)
      values (old.client, 'documents', old.id, 'removed');
  else
    insert into sync.new_changes (client, entity, id, operation)
      values (new.client, 'documents', new.id, 'created');
  end if;
  return null;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.find_cancel_problem(asked fulfilment.outbox)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select format('order %s may be renamed (its number then ends with -R%s) or cancelled already. '
    'Retry this row, or replace its payload, and it continues; or change that order at the '
    'service, and mark this row as done', t.target_id, asked.id)
  from sync.outbox_targets t
  where asked.kind = 'order.replace' and t.outbox_id = asked.id and t.is_open
$function$
;
CREATE OR REPLACE FUNCTION sync.format_time(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT
         CASE
             WHEN isfinite(at) THEN to_char((at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'::text)
             ELSE (at)::text
         END AS at;
END
;
CREATE OR REPLACE FUNCTION sync.keep_ordered_quantity()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  new.ordered_quantity := greatest(new.ordered_quantity, new.quantity);
  return new;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.list_first(words text[])
 RETURNS text
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT (array_to_string((words)[1:10], ', '::text) ||
         CASE
             WHEN (cardinality(words) > 10) THEN format(' and %s more'::text, (cardinality(words) - 10))
             ELSE ''::text
         END);
END
;
CREATE OR REPLACE FUNCTION sync.list_stored_times(first_seen_at timestamp with time zone, changed_at timestamp with time zone, unlisted_since timestamp with time zone)
 RETURNS TABLE(what text, at timestamp with time zone)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  values ('stored', first_seen_at), ('changed', nullif(changed_at, first_seen_at)),
    ('unlisted', unlisted_since)
$function$
;
CREATE OR REPLACE FUNCTION sync.note_outcome()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  -- A row without a result has no document: an operator marked it as done, or the answer could not
  -- be stored. The first attachment of an order goes with the order; each other one is a row of its
  -- own. Most orders have none: for them the whole statement would cost more than the update.
  if new.status = 'done' and new.result <> '{}' and exists (
    select from sync.outbox_kinds k
    where k.kind = new.kind and new.payload #>
      array(select jsonb_array_elements_text(k.document -> 'path')) is not null) then
    perform sync.store_documents(array[new.id]);
  end if;

  insert into sync.new_changes (client, entity, id, operation, changed_columns)
  values (new.client, 'outbox', new.id, 'updated', array_remove(array['status',
    case when old.attempts <> new.attempts then 'attempts' end,
    case when old.last_error is distinct from new.last_error then 'last_error' end,
    case when old.result is distinct from new.result then 'result' end,
    case when old.finished_at is distinct from new.finished_at then 'finished_at' end], null));
  -- Any role that may connect can listen: the id tells it nothing.
  perform pg_notify('fulfilment_outbox_settled', new.id::text)
    where pg_notification_queue_usage() < 0.5;

  if new.status <> 'unknown'
    and exists (select from sync.outbox_waits w where w.waits_for = new.id) then
    perform sync.release_waiters(new.id);
  end if;
  return null;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.notify_outbox()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  if pg_notification_queue_usage() < 0.5 and not exists (
    select from sync.awake_clients a
    -- A time that is far ahead was written before the clock was set back.
    where a.client = new.client
      and a.awake_until between clock_timestamp() and clock_timestamp() + interval '5 seconds'
  ) then
    -- Postgres refuses a payload of 8,000 bytes. Nobody has a client with such a name.
    perform pg_notify('fulfilment_outbox', left(new.client, 1000));
  end if;
  return null;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.number_changes(max integer, whole boolean DEFAULT false, OUT numbered integer, OUT outbox_ids bigint[])
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
declare
  mark pg_snapshot := (select m.numbered from sync.feed_mark m
    -- A mark of another server may be ahead of this one.
    where not whole and pg_snapshot_xmax(m.numbered) <= pg_snapshot_xmax(pg_current_snapshot()));
  since xid8 := coalesce(pg_snapshot_xmax(mark), '0');
  open xid8[] := array(select pg_snapshot_xip(mark));
begin
  numbered := 0;
  if not exists (select from sync.new_changes where xid >= since)
    and not exists (select from sync.new_changes where xid = any(open)) then
    return;
  end if;
  perform from sync.locks where name = 'feed' for update skip locked;
  if not found then
    numbered := null;
    return;
  end if;
  with moved as (
    delete from sync.new_changes where ctid = any(array(
      select ctid from (
        select ctid, place from sync.new_changes where xid >= since
        union all select ctid, place from sync.new_changes where xid = any(open)) n
      order by place limit max))
    returning *
  ), counted as materialized (
    select nextval('fulfilment.changes_seq_seq') as seq, m.*
    from (select * from moved order by place) m
  ), entered as (
    insert into fulfilment.changes (seq, client, entity, id, key, operation, changed_columns,
      changed_at)
    overriding system value
    select seq, client, entity, id, key, operation, changed_columns, changed_at
    from counted
    order by seq
  ), noted as (
    insert into sync.rescanned_changes (first_seq, last_seq)
    select min(seq), max(seq)
    from (select seq, seq - row_number() over (order by seq) as span from counted where is_rescan) r
    group by span
  ), marked as (
    update sync.feed_mark
    set numbered = pg_current_snapshot(), numbered_at = clock_timestamp()
    where (select count(*) from moved) < max
      and numbered_at not between clock_timestamp() - interval '1 second' and clock_timestamp()
  )
  select count(*), array_agg(distinct id) filter (where entity = 'outbox')
  into numbered, outbox_ids
  from counted;
  perform pg_notify('fulfilment_changes', '') where pg_notification_queue_usage() < 0.5;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.push_database_hold()
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case
    -- On a standby the timeline is not known.
    when d.mark is distinct from sync.database_mark()
      and not (pg_is_in_recovery()
        and regexp_replace(d.mark, '[^/]*$', '')
          = regexp_replace(sync.database_mark(), '[^/]*$', '')) then
      'the database has changed, and nothing is sent from it: '
      'fulfilment-sync status names the answers of database accept (docs/operations.md)'
    when d.accepted_as = 'copy' then 'this database is a copy: nothing is sent from it'
    -- Workers at accepted places send the rows, if there are any.
    when exists (
        select from sync.push_places p
        where p.accepted_at is null and p.asked_at > now() - interval '30 seconds'
          and p.asked_since < now() - interval '10 seconds') then
      'a worker reaches this database at another address, and sends nothing: '
      'fulfilment-sync status names the answers of database accept (docs/operations.md)'
  end
  from sync.push_database d
$function$
;
CREATE OR REPLACE FUNCTION sync.pushes_allowed()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select exists (
    select from sync.push_database d
    join sync.push_places p on p.place = current_setting('fulfilment_sync.place', true)
    where d.mark = sync.database_mark() and d.accepted_as <> 'copy' and p.accepted_at is not null)
$function$
;
CREATE OR REPLACE FUNCTION sync.read_document_id(given jsonb)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select case when given #>> '{}' ~ '^[0-9]{1,16}$' then (given #>> '{}')::bigint end
$function$
;
CREATE OR REPLACE FUNCTION sync.read_tracking_link(raw jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
BEGIN ATOMIC
 SELECT "substring"((raw #>> '{attributes,tracking,url}'::text[]), '(?i)^https?://.*'::text) AS "substring";
END
;
CREATE OR REPLACE FUNCTION sync.real_day(day date)
 RETURNS date
 LANGUAGE sql
 IMMUTABLE
BEGIN ATOMIC
 SELECT
         CASE
             WHEN (day >= '1970-01-01'::date) THEN day
             ELSE NULL::date
         END AS "case";
END
;
CREATE OR REPLACE FUNCTION sync.real_time(at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
BEGIN ATOMIC
 SELECT
         CASE
             WHEN (at >= '1970-01-01 00:00:00+00'::timestamp with time zone) THEN at
             ELSE NULL::timestamp with time zone
         END AS "case";
END
;
CREATE OR REPLACE FUNCTION sync.record_abandoned(clients text[], jobs text[])
 RETURNS void
 LANGUAGE sql
AS $function$
  update sync.runs r
  set status = 'abandoned', finished_at = now()
  from unnest(clients, jobs) as l (client, job)
  where r.client = l.client and r.job = l.job and r.status = 'running';
  update sync.jobs j
  set next_at = sync.clock(), last_finished_at = now(), last_outcome = 'abandoned'
  from unnest(clients, jobs) as l (client, job)
  where j.client = l.client and j.job = l.job;
$function$
;
CREATE OR REPLACE FUNCTION sync.record_dropped_lines()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  insert into fulfilment.order_line_events (client, order_item_id, order_id, sku, quantity,
    unlisted_since)
  select d.client, d.id, d.order_id, d.sku, d.quantity, now()
  from dropped d
  order by d.id;
  return null;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.record_events()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_hashjoin TO 'on'
AS $function$
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
$function$
;
CREATE OR REPLACE FUNCTION sync.release_waiters(first_row bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  freed bigint[];
begin
  -- Rows that somebody has locked are looked at again by themselves, soon.
  with free as materialized (
    select o.id from fulfilment.outbox o
    where o.id in (select w.outbox_id from sync.outbox_waits w where w.waits_for = first_row)
      and o.status = 'pending'
    for no key update of o skip locked
  ), released as (
    update fulfilment.outbox o set next_attempt_at = clock_timestamp()
    from free where o.id = free.id returning o.id
  )
  select array_agg(id) into freed from released;
  if freed is not null then
    delete from sync.outbox_waits w where w.outbox_id = any(freed);
    perform pg_notify('fulfilment_outbox', '') where pg_notification_queue_usage() < 0.5;
  end if;
end
$function$
;
CREATE OR REPLACE FUNCTION sync.revive_abandoned(of_client text DEFAULT NULL::text, of_job text DEFAULT NULL::text)
 RETURNS TABLE(client text, job text)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  clients text[];
  jobs text[];
begin
  -- If the last run of a job began or ended in the future, the clock was set back since.
  if of_client is null then
    update sync.jobs j
    set next_at = sync.clock()
    where (j.client, j.job) in (
      select f.client, f.job from sync.jobs f
      where greatest(f.last_started_at, f.last_finished_at) > now() + interval '1 minute'
        and isfinite(f.next_at) and f.next_at > sync.clock()
      for update skip locked);
  end if;

  with lost as (
    update sync.leases l
    set holder = null, expires_at = null
    where (l.client, l.name) in (
      select f.client, f.name from sync.leases f
      where (f.expires_at <= clock_timestamp()
          -- Nobody has renewed it since the clock was set back.
          or f.expires_at > clock_timestamp() + interval '1 minute')
        and (of_client is null or f.client = of_client and f.name = of_job)
      for update skip locked)
    returning l.client, l.name)
  select array_agg(l.client), array_agg(l.name) into clients, jobs from lost l;
  if clients is null then return; end if;
  perform sync.record_abandoned(clients, jobs);
  return query select * from unnest(clients, jobs);
end
$function$
;
CREATE OR REPLACE FUNCTION sync.store_documents(outbox_ids bigint[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  insert into fulfilment.documents (id, client, kind, reference, order_id, shipment_id,
    order_attachment_id, state, file_name, mime_type, package_number, shipping_method_id,
    is_paperless, result, created_at)
  select d.id, d.client, d.document_kind, d.reference,
    coalesce(sync.read_document_id(d.result -> 'orderId'), s.order_id),
    d.shipment_id, sync.read_document_id(d.result -> 'orderAttachmentId'),
    case when d.with_order and d.result -> 'orderAttachmentId' is null then 'sent'
      else 'stored' end,
    coalesce(d.result ->> 'fileName', d.payload ->> 'filename'),
    coalesce(d.result ->> 'mimeType',
      case d.document_kind when 'order_attachment' then 'application/pdf' end),
    d.result ->> 'packageNumber', sync.read_document_id(d.result -> 'shippingMethodId'),
    case d.result ->> 'isPaperlessReturnShippingMethod'
      when 'true' then true when 'false' then false end,
    d.result, d.finished_at
  from (
    select o.id, o.client, o.reference, o.finished_at, w.with_order,
      k.document ->> 'kind' as document_kind, o.payload #> w.path as payload,
      case when w.with_order then jsonb_strip_nulls(jsonb_build_object(
        'orderId', o.result -> 'orderId', 'orderAttachmentId', o.result -> 'orderAttachmentId'))
        else o.result end as result,
      sync.read_document_id(o.payload -> 'shipmentId') as shipment_id
    from fulfilment.outbox o
    join sync.outbox_kinds k on k.kind = o.kind and k.document is not null
    cross join lateral (
      select array(select jsonb_array_elements_text(k.document -> 'path')) as path,
        k.document -> 'path' <> '[]' as with_order) w
    where o.id = any(outbox_ids) and o.payload #> w.path is not null
  ) d
  left join fulfilment.shipments s on s.client = d.client and s.id = d.shipment_id
  order by d.id
  on conflict (id) do nothing
$function$
;
CREATE OR REPLACE FUNCTION sync.table_mark()
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select d.oid || '/' || to_regclass('fulfilment.outbox')::oid
  from pg_database d
  where d.datname = current_database()
$function$
;

CREATE TRIGGER carrier_links_added AFTER INSERT ON fulfilment.carrier_links REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('carrier_links', 'shipping_method', 'url');
CREATE TRIGGER carrier_links_changed AFTER UPDATE ON fulfilment.carrier_links REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('carrier_links', 'shipping_method', 'url');
CREATE TRIGGER carrier_links_emptied AFTER TRUNCATE ON fulfilment.carrier_links FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('carrier_links', 'shipping_method', 'url');
CREATE TRIGGER carrier_links_gone AFTER DELETE ON fulfilment.carrier_links REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('carrier_links', 'shipping_method', 'url');
CREATE TRIGGER documents_entered AFTER INSERT OR DELETE ON fulfilment.documents FOR EACH ROW EXECUTE FUNCTION sync.enter_document();
CREATE TRIGGER inbound_packing_slips_changed AFTER UPDATE ON fulfilment.inbound_packing_slips REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('inbound_packing_slip_events', 'id', 'inbound_packing_slip_id', 'status, expected_in, expected_on', 'source_time', 'sync.real_time(case n.status when ''IN_PROGRESS'' then n.received_on
          when ''COMPLETED'' then n.completed_on end)');
CREATE TRIGGER inbound_packing_slips_first AFTER INSERT ON fulfilment.inbound_packing_slips REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('inbound_packing_slip_events', 'id', 'inbound_packing_slip_id', 'status, expected_in, expected_on', 'source_time', 'sync.real_time(case n.status when ''IN_PROGRESS'' then n.received_on
          when ''COMPLETED'' then n.completed_on end)');
CREATE TRIGGER inbounds_changed AFTER UPDATE ON fulfilment.inbounds REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('inbound_events', 'id', 'inbound_id', 'status, received_in', 'source_time', 'sync.real_time(case n.status when ''PROCESSING'' then n.created_on
          when ''CHECKING'' then n.checking_on
          when ''COMPLETED'' then n.completed_on end)');
CREATE TRIGGER inbounds_first AFTER INSERT ON fulfilment.inbounds REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('inbound_events', 'id', 'inbound_id', 'status, received_in', 'source_time', 'sync.real_time(case n.status when ''PROCESSING'' then n.created_on
          when ''CHECKING'' then n.checking_on
          when ''COMPLETED'' then n.completed_on end)');
CREATE TRIGGER order_items_changed AFTER UPDATE ON fulfilment.order_items REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('order_line_events', 'id', 'order_item_id', 'sku, quantity, unlisted_since', 'order_id', 'n.order_id');
CREATE TRIGGER order_items_dropped AFTER DELETE ON fulfilment.order_items REFERENCING OLD TABLE AS dropped FOR EACH STATEMENT EXECUTE FUNCTION sync.record_dropped_lines();
CREATE TRIGGER order_items_first AFTER INSERT ON fulfilment.order_items REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('order_line_events', 'id', 'order_item_id', 'sku, quantity, unlisted_since', 'order_id', 'n.order_id');
CREATE TRIGGER order_items_ordered BEFORE INSERT OR UPDATE OF quantity ON fulfilment.order_items FOR EACH ROW EXECUTE FUNCTION sync.keep_ordered_quantity();
CREATE TRIGGER outbox_limits BEFORE INSERT OR UPDATE OF client, kind, reference, payload, not_before ON fulfilment.outbox FOR EACH ROW EXECUTE FUNCTION sync.check_outbox_limits();
CREATE CONSTRAINT TRIGGER outbox_notify AFTER INSERT ON fulfilment.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sync.notify_outbox();
CREATE TRIGGER outbox_settled AFTER UPDATE OF status ON fulfilment.outbox FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND (new.status = ANY (ARRAY['done'::text, 'dead'::text, 'unknown'::text, 'cancelled'::text])))) EXECUTE FUNCTION sync.note_outcome();
CREATE TRIGGER service_products_added AFTER INSERT ON fulfilment.service_products REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('service_products', 'sku', 'is_pattern');
CREATE TRIGGER service_products_changed AFTER UPDATE ON fulfilment.service_products REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('service_products', 'sku', 'is_pattern');
CREATE TRIGGER service_products_emptied AFTER TRUNCATE ON fulfilment.service_products FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('service_products', 'sku', 'is_pattern');
CREATE TRIGGER service_products_gone AFTER DELETE ON fulfilment.service_products REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('service_products', 'sku', 'is_pattern');
CREATE TRIGGER shipments_changed AFTER UPDATE ON fulfilment.shipments REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('shipment_events', 'id', 'shipment_id', 'status, warehouse_code', 'source_time', 'sync.real_time(case n.status when ''READY_TO_PICK'' then n.ready_to_pick_on
          when ''READY_TO_SHIP'' then n.ready_to_ship_on when ''SHIPPED'' then n.shipped_on end)');
CREATE TRIGGER shipments_first AFTER INSERT ON fulfilment.shipments REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('shipment_events', 'id', 'shipment_id', 'status, warehouse_code', 'source_time', 'sync.real_time(case n.status when ''READY_TO_PICK'' then n.ready_to_pick_on
          when ''READY_TO_SHIP'' then n.ready_to_ship_on when ''SHIPPED'' then n.shipped_on end)');
CREATE TRIGGER stock_levels_changed AFTER UPDATE ON fulfilment.stock_levels REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('stock_events', 'sku', 'sku', 'stock', '', '');
CREATE TRIGGER stock_levels_first AFTER INSERT ON fulfilment.stock_levels REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('stock_events', 'sku', 'sku', 'stock', '', '');
CREATE TRIGGER stock_watch_added AFTER INSERT ON fulfilment.stock_watch REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('watched_articles', 'sku');
CREATE TRIGGER stock_watch_changed AFTER UPDATE ON fulfilment.stock_watch REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('watched_articles', 'sku');
CREATE TRIGGER stock_watch_emptied AFTER TRUNCATE ON fulfilment.stock_watch FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('watched_articles', 'sku');
CREATE TRIGGER stock_watch_gone AFTER DELETE ON fulfilment.stock_watch REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION sync.copy_edited('watched_articles', 'sku');
CREATE TRIGGER track_traces_changed AFTER UPDATE ON fulfilment.track_traces REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('track_trace_events', 'shipment_id, package_number', 'shipment_id, package_number', 'current_track_trace_status, current_track_trace_status_date_time, current_track_trace_exception_level', 'raw', 'n.raw');
CREATE TRIGGER track_traces_first AFTER INSERT ON fulfilment.track_traces REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION sync.record_events('track_trace_events', 'shipment_id, package_number', 'shipment_id, package_number', 'current_track_trace_status, current_track_trace_status_date_time, current_track_trace_exception_level', 'raw', 'n.raw');

grant select on fulfilment.backorders to fulfilment_reader;
grant select on fulfilment.backorders to fulfilment_writer;
grant select on fulfilment.carrier_links to fulfilment_reader;
grant delete, select on fulfilment.carrier_links to fulfilment_writer;
grant select on fulfilment.changes to fulfilment_reader;
grant select on fulfilment.changes to fulfilment_writer;
grant select on fulfilment.consumers to fulfilment_reader;
grant select on fulfilment.consumers to fulfilment_writer;
grant select on fulfilment.documents to fulfilment_reader;
grant select on fulfilment.documents to fulfilment_writer;
grant select on fulfilment.erased_orders to fulfilment_reader;
grant select on fulfilment.erased_orders to fulfilment_writer;
grant select on fulfilment.inbound_events to fulfilment_reader;
grant select on fulfilment.inbound_events to fulfilment_writer;
grant select on fulfilment.inbound_items to fulfilment_reader;
grant select on fulfilment.inbound_items to fulfilment_writer;
grant select on fulfilment.inbound_packing_slip_events to fulfilment_reader;
grant select on fulfilment.inbound_packing_slip_events to fulfilment_writer;
grant select on fulfilment.inbound_packing_slip_items to fulfilment_reader;
grant select on fulfilment.inbound_packing_slip_items to fulfilment_writer;
grant select on fulfilment.inbound_packing_slips to fulfilment_reader;
grant select on fulfilment.inbound_packing_slips to fulfilment_writer;
grant select on fulfilment.inbounds to fulfilment_reader;
grant select on fulfilment.inbounds to fulfilment_writer;
grant select on fulfilment.main_shipping_method_warehouses to fulfilment_reader;
grant select on fulfilment.main_shipping_method_warehouses to fulfilment_writer;
grant select on fulfilment.open_inbound_expectations to fulfilment_reader;
grant select on fulfilment.open_inbound_expectations to fulfilment_writer;
grant select on fulfilment.order_addresses to fulfilment_reader;
grant select on fulfilment.order_addresses to fulfilment_writer;
grant select on fulfilment.order_items to fulfilment_reader;
grant select on fulfilment.order_items to fulfilment_writer;
grant select on fulfilment.order_line_events to fulfilment_reader;
grant select on fulfilment.order_line_events to fulfilment_writer;
grant select on fulfilment.order_lines to fulfilment_reader;
grant select on fulfilment.order_lines to fulfilment_writer;
grant select on fulfilment.order_overview to fulfilment_reader;
grant select on fulfilment.order_overview to fulfilment_writer;
grant select on fulfilment.orders to fulfilment_reader;
grant select on fulfilment.orders to fulfilment_writer;
grant select on fulfilment.outbox to fulfilment_reader;
grant select on fulfilment.outbox to fulfilment_writer;
grant select on fulfilment.outbox_open to fulfilment_reader;
grant select on fulfilment.outbox_open to fulfilment_writer;
grant select on fulfilment.parcel_overview to fulfilment_reader;
grant select on fulfilment.parcel_overview to fulfilment_writer;
grant select on fulfilment.parcels to fulfilment_reader;
grant select on fulfilment.parcels to fulfilment_writer;
grant select on fulfilment.received_goods to fulfilment_reader;
grant select on fulfilment.received_goods to fulfilment_writer;
grant select on fulfilment.return_items to fulfilment_reader;
grant select on fulfilment.return_items to fulfilment_writer;
grant select on fulfilment.return_merchandise_authorization_items to fulfilment_reader;
grant select on fulfilment.return_merchandise_authorization_items to fulfilment_writer;
grant select on fulfilment.return_merchandise_authorizations to fulfilment_reader;
grant select on fulfilment.return_merchandise_authorizations to fulfilment_writer;
grant select on fulfilment.return_overview to fulfilment_reader;
grant select on fulfilment.return_overview to fulfilment_writer;
grant select on fulfilment.returns_to_restock to fulfilment_reader;
grant select on fulfilment.returns_to_restock to fulfilment_writer;
grant select on fulfilment.service_product_candidates to fulfilment_reader;
grant select on fulfilment.service_product_candidates to fulfilment_writer;
grant select on fulfilment.service_products to fulfilment_reader;
grant delete, select on fulfilment.service_products to fulfilment_writer;
grant select on fulfilment.setting_options to fulfilment_reader;
grant select on fulfilment.setting_options to fulfilment_writer;
grant select on fulfilment.shipment_events to fulfilment_reader;
grant select on fulfilment.shipment_events to fulfilment_writer;
grant select on fulfilment.shipment_items to fulfilment_reader;
grant select on fulfilment.shipment_items to fulfilment_writer;
grant select on fulfilment.shipment_lines to fulfilment_reader;
grant select on fulfilment.shipment_lines to fulfilment_writer;
grant select on fulfilment.shipment_overview to fulfilment_reader;
grant select on fulfilment.shipment_overview to fulfilment_writer;
grant select on fulfilment.shipments to fulfilment_reader;
grant select on fulfilment.shipments to fulfilment_writer;
grant select on fulfilment.stock_events to fulfilment_reader;
grant select on fulfilment.stock_events to fulfilment_writer;
grant select on fulfilment.stock_levels to fulfilment_reader;
grant select on fulfilment.stock_levels to fulfilment_writer;
grant select on fulfilment.stock_watch to fulfilment_reader;
grant delete, select on fulfilment.stock_watch to fulfilment_writer;
grant select on fulfilment.track_trace_events to fulfilment_reader;
grant select on fulfilment.track_trace_events to fulfilment_writer;
grant select on fulfilment.track_traces to fulfilment_reader;
grant select on fulfilment.track_traces to fulfilment_writer;
