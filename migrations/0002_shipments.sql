-- oldest code: 0.1.0
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
  external_order_number text,
  raw jsonb not null,
  first_seen_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  unlisted_since timestamptz,
  read_no bigint not null,
  primary key (client, id)
) with (fillfactor = 90);
create index shipments_by_order on fulfilment.shipments (client, order_id);
create index shipments_open on fulfilment.shipments (client, id) where status is distinct from 'SHIPPED';
create index shipments_without_number on fulfilment.shipments (client, order_id)
  where external_order_number is null and order_id is not null;
comment on table fulfilment.shipments is 'Shipments of the warehouse, one row each (v3 shipment)';
comment on column fulfilment.shipments.client is 'Client key';
comment on column fulfilment.shipments.id is 'Shipment id at the service';
comment on column fulfilment.shipments.status is 'READY_TO_PICK, READY_TO_SORT, READY_TO_SHIP, SHIPPED or ERROR; another value is kept as received';
comment on column fulfilment.shipments.ready_to_pick_on is 'readyToPickOn, read in the client''s zone';
comment on column fulfilment.shipments.ready_to_ship_on is 'readyToShipOn, read in the client''s zone';
comment on column fulfilment.shipments.shipped_on is 'shippedOn, read in the client''s zone';
comment on column fulfilment.shipments.warehouse_code is 'Warehouse that fulfils it';
comment on column fulfilment.shipments.return_label is 'returnLabel as received';
comment on column fulfilment.shipments.order_id is 'Order it belongs to';
comment on column fulfilment.shipments.order_type_id is 'Order type (settings list orderTypes)';
comment on column fulfilment.shipments.shipping_method_id is 'Shipping method; whether a main or a nested id is not shown';
comment on column fulfilment.shipments.external_order_number is 'Your order number, from orders';
comment on column fulfilment.shipments.raw is 'The resource as received, without its included';
comment on column fulfilment.shipments.first_seen_at is 'When it was first stored here';
comment on column fulfilment.shipments.changed_at is 'When its content last changed here';
comment on column fulfilment.shipments.unlisted_since is 'Since when the service no longer knows it; null while it does';
comment on column fulfilment.shipments.read_no is 'Number of the reading this content is from';

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
comment on column fulfilment.shipment_items.client is 'Client key';
comment on column fulfilment.shipment_items.id is 'Shipment item id at the service';
comment on column fulfilment.shipment_items.shipment_id is 'Shipment it is a line of';
comment on column fulfilment.shipment_items.sku is 'Article';
comment on column fulfilment.shipment_items.quantity is 'Pieces';
comment on column fulfilment.shipment_items.lot_number is 'Lot';
comment on column fulfilment.shipment_items.expiration_date is 'Use before';
comment on column fulfilment.shipment_items.serial_numbers is 'Serial numbers of the pieces';
comment on column fulfilment.shipment_items.order_item_id is 'Order line it fulfils';
comment on column fulfilment.shipment_items.product_id is 'Product id at the service';
comment on column fulfilment.shipment_items.raw is 'The resource as received';
comment on column fulfilment.shipment_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.shipment_items.changed_at is 'When its content last changed here';
comment on column fulfilment.shipment_items.unlisted_since is 'Since when the service no longer knows it; null while it does';
