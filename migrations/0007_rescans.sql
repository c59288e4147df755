-- oldest code: 0.1.0
-- Reconcile, backfill and refetch; freshness of each stream; replay of quarantined resources.

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
comment on table sync.rescans is 'Readings of a whole stream, or of a span of it, beside the polls; one that was cut short goes on where it stood';
comment on column sync.rescans.id is 'Number of the rescan';
comment on column sync.rescans.client is 'Client key';
comment on column sync.rescans.stream is 'Stream name';
comment on column sync.rescans.kind is 'reconcile (proves the tables, healing them) or backfill (reads a span again)';
comment on column sync.rescans.from_day is 'First day of a backfill, in the client''s zone; null for no bound';
comment on column sync.rescans.to_day is 'Last day of a backfill; null for no bound';
comment on column sync.rescans.background is 'Whether workers go on with it; else the command that began it does';
comment on column sync.rescans.requested_at is 'When it was asked for';
comment on column sync.rescans.started_at is 'When it began';
comment on column sync.rescans.finished_at is 'When it ended; null while it is open';
comment on column sync.rescans.outcome is 'done or failed; null while it is open';
comment on column sync.rescans.error is 'What it failed with';
comment on column sync.rescans.windows is 'Spans of days it walks one after the other, {after, before}, both exclusive';
comment on column sync.rescans.read_no is 'Number drawn before its first request';
comment on column sync.rescans.step is 'Windows that were walked to their end';
comment on column sync.rescans.query is 'The query with which the last page that held rows was asked';
comment on column sync.rescans.meaning is 'What page[cursor] was seen to mean';
comment on column sync.rescans.last_id is 'Id of the last row of that page';
comment on column sync.rescans.full_list is 'False where the service did not show a list to its end: nothing may be concluded from an absence';
comment on column sync.rescans.pages is 'Pages read';
comment on column sync.rescans.fetched is 'Resources read';
comment on column sync.rescans.expected is 'Rows stored in its windows when it began: what progress is measured by';
comment on column sync.rescans.missing is 'Resources that were not stored here';
comment on column sync.rescans.stale is 'Resources that were stored otherwise than the service has them';
comment on column sync.rescans.extra is 'Rows here that the service does not have';

create table sync.rescan_pages (
  rescan_id bigint not null references sync.rescans (id) on delete cascade,
  ids bigint[] not null
);
create index rescan_pages_by_rescan on sync.rescan_pages (rescan_id);
comment on table sync.rescan_pages is 'Ids that a reconciliation under way has seen';
comment on column sync.rescan_pages.rescan_id is 'Rescan';
comment on column sync.rescan_pages.ids is 'Ids of one page';

create table sync.findings (
  client text not null,
  stream text not null,
  finding text not null check (finding in ('missing', 'stale', 'extra')),
  id bigint not null,
  found_at timestamptz not null default now(),
  late_seconds double precision
);
create index findings_by_stream on sync.findings (client, stream, found_at);
comment on table sync.findings is 'What reconciliations found and healed, row by row';
comment on column sync.findings.client is 'Client key';
comment on column sync.findings.stream is 'Stream name';
comment on column sync.findings.finding is 'missing, stale or extra';
comment on column sync.findings.id is 'Id of the row';
comment on column sync.findings.found_at is 'When it was found';
comment on column sync.findings.late_seconds is 'How far back the row''s newest date lay then, by the service''s clock: what a lookback would have had to reach; null for extras, and for what has moved since the last complete poll';

create table sync.absences (
  client text not null,
  stream text not null,
  pass text not null,
  id bigint not null,
  walks integer not null default 1,
  since timestamptz not null default now(),
  primary key (client, stream, pass, id)
);
comment on table sync.absences is 'Rows that complete lists did not show, of streams without a read by id';
comment on column sync.absences.client is 'Client key';
comment on column sync.absences.stream is 'Stream name';
comment on column sync.absences.pass is 'poll or reconcile: each misses by its own lists';
comment on column sync.absences.id is 'Id of the row';
comment on column sync.absences.walks is 'Complete walks that lacked it, one after the other';
comment on column sync.absences.since is 'When it was first missed';

create table sync.freshness (
  client text not null,
  stream text not null,
  complete_at timestamptz,
  newest_source_at timestamptz,
  usual_fetched double precision,
  primary key (client, stream)
) with (fillfactor = 50);
comment on table sync.freshness is 'How far each stream has come';
comment on column sync.freshness.client is 'Client key';
comment on column sync.freshness.stream is 'Stream name';
comment on column sync.freshness.complete_at is 'Service''s clock when the last poll that read everything began';
comment on column sync.freshness.newest_source_at is 'Newest date or time on any resource received';
comment on column sync.freshness.usual_fetched is 'Resources a poll usually reads (moving average)';

create table sync.gaps (
  client text not null,
  stream text not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  noticed_at timestamptz not null default now(),
  primary key (client, stream, from_at)
);
comment on table sync.gaps is 'Spans that no poll had read when they fell out of the days the service lists';
comment on column sync.gaps.client is 'Client key';
comment on column sync.gaps.stream is 'Stream name';
comment on column sync.gaps.from_at is 'End of the last complete poll before the span, by the service''s clock';
comment on column sync.gaps.to_at is 'What lies after this was still listed';
comment on column sync.gaps.noticed_at is 'When it was noticed';

alter table sync.quarantine add column read_no bigint not null default 0, add column run_job text, add column run_lease_token bigint;
comment on column sync.quarantine.run_job is 'Job of the run that last met it';
comment on column sync.quarantine.run_lease_token is 'Lease token of that run, as in sync.runs';
comment on column sync.quarantine.read_no is 'Number of the reading it is from, so that a replay cannot undo a newer one';
