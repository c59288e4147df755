-- oldest code: 0.1.0

-- REQUESTS_PER_SECOND is shared by all processes: each takes its requests of a second from here.
create table sync.request_budgets (
  identity text primary key,
  second timestamptz not null,
  granted integer not null check (granted >= 0),
  taken_at timestamptz not null
) with (fillfactor = 50);
comment on table sync.request_budgets is
  'Requests that may be sent to the service of an account, if REQUESTS_PER_SECOND is set. One row for each account';
comment on column sync.request_budgets.identity is 'Fingerprint of the account';
comment on column sync.request_budgets.second is 'The last second from which requests were granted. It may lie ahead';
comment on column sync.request_budgets.granted is
  'Number of requests of that second that are granted, or whose time passed without a request';
comment on column sync.request_budgets.taken_at is 'When requests were last granted. It tells if the clock went back';
