-- What the ERP asks of the service, and the state of the pushes.

-- The database that pushes are sent from. A database that was restored from a backup, or copied,
-- has rows that were sent after the backup and are still pending in it. Sending them again would
-- double them. Managed servers may refuse a function that a part of the mark needs: that part is
-- then left out.
create function sync.database_mark() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  server text;
  timeline text;
begin
  begin
    select c.system_identifier::text into server from pg_control_system() c;
  exception when others then
    server := null;
  end;
  begin
    -- A standby has no timeline of its own. Nothing is sent from a standby.
    if not pg_is_in_recovery() then
      timeline := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
    end if;
  exception when others then
    timeline := null;
  end;
  return concat_ws('/', coalesce(server, '-'), sync.table_mark(), coalesce(timeline, '-'));
end
$$;
-- sync.database_mark: Identity of this database: system identifier of the server, oid of the
--   database, oid of fulfilment.outbox, and timeline; a part that the server does not tell is -

-- Every insert into the outbox calls it, so it calls nothing that a managed server may refuse.
create function sync.table_mark() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select d.oid || '/' || to_regclass('fulfilment.outbox')::oid
  from pg_database d
  where d.datname = current_database()
$$;
-- sync.table_mark: Identity of the table fulfilment.outbox: oid of the database and of the table

