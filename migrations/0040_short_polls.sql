-- oldest code: 0.1.0

-- The start of a poll by an interval, in one statement: sync.start_due_run, and then what the poll would ask first.
create function sync.start_due_poll(
  of_client text, of_job text, of_identity text, of_holder text, checked_migration text,
  every_ms float8, phase_ms float8, lease_span interval, of_stream text,
  out token bigint, out started_at timestamptz, out complete_at timestamptz, out usual_fetched float8,
  out cursors json, out is_waiting boolean
) returns setof record language plpgsql volatile as $$
begin
  select r.token, r.started_at into token, started_at
  from sync.start_due_run(of_client, of_job, of_identity, of_holder, checked_migration, every_ms, phase_ms, lease_span) r;
  if not found then return; end if;
  select f.complete_at, f.usual_fetched into complete_at, usual_fetched
  from sync.freshness f where f.client = of_client and f.stream = of_stream;
  select coalesce(json_agg(json_build_object(
    'pass', c.pass, 'query', c.query, 'meaning', c.meaning, 'lastId', c.last_id, 'largestSeen', c.largest_seen,
    'watermark', c.watermark, 'completed', c.completed_at is not null,
    'stale', c.updated_at < now() - interval '1 day')), '[]') into cursors
  from sync.cursors c where c.client = of_client and c.stream = of_stream;
  is_waiting := exists (select from sync.rereads r where r.client = of_client and r.stream = of_stream)
    or exists (select from sync.quarantine q where q.client = of_client and q.stream = of_stream);
  return next;
end
$$;
comment on function sync.start_due_poll is
  'Starts a due poll of an interval, and returns what is stored of its stream. No row: as sync.start_due_run';
