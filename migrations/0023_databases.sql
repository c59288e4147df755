-- oldest code: 0.1.0
--
-- Which database the pushes are sent from. A database that was restored from a backup, or copied, holds rows that were sent
-- after the backup and are still pending in it: sending them again would double them.

create function sync.database_mark() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  server text;
  timeline text;
begin
  if has_function_privilege('pg_control_system()', 'execute') then
    select c.system_identifier::text into server from pg_control_system() c;
  end if;
  -- A standby has no timeline of its own. Nothing is sent from a standby.
  if not pg_is_in_recovery() then
    timeline := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
  end if;
  return concat_ws('/', coalesce(server, '-'), (select d.oid from pg_database d where d.datname = current_database()),
    to_regclass('fulfilment.outbox')::oid, coalesce(timeline, '-'));
end
$$;
comment on function sync.database_mark is
  'Identity of this database: system identifier of the server, oid of the database, oid of fulfilment.outbox, and timeline';

alter table fulfilment.outbox add column database_mark text;
alter table fulfilment.outbox alter column database_mark set default sync.database_mark();
comment on column fulfilment.outbox.database_mark is
  'Identity of the database in which the row was inserted (sync.database_mark); null: it is older than this column';

create table sync.push_database (
  only_row boolean primary key default true check (only_row),
  mark text not null,
  accepted_as text not null check (accepted_as in ('first', 'failover', 'moved', 'restored', 'copy')),
  accepted_at timestamptz not null default now(),
  accepted_by text not null,
  changed_at timestamptz
);
comment on table sync.push_database is 'The database that pushes are sent from; one row';
comment on column sync.push_database.only_row is 'Always true: there is one row';
comment on column sync.push_database.mark is 'Identity of the database (sync.database_mark) that pushes are sent from';
comment on column sync.push_database.accepted_as is
  'first (the first one), failover (accepted by the workers themselves), moved, restored or copy (nothing is sent from a copy)';
comment on column sync.push_database.accepted_at is 'When it was accepted';
comment on column sync.push_database.accepted_by is 'Worker or person who accepted it';
comment on column sync.push_database.changed_at is
  'When a worker first found that this database is another one than mark; null: it is the same';

create table sync.push_workers (
  worker text primary key,
  seen_at timestamptz not null default now(),
  confirmed_mark text
) with (fillfactor = 50);
comment on table sync.push_workers is 'Workers that push, and what each of them says of a failover';
comment on column sync.push_workers.worker is 'Worker';
comment on column sync.push_workers.seen_at is 'Last sign of life, written every 30 seconds while rows may be sent';
comment on column sync.push_workers.confirmed_mark is
  'After a failover: identity of the database in which the worker found everything that it had sent';

create function sync.pushes_allowed() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from sync.push_database d where d.mark = sync.database_mark() and d.accepted_as <> 'copy')
$$;
comment on function sync.pushes_allowed is 'Returns true if rows may be sent from this database';

create function sync.push_database_hold() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case
    -- On a standby the timeline is not known.
    when d.mark is distinct from sync.database_mark()
      and not (pg_is_in_recovery()
        and regexp_replace(d.mark, '[^/]*$', '') = regexp_replace(sync.database_mark(), '[^/]*$', '')) then
      'the database has changed, and nothing is sent from it: database accept --as moved, restored or copy (docs/operations.md)'
    when d.accepted_as = 'copy' then 'this database is a copy: nothing is sent from it'
  end
  from sync.push_database d
$$;
comment on function sync.push_database_hold is 'Returns why nothing is sent from this database; null: it may be sent';

-- A database that is in use already is the one that pushes are sent from.
insert into sync.push_database (mark, accepted_as, accepted_by)
select sync.database_mark(), 'first', 'migrate' where exists (select from fulfilment.outbox);

create or replace view fulfilment.outbox_open as
select o.id, o.client, o.kind, o.reference, o.status, o.attempts, o.next_attempt_at, o.created_at,
  coalesce(b.id, w.id) as waits_for,
  case
    when b.id is not null then format('row %s (%s) of the same reference %s and is %s%s', b.id, b.kind,
      case when b.id < o.id then 'comes first' else 'was begun before' end, b.status, coalesce(': ' || b.last_error, ''))
    when o.status = 'pending' and d.reason is not null then d.reason
    when o.status = 'pending' and p.since is not null then format('pushes are paused since %s', p.since)
    when o.status = 'pending' and h.reason is not null then h.reason
    when o.status = 'pending' and w.id is not null then format('row %s (product.save of %s) comes first and is %s%s', w.id,
      w.reference, w.status, coalesce(': ' || w.last_error, ''))
    else o.last_error
  end as because
from fulfilment.outbox o
left join lateral (
  select l.id, l.kind, l.status, l.last_error from fulfilment.outbox l
  where l.client = o.client and l.family = o.family and l.reference = o.reference
    and (l.id < o.id and l.status in ('pending', 'sending', 'unknown', 'dead')
         or l.id > o.id and o.status = 'pending' and l.status in ('sending', 'unknown'))
  order by l.id limit 1
) b on true
left join lateral (
  select min(q.since) as since from sync.pauses q where q.client in ('', o.client) and q.job = 'push-outbox'
) p on true
left join lateral (
  select p.reason from sync.push_holds p
  where p.client = o.client and p.kind in ('', o.kind) and (p.probe and p.kind = '' or p.until > now() or p.send_window is not null)
  order by p.kind limit 1
) h on true
left join lateral (
  select l.id, l.reference, l.status, l.last_error from sync.outbox_waits v join fulfilment.outbox l on l.id = v.waits_for
  where v.outbox_id = o.id and l.status in ('pending', 'sending', 'unknown')
) w on true
-- Not a function call for each row.
cross join (select sync.push_database_hold() as reason offset 0) d
where o.status in ('pending', 'sending', 'unknown', 'dead');