-- Requests of the ERP to the service: the ERP inserts a row in its own transaction, and workers
-- send it. docs/architecture.md draws the states.
create table fulfilment.outbox (
  id bigint generated always as identity primary key,
  client text not null default 'default',
  kind text not null,
  reference text not null,
  payload jsonb not null default '{}',
  status text not null default 'pending',
  attempts integer not null default 0,
  next_attempt_at timestamptz default now(),
  lease_until timestamptz,
  last_error text,
  result jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  not_before timestamptz,
  family text not null generated always as (
    case
      when split_part(kind, '.', 1) in ('order', 'order_item', 'order_attachment', 'return_label')
        then 'order'
      else split_part(kind, '.', 1) end) stored,
  claim_no bigint,
  sent_at timestamptz,
  written_at timestamptz,
  refusal text,
  refused_as text check (refused_as in ('taken', 'perhaps taken')),
  lookups integer not null default 0,
  absences integer not null default 0,
  absent_at timestamptz,
  replaced_at timestamptz,
  limits_from timestamptz not null default now(),
  tries integer not null default 0,
  refused_for_others integer not null default 0,
  table_mark text default sync.table_mark(),
  erased_at timestamptz,
  payload_bytes integer not null default 0,
  constraint outbox_status
    check (status in ('pending', 'sending', 'done', 'dead', 'unknown', 'cancelled')),
  constraint outbox_pending check (status <> 'pending' or next_attempt_at is not null),
  constraint outbox_not_before check (
    not_before between created_at - interval '100 years' and created_at + interval '100 years'),
  constraint outbox_sending check ((status = 'sending') = (lease_until is not null)),
  constraint outbox_claimed check (status <> 'sending' or claim_no is not null),
  constraint outbox_sent check (sent_at is null or status = 'sending'),
  constraint outbox_unknown
    check (status <> 'unknown' or written_at is not null or refusal is not null),
  constraint outbox_finished
    check ((status in ('done', 'dead', 'cancelled')) = (finished_at is not null)),
  constraint outbox_not_due check (status in ('pending', 'unknown') or next_attempt_at is null),
  constraint outbox_done check (status <> 'done' or result is not null),
  constraint outbox_dead check (status <> 'dead' or last_error is not null),
  constraint outbox_attempts check (attempts >= 0 and tries >= 0)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
create index outbox_lanes on fulfilment.outbox (client, family, reference, id)
  where status in ('pending', 'sending', 'unknown', 'dead');
create index outbox_in_flight on fulfilment.outbox (client, family, reference, id)
  where status in ('sending', 'unknown');
create index outbox_to_settle on fulfilment.outbox (client, next_attempt_at, id)
  where status = 'unknown';
-- Of a lane, one row at most is sent at a time, also if two claims cannot see each other's rows.
create unique index outbox_sending on fulfilment.outbox (client, family, reference)
  where status = 'sending';
create index outbox_stuck on fulfilment.outbox (id) where status in ('dead', 'unknown');
create index outbox_by_reference on fulfilment.outbox (client, reference, id);
create index outbox_written on fulfilment.outbox (client, family, reference, written_at)
  where written_at is not null;
create index outbox_by_end on fulfilment.outbox (finished_at) where finished_at is not null;
-- The page lists what was done for one client, newest first.
create index outbox_done on fulfilment.outbox (client, id)
  where status in ('done', 'cancelled');
-- Orders that the service accepted after a certain time show how new its lists are.
create index outbox_accepted on fulfilment.outbox (client, finished_at)
  where status = 'done' and kind = 'order.create';
-- By kind, so that due rows of a kind that is held cost nothing.
create index outbox_due_by_kind on fulfilment.outbox (client, kind, next_attempt_at, id)
  where status = 'pending';
-- Workers look for rows that are due, not for clients that have rows which are due later. It is an
-- expression, because a plan of a claim would take a plain column for the order of the rows of a
-- kind, and read the rows of all kinds.
create index outbox_due on fulfilment.outbox ((next_attempt_at - timestamptz 'epoch'))
  where status in ('pending', 'unknown');
-- An erasure finds the announcements of returns by their shipments.
create index outbox_by_shipment on fulfilment.outbox ((payload ->> 'shipmentId'), client)
  where family = 'return';
-- Lanes are short. If one lane is most of the table, its statistics would make the planner scan the
-- table for the others.
alter table fulfilment.outbox alter column reference set (n_distinct = -1);
comment on table fulfilment.outbox is
  'Requests of the ERP to the service: insert client, kind, reference and payload, '
  'and read status and result';
comment on column fulfilment.outbox.id is
  'Number of the row; rows of one lane (client, family, reference) are sent in this order';
comment on column fulfilment.outbox.client is 'Client key, at most 64 characters';
comment on column fulfilment.outbox.kind is
  'What the row asks for, such as order.create (docs/outbox.md); at most 64 characters';
comment on column fulfilment.outbox.reference is
  'External order number, external reference, slip reference or sku; at most 200 characters';
comment on column fulfilment.outbox.payload is
  'Contents of the request, at most 16 MB of JSON text; '
  'fulfilment.outbox_schema(kind) returns its JSON Schema';
comment on column fulfilment.outbox.status is
  'pending, sending, unknown (the service may have carried it out), done, '
  'dead (refused or given up) or cancelled';
comment on column fulfilment.outbox.attempts is
  'Number of sends; look-ups and checks before a send do not count';
comment on column fulfilment.outbox.next_attempt_at is
  'pending: not sent before this time; unknown: '
  'when it is looked up, or null if an operator has to decide';
comment on column fulfilment.outbox.lease_until is
  'While sending: when another worker may take the row over';
comment on column fulfilment.outbox.last_error is 'Why the row is not done, as text';
comment on column fulfilment.outbox.result is
  'Answer of the service; docs/outbox.md lists its members by kind';
comment on column fulfilment.outbox.finished_at is 'When it became done, dead or cancelled';
comment on column fulfilment.outbox.not_before is
  'The row is not sent before this time, within 100 years; the writer may set it. '
  'Later rows of its lane wait for it';
comment on column fulfilment.outbox.family is
  'Kinds that share a lane: order (with order_item, order_attachment, return_label), return, '
  'inbound_packing_slip, product';
comment on column fulfilment.outbox.claim_no is
  'Number of the last claim. It identifies late outcomes, and is the read_no of the answer';
comment on column fulfilment.outbox.sent_at is
  'While sending: set before the request is written; null means that no request was written';
comment on column fulfilment.outbox.written_at is
  'Last attempt that the service may have carried out; null: none';
comment on column fulfilment.outbox.refusal is
  'While unknown: the reason with which the service refused the row. '
  'The row becomes dead with it unless a look-up finds the change';
comment on column fulfilment.outbox.refused_as is
  'taken: refusal says that the service already has what the row asks for. perhaps taken: '
  'it may say so. Null: it was no refusal of the service';
comment on column fulfilment.outbox.lookups is 'Look-ups since the last attempt';
comment on column fulfilment.outbox.absences is
  'Look-ups since the last attempt that did not find the change, and count';
comment on column fulfilment.outbox.absent_at is
  'Time of the last look-up since the last attempt that did not find the change';
comment on column fulfilment.outbox.replaced_at is 'When its payload was last replaced';
comment on column fulfilment.outbox.limits_from is
  'PUSH_MAX_AGE counts from here: the first attempt that counted, '
  'or the last retry or replacement by a person';
comment on column fulfilment.outbox.tries is
  'Tries since limits_from that PUSH_MAX_ATTEMPTS counts: sends, and checks before a send that '
  'failed; without a try that is under way';
comment on column fulfilment.outbox.refused_for_others is
  'Sends since the last attempt that counted which were refused with 429 or for the token; '
  'each makes the pause longer';
comment on column fulfilment.outbox.table_mark is
  'Identity of the table in which the row was inserted (sync.table_mark)';
comment on column fulfilment.outbox.erased_at is
  'When personal data was removed from the row; null if it was not';
comment on column fulfilment.outbox.payload_bytes is
  'Bytes of payload as text, measured when it is written: '
  'a number such as 1e100000 is stored in few bytes';

-- A row of unbounded size would stop every worker that reads it.
create function sync.check_outbox_limits() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if length(new.client) > 64 then
    raise exception 'client has % characters; at most 64 are taken',
      length(new.client) using errcode = '22001';
  end if;
  if length(new.kind) > 64 then
    raise exception 'kind has % characters; at most 64 are taken',
      length(new.kind) using errcode = '22001';
  end if;
  if length(new.reference) > 200 then
    raise exception 'reference has % characters; at most 200 are taken',
      length(new.reference) using errcode = '22001';
  end if;
  new.payload_bytes := octet_length(new.payload::text);
  if new.payload_bytes > 16777216 then
    raise exception 'payload has % bytes; at most 16777216 (16 MB) are taken',
      new.payload_bytes using errcode = '22001';
  end if;
  -- Programs cannot hold every time that Postgres can.
  if new.not_before not between
    new.created_at - interval '100 years' and new.created_at + interval '100 years' then
    raise exception 'not_before is %; it must be within 100 years of the insertion',
      new.not_before using errcode = '22008';
  end if;
  if new.status = 'pending' then
    new.next_attempt_at := greatest(new.next_attempt_at, new.not_before);
  end if;
  return new;
end
$$;
create trigger outbox_limits before insert or update of client, kind, reference, payload, not_before
  on fulfilment.outbox
  for each row execute function sync.check_outbox_limits();

-- A program that got no answer from the API repeats its request with the same key, and gets the ids
-- of the first time.
create table sync.api_keys (
  client text not null,
  token text not null,
  key text not null,
  body_hash text not null,
  ids bigint[] not null,
  created_at timestamptz not null default now(),
  primary key (client, token, key)
);
create index api_keys_by_time on sync.api_keys (created_at);
-- sync.api_keys: Idempotency keys of requests that inserted outbox rows through the API, kept for 7
--   days
--   body_hash: SHA-256 of the body, as hexadecimal digits
--   ids: Rows of fulfilment.outbox, in the order of the body

-- A commit that notifies waits for all others that do, in the whole server. So busy workers look by
-- themselves and say until when; inserts for their clients notify nobody. All workers look when
-- such a time is over, and a second later (src/push/pusher.ts).
create table sync.awake_clients (
  client text primary key,
  awake_until timestamptz not null
) with (fillfactor = 50);
-- sync.awake_clients: Clients for which busy workers look for due rows by themselves, without being
--   notified
--   client: Client key
--   awake_until: A worker looks at this time or later

create function sync.notify_outbox() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pg_notification_queue_usage() < 0.5 and not exists (
    select from sync.awake_clients a
    -- A time that is far ahead was written before the clock was set back.
    where a.client = new.client
      and a.awake_until between clock_timestamp() and clock_timestamp() + interval '5 seconds'
  ) then
    -- Postgres refuses a payload of 8,000 bytes. Nobody has a client with such a name.
    perform pg_notify('fulfilment_outbox', left(new.client, 1000));
  end if;
  return null;
end
$$;
revoke execute on function sync.notify_outbox from public;
-- Deferred, so that it decides when the transaction commits: a worker may have fallen asleep since
-- the insert.
create constraint trigger outbox_notify after insert on fulfilment.outbox
  deferrable initially deferred for each row execute function sync.notify_outbox();

create table sync.outbox_attempts (
  id bigint generated always as identity primary key,
  outbox_id bigint not null references fulfilment.outbox (id) on delete cascade,
  step text not null check (step in ('sent', 'checked', 'looked up', 'taken over',
    'retried', 'marked done', 'replaced', 'cancelled')),
  by text not null,
  claim_no bigint,
  at timestamptz not null default now(),
  duration_ms integer,
  became text not null,
  error_code text,
  http_status integer,
  operation text,
  error text
);
create index outbox_attempts_by_row on sync.outbox_attempts (outbox_id, id);
-- sync.outbox_attempts: History of outbox rows: every attempt, every look-up, and what operators
--   did
--   step: sent; checked, but not sent; looked up, taken over from a lost worker, or the action of
--     an operator
--   duration_ms: Milliseconds from the claim to the outcome
--   became: Status that the row got
--   operation: Operation that failed; null if none was asked for

-- The order that a row is about. After a lost answer, a renamed order can be found only by its id:
-- it has the former or the new number. A row that is sent again must know what the order had
-- before: the lost attempt may have erased something.
create table sync.outbox_targets (
  outbox_id bigint primary key references fulfilment.outbox (id) on delete cascade,
  target_id bigint not null,
  present text[] not null default '{}',
  is_open boolean not null default true
);
create index outbox_targets_by_order on sync.outbox_targets (target_id);
-- sync.outbox_targets: Orders that order.update, order.rename and order.replace rows were sent for,
--   stored before the request, and orders that follow-up rows belong to
--   present: Names of the members that the order had before the first request; no values
--   target_id: Id of the order at the service
--   is_open: False if the order is certainly as the row found it, or if the row has nothing left to
--     do with it: then an order.replace row may be cancelled

-- A replacement that was left between its steps has an order under another number. If the row was
-- cancelled, nobody would know of that order, and an order that is made anew would be a second one.
create function sync.find_cancel_problem(asked fulfilment.outbox) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format('order %s may be renamed (its number then ends with -R%s) or cancelled already. '
    'Retry this row, or replace its payload, and it continues; or change that order at the '
    'service, and mark this row as done', t.target_id, asked.id)
  from sync.outbox_targets t
  where asked.kind = 'order.replace' and t.outbox_id = asked.id and t.is_open
$$;
-- sync.find_cancel_problem: Returns why a row must not be cancelled, and what to do instead; null:
--   it may be

-- What the kinds need, for functions, triggers and claims. `migrate` writes it from src/push/kinds.
create table sync.outbox_kinds (
  kind text primary key,
  schema jsonb not null,
  lingers boolean not null,
  overtaken_by text[] not null,
  awaits_products boolean not null,
  document jsonb
);
-- sync.outbox_kinds: What the database has to know of each kind, written by migrate
--   kind: Kind
--   schema: JSON Schema of its payload
--   lingers: True if a row with unknown outcome is sent again: its first attempt may still take
--     effect, so rows behind it wait
--   overtaken_by: Kinds that are sent although an earlier row of this kind in their lane is dead,
--     or unknown and for a person to decide
--   awaits_products: True if open product.save rows of its items come first
--   document: Document that a row makes: kind as in fulfilment.documents, and path in the payload;
--     empty: the row is about nothing else

-- A row waits for the products that its payload names.
create table sync.outbox_waits (
  outbox_id bigint primary key references fulfilment.outbox (id) on delete cascade,
  waits_for bigint not null
);
create index outbox_waits_by_first on sync.outbox_waits (waits_for);
-- sync.outbox_waits: Rows that wait for a row of another kind (sync.outbox_kinds.awaits_products)
--   outbox_id: The row that waits
--   waits_for: The row that comes first

-- Makes the rows due that wait for a row.
create function sync.release_waiters(first_row bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  freed bigint[];
begin
  -- Rows that somebody has locked are looked at again by themselves, soon.
  with free as materialized (
    select o.id from fulfilment.outbox o
    where o.id in (select w.outbox_id from sync.outbox_waits w where w.waits_for = first_row)
      and o.status = 'pending'
    for no key update of o skip locked
  ), released as (
    update fulfilment.outbox o set next_attempt_at = clock_timestamp()
    from free where o.id = free.id returning o.id
  )
  select array_agg(id) into freed from released;
  if freed is not null then
    delete from sync.outbox_waits w where w.outbox_id = any(freed);
    perform pg_notify('fulfilment_outbox', '') where pg_notification_queue_usage() < 0.5;
  end if;
end
$$;
revoke execute on function sync.release_waiters from public;

create table sync.list_lags (
  client text primary key,
  longest_ms bigint not null,
  longest_at timestamptz not null,
  exceeded_at timestamptz
);
-- sync.list_lags: How long lists of orders lag: from an attempt that was carried out until a list
--   showed its order, if a look-up had missed it before
--   exceeded_at: When a time was last longer than lists are taken to lag (docs/assumptions.md);
--     null: never

create table sync.service_health (
  client text not null,
  scope text not null,
  worker text not null,
  code text not null,
  reason text not null,
  error_code text not null,
  http_status integer,
  operation text,
  failures integer not null,
  send_window integer,
  since timestamptz not null,
  next_at timestamptz not null,
  void_at timestamptz not null,
  primary key (client, scope, worker)
) with (fillfactor = 50);
-- sync.service_health: Why nothing, or only a little, is asked of the service of a client. No row:
--   all may be asked. Pulls and pushes write and obey it; src/service/health/judge-health.ts has
--   the states
--   scope: client, or the kind of the outbox or the job that it concerns
--   worker: The only worker that it concerns; *: all of them
--   code: no_answer, credentials_refused, asked_to_wait, too_fast, kind_failing or wrong_path
--   reason: The last failure, as text; the codes are of it
--   failures: Distinct rows that failed since one was successful
--   send_window: Rows that are sent at the same time; 0: none, until the service has answered a
--     question; null: no limit
--   since: When the first of these failures came
--   next_at: When the hold ends, or when the service is asked whether it is over
--   void_at: When it says nothing any more: after the longest pause, so that an old backup holds
--     nobody

create table sync.proven_kinds (
  client text not null,
  kind text not null,
  method text not null,
  path text not null,
  primary key (client, kind, method, path)
);
-- sync.proven_kinds: Kinds and jobs that the service has carried out before, and operations that
--   found a resource, with method and path. A 403 or 404 of such a one does not mean a wrong path

create table sync.push_database (
  only_row boolean primary key default true check (only_row),
  mark text not null,
  accepted_as text not null
    check (accepted_as in ('first', 'failover', 'moved', 'restored', 'copy')),
  accepted_at timestamptz not null default now(),
  accepted_by text not null,
  changed_at timestamptz,
  found_mark text,
  former_rows_until bigint,
  seen_at timestamptz,
  failover_expected_until timestamptz
);
-- sync.push_database: The database that pushes are sent from; one row
--   mark: Identity of the database (sync.database_mark) that pushes are sent from
--   accepted_as: first (the first one), failover (accepted by the workers themselves), moved,
--     restored or copy (nothing is sent from a copy)
--   changed_at: When a worker first found that this database is not the accepted one; null if it is
--   found_mark: Identity of the database that was found instead of the accepted one
--   former_rows_until: Largest id of fulfilment.outbox when the change was found: the former
--     database may have sent rows up to it
--   seen_at: Last sign of life of a worker that has ended, or of any worker when the change of the
--     database was found
--   failover_expected_until: Until then a failover is planned, and accepted as restored (database
--     expect-failover)

create table sync.push_workers (
  worker text primary key,
  seen_at timestamptz not null default now(),
  confirmed_mark text
) with (fillfactor = 50);
-- sync.push_workers: Workers that push, and what each of them confirms after a failover
--   seen_at: Last sign of life, written every 30 seconds while rows may be sent
--   confirmed_mark: After a failover: identity of the database in which the worker found everything
--     that it had sent

-- A copied data folder has the identity of the original. Only the address at which workers reach it
-- tells the two apart.
create table sync.push_places (
  place text primary key,
  asked_since timestamptz,
  asked_at timestamptz,
  accepted_at timestamptz,
  accepted_by text,
  constraint push_places_accepted check ((accepted_at is null) = (accepted_by is null))
) with (fillfactor = 50);
-- sync.push_places: Addresses at which workers reach this database. Rows are sent only by workers
--   at accepted ones
--   place: Hash of host, port and database name of the URL (setting fulfilment_sync.place of a
--     session)
--   asked_since: When workers there began to ask whether it is this database
--   asked_at: When a worker there last asked. A worker at an accepted place that reads it accepts
--     the place

create function sync.pushes_allowed() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from sync.push_database d
    join sync.push_places p on p.place = current_setting('fulfilment_sync.place', true)
    where d.mark = sync.database_mark() and d.accepted_as <> 'copy' and p.accepted_at is not null)
$$;
-- sync.pushes_allowed: Returns true if rows may be sent from this database, at the place of this
--   session

create function sync.push_database_hold() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case
    -- On a standby the timeline is not known.
    when d.mark is distinct from sync.database_mark()
      and not (pg_is_in_recovery()
        and regexp_replace(d.mark, '[^/]*$', '')
          = regexp_replace(sync.database_mark(), '[^/]*$', '')) then
      'the database has changed, and nothing is sent from it: '
      'fulfilment-sync status names the answers of database accept (docs/operations.md)'
    when d.accepted_as = 'copy' then 'this database is a copy: nothing is sent from it'
    -- Workers at accepted places send the rows, if there are any.
    when exists (
        select from sync.push_places p
        where p.accepted_at is null and p.asked_at > now() - interval '30 seconds'
          and p.asked_since < now() - interval '10 seconds') then
      'a worker reaches this database at another address, and sends nothing: '
      'fulfilment-sync status names the answers of database accept (docs/operations.md)'
  end
  from sync.push_database d
$$;
-- sync.push_database_hold: Returns why nothing is sent from this database; null: it may be sent

create view fulfilment.outbox_open as
select o.id, o.client, o.kind, o.reference, o.status, o.attempts, o.next_attempt_at, o.created_at,
  coalesce(b.id, w.id) as waits_for,
  case
    when b.id is not null then
      format('row %s (%s) of the same reference %s and is %s%s', b.id, b.kind,
        case when b.id < o.id then 'comes first' else 'was begun before' end,
        b.status, coalesce(': ' || b.last_error, ''))
    when o.status = 'pending' and k.client is null then
      format('no worker was ever set up with client %s; known are %s', o.client,
        coalesce(s.clients, 'none'))
    when o.status = 'pending' and d.reason is not null then d.reason
    -- After a minute, as in status.
    when o.status = 'pending'
        and coalesce(k.served_at, k.accepted_at) < now() - interval '1 minute' then
      case when k.offered_at > now() - interval '1 minute' then
        'the worker has another account than the accepted one, and sends nothing; '
          'what to do: fulfilment-sync client list'
      else
        format('no worker has served client %s since %s', o.client,
          sync.format_time(coalesce(k.served_at, k.accepted_at)))
      end
    when o.status = 'pending' and p.since is not null then
      'pushes are paused since ' || sync.format_time(p.since)
    when o.status = 'pending' and h.reason is not null then h.reason
    when o.status = 'pending' and o.not_before > now() then
      'it is not to be sent before ' || sync.format_time(o.not_before)
    when o.status = 'pending' and w.id is not null then
      format('row %s (%s of %s) comes first and is %s%s',
        w.id, w.kind, w.reference, w.status, coalesce(': ' || w.last_error, ''))
    else o.last_error
  end as because,
  -- A subquery, so that only those who read the column pay for it.
  array(
    select r.id
    from (
      (select l.id
       from fulfilment.outbox l
       where l.client = o.client and l.family = o.family and l.reference = o.reference
         and l.status = 'pending'
         and (l.id > o.id or l.id < o.id and o.status in ('sending', 'unknown'))
         and not ((o.status = 'dead' or o.status = 'unknown' and o.next_attempt_at is null)
           and exists (
           select from sync.outbox_kinds n where n.kind = o.kind and l.kind = any(n.overtaken_by)))
       order by l.id
       limit 100)
      union
      (select l.id
       from sync.outbox_waits v
       join fulfilment.outbox l on l.id = v.outbox_id
       where v.waits_for = o.id and l.status = 'pending'
       limit 100)
    ) r
    order by r.id
    limit 100
  ) as rows_behind
from fulfilment.outbox o
left join lateral (
  select l.id, l.kind, l.status, l.last_error from fulfilment.outbox l
  where l.client = o.client and l.family = o.family and l.reference = o.reference
    and (l.id < o.id and l.status in ('pending', 'sending', 'unknown', 'dead')
         or l.id > o.id and o.status = 'pending' and l.status in ('sending', 'unknown'))
    and not ((l.status = 'dead' or l.status = 'unknown' and l.next_attempt_at is null) and exists (
      select from sync.outbox_kinds n where n.kind = l.kind and o.kind = any(n.overtaken_by)))
  order by l.id limit 1
) b on true
left join lateral (
  select min(q.since) as since from sync.pauses q
  where q.client in ('', o.client) and q.job = 'push-outbox'
) p on true
left join lateral (
  select p.reason from sync.service_health p
  where p.client = o.client and p.scope in ('client', o.kind) and p.void_at > now()
    and (p.scope = 'client' or p.next_at > now() or p.send_window is not null)
  order by p.scope <> 'client' limit 1
) h on true
left join lateral (
  select l.id, l.kind, l.reference, l.status, l.last_error
  from sync.outbox_waits v join fulfilment.outbox l on l.id = v.waits_for
  where v.outbox_id = o.id and l.status in ('pending', 'sending', 'unknown')
) w on true
left join sync.clients k on k.client = o.client
-- Once, not for each row.
cross join (
  select left(string_agg(c.client, ', ' order by c.client), 1000) as clients
  from sync.clients c) s
cross join (select sync.push_database_hold() as reason offset 0) d
where o.status in ('pending', 'sending', 'unknown', 'dead');
comment on view fulfilment.outbox_open is
  'Rows of the outbox that are not done or cancelled, and what each row waits for';
comment on column fulfilment.outbox_open.id is 'Row of fulfilment.outbox';
comment on column fulfilment.outbox_open.kind is 'What the row asks for';
comment on column fulfilment.outbox_open.reference is
  'What the row is about, such as your order number';
comment on column fulfilment.outbox_open.status is 'pending, sending, unknown or dead';
comment on column fulfilment.outbox_open.attempts is
  'Number of sends; look-ups and checks before a send do not count';
comment on column fulfilment.outbox_open.next_attempt_at is 'When it is tried or looked up next';
comment on column fulfilment.outbox_open.waits_for is
  'Row that comes first: of the same lane, or of another kind, '
  'such as the product.save of one of its skus; null: none';
comment on column fulfilment.outbox_open.because is 'Why the row is not done, as text';
comment on column fulfilment.outbox_open.rows_behind is
  'Ids of the rows that cannot be sent before it: '
  'of its lane, or orders that wait for its product; the first 100';

create function fulfilment.outbox_replace(id bigint, payload jsonb) returns fulfilment.outbox
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed fulfilment.outbox;
begin
  if payload is null then
    raise exception 'payload must not be null' using errcode = '22023';
  end if;
  -- Where an earlier attempt may have been carried out, the worker that claims the row looks it up
  -- first, if its kind can be.
  update fulfilment.outbox o set payload = outbox_replace.payload, status = 'pending',
    next_attempt_at = clock_timestamp(), finished_at = null, last_error = null, refusal = null,
    refused_as = null, claim_no = null, lookups = 0, absences = 0, absent_at = null,
    replaced_at = clock_timestamp(), limits_from = clock_timestamp(), tries = 0,
    refused_for_others = 0
  where o.id = outbox_replace.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be replaced', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_replace.id),
        'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became)
    values (changed.id, 'replaced', session_user, 'pending');
  perform pg_notify('fulfilment_outbox', '') where pg_notification_queue_usage() < 0.5;
  return changed;
end
$$;
comment on function fulfilment.outbox_replace is
  'Gives a pending or dead row another payload; '
  'the row keeps its place in its lane and its history';

-- The worker that enters the outcome into the feed releases the lane, after the commit of the ERP's
-- transaction.
create function fulfilment.outbox_cancel(id bigint) returns fulfilment.outbox
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed fulfilment.outbox;
  problem text;
begin
  -- Locked before the check, so that no worker begins to send it meanwhile.
  perform from fulfilment.outbox o where o.id = outbox_cancel.id for update;
  select sync.find_cancel_problem(o) into problem
  from fulfilment.outbox o
  where o.id = outbox_cancel.id and o.status in ('pending', 'dead');
  if problem is not null then
    raise exception 'outbox row % cannot be cancelled: %', id, problem using errcode = '22023';
  end if;
  update fulfilment.outbox o set status = 'cancelled', next_attempt_at = null,
    finished_at = clock_timestamp(), refusal = null
  where o.id = outbox_cancel.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be cancelled', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_cancel.id),
        'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became)
    values (changed.id, 'cancelled', session_user, 'cancelled');
  return changed;
end
$$;
comment on function fulfilment.outbox_cancel is
  'Cancels a pending or dead row for good, which frees its lane';

create function fulfilment.outbox_schema(kind text) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_schema jsonb := (
    select k.schema from sync.outbox_kinds k where k.kind = outbox_schema.kind);
begin
  if found_schema is null then
    raise exception 'there is no kind %; known are %', coalesce(kind, 'null'),
      (select string_agg(k.kind, ', ' order by k.kind) from sync.outbox_kinds k)
        using errcode = '22023';
  end if;
  return found_schema;
end
$$;
comment on function fulfilment.outbox_schema is 'Returns the JSON Schema of the payload of a kind';

-- Return labels and attachments stay when prune deletes the outbox rows that asked for them.
-- 
-- The table has no column for the content of a label: the interface does not name the member that
-- holds it, so a column would be empty at another service than the sandbox. The answer is kept
-- whole instead.
create table fulfilment.documents (
  id bigint primary key,
  client text not null,
  kind text not null check (kind in ('return_label', 'order_attachment')),
  reference text not null,
  order_id bigint,
  shipment_id bigint,
  order_attachment_id bigint,
  state text not null default 'stored' check (state in ('stored', 'sent')),
  file_name text,
  mime_type text,
  package_number text,
  shipping_method_id bigint,
  is_paperless boolean,
  result jsonb not null,
  created_at timestamptz not null default now(),
  erased_at timestamptz
);
create index documents_by_reference on fulfilment.documents (client, reference);
comment on table fulfilment.documents is
  'Return labels and order attachments that the service made for outbox rows; '
  'kept until an operator deletes them; personal data';
comment on column fulfilment.documents.id is 'Id of the outbox row that asked for it';
comment on column fulfilment.documents.kind is 'return_label or order_attachment';
comment on column fulfilment.documents.reference is
  'Reference of the outbox row: your order number';
comment on column fulfilment.documents.order_id is 'Order, if it was known here';
comment on column fulfilment.documents.shipment_id is
  'return_label: shipment that the label is for';
comment on column fulfilment.documents.order_attachment_id is
  'order_attachment: its id at the service; null if no answer shows it';
comment on column fulfilment.documents.state is
  'stored: the service answered with it; sent: the first attachment of an order, '
  'which went with it, and which the answer does not show';
comment on column fulfilment.documents.file_name is
  'File name as received, or of the attachment as sent';
comment on column fulfilment.documents.mime_type is
  'mimeType as received; application/pdf for attachments';
comment on column fulfilment.documents.package_number is 'return_label: packageNumber as received';
comment on column fulfilment.documents.shipping_method_id is
  'return_label: shippingMethodId (service list returnShippingMethods)';
comment on column fulfilment.documents.is_paperless is
  'return_label: isPaperlessReturnShippingMethod as received';
comment on column fulfilment.documents.result is
  'result of the outbox row, of an order only the ids: for a return_label the answer as received, '
  'with the content of the document';
comment on column fulfilment.documents.created_at is 'When the outbox row became done';
comment on column fulfilment.documents.erased_at is
  'When personal data was removed from the row; null if it was not';

-- Reads an id from a result or payload, which an operator or the ERP may have written. Returns null
-- if it is not an id.
create function sync.read_document_id(given jsonb) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case when given #>> '{}' ~ '^[0-9]{1,16}$' then (given #>> '{}')::bigint end
$$;

create function sync.store_documents(outbox_ids bigint[]) returns void
language sql set search_path = pg_catalog, pg_temp as $$
  insert into fulfilment.documents (id, client, kind, reference, order_id, shipment_id,
    order_attachment_id, state, file_name, mime_type, package_number, shipping_method_id,
    is_paperless, result, created_at)
  select d.id, d.client, d.document_kind, d.reference,
    coalesce(sync.read_document_id(d.result -> 'orderId'), s.order_id),
    d.shipment_id, sync.read_document_id(d.result -> 'orderAttachmentId'),
    case when d.with_order and d.result -> 'orderAttachmentId' is null then 'sent'
      else 'stored' end,
    coalesce(d.result ->> 'fileName', d.payload ->> 'filename'),
    coalesce(d.result ->> 'mimeType',
      case d.document_kind when 'order_attachment' then 'application/pdf' end),
    d.result ->> 'packageNumber', sync.read_document_id(d.result -> 'shippingMethodId'),
    case d.result ->> 'isPaperlessReturnShippingMethod'
      when 'true' then true when 'false' then false end,
    d.result, d.finished_at
  from (
    select o.id, o.client, o.reference, o.finished_at, w.with_order,
      k.document ->> 'kind' as document_kind, o.payload #> w.path as payload,
      case when w.with_order then jsonb_strip_nulls(jsonb_build_object(
        'orderId', o.result -> 'orderId', 'orderAttachmentId', o.result -> 'orderAttachmentId'))
        else o.result end as result,
      sync.read_document_id(o.payload -> 'shipmentId') as shipment_id
    from fulfilment.outbox o
    join sync.outbox_kinds k on k.kind = o.kind and k.document is not null
    cross join lateral (
      select array(select jsonb_array_elements_text(k.document -> 'path')) as path,
        k.document -> 'path' <> '[]' as with_order) w
    where o.id = any(outbox_ids) and o.payload #> w.path is not null
  ) d
  left join fulfilment.shipments s on s.client = d.client and s.id = d.shipment_id
  order by d.id
  on conflict (id) do nothing
$$;

-- When a row is finished, whoever finished it, its document is stored, and the rows that wait for it
-- are due. That, and an unknown outcome, are changes for the feed.
create function sync.note_outcome() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- A row without a result has no document: an operator marked it as done, or the answer could not
  -- be stored. The first attachment of an order goes with the order; each other one is a row of its
  -- own. Most orders have none: for them the whole statement would cost more than the update.
  if new.status = 'done' and new.result <> '{}' and exists (
    select from sync.outbox_kinds k
    where k.kind = new.kind and new.payload #>
      array(select jsonb_array_elements_text(k.document -> 'path')) is not null) then
    perform sync.store_documents(array[new.id]);
  end if;

  insert into sync.new_changes (client, entity, id, operation, changed_columns)
  values (new.client, 'outbox', new.id, 'updated', array_remove(array['status',
    case when old.attempts <> new.attempts then 'attempts' end,
    case when old.last_error is distinct from new.last_error then 'last_error' end,
    case when old.result is distinct from new.result then 'result' end,
    case when old.finished_at is distinct from new.finished_at then 'finished_at' end], null));
  -- Any role that may connect can listen: the id tells it nothing.
  perform pg_notify('fulfilment_outbox_settled', new.id::text)
    where pg_notification_queue_usage() < 0.5;

  if new.status <> 'unknown'
    and exists (select from sync.outbox_waits w where w.waits_for = new.id) then
    perform sync.release_waiters(new.id);
  end if;
  return null;
end
$$;
-- For each row, not for each statement: the session keeps the plan for a statement of one row, and
-- by it would compare each of many rows with each other one.
create trigger outbox_settled after update of status on fulfilment.outbox for each row
  when (old.status is distinct from new.status
    and new.status in ('done', 'dead', 'unknown', 'cancelled'))
  execute function sync.note_outcome();

-- Documents are entries of the feed.
create function sync.enter_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    insert into sync.new_changes (client, entity, id, operation)
      values (old.client, 'documents', old.id, 'removed');
  else
    insert into sync.new_changes (client, entity, id, operation)
      values (new.client, 'documents', new.id, 'created');
  end if;
  return null;
end
$$;
create trigger documents_entered after insert or delete on fulfilment.documents
  for each row execute function sync.enter_document();

revoke execute on function sync.read_document_id, sync.store_documents, sync.note_outcome,
  sync.enter_document from public;

create function sync.list_first(words text[]) returns text
  language sql stable begin atomic
  select array_to_string(words[1:10], ', ')
    || case when cardinality(words) > 10 then format(' and %s more', cardinality(words) - 10)
      else '' end;
end;

-- State and pieces follow from the lines of the order (fulfilment.order_lines). ordered_on is as
-- stored, so that a condition on it uses an index.
create view fulfilment.order_overview as
select o.client, o.id as order_id, o.external_order_number, o.email, o.ordered_on,
  sync.real_day(o.preferred_shipping_date) as preferred_shipping_date, t.state,
  -- Subqueries, not joins: with more than eight tables (join_collapse_limit), Postgres would no
  -- longer begin with the orders that a query names.
  (select t.code
   from fulfilment.setting_options t
   where t.client = o.client and t.list = 'orderTypes' and t.id = o.order_type_id) as order_type,
  (select t.name
   from fulfilment.setting_options t
   where t.client = o.client and t.list = 'orderTypes'
     and t.id = o.order_type_id) as order_type_name,
  (select m.code
   from fulfilment.setting_options m
   where m.client = o.client and m.list in ('mainShippingMethods', 'shippingMethods')
     and m.id = o.preferred_shipping_method_id
   order by m.list
   limit 1) as shipping_method,
  (select m.name
   from fulfilment.setting_options m
   where m.client = o.client and m.list in ('mainShippingMethods', 'shippingMethods')
     and m.id = o.preferred_shipping_method_id
   order by m.list
   limit 1) as shipping_method_name,
  l.ordered, l.cancelled, l.shipped, l.to_come, l.returned, s.shipments, p.parcels,
  s.first_shipped_on, s.last_shipped_on, b.problem_code, b.problem, o.unlisted_since,
  case when p.tracked > 0 then 'on_its_way'
    when p.parcels > 0 and p.ended = p.parcels then 'ended' end as tracking_state,
  case
    when p.tracked > 0 then p.tracked_since
    when p.parcels > 0 and p.ended = p.parcels then p.ended_at
  end as tracking_since
from fulfilment.orders o
cross join lateral (
  select count(*) as all_lines, count(*) filter (where not i.is_service) as goods_lines,
    coalesce(sum(greatest(i.quantity, 0)), 0) as all_pieces,
    coalesce(sum(i.shipped + i.to_come) filter (where not i.is_service), 0) as pieces,
    coalesce(sum(i.ordered) filter (where not i.is_service), 0)::bigint as ordered,
    coalesce(sum(i.cancelled) filter (where not i.is_service), 0)::bigint as cancelled,
    coalesce(sum(i.shipped) filter (where not i.is_service), 0)::bigint as shipped,
    coalesce(sum(i.to_come), 0)::bigint as to_come,
    coalesce(sum(i.over_shipped), 0) as over_shipped,
    coalesce(sum(i.returned) filter (where not i.is_service), 0)::bigint as returned
  from fulfilment.order_lines i
  where i.client = o.client and i.order_id = o.id
) l
cross join lateral (
  select count(*) as shipments,
    array_agg(s.id::text order by s.id) filter (where s.status = 'ERROR') as errors,
    min(sync.real_time(s.shipped_on)) filter (where s.status = 'SHIPPED') as first_shipped_on,
    max(sync.real_time(s.shipped_on)) filter (where s.status = 'SHIPPED') as last_shipped_on
  from fulfilment.shipments s
  where s.client = o.client and s.order_id = o.id and s.unlisted_since is null
) s
cross join lateral (
  select c.state, c.state not in ('unlisted', 'cancelled', 'nothing_to_ship', 'shipped')
    and coalesce(sync.real_day(o.ordered_on), o.first_seen_at::date) <= current_date - 2 as is_late
  from (select case
    when o.unlisted_since is not null then 'unlisted'
    when l.all_lines > 0 and l.all_pieces = 0 or l.goods_lines > 0 and l.pieces = 0 then 'cancelled'
    when l.all_lines > 0 and l.goods_lines = 0 then 'nothing_to_ship'
    when l.shipped > 0 and l.to_come = 0 then 'shipped'
    when s.errors is not null then 'warehouse_error'
    when l.shipped > 0 then 'partly_shipped'
    when o.on_hold then 'on_hold'
    when s.shipments > 0 then 'in_warehouse'
    -- The service may not ship it until somebody completes the address (docs/interface.md, 15.3 Add
    -- order: rules).
    when exists (
      select from fulfilment.order_addresses a
      where a.client = o.client and a.order_id = o.id and a.role = 'delivery'
        -- The switch houseNumberCountries, as migrate has stored it.
        and (select k.schema -> 'x-house-number-countries' from sync.outbox_kinds k
          where k.kind = 'order.create')
          ? a.country_code
        and coalesce(a.house_number, '') = ''
        and a.street1 !~* '\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$')
          then 'check_address'
    else 'accepted'
  end as state) c
  -- Computed once, not for each reason.
  offset 0
) t
left join lateral (
  select count(*) as parcels,
    array_agg(coalesce(nullif(p.package_number, ''), 'of shipment ' || p.shipment_id)
      order by p.shipment_id, p.package_number)
      filter (where p.current_track_trace_exception_level ~ '^[1-9]') as exceptions,
    count(*) filter (where p.tracking_state = 'on_its_way') as tracked,
    count(*) filter (where p.tracking_state = 'ended') as ended,
    min(p.tracking_since) filter (where p.tracking_state = 'on_its_way') as tracked_since,
    max(p.tracking_since) as ended_at
  from fulfilment.shipments s
  join sync.tracked_parcels p on p.client = s.client and p.shipment_id = s.id
  where s.client = o.client and s.order_id = o.id and s.unlisted_since is null
    and p.unlisted_since is null
) p on true
-- Why it is not shipped, the most urgent reason first. Something is found for every order that is
-- late.
left join lateral (
  select (array_agg(r.code order by r.nth))[1] as problem_code,
    string_agg(r.words, '; ' order by r.nth) as problem
  from (
    select 1, 'warehouse_error',
      'shipments with the status ERROR: ' || sync.list_first(s.errors)
    where s.errors is not null
    union all
    select 2, 'parcel_exception',
      'parcels with an exception level: ' || sync.list_first(p.exceptions)
    where p.exceptions is not null
    union all
    (select 3, 'row_' || case when w.status in ('dead', 'unknown') then w.status else 'waiting' end,
       format('outbox row %s (%s) is %s%s', w.id, w.kind, w.status, ': ' || w.last_error)
     from fulfilment.outbox w
     where w.client = o.client and w.family = 'order' and w.reference = o.external_order_number
       and (w.status in ('dead', 'unknown') and w.next_attempt_at is null
         or t.is_late and w.status in ('pending', 'sending', 'unknown'))
     order by w.status in ('dead', 'unknown') and w.next_attempt_at is null desc, w.id
     limit 1)
    union all
    select 4, 'on_hold', 'it is on hold' where t.is_late and o.on_hold
    union all
    select 5, 'check_address', 'its address has no house number that the service could find'
    where t.state = 'check_address'
    union all
    select 6, 'not_due', 'it is not to be shipped before ' || o.preferred_shipping_date
    where t.is_late and o.preferred_shipping_date > current_date
    union all
    select 7, 'no_lines', 'none of its lines is stored here' where t.is_late and l.all_lines = 0
    union all
    (select 8, 'back_order',
       'on no shipment: ' || sync.list_first(array_agg(m.article order by m.first_line))
     from (
       select min(i.order_item_id) as first_line,
         format('%s (%s%s)', i.sku, sum(i.missing), ', stock ' || min(k.stock)) as article
       from fulfilment.order_lines i
       left join fulfilment.stock_levels k on k.client = i.client and k.sku = i.sku
       where t.is_late and o.on_hold is not true
         and coalesce(o.preferred_shipping_date <= current_date, true)
         and i.client = o.client and i.order_id = o.id and i.missing > 0
       group by i.sku
     ) m
     having count(*) > 0)
    union all
    (select 9,
      case when bool_or(h.status = 'READY_TO_PICK') then 'not_picked' else 'not_shipped' end,
       'shipments that have not left: ' || sync.list_first(array_agg(
         format('%s (%s)', h.id, left(coalesce(h.status, 'no status'), 50)) order by h.id))
     from fulfilment.shipments h
     where t.is_late and h.client = o.client and h.order_id = o.id and h.unlisted_since is null
       and (h.status in ('SHIPPED', 'ERROR')) is not true
     having count(*) > 0)
    union all
    (select 10, 'over_shipped', 'more was shipped than ordered: '
       || string_agg(format('%s (%s)', i.sku, i.over_shipped), ', ' order by i.order_item_id)
     from fulfilment.order_lines i
     where l.over_shipped > 0 and i.client = o.client and i.order_id = o.id and i.over_shipped > 0
     having count(*) > 0)
  ) r (nth, code, words)
) b on true;
comment on view fulfilment.order_overview is
  'Orders at the service, one row each: state, pieces without service products, parcels, '
  'problems. order_state also knows orders that are not there yet';
comment on column fulfilment.order_overview.preferred_shipping_date is
  'Day before which it is not to be shipped';
comment on column fulfilment.order_overview.state is
  'accepted, check_address, on_hold, in_warehouse, warehouse_error, partly_shipped, shipped, '
  'nothing_to_ship, cancelled or unlisted (docs/erp.md)';
comment on column fulfilment.order_overview.email is
  'Consumer''s address (personal data); compare lower(email), which has an index';
comment on column fulfilment.order_overview.shipping_method is
  'Code of the shipping method that was asked for, main or nested';
comment on column fulfilment.order_overview.ordered is 'Pieces that were ordered first';
comment on column fulfilment.order_overview.cancelled is 'Pieces of them that were cancelled';
comment on column fulfilment.order_overview.shipped is 'Pieces that a carrier took';
comment on column fulfilment.order_overview.to_come is 'Pieces that are still to be shipped';
comment on column fulfilment.order_overview.returned is 'Pieces that came back and were processed';
comment on column fulfilment.order_overview.shipments is 'Number of shipments';
comment on column fulfilment.order_overview.parcels is
  'Number of packages of these shipments that are known';
comment on column fulfilment.order_overview.first_shipped_on is 'When the first shipment left';
comment on column fulfilment.order_overview.last_shipped_on is
  'When the last of the shipments that have left did so';
comment on column fulfilment.order_overview.problem_code is
  'The first problem in one word: warehouse_error, parcel_exception, row_dead, row_unknown, '
  'row_waiting, on_hold, check_address, not_due, no_lines, back_order, not_picked, '
  'not_shipped or over_shipped';
comment on column fulfilment.order_overview.problem is
  'All its problems in words; null if there is none. '
  'An order that is not shipped two days after it was ordered has at least one';
comment on column fulfilment.order_overview.tracking_state is
  'on_its_way: a package of it is on the track-trace list; ended: '
  'all its packages so far have left the list, so they are delivered, at a pick-up point, '
  'or returned to the sender; null: there is none, or one was never listed';
comment on column fulfilment.order_overview.tracking_since is
  'on_its_way: when the list first had one of these packages; ended: '
  'when the last of them had left it';

-- Returns one row if the outbox or the tables know the order, else none. It has the rights of the
-- caller.
create function fulfilment.order_state(number text, client text default 'default')
returns table (
  order_id bigint, state text, waits_for text, open_rows bigint, ordered bigint, cancelled bigint,
  shipped bigint, to_come bigint, returned bigint, shipments bigint, last_shipped_on timestamptz,
  tracking_urls text[]
) language sql stable set search_path = pg_catalog, pg_temp as $$
  with asked as (
    select o.id, o.kind, o.status
    from fulfilment.outbox o
    where o.client = order_state.client and o.reference = order_state.number and o.family = 'order'
  ),
  -- A number may be used again after a rename. The newest order has it.
  found as (
    select *
    from fulfilment.order_overview v
    where v.client = order_state.client and v.external_order_number = order_state.number
    order by v.unlisted_since is not null, v.order_id desc
    limit 1
  ),
  -- The create that counts: an open one, else the last.
  creation as (
    select a.status
    from asked a
    where a.kind in ('order.create', 'order.replace')
    order by a.status in ('pending', 'sending', 'unknown', 'dead') desc, a.id desc
    limit 1
  )
  select
    f.order_id,
    case
      when f.order_id is not null then f.state
      when exists (select from asked a where a.kind = 'order.rename' and a.status = 'done')
        then 'renamed'
      else case c.status
        when 'pending' then 'waiting' when 'sending' then 'waiting' when 'unknown' then 'unknown'
        when 'dead' then 'refused' when 'cancelled' then 'cancelled' when 'done' then 'accepted'
        else 'not_found' end
    end,
    (select w.because
     from fulfilment.outbox_open w
     where w.client = order_state.client and w.reference = order_state.number
       and w.id in (select a.id from asked a)
     order by w.id
     limit 1),
    (select count(*) from asked a where a.status in ('pending', 'sending', 'unknown', 'dead')),
    coalesce(f.ordered, 0), coalesce(f.cancelled, 0), coalesce(f.shipped, 0),
    coalesce(f.to_come, 0), coalesce(f.returned, 0), coalesce(f.shipments, 0), f.last_shipped_on,
    coalesce((
      select array_agg(distinct p.tracking_url)
      from fulfilment.shipments s
      join fulfilment.parcel_overview p on p.client = s.client and p.shipment_id = s.id
      where s.client = order_state.client and s.order_id = f.order_id and s.unlisted_since is null
        and p.unlisted_since is null and p.tracking_url is not null), '{}')
  from (select) one
  left join found f on true
  left join creation c on true
  where f.order_id is not null or exists (select from asked)
$$;
comment on function fulfilment.order_state is
  'State of the order with this number (docs/erp.md lists the states), what its outbox rows wait '
  'for, pieces without service products, and tracking links; no row if it is unknown';

create function sync.list_stored_times(first_seen_at timestamptz, changed_at timestamptz,
  unlisted_since timestamptz)
returns table (what text, at timestamptz) language sql immutable as $$
  values ('stored', first_seen_at), ('changed', nullif(changed_at, first_seen_at)),
    ('unlisted', unlisted_since)
$$;

-- It has the rights of its owner, because the attempts are in schema sync. It reads a bounded
-- number of rows of each part. Behind a subquery, the planner does not look up the client in its
-- statistics, which may not know it yet.
create function fulfilment.order_history(number text, client text default 'default')
returns table (
  at timestamptz, service_at timestamptz, is_day boolean, source text, id bigint, what text,
  detail text, name text, error text
) language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with named as materialized (
    (select r.id
     from fulfilment.orders r
     where r.external_order_number = order_history.number
       and r.client = (select order_history.client)
     limit 100)
    union
    (select t.target_id
     from fulfilment.outbox o
     join sync.outbox_targets t on t.outbox_id = o.id
     where o.client = (select order_history.client) and o.reference = order_history.number
       and o.kind = 'order.rename'
     limit 100)
  ), numbers as materialized (
    select order_history.number as number
    union
    select o.reference
    from named n
    join sync.outbox_targets t on t.target_id = n.id
    join fulfilment.outbox o on o.id = t.outbox_id and o.client = (select order_history.client)
    union
    select r.external_order_number
    from named n
    join fulfilment.orders r
      on r.client = (select order_history.client) and r.id = n.id
        and r.external_order_number is not null
  ), sent as materialized (
    select s.*
    from named n
    join fulfilment.shipments s on s.order_id = n.id and s.client = (select order_history.client)
    limit 100
  ), announced as materialized (
    select a.*
    from sent s
    join fulfilment.return_merchandise_authorizations a on a.client = s.client
      and a.shipment_id = s.id
    limit 100
  ), asked as materialized (
    (select o.id, o.kind, o.reference, o.created_at
     from numbers n
     join fulfilment.outbox o
       on o.client = (select order_history.client) and o.reference = n.number and o.family = 'order'
     order by o.id desc
     limit 100)
    union
    (select o.id, o.kind, o.reference, o.created_at
     from announced a
     join fulfilment.outbox o on o.client = a.client and o.reference = a.external_reference
       and o.family = 'return'
     order by o.id desc
     limit 100)
  ), boxes as materialized (
    select p.*
    from sent s
    cross join lateral (
      select * from fulfilment.parcels p
      where p.client = s.client and p.shipment_id = s.id limit 200) p
  ), events as (
    select k.created_at as at, null::timestamptz as service_at, false as is_day,
      'outbox' as source, k.id, 'inserted' as what, k.kind as detail, k.reference as name,
      null::text as error
    from asked k
    union all
    select a.at, null, false, 'outbox', k.id, a.step, a.became, k.reference, left(a.error, 500)
    from asked k
    cross join lateral (
      select * from sync.outbox_attempts a where a.outbox_id = k.id order by a.id desc limit 30) a
    union all
    select d.created_at, null, false, 'document', d.id, 'stored', d.kind, null, null
    from asked k
    join fulfilment.documents d on d.id = k.id
    union all
    select t.at, null, false, 'order', r.id, t.what, null, r.external_order_number, null
    from named n
    join fulfilment.orders r on r.client = (select order_history.client) and r.id = n.id
    cross join sync.list_stored_times(r.first_seen_at, r.changed_at, r.unlisted_since) t
    union all
    select e.seen_at, null, false, 'line', e.order_item_id,
      case when e.unlisted_since is null then 'quantity' else 'unlisted' end,
      e.quantity::text, e.sku, null
    from named n
    join fulfilment.orders r on r.client = (select order_history.client) and r.id = n.id
    cross join lateral (
      select *
      from fulfilment.order_line_events e
      where e.client = r.client and e.order_id = r.id and e.seen_at <> r.first_seen_at
      order by e.id desc
      limit 1000) e
    union all
    select t.at, null, false, 'shipment', s.id, t.what, null, null, null
    from sent s
    cross join lateral (
      values ('stored', s.first_seen_at), ('unlisted', s.unlisted_since)) t (what, at)
    union all
    select e.seen_at,
      sync.real_time(case e.status when 'READY_TO_PICK' then s.ready_to_pick_on
        when 'READY_TO_SHIP' then s.ready_to_ship_on when 'SHIPPED' then s.shipped_on end),
      false, 'shipment', s.id, 'status', e.status, null, null
    from sent s
    cross join lateral (
      select *
      from fulfilment.shipment_events e
      where e.client = s.client and e.shipment_id = s.id
      order by e.id desc
      limit 100) e
    union all
    select t.at, case when t.what = 'stored' then sync.real_time(p.shipping_date) end, false,
      'parcel', p.shipment_id, t.what,
      case when t.what = 'changed' then p.current_track_trace_status end, p.package_number, null
    from boxes p
    cross join sync.list_stored_times(p.first_seen_at, p.changed_at, p.unlisted_since) t
    union all
    select e.seen_at, sync.real_time(e.current_track_trace_status_date_time), false,
      'parcel', s.id, 'status',
      e.current_track_trace_status::text, e.package_number, null
    from sent s
    cross join lateral (
      select *
      from fulfilment.track_trace_events e
      where e.client = s.client and e.shipment_id = s.id
      order by e.package_number, e.id desc
      limit 200) e
    union all
    select t.at, null, false, 'return', a.id, 'announcement ' || t.what, a.status, null, null
    from announced a
    cross join sync.list_stored_times(a.first_seen_at, a.changed_at, a.unlisted_since) t
    union all
    select t.at,
      case when t.what = 'stored' then
        sync.real_day(i.processed_on)::timestamp at time zone 'UTC' end,
      t.what = 'stored', 'return', i.id, t.what, null, null, null
    from named n
    cross join lateral (
      select *
      from fulfilment.return_items i
      where i.client = (select order_history.client) and i.order_id = n.id
      limit 100) i
    cross join sync.list_stored_times(i.first_seen_at, i.changed_at, i.unlisted_since) t
  )
  select e.at, e.service_at, e.is_day, e.source, e.id, e.what, e.detail, e.name, e.error
  from events e
  where e.at is not null
  -- What is known here since the same second is in the order in which it must have happened.
  order by date_trunc('second', e.at), e.what like '%unlisted', array_position(
      array['outbox', 'document', 'order', 'line', 'shipment', 'parcel', 'return'], e.source),
    e.at, e.service_at nulls first, e.id,
    array_position(array['inserted', 'stored', 'sent'], e.what) nulls last, e.what
$$;
comment on function fulfilment.order_history is
  'Events of an order, oldest first: outbox rows and their attempts, the order, changes of its '
  'lines, shipments, parcels, returns, documents. A former number finds it, too; at: when it '
  'happened or was read here; service_at: time that the service gives for it; is_day: of '
  'service_at, only the day is known, and it is its midnight in UTC; name: reference of the row, '
  'article, or package';

-- Proposals for fulfilment.service_products. An article that was on any shipment is never proposed.
-- Nothing is assumed: an article that has not been in stock since its first order looks the same.
create view fulfilment.service_product_candidates as
with shipped as (
  select l.client, l.order_item_id, sum(l.quantity) as pieces
  from fulfilment.shipment_items l
  join fulfilment.shipments s on s.client = l.client and s.id = l.shipment_id
  where s.status = 'SHIPPED' and s.unlisted_since is null and l.unlisted_since is null
  group by l.client, l.order_item_id
),
never_shipped as materialized (
  select a.client, a.sku
  from (
    select i.client, i.sku from fulfilment.order_items i where i.sku is not null
    except
    select l.client, l.sku from fulfilment.shipment_items l
  ) a
  where not exists (
    select from sync.service_products p
    where p.client = a.client
      and case when p.is_pattern then a.sku like p.sku else a.sku = p.sku end)
),
-- Orders of these articles in which every other line was shipped in full, or is of a service
-- product.
otherwise_shipped as materialized (
  select i.client, i.order_id,
    count(*) filter (where n.sku is null and s.pieces >= i.quantity) > 0 as has_shipped
  from fulfilment.order_items i
  left join never_shipped n on n.client = i.client and n.sku = i.sku
  left join shipped s on s.client = i.client and s.order_item_id = i.id
  where i.quantity > 0 and i.unlisted_since is null
  group by i.client, i.order_id
  having bool_or(n.sku is not null)
    and bool_and(n.sku is not null or coalesce(s.pieces, 0) >= i.quantity or exists (
    select from sync.service_products p
    where p.client = i.client
      and case when p.is_pattern then i.sku like p.sku else i.sku = p.sku end))
),
lines as materialized (
  select i.client, i.sku, i.id, o.id as order_id, o.external_order_number, d.has_shipped
  from otherwise_shipped d
  join fulfilment.order_items i on i.client = d.client and i.order_id = d.order_id
  join never_shipped n on n.client = i.client and n.sku = i.sku
  join fulfilment.orders o on o.client = i.client and o.id = i.order_id
  where i.quantity > 0 and i.unlisted_since is null and o.unlisted_since is null
),
reasons as (
  select l.client, l.sku, max(l.order_id) as order_id, format(
    'the other lines of %s orders were shipped in full, and it was never on a shipment',
    count(distinct l.order_id)) as reason
  from lines l
  where l.has_shipped
  group by l.client, l.sku
  having count(distinct l.order_id) >= 5
  union all
  select l.client, l.sku, max(l.order_id), format(
    'order_item.cancel (row %s) did not cancel it, and nothing else of the order was open',
    max(w.id))
  from lines l
  join fulfilment.outbox w on w.client = l.client and w.reference = l.external_order_number
  where w.kind = 'order_item.cancel'
    and (w.status = 'done' and w.result ->> 'modified' = 'false'
      or w.status = 'dead' and w.attempts > 0)
    and (l.id::text in (w.result ->> 'orderItemId', w.payload ->> 'orderItemId')
      or l.sku = w.payload ->> 'sku')
  group by l.client, l.sku
)
select r.client, r.sku, string_agg(r.reason, '; ' order by r.reason) as reason,
  max(o.external_order_number) as external_order_number
from reasons r
join fulfilment.orders o on o.client = r.client and o.id = r.order_id
group by r.client, r.sku;
comment on view fulfilment.service_product_candidates is
  'Articles that seem to be service products: insert those that are into service_products. '
  'It reads all orders';
comment on column fulfilment.service_product_candidates.reason is 'What the tables show of it';
comment on column fulfilment.service_product_candidates.external_order_number is
  'Number of an order that shows it';

revoke execute on function fulfilment.outbox_replace, fulfilment.outbox_cancel,
  fulfilment.outbox_schema, fulfilment.order_state, fulfilment.order_history from public;
do $$
declare
  found name;
begin
  for found in select rolname from pg_roles
    where rolname in ('fulfilment_reader', 'fulfilment_writer') loop
    execute format('grant execute on function fulfilment.outbox_schema to %I', found);
    execute format('grant execute on function fulfilment.order_state to %I', found);
    execute format('grant execute on function fulfilment.order_history to %I', found);
  end loop;
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant insert (client, kind, reference, payload, not_before)
      on fulfilment.outbox to fulfilment_writer;
    grant execute on function fulfilment.outbox_replace,
      fulfilment.outbox_cancel to fulfilment_writer;
  end if;
end
$$;
