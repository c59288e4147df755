-- oldest code: 0.1.0
-- Stream return-items: processed return lines, returnItem of the v3 interface.

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
create index return_items_by_day on fulfilment.return_items (client, processed_on);
comment on table fulfilment.return_items is 'Return lines that a warehouse has processed (v3 returnItem)';
comment on column fulfilment.return_items.client is 'Client key';
comment on column fulfilment.return_items.id is 'Return item id at the service';
comment on column fulfilment.return_items.sku is 'Article';
comment on column fulfilment.return_items.quantity is 'Pieces';
comment on column fulfilment.return_items.condition is 'condition; of its values only RETURN is shown';
comment on column fulfilment.return_items.processed_on is 'Day the warehouse processed it';
comment on column fulfilment.return_items.processed_in is 'Warehouse that processed it';
comment on column fulfilment.return_items.restock_in is 'Warehouse it went back on the shelf in; null while it did not';
comment on column fulfilment.return_items.restock_on is 'restockOn, read in the client''s zone where it names none';
comment on column fulfilment.return_items.comment is 'Remark of the warehouse';
comment on column fulfilment.return_items.redeliver is 'Whether it is to be delivered once more';
comment on column fulfilment.return_items.external_order_number is 'Your order number, as the return item itself carries it';
comment on column fulfilment.return_items.order_id is 'Order it comes back from';
comment on column fulfilment.return_items.order_item_id is 'Order line it comes back from';
comment on column fulfilment.return_items.product_id is 'Product id at the service';
comment on column fulfilment.return_items.return_id is 'Return it arrived with';
comment on column fulfilment.return_items.return_merchandise_authorization_item_id is 'Line that announced it; null where nobody did';
comment on column fulfilment.return_items.return_reason_id is 'Return reason (settings list returnReasons)';
comment on column fulfilment.return_items.shipment_item_id is 'Shipment line that delivered it';
comment on column fulfilment.return_items.raw is 'The resource as received';
comment on column fulfilment.return_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.return_items.changed_at is 'When its content last changed here';
comment on column fulfilment.return_items.unlisted_since is 'Since when the service no longer knows it; null while it does';
comment on column fulfilment.return_items.read_no is 'Number of the reading this content is from';
