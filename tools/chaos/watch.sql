-- Objects that a campaign adds to its database, to record changes and to refuse writes.
create schema chaos;

-- This share of the statements that write fails with this SQLSTATE.
create table chaos.refusal (code text not null, share real not null);
insert into chaos.refusal values ('40001', 0);

create function chaos.refuse() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
  refusal chaos.refusal;
begin
  select * into refusal from chaos.refusal;
  if refusal.share > 0 and random() < refusal.share then
    raise exception 'refused on purpose' using errcode = refusal.code;
  end if;
  return null;
end $$;

-- Every committed change of a row. The feed must have exactly one entry for each.
create table chaos.seen (client text, entity text, id bigint, key text, operation text, at timestamptz);

create function chaos.see() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
  apart constant text[] := array['read_no', 'first_seen_at', 'changed_at'];
  before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  row_now jsonb := coalesce(after, before);
begin
  if tg_op = 'UPDATE' and before - apart = after - apart and before -> 'changed_at' = after -> 'changed_at' then
    return null;
  end if;
  insert into chaos.seen values (
    row_now ->> 'client', tg_table_name,
    (row_now ->> 'id')::bigint,
    case when row_now ? 'role' then concat(row_now ->> 'order_id', ':', row_now ->> 'role') end,
    case
      when tg_op = 'INSERT' then 'created'
      when tg_op = 'DELETE' then 'removed'
      when before ->> 'unlisted_since' is null and after ->> 'unlisted_since' is not null then 'unlisted'
      else 'updated'
    end,
    now());
  return null;
end $$;
