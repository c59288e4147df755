-- Schemas, roles, the feed of changes, and what every job needs: clients, schedules, leases and
-- runs. The migrator has created schema sync, because it keeps its record there.
create schema fulfilment;
comment on schema fulfilment is
  'What the ERP reads: the resources of the warehouse service, and a feed of their changes';
comment on schema sync is 'State of fulfilment-sync itself; not for the ERP';
-- sync.migrations: Migrations that were applied. Code refuses to work with a migration that it does
--   not know
--   applied_by: Version that applied it
-- sync.schema_parts: Columns, constraints, indexes, functions and triggers that migrations made.
--   Doctor compares them

-- Roles of the ERP. If the migrating role may not create them, an administrator creates them before
-- the migration.
do $$
declare
  wanted name;
begin
  foreach wanted in array array['fulfilment_reader', 'fulfilment_writer'] loop
    begin
      if not exists (select from pg_roles where rolname = wanted) then
        execute format('create role %I nologin', wanted);
      end if;
    exception when insufficient_privilege or duplicate_object or unique_violation then
      raise notice 'role % was not created: %', wanted, sqlerrm;
    end;
    if exists (select from pg_roles where rolname = wanted) then
      execute format('grant usage on schema fulfilment to %I', wanted);
      execute format('alter default privileges in schema fulfilment grant select on tables to %I',
        wanted);
    end if;
  end loop;
end
$$;

-- The clock of schedules and gates. Leases use the clock of the server.
create function sync.clock() returns timestamptz
  language sql stable as 'select statement_timestamp()';
-- sync.clock: Returns the time of schedules and gates: the clock of the database

-- A program of the ERP calls functions and reads views in a session whose settings nobody here
-- knows. So what it calls sets its search_path, or is bound when it is created (`begin atomic`);
-- texts of functions have no backslash; and a time becomes text only here.
create function sync.format_time(at timestamptz) returns text language sql stable begin atomic
  select case when isfinite(at) then to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    else at::text end;
end;
-- sync.format_time: Returns a time in UTC as ISO 8601, to seconds, whatever the session has set

create sequence sync.read_no;
-- sync.read_no: A number is drawn before each request is sent. Of two readings of a row, the one
--   with the larger number wins

-- Transactions of workers lock rows and tables that no other role may lock. Any role that may
-- connect could take an advisory lock, and keep it.
create table sync.locks (
  name text primary key
);
-- sync.locks: Names that transactions of the workers lock, so that they run one after the other

-- The feed. Only sync.number_changes writes it. It holds a lock until its commit, and draws seq
-- after the lock. So seq grows in the order of commits: a reader that remembers its last seq misses
-- no entry that commits later.
create table fulfilment.changes (
  seq bigint generated always as identity primary key,
  client text not null,
  entity text not null,
  id bigint,
  key text,
  operation text not null check (operation in ('created', 'updated', 'unlisted', 'removed')),
  changed_columns text[],
  changed_at timestamptz not null default now(),
  check (id is not null or key is not null),
  check ((operation = 'updated') = (changed_columns is not null))
);
comment on table fulfilment.changes is
  'Feed of every change of the tables in this schema, in the order of commit';
comment on column fulfilment.changes.seq is
  'Place in the feed; it rises in the order of commit, so keep the last one that you '
  'handled';
comment on column fulfilment.changes.entity is
  'Table of the row that changed; outbox for a row that became done, dead, unknown or cancelled';
comment on column fulfilment.changes.id is 'Id of the row that changed';
comment on column fulfilment.changes.key is 'Key of the row, if its table has no bigint id';
comment on column fulfilment.changes.operation is 'created, updated, unlisted or removed';
comment on column fulfilment.changes.changed_columns is
  'updated: names of the columns whose values changed, without changed_at and what is derived '
  'from others; raw alone: a member without a column. Null otherwise';
comment on column fulfilment.changes.changed_at is 'Transaction time of the change';

