-- oldest code: 0.1.0

-- Rows of the outbox that become done, dead, unknown or cancelled are entries of the feed, also if an operator or the
-- ERP changed them.
--
-- The trigger is deferred to the commit: the feed is locked last, after all rows that the transaction locks, and an ERP
-- that cancels a row and keeps its transaction open delays nobody. A deferred trigger has the rights of the role that
-- commits, so the function has those of its owner.
create function sync.enter_outcome() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  note text := json_build_object('client', new.client, 'id', new.id, 'kind', new.kind, 'reference', new.reference,
    'status', new.status)::text;
begin
  insert into fulfilment.changes (client, entity, id, operation) values (new.client, 'outbox', new.id, 'updated');
  -- A notification has less than 8000 bytes. Only rows that are older than the limits of migration 0018 have more.
  if octet_length(note) > 7999 then
    note := json_build_object('client', null, 'id', new.id, 'kind', null, 'reference', null, 'status', new.status)::text;
  end if;
  perform pg_notify('fulfilment_outbox_settled', note);
  return null;
end
$$;
revoke execute on function sync.enter_outcome() from public;
create constraint trigger outbox_settled after update of status on fulfilment.outbox
  deferrable initially deferred for each row
  when (old.status is distinct from new.status and new.status in ('done', 'dead', 'unknown', 'cancelled'))
  execute function sync.enter_outcome();
comment on column fulfilment.changes.entity is
  'Table of the row that changed; outbox for a row that became done, dead, unknown or cancelled';

-- Compares a value with a JSON Schema of sync.outbox_kinds. It goes as deep as the schema, not as deep as the value, and
-- stops after the first problems of a list, so that a hostile payload costs little. It knows the keywords type, anyOf,
-- const, enum, properties, required, additionalProperties, items and the limits; patterns are left to the workers.
create function sync.find_payload_problems(rule jsonb, given jsonb, place text)
returns table (path text, problem text) language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  max_entries constant integer := 5000;
  max_problems constant integer := 100;
  given_type text := jsonb_typeof(given);
  member_of text := case when place = 'payload' then '' else place || '.' end;
  branches jsonb[];
  types text[];
  branch jsonb;
  part record;
  found_now bigint;
  found_before bigint := 0;
