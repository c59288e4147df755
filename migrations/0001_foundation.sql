-- oldest code: 0.1.0
-- The ERP's side (schema fulfilment) with its first stream, and our own state (schema sync).

create schema fulfilment;
comment on schema fulfilment is 'What the ERP reads: the warehouse service''s resources, and a feed of their changes';
-- Schema sync is there already: the migrator keeps its record in it.
comment on schema sync is 'State of fulfilment-sync itself; nothing here is for the ERP';
comment on table sync.migrations is 'Migrations applied, and the oldest code that works with each';
comment on column sync.migrations.name is 'File name without .sql';
comment on column sync.migrations.oldest_code is 'Older versions refuse to work with this database';
comment on column sync.migrations.applied_by is 'Version that applied it';
comment on column sync.migrations.applied_at is 'When it was applied';

create sequence sync.read_no;
comment on sequence sync.read_no is 'One number is drawn before each request is sent; of two readings of a row the larger number wins';

create table sync.leases (
  client text not null,
  name text not null,
  token bigint not null default 1,
  holder text,
  acquired_at timestamptz,
  expires_at timestamptz,
  primary key (client, name),
  check ((holder is null) = (expires_at is null))
) with (fillfactor = 50);
comment on table sync.leases is 'Who may write for a client and job; a token that is no longer the row''s is fenced off';
comment on column sync.leases.client is 'Client key';
comment on column sync.leases.name is 'Job name';
comment on column sync.leases.token is 'Grows with every acquisition';
comment on column sync.leases.holder is 'Worker that holds it; null when given back';
comment on column sync.leases.acquired_at is 'When the present or last holder got it';
comment on column sync.leases.expires_at is 'When it may be taken over; null when given back';

create table sync.jobs (
  client text not null,
  job text not null,
  due_at timestamptz not null default now(),
  last_started_at timestamptz,
  last_finished_at timestamptz,
  last_success_at timestamptz,
  last_change_at timestamptz,
  last_outcome text,
  last_error text,
  last_pages integer not null default 0,
  last_fetched integer not null default 0,
  last_changed integer not null default 0,
  consecutive_failures integer not null default 0,
  uneventful_runs bigint not null default 0,
  skips bigint not null default 0,
  last_skip_at timestamptz,
  last_skip_reason text,
  warnings text[] not null default '{}',
  primary key (client, job)
) with (fillfactor = 50);
comment on table sync.jobs is 'One row per client and job: when it is due, and how its last run went';
comment on column sync.jobs.client is 'Client key';
comment on column sync.jobs.job is 'Job name';
comment on column sync.jobs.due_at is 'When the next run is due, by the database''s clock';
comment on column sync.jobs.last_started_at is 'Start of the last run';
comment on column sync.jobs.last_finished_at is 'End of the last run';
comment on column sync.jobs.last_success_at is 'End of the last run that read everything it had to';
comment on column sync.jobs.last_change_at is 'When a run last wrote a row';
comment on column sync.jobs.last_outcome is 'done, failed, stopped or abandoned; null before the first run ends';
comment on column sync.jobs.last_error is 'What the last run failed with; null after a success';
comment on column sync.jobs.last_pages is 'Pages the last run read';
comment on column sync.jobs.last_fetched is 'Resources the last run read';
comment on column sync.jobs.last_changed is 'Rows the last run wrote';
comment on column sync.jobs.consecutive_failures is 'Failed runs since the last success';
comment on column sync.jobs.uneventful_runs is 'Runs that wrote nothing and so have no row in sync.runs';
comment on column sync.jobs.skips is 'Runs refused because one was under way';
comment on column sync.jobs.last_skip_at is 'When a run was last refused';
comment on column sync.jobs.last_skip_reason is 'Why it was refused';
comment on column sync.jobs.warnings is 'What the last run noticed and a person should know';

create table sync.runs (
  id bigint generated always as identity primary key,
  client text not null,
  job text not null,
  trigger text not null check (trigger in ('schedule', 'manual')),
  worker text not null,
  lease_token bigint not null,
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
  error text,
  warnings text[] not null default '{}',
  check ((status = 'running') = (finished_at is null)),
  check ((status = 'failed') = (error is not null))
) with (fillfactor = 70);
create unique index runs_by_lease on sync.runs (client, job, lease_token);
create index runs_by_job on sync.runs (client, job, id desc);
create index runs_running on sync.runs (client, job) where status = 'running';
comment on table sync.runs is 'Ledger of the runs that wrote something or failed; uneventful ones are counted in sync.jobs';
comment on column sync.runs.id is 'Run number';
comment on column sync.runs.client is 'Client key';
comment on column sync.runs.job is 'Job name';
comment on column sync.runs.trigger is 'schedule or manual';
comment on column sync.runs.worker is 'Worker that ran it';
comment on column sync.runs.lease_token is 'Token of the lease it wrote under';
comment on column sync.runs.status is 'running, done, failed, stopped (asked to), abandoned (its worker was lost)';
comment on column sync.runs.started_at is 'Start';
comment on column sync.runs.finished_at is 'End; null only while running';
comment on column sync.runs.pages is 'Pages read and committed';
comment on column sync.runs.fetched is 'Resources read, items not counted';
comment on column sync.runs.created is 'Rows inserted';
comment on column sync.runs.updated is 'Rows updated';
comment on column sync.runs.removed is 'Rows deleted';
comment on column sync.runs.unchanged is 'Resources that were as they are';
comment on column sync.runs.stale is 'Readings not applied because a newer one was there';
comment on column sync.runs.quarantined is 'Resources newly put into quarantine';
comment on column sync.runs.error_code is 'Stable code of the failure';
comment on column sync.runs.error is 'The failure in words';
comment on column sync.runs.warnings is 'What the run noticed and a person should know';

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
comment on table sync.cursors is 'Where each walk over a list stands; written with the rows of the page it stands on';
comment on column sync.cursors.client is 'Client key';
comment on column sync.cursors.stream is 'Stream name';
comment on column sync.cursors.pass is 'Walk of that stream';
comment on column sync.cursors.query is 'The query with which the last page that held rows was asked; the next walk asks it again';
comment on column sync.cursors.meaning is 'What page[cursor] was seen to mean: the last id, an offset, or nothing we know';
comment on column sync.cursors.last_id is 'Id of the last row of that page';
comment on column sync.cursors.largest_seen is 'Largest date seen in a walk that is under way';
comment on column sync.cursors.watermark is 'Largest date seen in a completed walk';
comment on column sync.cursors.completed_at is 'When the walk first reached its end; null while the first load is under way';
comment on column sync.cursors.updated_at is 'Last change of this row';

