-- oldest code: 0.1.0
-- Items and addresses of orders: orderItem and address of the v3 interface.

create table fulfilment.order_items (
  client text not null,
  id bigint not null,
  order_id bigint,
  sku text,
  quantity integer,
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
comment on column fulfilment.order_items.client is 'Client key';
comment on column fulfilment.order_items.id is 'Order item id at the service';
comment on column fulfilment.order_items.order_id is 'Order it is a line of';
comment on column fulfilment.order_items.sku is 'Article';
comment on column fulfilment.order_items.quantity is 'Pieces; 0 when cancelled whole';
comment on column fulfilment.order_items.fulfill_from is 'Warehouse it is to be fulfilled from';
comment on column fulfilment.order_items.price is 'price, with the digits received';
comment on column fulfilment.order_items.vat is 'Rate, with the digits received';
comment on column fulfilment.order_items.name is 'name';
comment on column fulfilment.order_items.channel_identifier is 'channelIdentifier';
comment on column fulfilment.order_items.metadata is 'serviceLevel, purchases, reference, extra6 and extra7';
comment on column fulfilment.order_items.product_id is 'Product id at the service';
comment on column fulfilment.order_items.raw is 'The resource as received';
comment on column fulfilment.order_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.order_items.changed_at is 'When its content last changed here';
comment on column fulfilment.order_items.unlisted_since is 'Since when the service no longer knows it; null while it does';

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
comment on table fulfilment.order_addresses is 'Delivery and billing addresses of orders (v3 address); personal data';
comment on column fulfilment.order_addresses.client is 'Client key';
comment on column fulfilment.order_addresses.order_id is 'Order it belongs to';
comment on column fulfilment.order_addresses.role is 'delivery or billing';
comment on column fulfilment.order_addresses.id is 'Address id at the service; both roles may share one';
comment on column fulfilment.order_addresses.first_name is 'firstName';
comment on column fulfilment.order_addresses.last_name is 'lastName';
comment on column fulfilment.order_addresses.prefix is 'prefix';
comment on column fulfilment.order_addresses.street1 is 'street1';
comment on column fulfilment.order_addresses.postcode is 'postcode';
comment on column fulfilment.order_addresses.house_number is 'houseNumber';
comment on column fulfilment.order_addresses.house_number_extension is 'houseNumberExtension';
comment on column fulfilment.order_addresses.city is 'city';
comment on column fulfilment.order_addresses.country_code is 'Two letters (ISO 3166)';
comment on column fulfilment.order_addresses.raw is 'The resource as received';
comment on column fulfilment.order_addresses.first_seen_at is 'When it was first stored here';
comment on column fulfilment.order_addresses.changed_at is 'When its content last changed here';

create table sync.confirmations (
  client text not null,
  stream text not null,
  read_no bigint not null,
  ids bigint[] not null
);
create index confirmations_by_stream on sync.confirmations (client, stream, read_no);
comment on table sync.confirmations is 'Rows that a reading found unchanged while another reader of the stream was at work; an older reading must not undo them';
comment on column sync.confirmations.client is 'Client key';
comment on column sync.confirmations.stream is 'Stream name';
comment on column sync.confirmations.read_no is 'Number of the reading';
comment on column sync.confirmations.ids is 'Ids of the rows';
