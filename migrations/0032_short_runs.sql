-- oldest code: 0.1.0

-- The start of a run by an interval, in one statement. Returns no row if anything is not as usual: the program then
-- starts the run step by step, and finds out why. Each statement of a volatile function sees what was committed before it.
create function sync.start_due_run(
  of_client text, of_job text, of_identity text, of_holder text, checked_migration text,
  every_ms float8, phase_ms float8, lease_span interval,
  out token bigint, out started_at timestamptz
) returns setof record language plpgsql volatile as $$
declare
  due timestamptz;
begin
  if (select max(m.name) from sync.migrations m) is distinct from checked_migration then return; end if;
  perform from sync.locks l where l.name = 'identity ' || of_client for share;
  if not found then return; end if;
  select j.due_at into due
  from sync.jobs j
  join sync.clients c on c.client = j.client
  where j.client = of_client and j.job = of_job and c.identity = of_identity and c.hold_code is null
    and j.due_at <= sync.clock() and j.due_at > sync.clock() - make_interval(secs => every_ms / 1000)
    and not exists (select from sync.pauses p where p.client in ('', of_client) and p.job = of_job);
  if not found then return; end if;
  update sync.leases l
  set token = l.token + 1, holder = of_holder, acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + lease_span
  where l.client = of_client and l.name = of_job and l.expires_at is null
  returning l.token into token;
  if not found then return; end if;
  -- Another run may have begun and ended while this statement waited for the lease.
  update sync.jobs j
  set last_started_at = now(),
    due_at = to_timestamp((phase_ms + every_ms * ceil(
      (extract(epoch from sync.clock())::float8 * 1000 + every_ms / 10 - phase_ms) / every_ms)) / 1000)
  where j.client = of_client and j.job = of_job and j.due_at = due;
  if not found then
    update sync.leases l set holder = null, expires_at = null where l.client = of_client and l.name = of_job;
    return;
  end if;
  started_at := now();
  return next;
end
$$;
comment on function sync.start_due_run is
  'Starts a due run of an interval: lease and next due time. No row: something is unusual, nothing was changed';

-- The end of a poll that was done and wrote nothing. Returns false if the run no longer holds its lease.
create function sync.end_quiet_poll(
  of_client text, of_job text, of_token bigint, of_stream text, pages integer, fetched integer, of_warnings text[],
  due timestamptz, began_at timestamptz, newest_source timestamptz, share float8, rescan_jobs text[]
) returns boolean language plpgsql volatile as $$
begin
  update sync.leases l
  set holder = null, expires_at = null
  where l.client = of_client and l.name = of_job and l.token = of_token and l.expires_at is not null;
  if not found then return false; end if;
  update sync.jobs j
  set last_finished_at = now(), last_outcome = 'done', last_error = null, last_success_at = now(),
    consecutive_failures = 0, last_pages = pages, last_fetched = fetched, last_changed = 0,
    uneventful_runs = j.uneventful_runs + 1, warnings = of_warnings,
    due_at = greatest(coalesce(due, j.due_at), sync.clock())
  where j.client = of_client and j.job = of_job;
  insert into sync.freshness as f (client, stream, complete_at, newest_source_at)
  values (of_client, of_stream, began_at, newest_source)
  on conflict (client, stream) do update
  set complete_at = greatest(f.complete_at, excluded.complete_at),
    newest_source_at = greatest(f.newest_source_at, excluded.newest_source_at),
    usual_fetched = case when fetched = 0 then f.usual_fetched
      else coalesce(f.usual_fetched * (1 - share) + fetched * share, fetched) end;
  delete from sync.confirmations c
  where c.client = of_client and not exists (
    select from sync.leases l
    left join sync.jobs j on j.client = l.client and j.job = l.name
    where l.client = c.client and l.expires_at is not null and l.name <> of_job
      and (j.stream = c.stream or l.name = any(rescan_jobs)));
  return true;
end
$$;
comment on function sync.end_quiet_poll is
  'Ends a poll that was done and wrote nothing: lease, state of the job, freshness. False: the lease is lost';
