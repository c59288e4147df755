-- What the pulls remember: places in lists, resources to read again, quarantine, re-scans, and limits of requests.

create table sync.cursors (
  client text not null,
  stream text not null,
  pass text not null,
  query text,
  meaning text not null default 'unknown' check (meaning in ('unknown', 'id', 'offset', 'opaque')),
  last_id bigint,
  largest_seen date,
  watermark date,
  completed_at timestamptz,
  updated_at timestamptz not null default now(),
  primary key (client, stream, pass)
) with (fillfactor = 50);
comment on table sync.cursors is 'Place of each walk over a list; written together with the rows of its page';
comment on column sync.cursors.query is 'Query of the last page that held rows; the next walk begins with it';
comment on column sync.cursors.meaning is 'What page[cursor] was seen to contain: id, offset, opaque, or unknown';
comment on column sync.cursors.last_id is 'Id of the last row of that page';
comment on column sync.cursors.largest_seen is 'Largest date seen in a walk that is under way';
comment on column sync.cursors.watermark is 'Largest date seen in a completed walk';
comment on column sync.cursors.completed_at is 'When the walk first reached its end; null while the first load is under way';

create table sync.rereads (
  client text not null,
  stream text not null,
  id bigint not null,
  tries integer not null default 0,
  next_try_at timestamptz not null,
  last_reason text,
  primary key (client, stream, id)
) with (fillfactor = 70);
comment on table sync.rereads is 'Resources that wait to be read by id, with growing pauses';
comment on column sync.rereads.tries is 'Number of reads so far that did not help';

create table sync.quarantine (
  id bigint generated always as identity primary key,
  client text not null,
  stream text not null,
  resource_key text not null,
  resource_id bigint,
  order_id bigint,
  shipment_id bigint,
  external_order_number text,
  member_path text not null,
  reason text not null,
  document text not null,
  run_worker text not null,
  run_job text,
  run_lease_key bigint,
  read_no bigint not null default 0,
  times integer not null default 1,
  first_seen_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  unique (client, stream, resource_key)
);
create index quarantine_by_time on sync.quarantine (last_seen_at);
comment on table sync.quarantine is
  'Resources that could not be decoded or stored, kept whole. A later good version releases them';
comment on column sync.quarantine.resource_key is 'The id if it can be read, else a hash of the document';
comment on column sync.quarantine.document is
  'The resource as received, with its included resources, as JSON text (jsonb refuses some valid JSON)';
comment on column sync.quarantine.read_no is 'Number of its reading, so that a replay cannot undo a newer reading';

create table sync.confirmations (
  client text not null,
  stream text not null,
  read_no bigint not null,
  no bigint generated always as identity,
  ids bigint[] not null,
  primary key (client, stream, read_no, no)
);
comment on table sync.confirmations is
  'Rows that a reading found unchanged while another reader of the stream was active; an older reading must not undo them';
comment on column sync.confirmations.no is 'Makes the key unique: replicas find rows by it';

create table sync.absences (
  client text not null,
  stream text not null,
  pass text not null,
  id bigint not null,
  walks integer not null default 1,
  since timestamptz not null default now(),
  primary key (client, stream, pass, id)
);
comment on table sync.absences is 'Rows that complete lists lacked, of streams whose resources cannot be read by id';
comment on column sync.absences.pass is 'poll or reconcile: each compares with its own lists';
comment on column sync.absences.walks is 'Number of complete walks in a row that lacked the row';

create table sync.freshness (
  client text not null,
  stream text not null,
  complete_at timestamptz,
  newest_source_at timestamptz,
  usual_fetched double precision,
  loaded_at timestamptz not null default now(),
  primary key (client, stream)
) with (fillfactor = 50);
comment on table sync.freshness is 'How complete each stream is';
comment on column sync.freshness.complete_at is 'When the last poll that read everything began, by the service''s clock';
comment on column sync.freshness.newest_source_at is 'Newest date or time on any resource received';
comment on column sync.freshness.usual_fetched is 'Resources that a poll usually reads (moving average)';
comment on column sync.freshness.loaded_at is 'When the first load was done; what it read makes no business events';

