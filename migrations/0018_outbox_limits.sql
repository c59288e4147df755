-- oldest code: 0.1.0
-- One row of unbounded size would stop every worker that reads it. Rows that are there already are left as they are.

create function sync.check_outbox_limits() returns trigger language plpgsql as $$
begin
  if length(new.client) > 64 then
    raise exception 'client has % characters; at most 64 are taken', length(new.client) using errcode = '22001';
  end if;
  if length(new.kind) > 64 then
    raise exception 'kind has % characters; at most 64 are taken', length(new.kind) using errcode = '22001';
  end if;
  if length(new.reference) > 200 then
    raise exception 'reference has % characters; at most 200 are taken', length(new.reference) using errcode = '22001';
  end if;
  if octet_length(new.payload::text) > 16777216 then
    raise exception 'payload has % bytes; at most 16777216 (16 MB) are taken', octet_length(new.payload::text)
      using errcode = '22001';
  end if;
  return new;
end
$$;
create trigger outbox_limits before insert or update of client, kind, reference, payload on fulfilment.outbox
  for each row execute function sync.check_outbox_limits();

comment on column fulfilment.outbox.client is 'Client key, at most 64 characters';
comment on column fulfilment.outbox.kind is 'What is asked, such as order.create (docs/outbox.md); at most 64 characters';
comment on column fulfilment.outbox.reference is
  'What it is about: external order number, external reference, slip reference or sku; at most 200 characters';
comment on column fulfilment.outbox.payload is
  'How it is asked, at most 16 MB of JSON text; fulfilment.outbox_schema(kind) gives its JSON Schema';
comment on column fulfilment.outbox.bounded_from is
  'PUSH_MAX_AGE counts from here: the first attempt that counted, or the last time it was retried by hand or replaced';
