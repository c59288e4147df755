import type { TestDatabase } from '../database.ts';

/**
 * Returns the text of src/erp/generated/mirror-columns.ts, made from the migrated database. For each table of the
 * mirror it lists the columns that a reading fills, with their SQL types. `id` and `raw`, which all tables have, are
 * omitted, as are columns that this program fills itself.
 */
export async function renderMirrorColumns(database: TestDatabase): Promise<string> {
  const tables = await database.query<{ name: string; columns: string }>(`
    select c.relname as name,
      string_agg(format('    %s: %L,', a.attname,
        replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz')), e'\n' order by a.attnum) as columns
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'fulfilment'
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind = 'r' and c.relname not like 'track_trace%'
      and exists (select from pg_attribute r where r.attrelid = c.oid and r.attname = 'raw')
      and a.attname not in ('id', 'raw', 'client', 'read_no', 'first_seen_at', 'changed_at', 'unlisted_since', 'ordered_quantity')
    group by c.relname order by c.relname`);
  const entries = tables.map(({ name, columns }) => `  ${name}: {\n${columns}\n  },\n`);
  return `/** Generated from the migrated database by \`npm run golden\`. Do not edit it. */\n\nexport const mirrorColumns = {\n${entries.join('')}} as const;\n`;
}
