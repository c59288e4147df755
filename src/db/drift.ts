import { type Kysely, sql } from 'kysely';

/**
 * SQL: whether relation c in schema n is ours. Partitions are left out: they follow the table that
 * they belong to.
 */
const ourRelations = sql`n.nspname in ('fulfilment', 'sync') and not c.relispartition`;

/**
 * SQL: the parts of our schemas: one line per column, constraint, index, function and trigger. It
 * leaves out details that read differently in different versions of Postgres.
 */
const ourParts = sql`
  select format('column %s.%s.%s %s%s', n.nspname, c.relname, a.attname,
    format_type(a.atttypid, a.atttypmod),
    case when a.attnotnull then ' not null' else '' end) as part
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_namespace n on n.oid = c.relnamespace
  where ${ourRelations} and c.relkind in ('r', 'p', 'v') and a.attnum > 0 and not a.attisdropped
  union all
  select format('constraint %s.%s %s', n.nspname, c.relname, k.conname)
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
  join pg_namespace n on n.oid = c.relnamespace
  where ${ourRelations} and k.contype <> 'n'
  union all
  select format('index %s.%s', n.nspname, c.relname)
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
  join pg_namespace n on n.oid = c.relnamespace
  where ${ourRelations} and i.indisvalid
  union all
  select format('function %s.%s(%s), body %s', n.nspname, p.proname,
    pg_get_function_identity_arguments(p.oid),
    left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 8))
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  where n.nspname in ('fulfilment', 'sync')
  union all
  select format('trigger %s.%s %s', n.nspname, c.relname, t.tgname)
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  join pg_namespace n on n.oid = c.relnamespace
  where ${ourRelations} and not t.tgisinternal and t.tgenabled <> 'D'`;

/**
 * Runs statements of a migration and records in sync.schema_parts what they add to our schemas and
 * remove from them. What was missing or added by hand before stays recorded as it was.
 */
export async function recordSchemaParts<T>(
  db: Kysely<T>,
  statements: () => Promise<unknown>,
): Promise<void> {
  // Before the first migration there are only the tables of the migrator itself.
  const { rows } = await sql<{ part: string }>`
    select part
    from (${ourParts}) p
    where exists (select from sync.schema_parts)`.execute(db);
  const before = rows.map(({ part }) => part);

  await statements();

  await sql`
    with present as materialized (${ourParts}), removed as (
      delete from sync.schema_parts r
      where r.part = any(${before}::text[])
        and not exists (select from present p where p.part = r.part)
    )
    insert into sync.schema_parts (part)
    select part
    from present
    where not part = any(${before}::text[])
    on conflict do nothing`.execute(db);
}

/** Compares our schemas with what the applied migrations made. */
export async function readSchemaDrift<T>(
  db: Kysely<T>,
): Promise<{ readonly missing: readonly string[]; readonly unexpected: readonly string[] }> {
  // Additional indexes and triggers are allowed: operators can add them only to these tables.
  const { rows } = await sql<{ part: string; isMissing: boolean }>`
    with present as materialized (${ourParts})
    select coalesce(r.part, p.part) as part, p.part is null as "isMissing"
    from present p
    full join sync.schema_parts r on r.part = p.part
    where p.part is null or (r.part is null and p.part !~ '^(index|trigger) ')
    order by 1`.execute(db);

  return {
    missing: rows.filter(({ isMissing }) => isMissing).map(({ part }) => part),
    unexpected: rows.filter(({ isMissing }) => !isMissing).map(({ part }) => part),
  };
}
