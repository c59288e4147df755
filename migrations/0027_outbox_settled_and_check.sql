-- oldest code: 0.1.0

-- Rows of the outbox that end or become unknown are entries of the feed, whoever changed them.
--
-- The trigger is deferred to the commit: the feed is locked last, after all rows that the transaction locks, and an ERP
-- that cancels a row and keeps its transaction open holds up nobody. It has the rights of its owner, because a
-- deferred trigger has the rights of whoever commits.
create function sync.tell_settled() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  note text := json_build_object('client', new.client, 'id', new.id, 'kind', new.kind, 'reference', new.reference,
    'status', new.status)::text;
begin
  insert into fulfilment.changes (client, entity, id, operation) values (new.client, 'outbox', new.id, 'updated');
  -- A notification takes less than 8000 bytes. Only rows that are older than the limits of migration 0018 have more.
  if octet_length(note) > 7999 then
    note := json_build_object('client', null, 'id', new.id, 'kind', null, 'reference', null, 'status', new.status)::text;
  end if;
  perform pg_notify('fulfilment_outbox_settled', note);
  return null;
end
$$;
revoke execute on function sync.tell_settled() from public;
create constraint trigger outbox_settled after update of status on fulfilment.outbox
  deferrable initially deferred for each row
  when (old.status is distinct from new.status and new.status in ('done', 'dead', 'unknown', 'cancelled'))
  execute function sync.tell_settled();
comment on column fulfilment.changes.entity is 'Table of the row that changed; outbox for a row that became done, dead, unknown or cancelled';
