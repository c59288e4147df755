import { type Kysely, sql } from 'kysely';
import expected from './generated/schema-parts.json' with { type: 'json' };

/**
 * SQL: whether relation c in schema n is ours. Partitions are left out: they follow the table that
 * they belong to.
 */
const ourRelations = sql`n.nspname in ('fulfilment', 'sync') and not c.relispartition`;

/**
 * Reads the parts of our schemas: one line per column, constraint, index, function and trigger. It
 * leaves out details that read differently in different versions of Postgres.
 */
export async function readSchemaParts<T>(db: Kysely<T>): Promise<string[]> {
  const { rows } = await sql<{ part: string }>`
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
    select format('function %s.%s(%s)', n.nspname, p.proname,
      pg_get_function_identity_arguments(p.oid))
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('fulfilment', 'sync')
    union all
    select format('trigger %s.%s %s', n.nspname, c.relname, t.tgname)
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid
    join pg_namespace n on n.oid = c.relnamespace
    where ${ourRelations} and not t.tgisinternal and t.tgenabled <> 'D'
    order by part`.execute(db);

  return rows.map(({ part }) => part);
}

/** Compares our schemas with what the migrations of this version create. */
export async function readSchemaDrift<T>(
  db: Kysely<T>,
): Promise<{ readonly missing: readonly string[]; readonly unexpected: readonly string[] }> {
  const parts = new Set(await readSchemaParts(db));
  const wanted = new Set<string>(expected);

  return {
    missing: expected.filter((part) => !parts.has(part)),
    // Additional indexes and triggers are allowed: operators can add them only to these tables.
    unexpected: [...parts].filter((part) => !wanted.has(part) && !/^(index|trigger) /.test(part)),
  };
}
