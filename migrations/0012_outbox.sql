-- oldest code: 0.1.0
-- What the ERP asks of the service: a row is inserted in the ERP's own transaction and made true by the workers.
-- docs/outbox.md draws the states.

create table fulfilment.outbox (
  id bigint generated always as identity primary key,
  client text not null default 'default',
  kind text not null,
  reference text not null,
  payload jsonb not null default '{}',
  status text not null default 'pending',
  attempts integer not null default 0,
  next_attempt_at timestamptz default now(),
  lease_until timestamptz,
  last_error text,
  result jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  family text not null generated always as (
    case when split_part(kind, '.', 1) in ('order', 'order_item', 'order_attachment', 'return_label') then 'order'
         else split_part(kind, '.', 1) end) stored,
  claim_no bigint,
  sent_at timestamptz,
  written_at timestamptz,
  refusal text,
  lookups integer not null default 0,
  absences integer not null default 0,
  absent_at timestamptz,
  replaced_at timestamptz,
  bounded_from timestamptz not null default now(),
  bounded_attempts integer not null default 0,
  constraint outbox_status check (status in ('pending', 'sending', 'done', 'dead', 'unknown', 'cancelled')),
  constraint outbox_pending check (status <> 'pending' or next_attempt_at is not null),
  constraint outbox_sending check ((status = 'sending') = (lease_until is not null)),
  constraint outbox_claimed check (status <> 'sending' or claim_no is not null),
  constraint outbox_sent check (sent_at is null or status = 'sending'),
  constraint outbox_unknown check (status <> 'unknown' or written_at is not null or refusal is not null),
  constraint outbox_finished check ((status in ('done', 'dead', 'cancelled')) = (finished_at is not null)),
  constraint outbox_not_due check (status in ('pending', 'unknown') or next_attempt_at is null),
  constraint outbox_done check (status <> 'done' or result is not null),
  constraint outbox_dead check (status <> 'dead' or last_error is not null),
  constraint outbox_attempts check (attempts >= 0 and bounded_attempts between 0 and attempts)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
create index outbox_due on fulfilment.outbox (client, next_attempt_at, id) where status = 'pending';
create index outbox_lanes on fulfilment.outbox (client, family, reference, id)
  where status in ('pending', 'sending', 'unknown', 'dead');
create index outbox_in_flight on fulfilment.outbox (client, family, reference, id) where status in ('sending', 'unknown');
-- Lanes are short. Where one of them is most of the table, statistics would make the planner look for the others by a scan.
alter table fulfilment.outbox alter column reference set (n_distinct = -1);
create index outbox_to_settle on fulfilment.outbox (client, next_attempt_at, id) where status = 'unknown';
create index outbox_leased on fulfilment.outbox (lease_until) where status = 'sending';
create index outbox_stuck on fulfilment.outbox (id) where status in ('dead', 'unknown');
create index outbox_by_reference on fulfilment.outbox (client, reference, id);
create index outbox_written on fulfilment.outbox (client, family, reference, written_at) where written_at is not null;
create index outbox_by_end on fulfilment.outbox (finished_at) where finished_at is not null;
comment on table fulfilment.outbox is 'What is to be made true at the service; insert client, kind, reference and payload, read status and result';
comment on column fulfilment.outbox.id is 'Number of the row; rows of one lane (client, family, reference) are dealt with in this order';
comment on column fulfilment.outbox.client is 'Client key';
comment on column fulfilment.outbox.kind is 'What is asked, such as order.create (docs/outbox.md)';
comment on column fulfilment.outbox.reference is 'What it is about: external order number, external reference, slip reference or sku';
comment on column fulfilment.outbox.payload is 'How it is asked; fulfilment.outbox_schema(kind) gives its JSON Schema';
comment on column fulfilment.outbox.status is 'pending, sending, unknown (perhaps carried out; being found out), done, dead (refused, or given up), cancelled';
comment on column fulfilment.outbox.attempts is 'Times it was sent; look-ups are not counted';
comment on column fulfilment.outbox.next_attempt_at is 'pending: not sent before; unknown: when it is looked up, null where an operator has to decide';
comment on column fulfilment.outbox.lease_until is 'While sending: when it may be taken from its worker';
comment on column fulfilment.outbox.last_error is 'Why it is not done, in words';
comment on column fulfilment.outbox.result is 'What the service made of it; its members by kind are in docs/outbox.md';
comment on column fulfilment.outbox.created_at is 'When it was inserted';
comment on column fulfilment.outbox.finished_at is 'When it became done, dead or cancelled';
comment on column fulfilment.outbox.family is 'Kinds that share a lane: order (with order_item, order_attachment, return_label), return, inbound_packing_slip, product';
comment on column fulfilment.outbox.claim_no is 'Number of the last claim, by which a late settlement is recognised; also the read_no of its answer';
comment on column fulfilment.outbox.sent_at is 'While sending: stamped before the request is written; null means that nothing was';
comment on column fulfilment.outbox.written_at is 'Last attempt that the service may have carried out; null: none';
comment on column fulfilment.outbox.refusal is 'While unknown: what the service said no with; it is dead of it unless a look-up finds it there';
comment on column fulfilment.outbox.lookups is 'Look-ups since the last attempt';
comment on column fulfilment.outbox.absences is 'Look-ups since the last attempt that found it absent and count';
comment on column fulfilment.outbox.absent_at is 'When it was last found absent, so that it counts';
comment on column fulfilment.outbox.replaced_at is 'When its payload was last replaced';
comment on column fulfilment.outbox.bounded_from is 'Its age is counted from here: its insertion, or the last time it was retried by hand or replaced';
comment on column fulfilment.outbox.bounded_attempts is 'Attempts before that, which PUSH_MAX_ATTEMPTS does not count';

create table sync.outbox_attempts (
  id bigint generated always as identity primary key,
  outbox_id bigint not null references fulfilment.outbox (id) on delete cascade,
  step text not null check (step in ('sent', 'looked up', 'taken over', 'retried', 'marked done', 'replaced', 'cancelled')),
  by text not null,
  claim_no bigint,
  at timestamptz not null default now(),
  duration_ms integer,
  became text not null,
  error_code text,
  error text
);
create index outbox_attempts_by_row on sync.outbox_attempts (outbox_id, id);
comment on table sync.outbox_attempts is 'History of outbox rows: every attempt, what was concluded, and what people did';
comment on column sync.outbox_attempts.id is 'Order of the history';
comment on column sync.outbox_attempts.outbox_id is 'Row of fulfilment.outbox';
comment on column sync.outbox_attempts.step is 'sent (or tried to), looked up, taken over from a lost worker, or what a person did';
comment on column sync.outbox_attempts.by is 'Worker, or database user';
comment on column sync.outbox_attempts.claim_no is 'Claim it belongs to';
comment on column sync.outbox_attempts.at is 'When it was recorded';
comment on column sync.outbox_attempts.duration_ms is 'Milliseconds from the claim to the outcome';
comment on column sync.outbox_attempts.became is 'Status that followed from it';
comment on column sync.outbox_attempts.error_code is 'Stable code of the failure';
comment on column sync.outbox_attempts.error is 'The failure in words';

create table sync.push_holds (
  client text not null,
  kind text not null default '',
  code text not null,
  reason text not null,
  since timestamptz not null default now(),
  until timestamptz not null,
  times integer not null default 1,
  probe boolean not null,
  primary key (client, kind)
) with (fillfactor = 50);
comment on table sync.push_holds is 'What is not pushed for a while, for all workers';
comment on column sync.push_holds.client is 'Client key';
comment on column sync.push_holds.kind is 'Kind that is held; empty: all of the client';
comment on column sync.push_holds.code is 'breaker_open, credentials_refused, kind_parked or retry_after';
comment on column sync.push_holds.reason is 'Why, in words';
comment on column sync.push_holds.since is 'When it began';
comment on column sync.push_holds.until is 'Held until then';
comment on column sync.push_holds.times is 'How often it was prolonged';
comment on column sync.push_holds.probe is 'Afterwards one push goes first, and the others only once the service has answered it';

create table sync.outbox_kinds (
  kind text primary key,
  schema jsonb not null
);
comment on table sync.outbox_kinds is 'JSON Schema of each kind''s payload, written by migrate';
comment on column sync.outbox_kinds.kind is 'Kind';
comment on column sync.outbox_kinds.schema is 'JSON Schema of its payload';

create function sync.notify_outbox() returns trigger language plpgsql as $$
begin
  perform pg_notify('fulfilment_outbox', '');
  return null;
end
$$;
create trigger outbox_notify after insert on fulfilment.outbox
  for each statement execute function sync.notify_outbox();

-- The next row of a lane is looked at anew when the one before it is out of the way. Always a change of next_attempt_at,
-- by which a claim that began before notices that what it saw is no longer so.
create function sync.wake_lane(of_client text, of_family text, of_reference text) returns void language sql as $$
  update fulfilment.outbox o set next_attempt_at = clock_timestamp()
  where o.status = 'pending' and o.attempts = o.bounded_attempts and o.id = (
    select min(b.id) from fulfilment.outbox b
    where b.client = of_client and b.family = of_family and b.reference = of_reference
      and b.status in ('pending', 'sending', 'unknown', 'dead'))
$$;

create function fulfilment.outbox_replace(id bigint, payload jsonb) returns fulfilment.outbox
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed fulfilment.outbox;
begin
  if payload is null then
    raise exception 'payload must not be null' using errcode = '22023';
  end if;
  -- Where an earlier attempt may have been carried out, whoever claims the row looks it up first, if its kind can be.
  update fulfilment.outbox o set payload = outbox_replace.payload, status = 'pending', next_attempt_at = clock_timestamp(),
    finished_at = null, last_error = null, refusal = null, claim_no = null, lookups = 0, absences = 0, absent_at = null,
    replaced_at = clock_timestamp(), bounded_from = clock_timestamp(), bounded_attempts = o.attempts
  where o.id = outbox_replace.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be replaced', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_replace.id), 'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became) values (changed.id, 'replaced', session_user, 'pending');
  perform pg_notify('fulfilment_outbox', '');
  return changed;
