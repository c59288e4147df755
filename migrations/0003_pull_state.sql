-- What the pulls remember: places in lists, resources to read again, quarantine, re-scans, and
-- limits of requests.

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
-- sync.cursors: Place of each walk over a list; written together with the rows of its page
--   query: Query of the last page that held rows; the next walk begins with it
--   meaning: What page[cursor] was seen to contain: id, offset, opaque, or unknown
--   last_id: Id of the last row of that page
--   largest_seen: Largest date seen in a walk that is under way
--   watermark: Largest date seen in a completed walk
--   completed_at: When the walk first reached its end; null while the first load is under way

-- Everything that waits to be read again, whatever the reason. What was read, or is shown by a
-- list, leaves the table.
create table sync.waiting_reads (
  client text not null,
  resource text not null,
  id bigint not null,
  reason text not null,
  words text,
  next_at timestamptz not null,
  tries integer not null default 0 check (tries >= 0),
  asked_no bigint not null default 0,
  since timestamptz not null default now(),
  primary key (client, resource, id)
) with (fillfactor = 70);
create index waiting_reads_due on sync.waiting_reads (client, resource, next_at);
create index waiting_reads_by_since on sync.waiting_reads (since);
-- sync.waiting_reads: Resources that wait to be read again, each with its reason and the time of
--   the next read
--   resource: What is read: resources of a stream by id (its name), the packages of shipments
--     (parcels), or rows that the next list of a stream must show (poll of …, reconcile of …)
--   id: Id of the resource; for packages, that of the shipment
--   words: What the last read met; null if nothing is to be said
--   next_at: Time of the next read, by sync.clock(); infinity if no read is planned until something
--     asks for it
--   tries: Number of reads in a row that did not help; of lists in a row that lacked the row
--   asked_no: Number of the last request, of sync.read_no; 0 if nothing asked. A reading with a
--     smaller number does not answer it. Of a row that lists lacked: the key of that run's lease
--   since: When it began to wait; for packages, when they were last asked for