create table sync.gaps (
  client text not null,
  stream text not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  noticed_at timestamptz not null default now(),
  primary key (client, stream, from_at)
);
comment on table sync.gaps is 'Spans that the service no longer lists and that no poll had read';
comment on column sync.gaps.from_at is 'End of the last complete poll before the span, by the service''s clock';
comment on column sync.gaps.to_at is 'End of the span: later changes were still listed';

-- Reconcile, backfill and refetch.
create table sync.rescans (
  id bigint generated always as identity primary key,
  client text not null,
  stream text not null,
  kind text not null check (kind in ('reconcile', 'backfill')),
  from_day date,
  to_day date,
  background boolean not null default false,
  requested_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  outcome text check (outcome in ('done', 'failed')),
  error text,
  windows jsonb,
  read_no bigint,
  step integer not null default 0,
  query text,
  meaning text not null default 'unknown' check (meaning in ('unknown', 'id', 'offset', 'opaque')),
  last_id bigint,
  full_list boolean not null default true,
  pages integer not null default 0,
  fetched integer not null default 0,
  expected integer,
  missing integer not null default 0,
  stale integer not null default 0,
  extra integer not null default 0,
  check ((finished_at is null) = (outcome is null)),
  check ((outcome is not distinct from 'failed') = (error is not null))
) with (fillfactor = 70);
create unique index rescans_open on sync.rescans (client, stream, kind, background, coalesce(from_day, '-infinity'), coalesce(to_day, 'infinity'))
  where finished_at is null;
create index rescans_by_stream on sync.rescans (client, stream, kind, id desc);
create index rescans_by_end on sync.rescans (finished_at) where finished_at is not null;
comment on table sync.rescans is
  'Reconciliations and backfills. One that was interrupted continues from its last committed page';
comment on column sync.rescans.kind is 'reconcile (compares and heals the tables) or backfill (reads a span of days again)';
comment on column sync.rescans.from_day is 'First day of a backfill, in the client''s zone; null for no bound';
comment on column sync.rescans.to_day is 'Last day of a backfill; null for no bound';
comment on column sync.rescans.background is 'True if workers continue it; false if only its command does';
comment on column sync.rescans.windows is 'Date windows that it walks one after the other, {after, before}, both exclusive';
comment on column sync.rescans.step is 'Number of windows that were walked to their end';
comment on column sync.rescans.full_list is
  'False if the service did not show a list to its end; then nothing follows from a missing row';
comment on column sync.rescans.expected is 'Rows stored in its windows when it began, to measure progress';
comment on column sync.rescans.missing is 'Resources that were not in the tables';
comment on column sync.rescans.stale is 'Resources that differed from the tables';
comment on column sync.rescans.extra is 'Rows of the tables that the service does not have';

create table sync.rescan_pages (
  rescan_id bigint not null references sync.rescans (id) on delete cascade,
  no bigint generated always as identity,
  ids bigint[] not null,
  primary key (rescan_id, no)
);
comment on table sync.rescan_pages is 'Ids that a reconciliation under way has seen';

create table sync.findings (
  client text not null,
  stream text not null,
  finding text not null check (finding in ('missing', 'stale', 'extra')),
  id bigint not null,
  found_at timestamptz not null default now(),
  late_seconds double precision,
  no bigint generated always as identity,
  primary key (client, stream, found_at, no)
);
comment on table sync.findings is 'Differences that reconciliations found and healed, one row each';
comment on column sync.findings.no is 'Makes the key unique: replicas find rows by it';
comment on column sync.findings.late_seconds is
  'Age of the row''s newest date when it was found, by the service''s clock: the lookback that would have found it. Null for extras, and for rows that changed after the last complete poll';

create table sync.settings_reads (
  client text primary key,
  tried_at timestamptz not null,
  read_at timestamptz
) with (fillfactor = 50);
comment on table sync.settings_reads is 'When the configuration lists of each client were last read';