-- Writers do not wait for each other. The order of the changes of one row is the order of their
-- commits: a place is drawn while the transaction has that row locked.
create table sync.new_changes (
  -- Drawn before place: a later transaction has later places.
  xid xid8 not null default pg_current_xact_id(),
  place bigint generated always as identity,
  client text not null,
  entity text not null,
  id bigint,
  key text,
  operation text not null,
  changed_columns text[],
  changed_at timestamptz not null default now(),
  is_rescan boolean not null default false,
  primary key (xid, place)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- sync.new_changes: Changes that are not in the feed yet. A worker numbers them within a second
--   is_rescan: A reconciliation, backfill, refetch or replay found it

insert into sync.locks values ('feed');

create table sync.installation (
  only_row boolean primary key default true check (only_row),
  id uuid not null default gen_random_uuid()
);
insert into sync.installation default values;
-- sync.installation: Name of this installation for what it shares with others, such as one Redis
--   id: Random, and kept by a restore

create table sync.feed_mark (
  only_row boolean primary key default true check (only_row),
  pruned_until bigint not null default 0,
  unused_from bigint not null default 0,
  unused_until bigint not null default 0,
  numbered pg_snapshot,
  numbered_at timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into sync.feed_mark default values;
-- sync.feed_mark: Parts of the feed that are not there
--   pruned_until: Changes up to this seq are no longer kept
--   unused_from: Larger values of seq, up to unused_until, were left out when a database was
--     accepted: a reader that has them has read another database
--   unused_until: Last value of seq that was left out
--   numbered: What was committed then is in the feed; renewed once a second

-- One call is one transaction of the server, so a worker that is stopped does not keep the lock.
-- Only transactions that were open at the snapshot of the mark, or began later, are searched: while
-- an old transaction keeps deleted rows from being removed, a search from the beginning would meet
-- all of them. A notification is left out while the NOTIFY queue of the server is half full: a full
-- one would fail the statement. Any role that may connect can fill it. Those who listen also look
-- by themselves.
create function sync.number_changes(max integer, whole boolean default false,
  out numbered integer, out outbox_ids bigint[])
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  mark pg_snapshot := (select m.numbered from sync.feed_mark m
    -- A mark of another server may be ahead of this one.
    where not whole and pg_snapshot_xmax(m.numbered) <= pg_snapshot_xmax(pg_current_snapshot()));
  since xid8 := coalesce(pg_snapshot_xmax(mark), '0');
  open xid8[] := array(select pg_snapshot_xip(mark));
begin
  numbered := 0;
  if not exists (select from sync.new_changes where xid >= since)
    and not exists (select from sync.new_changes where xid = any(open)) then
    return;
  end if;
  perform from sync.locks where name = 'feed' for update skip locked;
  if not found then
    numbered := null;
    return;
  end if;
  with moved as (
    delete from sync.new_changes where ctid = any(array(
      select ctid from (
        select ctid, place from sync.new_changes where xid >= since
        union all select ctid, place from sync.new_changes where xid = any(open)) n
      order by place limit max))
    returning *
  ), counted as materialized (
    select nextval('fulfilment.changes_seq_seq') as seq, m.*
    from (select * from moved order by place) m
  ), entered as (
    insert into fulfilment.changes (seq, client, entity, id, key, operation, changed_columns,
      changed_at)
    overriding system value
    select seq, client, entity, id, key, operation, changed_columns, changed_at
    from counted
    order by seq
  ), noted as (
    insert into sync.rescanned_changes (first_seq, last_seq)
    select min(seq), max(seq)
    from (select seq, seq - row_number() over (order by seq) as span from counted where is_rescan) r
    group by span
  ), marked as (
    update sync.feed_mark
    set numbered = pg_current_snapshot(), numbered_at = clock_timestamp()
    where (select count(*) from moved) < max
      and numbered_at not between clock_timestamp() - interval '1 second' and clock_timestamp()
  )
  select count(*), array_agg(distinct id) filter (where entity = 'outbox')
  into numbered, outbox_ids
  from counted;
  perform pg_notify('fulfilment_changes', '') where pg_notification_queue_usage() < 0.5;
end
$$;
-- sync.number_changes: Moves at most max of the oldest changes to the feed. Returns their number,
--   null if another transaction moves some, and the outbox rows among them. whole: searches without
--   the mark
revoke execute on function sync.number_changes from public;

-- Has the rights of its owner, so that readers of the feed need no rights in schema sync.
create function fulfilment.changes_since(after bigint, max integer default 1000)
returns setof fulfilment.changes language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp as $$
declare
  pruned bigint := (select pruned_until from sync.feed_mark);
  unused bool := (select after > unused_from and after <= unused_until from sync.feed_mark);
  given_out bigint := coalesce(
    pg_sequence_last_value(pg_get_serial_sequence('fulfilment.changes', 'seq')::regclass), 0);
  -- Only committed entries count: a reader that continued from a seq that is still being written
  -- would miss it.
  newest bigint := coalesce((select c.seq from fulfilment.changes c order by c.seq desc limit 1),
    pruned);
begin
  if after is null or after < 0 then
    raise exception 'after must be the last seq that was read, or 0 to begin'
      using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  if after < pruned then
    raise exception 'changes after % are no longer all kept (pruned until %): '
      'read the tables again, then continue from %',
      after, pruned, newest using errcode = '22023';
  end if;
  if unused or after > given_out then
    raise exception 'seq % was never used here: was the database restored? '
      'Read the tables again, then continue from %',
      after, newest using errcode = '22023';
  end if;
  -- seq grows in the order of commits, so a later commit cannot add an entry before those read
  -- here.
  return query select c.* from fulfilment.changes c where c.seq > after order by c.seq limit max;
end
$$;
comment on function fulfilment.changes_since is
  'Returns at most max changes after a seq; raises an error if some of them were pruned';

create table fulfilment.consumers (
  name text primary key check (length(name) between 1 and 64),
  seq bigint not null check (seq >= 0),
  created_at timestamptz not null default now(),
  moved_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table fulfilment.consumers is
  'Programs that follow the feed with consume_changes, and how far each has read; '
  'written by functions only';
comment on column fulfilment.consumers.name is 'Name that the program chose, at most 64 characters';
comment on column fulfilment.consumers.seq is 'Last seq that the consumer has read';
comment on column fulfilment.consumers.created_at is 'When it was started first';
comment on column fulfilment.consumers.moved_at is 'When seq last changed';

-- Starts a consumer, unless it exists: programs may call it at each start. Call it before you read
-- the tables; the feed then has every later change.
create function fulfilment.start_consumer(consumer text, after bigint default null,
  move boolean default false)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place bigint := (
    select c.seq from fulfilment.consumers c where c.name = consumer and move is not true);
begin
  if place is not null then
    return place;
  end if;
  -- Only committed entries count: an entry that is still being written has a larger seq.
  place := coalesce(after, (select c.seq from fulfilment.changes c order by c.seq desc limit 1),
    (select m.pruned_until from sync.feed_mark m));
  -- Raises if the entries after this place are not all kept, or if the place was never used.
  perform from fulfilment.changes_since(place, 1);
  insert into fulfilment.consumers as c (name, seq) values (consumer, place)
  on conflict (name) do update
  set seq = case when move then excluded.seq else c.seq end,
    moved_at = case when move then now() else c.moved_at end
  returning c.seq into place;
  return place;
end
$$;
comment on function fulfilment.start_consumer is
  'Starts a consumer of the feed after a seq (null: after the newest change); '
  'moves one that exists only if move is true. Returns its seq';

-- The checkpoint moves in the transaction of the caller: a rollback moves it back. A second reader
-- of the same consumer waits for the end of the first one's transaction, then continues after it.
create function fulfilment.consume_changes(consumer text, max integer default 1000)
returns setof fulfilment.changes language plpgsql security definer
  set search_path = pg_catalog, pg_temp as $$
declare
  place bigint := (select c.seq from fulfilment.consumers c where c.name = consumer);
  entry fulfilment.changes;
  last bigint;
begin
  if place is null then
    raise exception 'there is no consumer %; start it with fulfilment.start_consumer',
      coalesce(left(consumer, 100), 'null')
      using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  -- A look that finds nothing locks nothing and writes nothing. The entries of an unfinished reader
  -- are found.
  perform from fulfilment.changes_since(place, 1);
  if not found then
    return;
  end if;
  select c.seq into place from fulfilment.consumers c where c.name = consumer for update;
  if not found then
    raise exception 'consumer % was dropped meanwhile', left(consumer, 100) using errcode = '22023';
  end if;
  for entry in select * from fulfilment.changes_since(place, max) loop
    last := entry.seq;
    return next entry;
  end loop;
  if last is not null then
    update fulfilment.consumers c set seq = last, moved_at = now() where c.name = consumer;
  end if;
end
$$;
comment on function fulfilment.consume_changes is
  'The next changes for a consumer, at most max; '
  'its checkpoint moves behind them when the transaction of the caller commits';

create function fulfilment.drop_consumer(consumer text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from fulfilment.consumers c where c.name = consumer;
  return found;
end
$$;
comment on function fulfilment.drop_consumer is
  'Forgets a consumer of the feed; false if there is none of this name';

revoke execute on function fulfilment.changes_since, fulfilment.start_consumer,
  fulfilment.consume_changes,
  fulfilment.drop_consumer from public;
-- A reader changes nothing, so it keeps its checkpoint itself and calls changes_since.
do $$
declare
  found name;
begin
  for found in select rolname from pg_roles
    where rolname in ('fulfilment_reader', 'fulfilment_writer') loop
    execute format('grant execute on function fulfilment.changes_since to %I', found);
  end loop;
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant execute on function fulfilment.start_consumer, fulfilment.consume_changes,
      fulfilment.drop_consumer
      to fulfilment_writer;
  end if;
end
$$;

create table sync.clients (
  client text primary key,
  identity text not null,
  base_url text not null,
  accepted_at timestamptz not null default now(),
  served_at timestamptz,
  offered_identity text,
  offered_base_url text,
  offered_at timestamptz,
  queue_away_since timestamptz,
  queue_error text,
  check ((queue_away_since is null) = (queue_error is null)),
  check ((offered_identity is null) = (offered_at is null)
    and (offered_identity is null) = (offered_base_url is null))
) with (fillfactor = 50);
-- sync.clients: The account that each client's rows come from
--   identity: Fingerprint of the accepted base URL and user name; a worker with another account
--     reads and pushes nothing
--   served_at: When a worker that pushes for the client was last seen, to half a minute
--   offered_identity: Fingerprint of another account that a worker or command was set up with
--   queue_away_since: Since when the queue has not answered the worker that looks after it

create table sync.pauses (
  client text not null default '',
  job text not null,
  since timestamptz not null default now(),
  by text not null,
  primary key (client, job)
);
-- sync.pauses: Jobs that an operator has paused
--   client: Client key; empty: every client
--   job: Job name, or push-outbox

create table sync.leases (
  client text not null,
  name text not null,
  key bigint not null default 1,
  holder text,
  expires_at timestamptz,
  primary key (client, name),
  check ((holder is null) = (expires_at is null))
) with (fillfactor = 50);
-- sync.leases: The worker that may write for a client and job. A writer with an older key is
--   rejected
--   key: Grows with every acquisition
--   holder: Worker that holds the lease; null if it was released

create table sync.jobs (
  client text not null,
  job text not null,
  stream text,
  next_at timestamptz not null default now(),
  soon_at timestamptz,
  last_started_at timestamptz,
  last_finished_at timestamptz,
  last_success_at timestamptz,
  last_change_at timestamptz,
  last_outcome text,
  last_error text,
  last_code text,
  last_http_status integer,
  last_operation text,
  last_fetched integer not null default 0,
  last_changed integer not null default 0,
  consecutive_failures integer not null default 0,
  failing_since timestamptz,
  failed_alone boolean not null default false,
  uneventful_runs bigint not null default 0,
  skips bigint not null default 0,
  last_skip_at timestamptz,
  last_skip_reason text,
  warnings text[] not null default '{}',
  last_push_at timestamptz,
  primary key (client, job),
  check ((last_error is null) = (last_code is null))
) with (fillfactor = 50);
-- sync.jobs: One row per client and job: when it is due, and how its last run ended
--   stream: Stream that the job polls; null for jobs that poll none
--   next_at: When the next run is due, by sync.clock()
--   soon_at: When the next run is due if something moves before; null if the schedule does not
--     adapt
--   last_change_at: When a run last wrote a row
--   last_outcome: done, failed, stopped or abandoned; null before the first run ends
--   last_error: Error of the last run; null after a success
--   last_operation: Operation that failed; null if the error concerns no single one
--   failing_since: End of the first of these failed runs; null after a success
--   failed_alone: True if the job failed again after a poll of another stream was done: the service
--     answers, but not this job
--   uneventful_runs: Runs that wrote nothing and so have no row in sync.runs
--   skips: Runs that were skipped, or missed because no worker could start them in time
--   last_push_at: When a row of the outbox was last done, within a minute. Only kept for a schedule
--     that adapts

create table sync.runs (
  id bigint generated always as identity primary key,
  client text not null,
  job text not null,
  trigger text not null check (trigger in ('schedule', 'manual')),
  worker text not null,
  lease_key bigint not null,
  status text not null check (status in ('running', 'done', 'failed', 'stopped', 'abandoned')),
  started_at timestamptz not null,
  finished_at timestamptz,
  pages integer not null default 0,
  fetched integer not null default 0,
  created integer not null default 0,
  updated integer not null default 0,
  removed integer not null default 0,
  unchanged integer not null default 0,
  stale integer not null default 0,
  quarantined integer not null default 0,
  error_code text,
  http_status integer,
  operation text,
  error text,
  warnings text[] not null default '{}',
  check ((status = 'running') = (finished_at is null)),
  check ((status = 'failed') = (error is not null))
) with (fillfactor = 70);
create unique index runs_by_lease on sync.runs (client, job, lease_key);
create index runs_by_job on sync.runs (client, job, id desc);
create index runs_running on sync.runs (client, job) where status = 'running';
create index runs_by_end on sync.runs (finished_at) where finished_at is not null;
create index runs_troubled on sync.runs (id) where status in ('failed', 'abandoned', 'stopped');
-- sync.runs: Runs that wrote something or failed. Other runs are only counted in sync.jobs
--   status: running, done, failed, stopped (asked to), abandoned (its worker was lost)
--   fetched: Resources read, without their items
--   stale: Readings that were not applied because a newer one was stored
--   operation: Operation that failed; null if the failure concerns no single one
