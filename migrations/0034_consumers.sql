-- oldest code: 0.1.0

-- What programs that follow the feed need in any language: a checkpoint that the database keeps, and the state of an order.

create table fulfilment.consumers (
  name text primary key check (length(name) between 1 and 64),
  seq bigint not null check (seq >= 0),
  created_at timestamptz not null default now(),
  moved_at timestamptz not null default now()
) with (fillfactor = 50);
comment on table fulfilment.consumers is
  'Programs that follow the feed with consume_changes, and how far each has read; written by functions only';
comment on column fulfilment.consumers.name is 'Name that the program chose, at most 64 characters';
comment on column fulfilment.consumers.seq is 'Last seq that the consumer has read';
comment on column fulfilment.consumers.created_at is 'When it was started first';
comment on column fulfilment.consumers.moved_at is 'When seq last changed';

-- Starts a consumer, unless it was started before: programs may call it at each start. Call it before the tables are
-- read: what changes meanwhile is then in the feed.
create function fulfilment.start_consumer(consumer text, after bigint default null, move boolean default false)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place bigint := (select c.seq from fulfilment.consumers c where c.name = consumer and move is not true);
begin
  if place is not null then
    return place;
  end if;
  -- Only committed entries count: an entry that is still being written has a larger seq.
  place := coalesce(after, (select c.seq from fulfilment.changes c order by c.seq desc limit 1),
    (select m.pruned_until from sync.feed_mark m));
  -- Raises if the entries after this place are not all kept, or if the place was never used.
  perform from fulfilment.changes_since(place, 1);
  insert into fulfilment.consumers as c (name, seq) values (consumer, place)
  on conflict (name) do update
  set seq = case when move then excluded.seq else c.seq end, moved_at = case when move then now() else c.moved_at end
  returning c.seq into place;
  return place;
end
$$;
comment on function fulfilment.start_consumer is
  'Starts a consumer of the feed after a seq (null: after the newest change); moves one that exists only if move is true. Returns its seq';

-- The checkpoint moves in the transaction of the caller: a rollback moves it back. A second reader of the same consumer
-- waits for the end of the first one's transaction, then continues after it.
create function fulfilment.consume_changes(consumer text, max integer default 1000)
returns setof fulfilment.changes language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  place bigint := (select c.seq from fulfilment.consumers c where c.name = consumer);
  entry fulfilment.changes;
  last bigint;
begin
  if place is null then
    raise exception 'there is no consumer %; start it with fulfilment.start_consumer', coalesce(left(consumer, 100), 'null')
      using errcode = '22023';
  end if;
  if max is null or max < 1 or max > 100000 then
    raise exception 'max must lie between 1 and 100000' using errcode = '22023';
  end if;
  -- A look that finds nothing locks nothing and writes nothing. The entries of an unfinished reader are found.
  perform from fulfilment.changes_since(place, 1);
  if not found then
    return;
  end if;
  select c.seq into place from fulfilment.consumers c where c.name = consumer for update;
  if not found then
    raise exception 'consumer % was dropped meanwhile', left(consumer, 100) using errcode = '22023';
  end if;
  for entry in select * from fulfilment.changes_since(place, max) loop
    last := entry.seq;
    return next entry;
  end loop;
  if last is not null then
    update fulfilment.consumers c set seq = last, moved_at = now() where c.name = consumer;
  end if;
end
$$;
comment on function fulfilment.consume_changes is
  'The next changes for a consumer, at most max; its checkpoint moves behind them when the transaction of the caller commits';

