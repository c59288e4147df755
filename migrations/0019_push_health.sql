-- oldest code: 0.1.0
-- The health of a client, and of each of its kinds, is one truth for all workers; held kinds cost the others nothing.

alter table sync.push_holds add column failures integer not null default 0, add column send_window integer;
-- A kind is held until its time is up; only a client needs an answered question.
update sync.push_holds set probe = false, send_window = 1, failures = 1 where kind <> '';
comment on table sync.push_holds is
  'Clients, and kinds of clients, of which nothing is sent, or a few rows at a time, or of which rows failed, for all workers';
comment on column sync.push_holds.kind is 'Kind that it is about; empty: all of the client';
comment on column sync.push_holds.code is 'breaker_open, credentials_refused, retry_after, kind_failing or kind_parked';
comment on column sync.push_holds.times is 'How often it was held anew';
comment on column sync.push_holds.probe is 'Of a client: held until a question to the service is answered, not only until then';
comment on column sync.push_holds.failures is 'Distinct rows (of a client: questions) that failed since one got through';
comment on column sync.push_holds.send_window is
  'Rows that all workers together may have under way once it is not held any more; null: as many as they have slots';

create table sync.push_rates (
  client text primary key,
  per_second float8 not null,
  allowance float8 not null,
  filled_at timestamptz not null default clock_timestamp(),
  since timestamptz not null default clock_timestamp(),
  lowered_at timestamptz not null default clock_timestamp(),
  refused bigint not null default 0
) with (fillfactor = 50);
comment on table sync.push_rates is 'How many rows a second all workers together send to a client whose service refused some with 429';
comment on column sync.push_rates.client is 'Client key';
comment on column sync.push_rates.per_second is 'Rows a second; halved by a 429, a tenth of a row more with each row that is sent';
comment on column sync.push_rates.allowance is 'Rows that may be sent at once';
comment on column sync.push_rates.filled_at is 'When the allowance was last reckoned';
comment on column sync.push_rates.since is 'First of these refusals';
comment on column sync.push_rates.lowered_at is 'When it was last halved';
comment on column sync.push_rates.refused is 'Refusals since then';

create table sync.proven_kinds (
  client text not null,
  kind text not null,
  method text not null,
  path text not null,
  proven_at timestamptz not null default clock_timestamp(),
  primary key (client, kind, method, path)
);
comment on table sync.proven_kinds is 'Kinds that the service once carried out, by the method and path it was asked with: a 403 of them is no wrong path';
comment on column sync.proven_kinds.client is 'Client key';
comment on column sync.proven_kinds.kind is 'Kind';
comment on column sync.proven_kinds.method is 'HTTP method; empty: carried out before this table was there';
comment on column sync.proven_kinds.path is 'Path below the base URL; empty as method is';
comment on column sync.proven_kinds.proven_at is 'When it was noted';
insert into sync.proven_kinds (client, kind, method, path)
select distinct o.client, o.kind, '', '' from fulfilment.outbox o
where o.status = 'done' and exists (
  select from sync.outbox_attempts a where a.outbox_id = o.id and a.step = 'sent' and a.became = 'done');

-- Rows of a client that no worker serves at present stay, and are named.
alter table sync.clients add column served_at timestamptz;
comment on column sync.clients.served_at is 'When a worker that pushes for it was last there, to half a minute';

-- Rows that were refused for reasons that are not theirs (a limit, a token) burn no attempt, and wait longer each time.
alter table fulfilment.outbox add column unburnt integer not null default 0;
comment on column fulfilment.outbox.unburnt is
  'Times it was sent in vain since the last attempt that counted: 429, or a token that was refused; each makes it wait longer';

-- Kind by kind: what is due of a kind that is held is not looked at.
create index outbox_due_by_kind on fulfilment.outbox (client, kind, next_attempt_at, id) where status = 'pending';
drop index fulfilment.outbox_due;

-- An order waits for the products that it names.
create table sync.outbox_waits (
  outbox_id bigint primary key references fulfilment.outbox (id) on delete cascade,
  waits_for bigint not null
);
create index outbox_waits_by_product on sync.outbox_waits (waits_for);
comment on table sync.outbox_waits is 'Orders that wait for a product.save row of one of their skus';
comment on column sync.outbox_waits.outbox_id is 'The order.create row';
comment on column sync.outbox_waits.waits_for is 'The product.save row';