create table sync.rereads (
  client text not null,
  stream text not null,
  id bigint not null,
  tries integer not null default 0,
  next_try_at timestamptz not null,
  last_reason text,
  primary key (client, stream, id)
) with (fillfactor = 70);
comment on table sync.rereads is 'Resources that lists do not settle, read one by one with growing pauses';
comment on column sync.rereads.client is 'Client key';
comment on column sync.rereads.stream is 'Stream name';
comment on column sync.rereads.id is 'Id of the resource';
comment on column sync.rereads.tries is 'Reads that settled nothing';
comment on column sync.rereads.next_try_at is 'Not read again before';
comment on column sync.rereads.last_reason is 'What the last read found';

create table sync.quarantine (
  id bigint generated always as identity primary key,
  client text not null,
  stream text not null,
  resource_key text not null,
  resource_id bigint,
  member_path text not null,
  reason text not null,
  document text not null,
  run_worker text not null,
  times integer not null default 1,
  first_seen_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  unique (client, stream, resource_key)
);
comment on table sync.quarantine is 'Resources that could not be decoded, kept whole; a later good version releases them';
comment on column sync.quarantine.id is 'Number of the row';
comment on column sync.quarantine.client is 'Client key';
comment on column sync.quarantine.stream is 'Stream name';
comment on column sync.quarantine.resource_key is 'The id where it is readable, else a hash of the document';
comment on column sync.quarantine.resource_id is 'The id where it is readable';
comment on column sync.quarantine.member_path is 'Member that stands in the way';
comment on column sync.quarantine.reason is 'Why it could not be decoded';
comment on column sync.quarantine.document is 'The resource as received with what was included for it, as JSON text (text, for Postgres'' jsonb refuses some JSON)';
comment on column sync.quarantine.run_worker is 'Worker that last met it';
comment on column sync.quarantine.times is 'How often it was met';
comment on column sync.quarantine.first_seen_at is 'When it was first met';
comment on column sync.quarantine.last_seen_at is 'When it was last met';

create table fulfilment.changes (
  seq bigint generated always as identity primary key,
  client text not null,
  entity text not null,
  id bigint,
  key text,
  operation text not null check (operation in ('created', 'updated', 'unlisted', 'removed')),
  changed_at timestamptz not null default now(),
  check (id is not null or key is not null)
);
comment on table fulfilment.changes is 'Feed of every change of the tables in this schema, in the order of commit';
comment on column fulfilment.changes.seq is 'Order of the feed';
comment on column fulfilment.changes.client is 'Client key';
comment on column fulfilment.changes.entity is 'Table that changed';
comment on column fulfilment.changes.id is 'Id of the row that changed';
comment on column fulfilment.changes.key is 'Key of the row where its table has no bigint id';
comment on column fulfilment.changes.operation is 'created, updated, unlisted or removed';
comment on column fulfilment.changes.changed_at is 'Transaction time of the change';

-- seq is drawn after this lock, which is held until the commit: so seq rises in commit order and no reader that
-- remembers the last seq it saw can miss one that commits later.
create function sync.order_changes() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtext('fulfilment.changes'));
  return null;
end
$$;
create trigger changes_in_commit_order before insert on fulfilment.changes
  for each statement execute function sync.order_changes();

create function sync.notify_changes() returns trigger language plpgsql as $$
begin
  perform pg_notify('fulfilment_changes', '');
  return null;
end
$$;
create trigger changes_notify after insert on fulfilment.changes
  for each statement execute function sync.notify_changes();

-- ERP readers: created where the migrating role may, otherwise left to whoever administers the database.
do $$
begin
  if not exists (select from pg_roles where rolname = 'fulfilment_reader') then
    create role fulfilment_reader nologin;
  end if;
exception
  when insufficient_privilege or duplicate_object or unique_violation then
    raise notice 'role fulfilment_reader was not created here: %', sqlerrm;
end
$$;
do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_reader') then
    grant usage on schema fulfilment to fulfilment_reader;
    grant select on all tables in schema fulfilment to fulfilment_reader;
    alter default privileges in schema fulfilment grant select on tables to fulfilment_reader;
  end if;
end
$$;