create table sync.parcel_reads (
  client text not null,
  shipment_id bigint not null,
  shipped_on timestamptz,
  requested_at timestamptz not null default now(),
  due_at timestamptz,
  requests bigint not null default 1 check (requests > 0),
  reads integer not null default 0 check (reads >= 0),
  unanswered integer not null default 0 check (unanswered >= 0),
  last_read_at timestamptz,
  last_problem text,
  primary key (client, shipment_id)
) with (fillfactor = 80);
create index parcel_reads_due on sync.parcel_reads (client, due_at) where due_at is not null;
create index parcel_reads_by_request on sync.parcel_reads (requested_at);
comment on table sync.parcel_reads is 'Shipments whose packages pull-parcels looks up, and when';
comment on column sync.parcel_reads.due_at is 'When the next look-up is due, by sync.clock(); null: none is planned';
comment on column sync.parcel_reads.requests is
  'Number of requests so far; a look-up plans the next one only if no request came meanwhile';
comment on column sync.parcel_reads.unanswered is 'Number of look-ups without an answer since the last one that had one';
comment on column sync.parcel_reads.last_problem is 'Why the last look-up returned no package; null if it did';

create table sync.gates (
  gate text not null,
  identity text not null,
  client text not null,
  next_at timestamptz not null,
  taken_at timestamptz not null,
  finished_at timestamptz,
  taken bigint not null default 1,
  spent bigint not null default 0,
  primary key (gate, identity)
) with (fillfactor = 50);
comment on table sync.gates is 'Calls that may be made only once in a while, by all workers together';
comment on column sync.gates.identity is
  'Fingerprint of base URL and user name: two client keys with the same account share a gate';
comment on column sync.gates.finished_at is 'When that call ended; null while it runs, or if its worker was lost';
comment on column sync.gates.spent is 'Number of times that a worker was lost between passing the gate and the end of the call';

-- All processes share REQUESTS_PER_SECOND: each takes its requests of a second from here.
create table sync.request_budgets (
  identity text primary key,
  next_at timestamptz not null,
  taken_at timestamptz not null
) with (fillfactor = 50);
comment on table sync.request_budgets is
  'Requests that may be sent to the service of an account, if REQUESTS_PER_SECOND is set. One row for each account';
comment on column sync.request_budgets.next_at is 'Begin of the next slot that is not granted. It may lie ahead';
comment on column sync.request_budgets.taken_at is 'When requests were last granted. It tells if the clock went back';

-- Records runs as abandoned whose leases were just taken from them, and makes their jobs due.
create function sync.record_abandoned(clients text[], jobs text[]) returns void language sql as $$
  update sync.runs r
  set status = 'abandoned', finished_at = now()
  from unnest(clients, jobs) as l (client, job)
  where r.client = l.client and r.job = l.job and r.status = 'running';
  update sync.jobs j
  set due_at = sync.clock(), last_finished_at = now(), last_outcome = 'abandoned'
  from unnest(clients, jobs) as l (client, job)
  where j.client = l.client and j.job = l.job;
$$;
comment on function sync.record_abandoned is
  'Records runs as abandoned whose leases were just taken from them, and makes their jobs due. A statement of its own, after
  that one: only then does it see what a run committed meanwhile';

-- Ends the leases of lost workers. Of all jobs, it skips a lease whose row is locked: one slow statement must not delay the
-- others.
create function sync.revive_abandoned(of_client text default null, of_job text default null)
returns table (client text, job text) language plpgsql as $$
#variable_conflict use_column
declare
  clients text[];
  jobs text[];
begin
  with lost as (
    update sync.leases l
    set holder = null, expires_at = null
    where l.expires_at <= clock_timestamp() and case
      when of_client is not null then l.client = of_client and l.name = of_job
      else (l.client, l.name) in (
        select f.client, f.name from sync.leases f where f.expires_at <= clock_timestamp() for update skip locked) end
    returning l.client, l.name)
  select array_agg(l.client), array_agg(l.name) into clients, jobs from lost l;
  if clients is null then return; end if;
  perform sync.record_abandoned(clients, jobs);
  return query select * from unnest(clients, jobs);