create function fulfilment.drop_consumer(consumer text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from fulfilment.consumers c where c.name = consumer;
  return found;
end
$$;
comment on function fulfilment.drop_consumer is 'Forgets a consumer of the feed; false if there is none of this name';

-- One row if the outbox or the tables know the order, else none. It has the rights of the caller.
create function fulfilment.order_state(number text, client text default 'default')
returns table (
  order_id bigint, state text, waits_for text, open_rows integer, ordered integer, shipped integer, returned integer,
  shipments integer, last_shipped_on timestamptz, tracking_urls text[]
) language sql stable set search_path = pg_catalog, pg_temp as $$
  with asked as (
    select o.id, o.kind, o.status
    from fulfilment.outbox o
    where o.client = order_state.client and o.reference = order_state.number and o.family = 'order'
  ),
  -- A number may be used again after a rename. The newest order has it.
  found as (
    select o.id, o.on_hold, o.unlisted_since
    from fulfilment.orders o
    where o.client = order_state.client and o.external_order_number = order_state.number
    order by o.unlisted_since is not null, o.id desc
    limit 1
  ),
  lines as (
    select count(*) as all_lines, coalesce(sum(i.quantity), 0)::integer as pieces
    from fulfilment.order_items i
    where i.client = order_state.client and i.order_id = (select f.id from found f) and i.unlisted_since is null
  ),
  sent as (
    select s.id, s.status, s.shipped_on
    from fulfilment.shipments s
    where s.client = order_state.client and s.order_id = (select f.id from found f) and s.unlisted_since is null
  ),
  sums as (
    select
      (select count(*)::integer from sent) as shipments,
      (select count(*) from sent s where s.status = 'ERROR') as errors,
      (select max(s.shipped_on) from sent s) as last_shipped_on,
      coalesce((
        select sum(i.quantity)
        from sent s
        join fulfilment.shipment_items i on i.client = order_state.client and i.shipment_id = s.id
        where s.status = 'SHIPPED' and i.unlisted_since is null), 0)::integer as shipped,
      coalesce((
        select sum(r.quantity)
        from fulfilment.return_items r
        where r.client = order_state.client and r.order_id = (select f.id from found f) and r.unlisted_since is null),
        0)::integer as returned,
      (select array_agg(distinct p.track_and_trace_code)
       from sent s
       join fulfilment.parcels p on p.client = order_state.client and p.shipment_id = s.id
       where p.unlisted_since is null and p.track_and_trace_code ~* '^https?://') as tracking_urls
  ),
  -- The create that counts: an open one, else the last.
  creation as (
    select a.status
    from asked a
    where a.kind = 'order.create'
    order by a.status in ('pending', 'sending', 'unknown', 'dead') desc, a.id desc
    limit 1
  )
  select
    f.id,
    case
      when f.id is null and exists (select from asked a where a.kind = 'order.rename' and a.status = 'done') then 'renamed'
      when f.id is null then case c.status
        when 'pending' then 'waiting' when 'sending' then 'waiting' when 'unknown' then 'unknown'
        when 'dead' then 'refused' when 'cancelled' then 'cancelled' when 'done' then 'accepted' else 'not_found' end
      when f.unlisted_since is not null then 'unlisted'
      when l.all_lines > 0 and l.pieces = 0 then 'cancelled'
      when u.shipped > 0 and u.shipped >= l.pieces then 'shipped'
      when u.errors > 0 then 'warehouse_error'
      when u.shipped > 0 then 'partly_shipped'
      when f.on_hold then 'on_hold'
      when u.shipments > 0 then 'in_warehouse'
      else 'accepted'
    end,
    (select w.because
     from fulfilment.outbox_open w
     where w.client = order_state.client and w.reference = order_state.number
       and w.id in (select a.id from asked a)
     order by w.id
     limit 1),
    (select count(*)::integer from asked a where a.status in ('pending', 'sending', 'unknown', 'dead')),
    l.pieces, u.shipped, u.returned, u.shipments, u.last_shipped_on, coalesce(u.tracking_urls, '{}')
  from lines l
  cross join sums u
  left join found f on true
  left join creation c on true
  where f.id is not null or exists (select from asked)
$$;
comment on function fulfilment.order_state is
  'State of the order with this number (docs/erp.md lists the states), what its outbox rows wait for, pieces and tracking links; no row if it is unknown';

revoke execute on function fulfilment.start_consumer(text, bigint, boolean), fulfilment.consume_changes(text, integer),
  fulfilment.drop_consumer(text), fulfilment.order_state(text, text) from public;
do $$
declare
  found name;
begin
  for found in select rolname from pg_roles where rolname in ('fulfilment_reader', 'fulfilment_writer') loop
    execute format('grant execute on function fulfilment.order_state(text, text) to %I', found);
  end loop;
  -- A reader changes nothing, so it keeps its checkpoint itself and calls changes_since.
  if exists (select from pg_roles where rolname = 'fulfilment_writer') then
    grant execute on function fulfilment.start_consumer(text, bigint, boolean), fulfilment.consume_changes(text, integer),
      fulfilment.drop_consumer(text) to fulfilment_writer;
  end if;
end
$$;
