-- oldest code: 0.1.0
-- The service's configuration lists (settings/get), by whose codes outbox rows name order types, methods and reasons.

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
comment on table fulfilment.setting_options is 'Entries of the service''s configuration lists (settings/get); their codes are what outbox payloads name';
comment on column fulfilment.setting_options.client is 'Client key';
comment on column fulfilment.setting_options.list is 'mainShippingMethods, shippingMethods, returnShippingMethods, orderTypes, returnReasons, languages, countries or paymentMethods';
comment on column fulfilment.setting_options.id is 'Id at the service, unique within the list';
comment on column fulfilment.setting_options.code is 'code';
comment on column fulfilment.setting_options.name is 'name';
comment on column fulfilment.setting_options.raw is 'The entry as received';
comment on column fulfilment.setting_options.first_seen_at is 'When it was first stored here';
comment on column fulfilment.setting_options.changed_at is 'When its content last changed here';
comment on column fulfilment.setting_options.removed_at is 'Since when the list no longer holds it; null while it does';

create table fulfilment.main_shipping_method_warehouses (
  client text not null,
  main_shipping_method_id bigint not null,
  shipping_method_id bigint not null,
  warehouse text not null,
  removed_at timestamptz,
  primary key (client, main_shipping_method_id, shipping_method_id, warehouse)
);
comment on table fulfilment.main_shipping_method_warehouses is 'By which method each warehouse sends what a main shipping method names';
comment on column fulfilment.main_shipping_method_warehouses.client is 'Client key';
comment on column fulfilment.main_shipping_method_warehouses.main_shipping_method_id is 'Entry of the list mainShippingMethods';
comment on column fulfilment.main_shipping_method_warehouses.shipping_method_id is 'Method of that warehouse';
comment on column fulfilment.main_shipping_method_warehouses.warehouse is 'Warehouse code';
comment on column fulfilment.main_shipping_method_warehouses.removed_at is 'Since when the list no longer holds it; null while it does';

create table sync.settings_reads (
  client text primary key,
  tried_at timestamptz not null,
  read_at timestamptz
) with (fillfactor = 50);
comment on table sync.settings_reads is 'When the settings of each client were last asked for';
comment on column sync.settings_reads.client is 'Client key';
comment on column sync.settings_reads.tried_at is 'When they were last asked for';
comment on column sync.settings_reads.read_at is 'When they were last read well; null before the first time';