begin
  if rule ? 'anyOf' then
    if given_type = 'null' and (rule -> 'anyOf') @> '[{"type": "null"}]' then
      return;
    end if;
    branches := array(select b from jsonb_array_elements(rule -> 'anyOf') b where b ->> 'type' is distinct from 'null');
    if cardinality(branches) = 1 then
      return query select f.path, f.problem from sync.find_payload_problems(branches[1], given, place) f;
      return;
    end if;
    foreach branch in array branches loop
      if not exists (select from sync.find_payload_problems(branch, given, place)) then
        return;
      end if;
    end loop;
    return query select place, 'has none of the permitted forms';
    return;
  end if;

  types := case jsonb_typeof(rule -> 'type')
    when 'array' then array(select jsonb_array_elements_text(rule -> 'type'))
    when 'string' then array[rule ->> 'type'] end;
  if types is not null and given_type <> all(types) and not (
    given_type = 'number' and 'integer' = any(types) and given::numeric = trunc(given::numeric)) then
    return query select place, 'must be ' || string_agg(case t when 'integer' then 'a whole number'
      when 'object' then 'an object' when 'array' then 'an array' else 'a ' || t end, ' or ')
      from unnest(types) t where t <> 'null' or cardinality(types) = 1;
    return;
  end if;
  if rule ? 'const' and given <> rule -> 'const' then
    return query select place, 'must be ' || (rule -> 'const')::text;
  end if;
  if rule ? 'enum' and not exists (select from jsonb_array_elements(rule -> 'enum') e where e = given) then
    return query select place, 'must be one of ' || string_agg(e::text, ', ') from jsonb_array_elements(rule -> 'enum') e;
  end if;

  if given_type = 'string' then
    if length(given #>> '{}') < (rule ->> 'minLength')::integer then
      return query select place, 'must have at least ' || (rule ->> 'minLength') || ' characters';
    elsif length(given #>> '{}') > (rule ->> 'maxLength')::integer then
      return query select place, 'must have at most ' || (rule ->> 'maxLength') || ' characters';
    end if;
  elsif given_type = 'number' then
    if given::numeric < (rule ->> 'minimum')::numeric then
      return query select place, 'must be at least ' || (rule ->> 'minimum');
    elsif given::numeric > (rule ->> 'maximum')::numeric then
      return query select place, 'must be at most ' || (rule ->> 'maximum');
    end if;
  elsif given_type = 'object' then
    if rule -> 'additionalProperties' = 'false' then
      return query select member_of || left(k, 100), 'is not a known member and must be removed'
        from jsonb_object_keys(given) k where not coalesce(rule -> 'properties', '{}') ? k limit max_problems;
    end if;
    return query select member_of || r, 'is missing'
      from jsonb_array_elements_text(rule -> 'required') r where not given ? r;
    for part in
      select p.key, p.value from jsonb_each(rule -> 'properties') p where given ? p.key order by p.key
    loop
      return query select f.path, f.problem
        from sync.find_payload_problems(part.value, given -> part.key, member_of || part.key) f;
    end loop;
  elsif given_type = 'array' then
    if jsonb_array_length(given) < (rule ->> 'minItems')::integer then
      return query select place, 'must have at least ' || (rule ->> 'minItems') || ' entries';
    end if;
    if rule ? 'items' then
      for part in
        select e.value, e.nth
        from jsonb_path_query(given, '$[0 to $last]', jsonb_build_object('last', max_entries - 1))
          with ordinality as e (value, nth)
      loop
        return query select f.path, f.problem
          from sync.find_payload_problems(rule -> 'items', part.value, place || '[' || part.nth - 1 || ']') f;
        get diagnostics found_now = row_count;
        found_before := found_before + found_now;
        exit when found_before >= max_problems;
      end loop;
      if jsonb_array_length(given) > max_entries then
        return query select place, 'has ' || jsonb_array_length(given) || ' entries; only the first ' || max_entries ||
          ' were checked';
      end if;
    end if;
  end if;
end
$$;
revoke execute on function sync.find_payload_problems(jsonb, jsonb, text) from public;

create function fulfilment.outbox_check(kind text, payload jsonb)
returns table (path text, problem text) language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  max_problems constant integer := 100;
  max_bytes constant bigint := 16777216;
  found_schema jsonb := (select k.schema from sync.outbox_kinds k where k.kind = outbox_check.kind);
  bytes bigint;
begin
  begin
    bytes := octet_length(payload::text);
  exception when program_limit_exceeded then
    -- A few bytes such as 1e100000 are a text of many digits.
    bytes := 1073741824;
  end;
  if found_schema is null then
    return query select 'kind', format('there is no kind %s; known are %s', coalesce(left(outbox_check.kind, 100), 'null'),
      (select string_agg(k.kind, ', ' order by k.kind) from sync.outbox_kinds k));
  elsif payload is null then
    return query select 'payload', 'is missing';
  elsif bytes > max_bytes then
    return query select 'payload', format('has %s bytes or more; at most %s (16 MB) are taken', bytes, max_bytes);
  else
    return query
      select case when f.nth > max_problems then 'payload' else f.path end,
        case when f.nth > max_problems then 'has more problems than these' else f.problem end
      from sync.find_payload_problems(found_schema, payload, 'payload') with ordinality f (path, problem, nth)
      order by f.nth limit max_problems + 1;
  end if;
end
$$;
comment on function fulfilment.outbox_check is
  'Problems of a payload that its JSON Schema shows, one row each; no row if there is none. Workers check more';
revoke execute on function fulfilment.outbox_check(text, jsonb) from public;
do $$
declare
  found name;
begin
  for found in select rolname from pg_roles where rolname in ('fulfilment_reader', 'fulfilment_writer') loop
    execute format('grant execute on function fulfilment.outbox_check(text, jsonb) to %I', found);
  end loop;
end
$$;