end
$$;
comment on function fulfilment.outbox_replace is 'Gives a pending or dead row another payload; it keeps its place in its lane and its history';

create function fulfilment.outbox_cancel(id bigint) returns fulfilment.outbox
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed fulfilment.outbox;
begin
  update fulfilment.outbox o set status = 'cancelled', next_attempt_at = null, finished_at = clock_timestamp(), refusal = null
  where o.id = outbox_cancel.id and o.status in ('pending', 'dead') returning * into changed;
  if not found then
    raise exception 'outbox row % %: only pending and dead rows can be cancelled', id,
      coalesce((select 'is ' || o.status from fulfilment.outbox o where o.id = outbox_cancel.id), 'does not exist')
      using errcode = '22023';
  end if;
  insert into sync.outbox_attempts (outbox_id, step, by, became) values (changed.id, 'cancelled', session_user, 'cancelled');
  perform sync.wake_lane(changed.client, changed.family, changed.reference);
  perform pg_notify('fulfilment_outbox', '');
  return changed;
end
$$;
comment on function fulfilment.outbox_cancel is 'Takes a pending or dead row out for good, and frees its lane';

create function fulfilment.outbox_schema(kind text) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_schema jsonb := (select k.schema from sync.outbox_kinds k where k.kind = outbox_schema.kind);
begin
  if found_schema is null then
    raise exception 'there is no kind %; known are %', coalesce(kind, 'null'),
      (select string_agg(k.kind, ', ' order by k.kind) from sync.outbox_kinds k) using errcode = '22023';
  end if;
  return found_schema;