end
$$;
comment on function sync.revive_abandoned is
  'Makes the jobs of lost workers due: their leases have expired. With a client and a job, only that one. Returns the jobs';

create function sync.find_refusal(of_client text, of_job text, of_identity text)
returns table (refusal text, base_url text, paused_since timestamptz, is_paused_for_all boolean)
language sql stable as $$
  select case when c.identity <> of_identity then 'identity' when p.since is not null then 'paused' end,
    c.base_url, p.since, p.is_for_all
  from sync.clients c
  cross join (
    select min(p.since) as since, bool_or(p.client = '') as is_for_all
    from sync.pauses p where p.client in ('', of_client) and p.job = of_job) p
  where c.client = of_client;
$$;
comment on function sync.find_refusal is
  'Returns why no run of a job may begin: identity (the account is not the accepted one), paused, or null';

-- A job with two intervals runs after a hundredth of the time for which nothing has moved. Its due times stay those of the
-- faster interval, so that clients do not meet.
create function sync.slow_down(due timestamptz, moved_at timestamptz, fast_ms float8, slow_ms float8)
returns timestamptz language sql stable as $$
  select due + make_interval(secs => fast_ms / 1000 * (floor(greatest(fast_ms,
    least(slow_ms, extract(epoch from sync.clock() - moved_at)::float8 * 1000 / 100)) / fast_ms) - 1));
$$;
comment on function sync.slow_down is
  'Returns when a job with two intervals is due, if the faster one makes it due at `due` and something last moved at
  `moved_at` (null: never)';

-- Decides about the start of a run, for schedules, the sweep and commands alike.
create function sync.start_run(
  of_client text, of_job text, of_stream text, of_identity text, of_holder text, checked_migration text,
  is_manual boolean, is_local boolean, lease_span interval, moves_due boolean,
  every_ms float8, slowest_ms float8, phase_ms float8, gap_ms float8, planned_due timestamptz, planned_missed integer,
  out refusal text, out base_url text, out paused_since timestamptz, out is_paused_for_all boolean,
  out hold_reason text, out hold_until timestamptz, out due timestamptz, out is_due boolean,
  out lease_key bigint, out started_at timestamptz, out after_abandoned boolean, out missed integer, out was_held boolean,
  out is_probe boolean, out complete_at timestamptz, out usual_fetched float8, out cursors json, out is_waiting boolean
) language plpgsql as $$
declare
  lease_ends timestamptz;
  begins_at timestamptz := sync.clock();
