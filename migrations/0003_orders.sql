-- oldest code: 0.1.0
-- Stream orders: the order itself of the v3 interface.

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
create index orders_by_number on fulfilment.orders (client, external_order_number);
comment on table fulfilment.orders is 'Orders at the warehouse, one row each (v3 order)';
comment on column fulfilment.orders.client is 'Client key';
comment on column fulfilment.orders.id is 'Order id at the service';
comment on column fulfilment.orders.external_order_number is 'Your order number; it can be changed at the service';
comment on column fulfilment.orders.reference is 'reference';
comment on column fulfilment.orders.ordered_on is 'orderedOn';
comment on column fulfilment.orders.consumer_reference is 'consumerReference';
comment on column fulfilment.orders.promotion_code is 'promotionCode';
comment on column fulfilment.orders.currency is 'Three-letter code';
comment on column fulfilment.orders.locale is 'language-region';
comment on column fulfilment.orders.email is 'Consumer''s address (personal data)';
comment on column fulfilment.orders.phone_number is 'Consumer''s number (personal data)';
comment on column fulfilment.orders.vat_number is 'vatNumber';
comment on column fulfilment.orders.fulfill_from is 'Warehouse it is to be fulfilled from';
comment on column fulfilment.orders.preferred_shipping_date is 'Not shipped before';
comment on column fulfilment.orders.allow_partial_delivery is 'allowPartialDelivery';
comment on column fulfilment.orders.on_hold is 'onHold';
comment on column fulfilment.orders.metadata is 'extra1 to extra5';
comment on column fulfilment.orders.channel_identifier is 'channelIdentifier';
comment on column fulfilment.orders.order_type_id is 'Order type (settings list orderTypes)';
comment on column fulfilment.orders.delivery_address_id is 'Delivery address at the service';
comment on column fulfilment.orders.billing_address_id is 'Billing address at the service';
comment on column fulfilment.orders.pick_up_point_id is 'Pick-up point at the service';
comment on column fulfilment.orders.preferred_shipping_method_id is 'Main shipping method asked for';
comment on column fulfilment.orders.pick_up_point is 'Pick-up point as received, where it was included';
comment on column fulfilment.orders.raw is 'The resource as received, without its included';
comment on column fulfilment.orders.first_seen_at is 'When it was first stored here';
comment on column fulfilment.orders.changed_at is 'When its content last changed here';
comment on column fulfilment.orders.unlisted_since is 'Since when the service no longer knows it; null while it does';
comment on column fulfilment.orders.read_no is 'Number of the reading this content is from';