create function sync.wake_product_waiters() returns trigger language plpgsql as $$
declare
  freed bigint[];
begin
  -- Rows that somebody has locked are looked at again by themselves, soon.
  with free as materialized (
    select o.id from fulfilment.outbox o
    where o.id in (select v.outbox_id from sync.outbox_waits v where v.waits_for = new.id) and o.status = 'pending'
    for no key update of o skip locked
  ), woken as (
    update fulfilment.outbox o set next_attempt_at = clock_timestamp() from free where o.id = free.id returning o.id
  )
  select array_agg(id) into freed from woken;
  if freed is not null then
    delete from sync.outbox_waits w where w.outbox_id = any(freed);
    perform pg_notify('fulfilment_outbox', '');
  end if;
  return null;
end
$$;
create trigger outbox_product_through after update of status on fulfilment.outbox for each row
  when (new.kind = 'product.save' and old.status is distinct from new.status and new.status in ('done', 'dead', 'cancelled'))
  execute function sync.wake_product_waiters();

-- A lane is woken again once the ERP's transaction has committed: what was inserted behind the row meanwhile was put off.
create or replace function fulfilment.outbox_cancel(id bigint) returns fulfilment.outbox
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
  perform pg_notify('fulfilment_outbox', json_build_object('woken', json_build_object('client', changed.client,
    'family', changed.family, 'reference', changed.reference))::text);
  return changed;
end
$$;

-- What is first in its lane is woken, also after attempts that counted: its own pause was for when it is first.
create or replace function sync.wake_lane(of_client text, of_family text, of_reference text) returns void language sql as $$
  update fulfilment.outbox o set next_attempt_at = clock_timestamp()
  where o.status = 'pending' and o.id = (
    select min(b.id) from fulfilment.outbox b
    where b.client = of_client and b.family = of_family and b.reference = of_reference
      and b.status in ('pending', 'sending', 'unknown', 'dead'))
$$;

create or replace view fulfilment.outbox_open as
select o.id, o.client, o.kind, o.reference, o.status, o.attempts, o.next_attempt_at, o.created_at,
  coalesce(b.id, w.id) as waits_for,
  case
    when b.id is not null then format('row %s (%s) of the same reference %s and is %s%s', b.id, b.kind,
      case when b.id < o.id then 'comes first' else 'was begun before' end, b.status, coalesce(': ' || b.last_error, ''))
    when o.status = 'pending' and p.since is not null then format('pushes are paused since %s', p.since)
    when o.status = 'pending' and h.reason is not null then h.reason
    when o.status = 'pending' and w.id is not null then format('row %s (product.save of %s) comes first and is %s%s', w.id,
      w.reference, w.status, coalesce(': ' || w.last_error, ''))
    else o.last_error
  end as because
from fulfilment.outbox o
left join lateral (
  select l.id, l.kind, l.status, l.last_error from fulfilment.outbox l
  where l.client = o.client and l.family = o.family and l.reference = o.reference
    and (l.id < o.id and l.status in ('pending', 'sending', 'unknown', 'dead')
         or l.id > o.id and o.status = 'pending' and l.status in ('sending', 'unknown'))
  order by l.id limit 1
) b on true
left join lateral (
  select min(q.since) as since from sync.pauses q where q.client in ('', o.client) and q.job = 'push-outbox'
) p on true
left join lateral (
  select p.reason from sync.push_holds p
  where p.client = o.client and p.kind in ('', o.kind) and (p.probe and p.kind = '' or p.until > now() or p.send_window is not null)
  order by p.kind limit 1
) h on true
left join lateral (
  select l.id, l.reference, l.status, l.last_error from sync.outbox_waits v join fulfilment.outbox l on l.id = v.waits_for
  where v.outbox_id = o.id and l.status in ('pending', 'sending', 'unknown')
) w on true
where o.status in ('pending', 'sending', 'unknown', 'dead');
comment on column fulfilment.outbox_open.waits_for is
  'Row that comes first: of the same lane, or the product.save of one of its skus; null where there is none';