begin
  after_abandoned := false; is_probe := false; missed := 0;
  if (select max(m.name) from sync.migrations m) is distinct from checked_migration then refusal := 'schema'; return; end if;
  -- A change of the account waits for this run, or this run for it. What follows sees the change.
  perform from sync.clients c where c.client = of_client for key share;
  select j.due_at, c.hold_code is not null, l.expires_at into due, was_held, lease_ends
  from sync.clients c
  join sync.jobs j on j.client = c.client and j.job = of_job
  left join sync.leases l on l.client = c.client and l.name = of_job
  where c.client = of_client;
  if not found then refusal := 'unregistered'; return; end if;
  if lease_ends <= clock_timestamp() then
    after_abandoned := exists (select from sync.revive_abandoned(of_client, of_job));
    due := (select j.due_at from sync.jobs j where j.client = of_client and j.job = of_job);
    lease_ends := (select l.expires_at from sync.leases l where l.client = of_client and l.name = of_job);
  end if;
  is_due := due <= begins_at or after_abandoned;
  select r.refusal, r.base_url, r.paused_since, r.is_paused_for_all
  into refusal, base_url, paused_since, is_paused_for_all from sync.find_refusal(of_client, of_job, of_identity) r;
  if refusal is not null then return; end if;
  if lease_ends is not null then refusal := 'overlap'; return; end if;
  if not is_manual and not is_due then refusal := 'not_due'; return; end if;
  insert into sync.leases as l (client, name, holder, acquired_at, expires_at)
  values (of_client, of_job, of_holder, clock_timestamp(), clock_timestamp() + lease_span)
  on conflict (client, name) do update
  set key = l.key + 1, holder = excluded.holder, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
  where l.expires_at is null
  returning l.key into lease_key;
  if not found then refusal := 'overlap'; return; end if;
  if was_held and not is_manual and not is_local then
    update sync.clients c set hold_until = clock_timestamp() + interval '60 seconds'
    where c.client = of_client and c.hold_code is not null and c.hold_until <= clock_timestamp();
    is_probe := found;
    if not is_probe then
      select c.hold_reason, c.hold_until into hold_reason, hold_until
      from sync.clients c where c.client = of_client and c.hold_code is not null;
      if found then refusal := 'held'; end if;
    end if;
  end if;
  if refusal is null then
    if not is_manual and isfinite(due) then
      missed := case when every_ms is null then coalesce(planned_missed, 0)
        else least(10000, floor(extract(epoch from begins_at - due) * 1000 / every_ms)) end;
    end if;
    update sync.jobs j
    set last_started_at = now(), skips = j.skips + missed,
      last_skip_at = case when missed > 0 then now() else j.last_skip_at end,
      last_skip_reason = case when missed = 0 then j.last_skip_reason
        when j.last_finished_at > j.due_at then missed || ' missed: the run before was under way'
        else missed || ' missed: paused, parked, held, or no worker was there' end,
      due_at = case when not moves_due then j.due_at when every_ms is null then coalesce(planned_due, 'infinity')
        else to_timestamp((phase_ms + every_ms * ceil(
          (extract(epoch from begins_at)::float8 * 1000 + gap_ms - phase_ms) / every_ms)) / 1000) end,
      fast_ms = case when moves_due and slowest_ms is not null then every_ms end,
      slow_ms = case when moves_due then slowest_ms end
    -- Another run may have begun and ended while this statement waited for the lease.
    where j.client = of_client and j.job = of_job and (is_manual or j.due_at = due);
    if not found then refusal := 'not_due'; end if;
  end if;
  if refusal is not null then
    update sync.leases l set holder = null, expires_at = null where l.client = of_client and l.name = of_job;
    return;
  end if;
  started_at := now();
  if of_stream is null then return; end if;
  select f.complete_at, f.usual_fetched into complete_at, usual_fetched
  from sync.freshness f where f.client = of_client and f.stream = of_stream;
  select coalesce(json_agg(json_build_object(
    'pass', c.pass, 'query', c.query, 'meaning', c.meaning, 'lastId', c.last_id, 'largestSeen', c.largest_seen,
    'watermark', c.watermark, 'completed', c.completed_at is not null,
    'stale', c.updated_at < now() - interval '1 day')), '[]') into cursors
  from sync.cursors c where c.client = of_client and c.stream = of_stream;
  -- The poll of returns also reads the announcements of returns that have arrived.
  is_waiting := exists (
      select from sync.rereads r
      where r.client = of_client and (r.stream = of_stream
        or of_stream = 'return-items' and r.stream = 'return-merchandise-authorizations'))
    or exists (select from sync.quarantine q where q.client = of_client and q.stream = of_stream);
end
$$;
comment on function sync.start_run is
  'Starts a run: takes its lease, moves the due time, and returns what is stored of its stream. Or returns the refusal:
  schema, unregistered, identity, paused, overlap, not_due or held; nothing was changed then, but lost workers are revived';

