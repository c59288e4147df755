-- oldest code: 0.1.0
-- Announced returns: returnMerchandiseAuthorization of the v3 interface, as the answers to outbox rows bring them.

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
  on fulfilment.return_merchandise_authorizations (client, external_reference);
comment on table fulfilment.return_merchandise_authorizations is 'Announced returns (v3 returnMerchandiseAuthorization) that were pushed from here';
comment on column fulfilment.return_merchandise_authorizations.client is 'Client key';
comment on column fulfilment.return_merchandise_authorizations.id is 'Id at the service';
comment on column fulfilment.return_merchandise_authorizations.external_reference is 'externalReference: the outbox row''s reference';
comment on column fulfilment.return_merchandise_authorizations.comments is 'comments';
comment on column fulfilment.return_merchandise_authorizations.metadata is 'metadata';
comment on column fulfilment.return_merchandise_authorizations.status is 'PENDING is the only value the interface shows';
comment on column fulfilment.return_merchandise_authorizations.created_on is 'createdOn';
comment on column fulfilment.return_merchandise_authorizations.modified_on is 'modifiedOn';
comment on column fulfilment.return_merchandise_authorizations.shipment_id is 'Shipment that comes back';
comment on column fulfilment.return_merchandise_authorizations.raw is 'The resource as received';
comment on column fulfilment.return_merchandise_authorizations.read_no is 'Number of the reading this content is from';
comment on column fulfilment.return_merchandise_authorizations.first_seen_at is 'When it was first stored here';
comment on column fulfilment.return_merchandise_authorizations.changed_at is 'When its content last changed here';
comment on column fulfilment.return_merchandise_authorizations.unlisted_since is 'Since when the service no longer knows it, deleted ones too; null while it does';

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
  on fulfilment.return_merchandise_authorization_items (client, return_merchandise_authorization_id);
comment on table fulfilment.return_merchandise_authorization_items is 'Lines of announced returns (v3 returnMerchandiseAuthorizationItem)';
comment on column fulfilment.return_merchandise_authorization_items.client is 'Client key';
comment on column fulfilment.return_merchandise_authorization_items.id is 'Id at the service';
comment on column fulfilment.return_merchandise_authorization_items.return_merchandise_authorization_id is 'Announced return it is a line of';
comment on column fulfilment.return_merchandise_authorization_items.external_reference is 'externalReference';
comment on column fulfilment.return_merchandise_authorization_items.sku is 'Article';
comment on column fulfilment.return_merchandise_authorization_items.quantity is 'Pieces';
comment on column fulfilment.return_merchandise_authorization_items.reason_code is 'reasonCode';
comment on column fulfilment.return_merchandise_authorization_items.metadata is 'metadata';
comment on column fulfilment.return_merchandise_authorization_items.shipment_item_id is 'Line of the shipment that comes back';
comment on column fulfilment.return_merchandise_authorization_items.product_id is 'Product id at the service';
comment on column fulfilment.return_merchandise_authorization_items.return_reason_id is 'Reason (settings list returnReasons)';
comment on column fulfilment.return_merchandise_authorization_items.return_item_id is 'Return item, once the warehouse has processed it';
comment on column fulfilment.return_merchandise_authorization_items.raw is 'The resource as received';
comment on column fulfilment.return_merchandise_authorization_items.first_seen_at is 'When it was first stored here';
comment on column fulfilment.return_merchandise_authorization_items.changed_at is 'When its content last changed here';
comment on column fulfilment.return_merchandise_authorization_items.unlisted_since is 'Since when the service no longer knows it; null while it does';