end
$$;
comment on function fulfilment.outbox_schema is 'JSON Schema of the payload of a kind';
revoke all on function fulfilment.outbox_replace, fulfilment.outbox_cancel from public;

create view fulfilment.outbox_open as
select o.id, o.client, o.kind, o.reference, o.status, o.attempts, o.next_attempt_at, o.created_at, b.id as waits_for,
  case
    when b.id is not null then format('row %s (%s) of the same reference comes first and is %s%s', b.id, b.kind, b.status,
      coalesce(': ' || b.last_error, ''))
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
  select p.reason from sync.push_holds p
  where p.client = o.client and p.kind in ('', o.kind) and p.until > now() order by p.kind limit 1
) h on true
where o.status in ('pending', 'sending', 'unknown', 'dead');
comment on view fulfilment.outbox_open is 'Rows of the outbox that are not through, and what each waits for';
comment on column fulfilment.outbox_open.id is 'Row of fulfilment.outbox';
comment on column fulfilment.outbox_open.client is 'Client key';
comment on column fulfilment.outbox_open.kind is 'What is asked';
comment on column fulfilment.outbox_open.reference is 'What it is about';
comment on column fulfilment.outbox_open.status is 'pending, sending, unknown or dead';
comment on column fulfilment.outbox_open.attempts is 'Times it was sent';
comment on column fulfilment.outbox_open.next_attempt_at is 'When it is tried or looked up next';
comment on column fulfilment.outbox_open.created_at is 'When it was inserted';
comment on column fulfilment.outbox_open.waits_for is 'Row of the same lane that comes first; null where it is the first itself';
comment on column fulfilment.outbox_open.because is 'Why it is not through, in words';

do $$
begin
  if not exists (select from pg_roles where rolname = 'fulfilment_writer') then
    create role fulfilment_writer nologin;
  end if;
exception
  when insufficient_privilege or duplicate_object or unique_violation then
    raise notice 'role fulfilment_writer was not created here: %', sqlerrm;
end
$$;
do $$
begin
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant usage on schema fulfilment to fulfilment_writer;
    grant select on all tables in schema fulfilment to fulfilment_writer;
    alter default privileges in schema fulfilment grant select on tables to fulfilment_writer;
    grant insert (client, kind, reference, payload) on fulfilment.outbox to fulfilment_writer;
    grant execute on function fulfilment.outbox_replace, fulfilment.outbox_cancel to fulfilment_writer;
  end if;
end
$$;