-- Writes the row of a run in the ledger.
create function sync.record_run(
  of_client text, of_job text, of_lease_key bigint, of_trigger text, of_worker text, began_at timestamptz,
  of_status text, totals jsonb, of_error_code text default null, of_error text default null,
  of_http_status integer default null, of_operation text default null
) returns void language sql as $$
  insert into sync.runs as r (client, job, trigger, worker, lease_key, started_at, pages, fetched, created, updated,
    removed, unchanged, stale, quarantined, warnings, status, finished_at, error_code, error, http_status, operation)
  select of_client, of_job, of_trigger, of_worker, of_lease_key, began_at, t.pages, t.fetched, t.created, t.updated,
    t.removed, t.unchanged, t.stale, t.quarantined, t.warnings, of_status,
    case when of_status <> 'running' then now() end, of_error_code, of_error, of_http_status, of_operation
  from jsonb_to_record(totals) as t (pages integer, fetched integer, created integer, updated integer, removed integer,
    unchanged integer, stale integer, quarantined integer, warnings text[])
  on conflict (client, job, lease_key) do update
  set pages = excluded.pages, fetched = excluded.fetched, created = excluded.created, updated = excluded.updated,
    removed = excluded.removed, unchanged = excluded.unchanged, stale = excluded.stale,
    quarantined = excluded.quarantined, warnings = excluded.warnings, status = excluded.status,
    finished_at = excluded.finished_at, error_code = excluded.error_code, error = excluded.error,
    http_status = excluded.http_status, operation = excluded.operation;
$$;
comment on function sync.record_run is 'Writes the row of a run in the ledger, or replaces what it says';

-- Ends a run, whatever its end.
create function sync.end_run(of_client text, of_job text, of_lease_key bigint, run_end jsonb, totals jsonb)
returns boolean language plpgsql as $$
declare
  e record;
  t record;
  changed integer;
  eventful boolean;
