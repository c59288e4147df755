-- oldest code: 0.1.0
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
create index inbounds_open on fulfilment.inbounds (client, id) where status is distinct from 'COMPLETED';
create index inbounds_by_slip on fulfilment.inbounds (client, inbound_packing_slip_id);
comment on table fulfilment.inbounds is 'Goods that came in, one row a delivery (v3 inbound)';
comment on column fulfilment.inbounds.client is 'Client key';
comment on column fulfilment.inbounds.id is 'Inbound id at the service';
comment on column fulfilment.inbounds.reference is 'Reference, as announced';
comment on column fulfilment.inbounds.status is 'PROCESSING, CHECKING, CHECKED or COMPLETED; another value is kept as received';
comment on column fulfilment.inbounds.received_in is 'Warehouse that received it';
comment on column fulfilment.inbounds.created_on is 'createdOn';
comment on column fulfilment.inbounds.checking_on is 'checkingOn';
comment on column fulfilment.inbounds.completed_on is 'completedOn';
comment on column fulfilment.inbounds.inbound_packing_slip_id is 'Inbound packing slip that announced it; null where none did';
comment on column fulfilment.inbounds.raw is 'The resource as received, without its included';
comment on column fulfilment.inbounds.first_seen_at is 'When it was first stored here';
comment on column fulfilment.inbounds.changed_at is 'When its content last changed here';
comment on column fulfilment.inbounds.unlisted_since is 'Since when the service no longer knows it; null while it does';
comment on column fulfilment.inbounds.read_no is 'Number of the reading this content is from';

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
comment on column fulfilment.inbound_items.client is 'Client key';
comment on column fulfilment.inbound_items.id is 'Inbound item id at the service';
comment on column fulfilment.inbound_items.inbound_id is 'Inbound it is a line of';
comment on column fulfilment.inbound_items.sku is 'Article';
comment on column fulfilment.inbound_items.quantity is 'Pieces';
comment on column fulfilment.inbound_items.lot_number is 'Lot';
comment on column fulfilment.inbound_items.expiration_date is 'Use before';
comment on column fulfilment.inbound_items.product_id is 'Product id at the service';
comment on column fulfilment.inbound_items.inbound_packing_slip_item_id is 'Line of the slip that announced it';
comment on column fulfilment.inbound_items.raw is 'The resource as received';
comment on column fulfilment.inbound_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.inbound_items.changed_at is 'When its content last changed here';
comment on column fulfilment.inbound_items.unlisted_since is 'Since when the service no longer knows it; null while it does';
