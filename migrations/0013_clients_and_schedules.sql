-- oldest code: 0.1.0
-- Whose service a client's rows come from, what is paused, gates that calls must pass, and who did what.

-- Schedules and gates go by this clock alone, leases by the server's own.
create function sync.clock() returns timestamptz language sql stable as 'select statement_timestamp()';
comment on function sync.clock is 'Time by which jobs are due and gates open: the database''s';

create table sync.clients (
  client text primary key,
  identity text not null,
  base_url text not null,
  accepted_at timestamptz not null default now(),
  offered_identity text,
  offered_base_url text,
  offered_at timestamptz,
  hold_code text,
  hold_reason text,
  hold_since timestamptz,
  hold_until timestamptz,
  hold_times integer not null default 0,
  check ((offered_identity is null) = (offered_at is null) and (offered_identity is null) = (offered_base_url is null)),
  check ((hold_code is null) = (hold_until is null) and (hold_code is null) = (hold_reason is null)
    and (hold_code is null) = (hold_since is null))
) with (fillfactor = 50);
comment on table sync.clients is 'Which service and account each client''s rows come from, and why nothing is read of it at present';
comment on column sync.clients.client is 'Client key';
comment on column sync.clients.identity is 'Fingerprint of base URL and username, as accepted: whoever is set up with another reads and pushes nothing';
comment on column sync.clients.base_url is 'Base URL as accepted';
comment on column sync.clients.accepted_at is 'When it was accepted';
comment on column sync.clients.offered_identity is 'Another fingerprint that a worker or command came with';
comment on column sync.clients.offered_base_url is 'Its base URL';
comment on column sync.clients.offered_at is 'When somebody last came with it';
comment on column sync.clients.hold_code is 'Why scheduled runs wait: credentials_refused, no_answer, asked_to_wait; null where they do not';
comment on column sync.clients.hold_reason is 'The same in words';
comment on column sync.clients.hold_since is 'Since when';
comment on column sync.clients.hold_until is 'When one run tries again; the others follow once it got done';
comment on column sync.clients.hold_times is 'How often it was tried in vain';

create table sync.pauses (
  client text not null default '',
  job text not null,
  since timestamptz not null default now(),
  by text not null,
  primary key (client, job)
);
comment on table sync.pauses is 'Jobs that an operator has paused';
comment on column sync.pauses.client is 'Client key; empty: every client';
comment on column sync.pauses.job is 'Job name, or push-outbox';
comment on column sync.pauses.since is 'Since when';
comment on column sync.pauses.by is 'Who paused it';

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
comment on table sync.gates is 'Calls that may be made only so often, whoever makes them';
comment on column sync.gates.gate is 'Name of the gate: track-trace';
comment on column sync.gates.identity is 'Fingerprint of base URL and username: another key for the same account meets the same gate';
comment on column sync.gates.client is 'Client that last passed';
comment on column sync.gates.next_at is 'When it opens again';
comment on column sync.gates.taken_at is 'When it was last passed';
comment on column sync.gates.finished_at is 'When that call was over; null while it is under way, or where its worker was lost';
comment on column sync.gates.taken is 'How often it was passed';
comment on column sync.gates.spent is 'How often whoever passed was lost before the call was over';

create table sync.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  by text not null,
  action text not null,
  client text,
  detail text not null
);
create index audit_by_time on sync.audit (at);
comment on table sync.audit is 'What operators did, and what the daemon put right by itself';
comment on column sync.audit.id is 'Number of the row';
comment on column sync.audit.at is 'When';
comment on column sync.audit.by is 'Worker, or who called the command';
comment on column sync.audit.action is 'paused, resumed, identity_accepted, schedulers_set or pruned';
comment on column sync.audit.client is 'Client key; null: not about one';
comment on column sync.audit.detail is 'The rest in words';

comment on column sync.jobs.skips is 'Runs that were refused, or missed because none could start in time';
comment on column sync.jobs.last_skip_at is 'When a run was last refused or found missed';
comment on column sync.jobs.last_skip_reason is 'Why';
comment on column sync.jobs.due_at is 'When the next run is due, by sync.clock()';

-- What is old is found by these.
create index runs_by_end on sync.runs (finished_at) where finished_at is not null;
create index rescans_by_end on sync.rescans (finished_at) where finished_at is not null;
create index quarantine_by_time on sync.quarantine (last_seen_at);

create or replace view fulfilment.outbox_open as
select o.id, o.client, o.kind, o.reference, o.status, o.attempts, o.next_attempt_at, o.created_at, b.id as waits_for,
  case
    when b.id is not null then format('row %s (%s) of the same reference comes first and is %s%s', b.id, b.kind, b.status,
      coalesce(': ' || b.last_error, ''))
    when o.status = 'pending' and p.since is not null then format('pushes are paused since %s', p.since)
    when o.status = 'pending' and h.reason is not null then h.reason
    else o.last_error
  end as because
from fulfilment.outbox o
left join lateral (
  select l.id, l.kind, l.status, l.last_error from fulfilment.outbox l
  where l.client = o.client and l.family = o.family and l.reference = o.reference and l.id < o.id
    and l.status in ('pending', 'sending', 'unknown', 'dead')
  order by l.id limit 1
) b on true
left join lateral (
  select min(q.since) as since from sync.pauses q where q.client in ('', o.client) and q.job = 'push-outbox'
) p on true
left join lateral (
  select p.reason from sync.push_holds p
  where p.client = o.client and p.kind in ('', o.kind) and p.until > now() order by p.kind limit 1
) h on true
where o.status in ('pending', 'sending', 'unknown', 'dead');