begin
  update sync.leases l
  set holder = null, expires_at = null
  where l.client = of_client and l.name = of_job and l.key = of_lease_key and l.expires_at is not null;
  if not found then return false; end if;
  select * into e from jsonb_to_record(run_end) as r (
    status text, trigger text, worker text, started_at timestamptz, due timestamptz, reason text,
    error_code text, http_status integer, operation text, error text, retry_after_ms float8, retry_ms float8, max_retry_ms float8,
    hold_code text, hold_ms float8, max_hold_ms float8, is_local boolean, was_held boolean, is_probe boolean,
    stream text, poll_began_at timestamptz, newest_source timestamptz, average_share float8,
    gap_from timestamptz, gap_to timestamptz, rescan_jobs text[]);
  select * into t from jsonb_to_record(totals) as r (pages integer, fetched integer, created integer, updated integer,
    removed integer, stale integer, quarantined integer, warnings text[]);
  changed := t.created + t.updated + t.removed;
  if e.status = 'skipped' then
    update sync.jobs j
    set skips = j.skips + 1, last_skip_at = now(), last_skip_reason = e.reason, due_at = coalesce(e.due, j.due_at)
    where j.client = of_client and j.job = of_job;
  else
    eventful := changed + t.quarantined + t.stale > 0 or e.status = 'failed';
    if eventful then
      perform sync.record_run(of_client, of_job, of_lease_key, e.trigger, e.worker, e.started_at, e.status, totals,
        e.error_code, e.error, e.http_status, e.operation);
    end if;
    update sync.jobs j
    set last_finished_at = now(), last_outcome = e.status, last_error = e.error,
      last_code = e.error_code, last_http_status = e.http_status, last_operation = e.operation,
      last_success_at = case when e.status = 'done' then now() else j.last_success_at end,
      consecutive_failures = case e.status when 'done' then 0 when 'failed' then j.consecutive_failures + 1
        else j.consecutive_failures end,
      failing_since = case e.status when 'done' then null when 'failed' then coalesce(j.failing_since, now())
        else j.failing_since end,
      failed_alone = e.status <> 'done' and (j.failed_alone or e.status = 'failed' and exists (
        select from sync.jobs o
        where o.client = j.client and o.job <> j.job and o.stream is not null
          and o.last_success_at > j.failing_since)),
      last_change_at = case when changed > 0 then now() else j.last_change_at end,
      last_pages = t.pages, last_fetched = t.fetched, last_changed = changed,
      uneventful_runs = j.uneventful_runs + case when eventful then 0 else 1 end, warnings = t.warnings,
      due_at = case
        when e.status = 'stopped' and e.trigger = 'schedule' and e.due is null then sync.clock()
        when e.status = 'failed' then greatest(
          -- Tried again with growing pauses, if a schedule started it and the next due time is far away.
          least(coalesce(e.due, j.due_at), case when e.due is null and e.trigger = 'schedule' then sync.clock()
            + make_interval(secs => least(e.max_retry_ms, e.retry_ms * power(2, least(j.consecutive_failures, 30))) / 1000)
            end),
          sync.clock() + make_interval(secs => e.retry_after_ms / 1000))
        -- A job that somebody made due meanwhile stays so.
        when e.due is null and j.slow_ms is not null and j.due_at > sync.clock() then sync.slow_down(j.due_at,
          greatest(case when changed > 0 then now() else j.last_change_at end, j.last_push_at), j.fast_ms, j.slow_ms)
        else greatest(coalesce(e.due, j.due_at), sync.clock()) end
    where j.client = of_client and j.job = of_job;
  end if;
  if e.status = 'done' and e.stream is not null then
    if e.gap_from is not null then
      insert into sync.gaps as g (client, stream, from_at, to_at) values (of_client, e.stream, e.gap_from, e.gap_to)
      on conflict (client, stream, from_at) do update set to_at = greatest(g.to_at, excluded.to_at);
    end if;
    -- Neither the first load counts for the usual number, as it reads everything, nor an empty poll: the warning about
    -- empty polls would end by itself.
    insert into sync.freshness as f (client, stream, complete_at, newest_source_at)
    values (of_client, e.stream, e.poll_began_at, e.newest_source)
    on conflict (client, stream) do update
    set complete_at = greatest(f.complete_at, excluded.complete_at),
      newest_source_at = greatest(f.newest_source_at, excluded.newest_source_at),
      usual_fetched = case when t.fetched = 0 then f.usual_fetched
        else coalesce(f.usual_fetched * (1 - e.average_share) + t.fetched * e.average_share, t.fetched) end;
  end if;
  if e.is_local then null;
  elsif e.status = 'failed' and e.hold_code is not null then
    update sync.clients c
    set hold_code = e.hold_code, hold_reason = e.error, hold_error_code = e.error_code,
      hold_http_status = e.http_status, hold_operation = e.operation, hold_since = coalesce(c.hold_since, clock_timestamp()),
      hold_times = c.hold_times + 1, hold_until = clock_timestamp() + make_interval(
        secs => least(e.max_hold_ms, e.hold_ms * power(2, least(c.hold_times, 10))) / 1000)
    -- Only the probe makes a hold longer.
    where c.client = of_client and (e.is_probe or c.hold_code is null);
  elsif e.was_held and (e.status = 'done' or (e.status = 'failed' and e.is_probe)) then
    -- A probe that failed for another reason still got an answer of the service.
    update sync.clients c
    set hold_code = null, hold_reason = null, hold_error_code = null, hold_http_status = null, hold_operation = null,
      hold_since = null, hold_until = null, hold_times = 0
    where c.client = of_client and c.hold_code is not null and c.hold_since <= e.started_at;
  elsif e.is_probe then
    -- Nothing was asked: the next run becomes the probe.
    update sync.clients c set hold_until = clock_timestamp() where c.client = of_client and c.hold_code is not null;
  end if;
  delete from sync.confirmations c
  where c.client = of_client and not exists (
    select from sync.leases l
    left join sync.jobs j on j.client = l.client and j.job = l.name
    where l.client = c.client and l.expires_at is not null and l.name <> of_job
      and (j.stream = c.stream or l.name = any(e.rescan_jobs)));
  return true;
end
$$;
comment on function sync.end_run is
  'Ends a run: lease, ledger, state of the job, freshness and gap of its stream, client hold, and confirmations that no
  reader needs any more. Returns false if the run no longer holds its lease; nothing was changed then';
