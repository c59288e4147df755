-- oldest code: 0.1.0

-- Problems that are posted to ALERT_WEBHOOK_URL when they begin and when they end.
create table sync.alerts (
  id uuid primary key,
  scope text not null,
  code text not null,
  client text,
  subject text not null,
  detail text not null,
  severity text not null check (severity in ('bad', 'warn')),
  text text not null,
  remedy text,
  since timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  began_at timestamptz,
  missing_since timestamptz,
  unique (scope, code, subject, detail)
) with (fillfactor = 50);
comment on table sync.alerts is 'Open problems. A row is deleted when its problem has ended';
comment on column sync.alerts.id is 'Identity of this occurrence of the problem, in both posts';
comment on column sync.alerts.code is 'Stable name of the kind of problem';
comment on column sync.alerts.scope is 'The check that finds the problem (sync.alert_checks.scope)';
comment on column sync.alerts.client is 'Client; null: every client';
comment on column sync.alerts.subject is 'The client, and the job, stream or part of the outbox that is concerned';
comment on column sync.alerts.detail is 'What tells problems of one code and subject apart, such as the kind of outbox rows';
comment on column sync.alerts.severity is 'bad or warn, when it was last seen';
comment on column sync.alerts.text is 'The problem in words, when it was last seen';
comment on column sync.alerts.remedy is 'What to do about it; null: nothing';
comment on column sync.alerts.since is 'First check that found the problem';
comment on column sync.alerts.seen_at is 'Last check that found the problem';
comment on column sync.alerts.began_at is 'When the post of its beginning was queued; null: it has not lasted long enough';
comment on column sync.alerts.missing_since is 'First check that no longer found the problem; null: the last check found it';

create table sync.alert_checks (
  scope text primary key,
  check_no bigint not null default 1,
  next_at timestamptz not null
) with (fillfactor = 50);
comment on table sync.alert_checks is 'Checks for problems. One worker at a time makes each of them';
comment on column sync.alert_checks.scope is
  'Client whose jobs and streams are checked by workers that have it; empty: all that every worker sees alike';
comment on column sync.alert_checks.check_no is 'Number of the last check. A check that is not the last one stores nothing';
comment on column sync.alert_checks.next_at is 'Time before which no other check begins';

create table sync.alert_posts (
  id bigint generated always as identity primary key,
  alert_id uuid not null,
  body jsonb not null,
  created_at timestamptz not null default now(),
  attempts integer not null default 0 check (attempts >= 0),
  next_attempt_at timestamptz not null default now(),
  last_error text,
  delivered_at timestamptz,
  abandoned_at timestamptz,
  check (delivered_at is null or abandoned_at is null)
) with (fillfactor = 50);
create index alert_posts_open on sync.alert_posts (next_attempt_at) where delivered_at is null and abandoned_at is null;
create index alert_posts_by_alert on sync.alert_posts (alert_id) where delivered_at is null and abandoned_at is null;
comment on table sync.alert_posts is 'Posts to ALERT_WEBHOOK_URL: two for each problem, of its beginning and of its end';
comment on column sync.alert_posts.id is 'Number of the post. Retries have the same number, so a receiver can drop duplicates';
comment on column sync.alert_posts.alert_id is 'Occurrence of the problem (sync.alerts.id)';
comment on column sync.alert_posts.body is 'What is posted';
comment on column sync.alert_posts.created_at is 'When the beginning or end was found';
comment on column sync.alert_posts.attempts is 'Number of attempts';
comment on column sync.alert_posts.next_attempt_at is
  'Time of the next attempt. A worker that posts sets it beyond the end of its attempt';
comment on column sync.alert_posts.last_error is 'Why the last attempt failed';
comment on column sync.alert_posts.delivered_at is 'When the receiver took it';
comment on column sync.alert_posts.abandoned_at is 'When it was given up, because it was too old';
