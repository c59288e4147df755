-- What a campaign puts into its database beside the product's own, to watch and to break it.
create schema chaos;

-- Statements that write fail with this SQLSTATE, this share of them.
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

-- Every committed change of a row, as the tables themselves show it: what the feed must tell, once.
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
