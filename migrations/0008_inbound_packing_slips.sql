-- oldest code: 0.1.0
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
create index inbound_packing_slips_open on fulfilment.inbound_packing_slips (client, id)
  where status is distinct from 'COMPLETED';
comment on table fulfilment.inbound_packing_slips is 'Announced deliveries, one row each (v3 inboundPackingSlip)';
comment on column fulfilment.inbound_packing_slips.client is 'Client key';
comment on column fulfilment.inbound_packing_slips.id is 'Inbound packing slip id at the service';
comment on column fulfilment.inbound_packing_slips.expected_in is 'Warehouse it is announced for';
comment on column fulfilment.inbound_packing_slips.expected_on is 'Day it is announced for';
comment on column fulfilment.inbound_packing_slips.received_on is 'When the inbound started; its own zone, else the client''s';
comment on column fulfilment.inbound_packing_slips.completed_on is 'When it finished with no further items expected; its own zone, else the client''s';
comment on column fulfilment.inbound_packing_slips.reference is 'reference';
comment on column fulfilment.inbound_packing_slips.status is 'EXPECTED, IN_PROGRESS, CHECKING or COMPLETED; another value is kept as received';
comment on column fulfilment.inbound_packing_slips.comments is 'comments';
comment on column fulfilment.inbound_packing_slips.metadata is 'serviceLevel, purchases and reference';
comment on column fulfilment.inbound_packing_slips.inbound_id is 'Inbound that received it';
comment on column fulfilment.inbound_packing_slips.raw is 'The resource as received, without its included';
comment on column fulfilment.inbound_packing_slips.first_seen_at is 'When it was first stored here';
comment on column fulfilment.inbound_packing_slips.changed_at is 'When its content last changed here';
comment on column fulfilment.inbound_packing_slips.unlisted_since is 'Since when two complete walks lacked it; null while it is listed';
comment on column fulfilment.inbound_packing_slips.read_no is 'Number of the reading this content is from';

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
  foreign key (client, inbound_packing_slip_id) references fulfilment.inbound_packing_slips (client, id)
) with (fillfactor = 90);
create index inbound_packing_slip_items_by_slip on fulfilment.inbound_packing_slip_items (client, inbound_packing_slip_id);
comment on table fulfilment.inbound_packing_slip_items is 'Lines of announced deliveries (v3 inboundPackingSlipItem)';
comment on column fulfilment.inbound_packing_slip_items.client is 'Client key';
comment on column fulfilment.inbound_packing_slip_items.id is 'Inbound packing slip item id at the service';
comment on column fulfilment.inbound_packing_slip_items.inbound_packing_slip_id is 'Slip it is a line of';
comment on column fulfilment.inbound_packing_slip_items.sku is 'Article';
comment on column fulfilment.inbound_packing_slip_items.quantity is 'Pieces expected';
comment on column fulfilment.inbound_packing_slip_items.received is 'Pieces received so far';
comment on column fulfilment.inbound_packing_slip_items.raw is 'The resource as received';
comment on column fulfilment.inbound_packing_slip_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.inbound_packing_slip_items.changed_at is 'When its content last changed here';
comment on column fulfilment.inbound_packing_slip_items.unlisted_since is 'Since when the service no longer knows it; null while it does';
