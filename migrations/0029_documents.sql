-- oldest code: 0.1.0

-- Return labels and attachments outlive the outbox rows that asked for them, which prune deletes. Triggers write them,
-- so workers of every version and operators do.
--
-- The table has no column for the content of a label: the interface does not name the member that holds it, so a column
-- would be empty at another service than the sandbox. The answer is kept whole instead.
create table fulfilment.documents (
  id bigint primary key,
  client text not null,
  kind text not null check (kind in ('return_label', 'order_attachment')),
  reference text not null,
  order_id bigint,
  shipment_id bigint,
  order_attachment_id bigint,
  file_name text,
  mime_type text,
  package_number text,
  shipping_method_id bigint,
  is_paperless boolean,
  result jsonb not null,
  created_at timestamptz not null default now()
);
create index documents_by_reference on fulfilment.documents (client, reference);
comment on table fulfilment.documents is
  'Return labels and order attachments that the service made for outbox rows; kept until an operator deletes them; personal data';
comment on column fulfilment.documents.id is 'Id of the outbox row that asked for it';
comment on column fulfilment.documents.client is 'Client key';
comment on column fulfilment.documents.kind is 'return_label or order_attachment';
comment on column fulfilment.documents.reference is 'Reference of the outbox row: your order number';
comment on column fulfilment.documents.order_id is 'Order, if it was known here';
comment on column fulfilment.documents.shipment_id is 'return_label: shipment that the label is for';
comment on column fulfilment.documents.order_attachment_id is 'order_attachment: its id at the service';
comment on column fulfilment.documents.file_name is 'File name as received, or of the attachment as sent';
comment on column fulfilment.documents.mime_type is 'mimeType as received; application/pdf for attachments';
comment on column fulfilment.documents.package_number is 'return_label: packageNumber as received';
comment on column fulfilment.documents.shipping_method_id is 'return_label: shippingMethodId (settings list returnShippingMethods)';
comment on column fulfilment.documents.is_paperless is 'return_label: isPaperlessReturnShippingMethod as received';
comment on column fulfilment.documents.result is
  'result of the outbox row: for a return_label the answer as received, with the content of the document';
comment on column fulfilment.documents.created_at is 'When the outbox row became done';

-- Reads an id from a result or payload, which an operator or the ERP may have written; null if it is none.
create function sync.read_document_id(given jsonb) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when given #>> '{}' ~ '^[0-9]{1,16}$' then (given #>> '{}')::bigint end
$$;
revoke execute on function sync.read_document_id(jsonb) from public;

create function sync.store_documents(outbox_ids bigint[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
  insert into fulfilment.documents (id, client, kind, reference, order_id, shipment_id, order_attachment_id, file_name,
    mime_type, package_number, shipping_method_id, is_paperless, result, created_at)
  select d.id, d.client, d.document_kind, d.reference, coalesce(sync.read_document_id(d.result -> 'orderId'), s.order_id),
    d.shipment_id, sync.read_document_id(d.result -> 'orderAttachmentId'),
    coalesce(d.result ->> 'fileName', d.payload ->> 'filename'),
    coalesce(d.result ->> 'mimeType', case d.document_kind when 'order_attachment' then 'application/pdf' end),
    d.result ->> 'packageNumber', sync.read_document_id(d.result -> 'shippingMethodId'),
    case d.result ->> 'isPaperlessReturnShippingMethod' when 'true' then true when 'false' then false end,
    d.result, d.finished_at
  from (
    select o.id, o.client, o.reference, o.payload, o.result, o.finished_at,
      split_part(o.kind, '.', 1) as document_kind, sync.read_document_id(o.payload -> 'shipmentId') as shipment_id
    from fulfilment.outbox o
    where o.id = any(outbox_ids)
  ) d
  left join fulfilment.shipments s on s.client = d.client and s.id = d.shipment_id
  order by d.id
  on conflict (id) do nothing
$$;
revoke execute on function sync.store_documents(bigint[]) from public;

-- Copies what is there without keeping the ERP waiting: the trigger, which locks the outbox, comes after the scan.
select sync.store_documents(array(
  select o.id
  from fulfilment.outbox o
  where o.kind in ('return_label.create', 'order_attachment.create') and o.status = 'done' and o.result <> '{}'));

create function sync.store_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform sync.store_documents(array[new.id]);
  return null;
end
$$;
revoke execute on function sync.store_document() from public;
-- A row without a result has no document: an operator marked it as done, or the answer could not be stored.
create trigger outbox_documents after update of status on fulfilment.outbox
  for each row
  when (new.kind in ('return_label.create', 'order_attachment.create') and new.status = 'done'
    and old.status <> 'done' and new.result <> '{}')
  execute function sync.store_document();

-- Rows that became done during the scan.
select sync.store_documents(array(
  select o.id
  from fulfilment.outbox o
  where o.finished_at > now() - interval '1 hour' and o.status = 'done'
    and o.kind in ('return_label.create', 'order_attachment.create') and o.result <> '{}'));
insert into fulfilment.changes (client, entity, id, operation)
select client, 'documents', id, 'created' from fulfilment.documents order by id;

-- Documents are entries of the feed. Deferred to the commit, as the entries of the outbox are (migration 0027).
create function sync.enter_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    insert into fulfilment.changes (client, entity, id, operation) values (old.client, 'documents', old.id, 'removed');
  else
    insert into fulfilment.changes (client, entity, id, operation) values (new.client, 'documents', new.id, 'created');
  end if;
  return null;
end
$$;
revoke execute on function sync.enter_document() from public;
create constraint trigger documents_entered after insert or delete on fulfilment.documents
  deferrable initially deferred for each row execute function sync.enter_document();
