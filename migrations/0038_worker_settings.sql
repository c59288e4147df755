-- oldest code: 0.1.0

-- What `doctor` compares the present files with, and what `status` says about files that workers refused.
create table sync.worker_settings (
  worker text primary key,
  settings jsonb not null,
  refused text[] not null default '{}',
  restart text[] not null default '{}',
  loaded_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table sync.worker_settings is 'The settings that each running worker uses, without secrets';
comment on column sync.worker_settings.worker is 'Worker: host name and process id';
comment on column sync.worker_settings.settings is
  'Clients, schedules and other settings; of secrets, check values of 16 bits, which tell only that a secret differs';
comment on column sync.worker_settings.refused is 'What is wrong in changed files; the worker keeps its settings. Empty: nothing';
comment on column sync.worker_settings.restart is 'Changed settings that only a restart of the worker takes over';
comment on column sync.worker_settings.loaded_at is 'When the worker took over these settings';
comment on column sync.worker_settings.seen_at is 'Last sign of life, written every 20 seconds';