create table sync.quarantine (
  id bigint generated always as identity primary key,
  client text not null,
  stream text not null,
  resource_key text not null,
  resource_id bigint,
  order_id bigint,
  shipment_id bigint,
  order_item_id bigint,
  shipment_item_id bigint,
  return_merchandise_authorization_item_id bigint,
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
-- sync.quarantine: Resources that could not be decoded or stored, kept whole until a version of
--   them can be stored
--   resource_key: The id if it can be read, else a hash of the document
--   document: The resource as received, with its included resources, as JSON text (jsonb refuses
--     some valid JSON)
--   read_no: Number of its reading, so that a replay cannot undo a newer reading

create table sync.confirmations (
  client text not null,
  stream text not null,
  read_no bigint not null,
  no bigint generated always as identity,
  ids bigint[] not null,
  primary key (client, stream, read_no, no)
);
-- sync.confirmations: Rows that a reading found unchanged while another reader of the stream was
--   active; an older reading must not undo them
--   no: Makes the key unique: replicas find rows by it

create table sync.freshness (
  client text not null,
  stream text not null,
  complete_at timestamptz,
  newest_source_at timestamptz,
  usual_fetched double precision,
  loaded_at timestamptz not null default now(),
  primary key (client, stream)
) with (fillfactor = 50);
-- sync.freshness: How complete each stream is
--   complete_at: When the last poll that read everything began, by the service's clock
--   newest_source_at: Newest date or time on any resource received
--   usual_fetched: Resources that a poll usually reads (moving average)
--   loaded_at: When the first load was done; what it read makes no business events

create table sync.gaps (
  client text not null,
  stream text not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  noticed_at timestamptz not null default now(),
  primary key (client, stream, from_at)
);
-- sync.gaps: Spans that the service no longer lists and that no poll had read
--   from_at: End of the last complete poll before the span, by the service's clock
--   to_at: End of the span: later changes were still listed

-- Reconcile, backfill and refetch.
create table sync.rescans (
  id bigint generated always as identity primary key,
  client text not null,
  stream text not null,
  kind text not null check (kind in ('reconcile', 'backfill')),
  from_day date,
  to_day date,
  background boolean not null default false,
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
create unique index rescans_open
  on sync.rescans (client, stream, kind, background,
    coalesce(from_day, '-infinity'), coalesce(to_day, 'infinity'))
  where finished_at is null;
create index rescans_by_stream on sync.rescans (client, stream, kind, id desc);
create index rescans_by_end on sync.rescans (finished_at) where finished_at is not null;
-- sync.rescans: Reconciliations and backfills. One that was interrupted continues from its last
--   committed page
--   kind: reconcile (compares and heals the tables) or backfill (reads a span of days again)
--   from_day: First day of a backfill, in the client's zone; null for no bound
--   to_day: Last day of a backfill; null for no bound
--   background: True if workers continue it; false if only its command does
--   windows: Date windows that it walks one after the other, {after, before}, both exclusive
--   step: Number of windows that were walked to their end
--   full_list: False if the service did not show a list to its end; then nothing follows from a
--     missing row
--   expected: Rows stored in its windows when it began, to measure progress
--   missing: Resources that were not in the tables
--   stale: Resources that differed from the tables
--   extra: Rows of the tables that the service does not have

create table sync.rescan_pages (
  rescan_id bigint not null references sync.rescans (id) on delete cascade,
  no bigint generated always as identity,
  ids bigint[] not null,
  primary key (rescan_id, no)
);
-- sync.rescan_pages: Ids that a reconciliation under way has seen

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
-- sync.findings: Differences that reconciliations found and healed, one row each
--   no: Makes the key unique: replicas find rows by it
--   late_seconds: Age of the row's newest date when it was found, by the service's clock: the
--     lookback that would have found it. Null for extras, and for rows that changed after the last
--     complete poll


create table sync.turns (
  name text not null,
  scope text not null,
  client text not null,
  next_at timestamptz not null,
  taken_at timestamptz not null,
  finished_at timestamptz,
  taken bigint not null default 1,
  spent bigint not null default 0,
  primary key (name, scope)
) with (fillfactor = 50);
-- sync.turns: What one worker at a time does for all of them, and not again before a given time
--   name: track-trace (the call for its list), service-lists (reading them for an unknown code) or
--     alerts
--   scope: Client key; for track-trace the fingerprint of base URL and user name, so that two
--     clients of one account share a turn; empty: all
--   client: Client that last took the turn
--   next_at: When the next turn may be taken, by sync.clock()
--   finished_at: When its work ended; null while it is under way, or if its worker was lost
--   taken: Number of turns so far. Work of a turn that was taken again stores nothing
--   spent: Number of turns whose work never ended, because its worker was lost

-- All processes share REQUESTS_PER_SECOND: each takes its requests of a second from here.
create table sync.request_budgets (
  identity text primary key,
  next_at timestamptz not null,
  taken_at timestamptz not null
) with (fillfactor = 50);
-- sync.request_budgets: Requests that may be sent to the service of an account, if
--   REQUESTS_PER_SECOND is set. One row for each account
--   next_at: Begin of the next slot that is not granted. It may lie ahead
--   taken_at: When requests were last granted. It tells if the clock went back

-- Records runs as abandoned whose leases were just taken from them, and makes their jobs due.
create function sync.record_abandoned(clients text[], jobs text[]) returns void language sql as $$
  update sync.runs r
  set status = 'abandoned', finished_at = now()
  from unnest(clients, jobs) as l (client, job)
  where r.client = l.client and r.job = l.job and r.status = 'running';
  update sync.jobs j
  set next_at = sync.clock(), last_finished_at = now(), last_outcome = 'abandoned'
  from unnest(clients, jobs) as l (client, job)
  where j.client = l.client and j.job = l.job;
$$;
-- sync.record_abandoned: Records runs as abandoned whose leases were just taken from them, and
--   makes their jobs due. A statement of its own, after that one: only then does it see what a run
--   committed meanwhile

-- Ends the leases of lost workers. Skips a lease whose row is locked: one slow statement must not
-- delay the others.
create function sync.revive_abandoned(of_client text default null, of_job text default null)
returns table (client text, job text) language plpgsql as $$
#variable_conflict use_column
declare
  clients text[];
  jobs text[];
begin
  -- If the last run of a job began or ended in the future, the clock was set back since.
  if of_client is null then
    update sync.jobs j
    set next_at = sync.clock()
    where (j.client, j.job) in (
      select f.client, f.job from sync.jobs f
      where greatest(f.last_started_at, f.last_finished_at) > now() + interval '1 minute'
        and isfinite(f.next_at) and f.next_at > sync.clock()
      for update skip locked);
  end if;

  with lost as (
    update sync.leases l
    set holder = null, expires_at = null
    where (l.client, l.name) in (
      select f.client, f.name from sync.leases f
      where (f.expires_at <= clock_timestamp()
          -- Nobody has renewed it since the clock was set back.
          or f.expires_at > clock_timestamp() + interval '1 minute')
        and (of_client is null or f.client = of_client and f.name = of_job)
      for update skip locked)
    returning l.client, l.name)
  select array_agg(l.client), array_agg(l.name) into clients, jobs from lost l;
  if clients is null then return; end if;
  perform sync.record_abandoned(clients, jobs);
  return query select * from unnest(clients, jobs);
end
$$;
-- sync.revive_abandoned: Makes the jobs of lost workers due: their leases have expired. Returns
--   those jobs. With a client and a job, only that one; without, also jobs that a clock that was
--   set back keeps waiting
