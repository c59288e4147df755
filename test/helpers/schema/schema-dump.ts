import type { TestDatabase } from '../database.ts';

const schemas = `('fulfilment', 'sync')`;
const ours = `n.nspname in ${schemas}`;

/** Queries that each return the lines of one kind of object, in a fixed order. */
const sections = [
  `select format('create schema %I; -- %s', n.nspname, obj_description(n.oid)) as line
   from pg_namespace n where n.nspname in ${schemas} order by n.nspname`,
  `select format('create sequence %I.%I; -- %s', n.nspname, c.relname, obj_description(c.oid)) as line
   from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind = 'S' and ${ours} and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')
   order by 1`,
  `select format(E'create table %I.%I (\n%s\n)%s; -- %s', n.nspname, c.relname, (
     select string_agg(format('  %I %s%s%s,%s', a.attname, format_type(a.atttypid, a.atttypmod),
       case when a.attnotnull then ' not null' else '' end,
       case when a.attidentity <> '' then ' generated always as identity'
            when d.oid is not null then ' default ' || pg_get_expr(d.adbin, d.adrelid) else '' end,
       coalesce(' -- ' || col_description(c.oid, a.attnum), '')), E'\n' order by a.attnum)
     from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
   ), coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', ''), obj_description(c.oid)) as line
   from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind = 'r' and ${ours} order by n.nspname, c.relname`,
  `select format('alter table %I.%I add constraint %I %s;', n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid)) as line
   from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
   where ${ours} and k.contype <> 'n' order by n.nspname, c.relname, k.conname`,
  `select pg_get_indexdef(i.indexrelid) || ';' as line
   from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
   where ${ours} and not exists (select from pg_constraint k where k.conindid = i.indexrelid) order by 1`,
  `select format('create view %I.%I as -- %s', n.nspname, c.relname, obj_description(c.oid)) || E'\\n' || pg_get_viewdef(c.oid) as line
   from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.relkind = 'v' and ${ours} order by n.nspname, c.relname`,
  `select pg_get_functiondef(p.oid) || ';' as line
   from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ${schemas} order by n.nspname, p.proname`,
  `select pg_get_triggerdef(t.oid) || ';' as line
   from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
   where ${ours} and not t.tgisinternal order by t.tgname`,
  `select format('grant %s on %I.%I to %I;', string_agg(lower(g.privilege_type), ', ' order by g.privilege_type),
     g.table_schema, g.table_name, g.grantee) as line
   from information_schema.table_privileges g
   where g.table_schema in ${schemas} and g.grantee like 'fulfilment%'
   group by g.table_schema, g.table_name, g.grantee order by g.table_schema, g.table_name, g.grantee`,
];

/**
 * Returns the whole schema as text, from the catalogs. It needs no pg_dump and does not depend on
 * its version.
 */
export async function dumpSchema(database: TestDatabase): Promise<string> {
  const parts: string[] = [];
  for (const section of sections) {
    const rows = await database.query<{ line: string }>(section);
    parts.push(rows.map(({ line }) => line).join('\n'));
  }
  return `-- The schema after all migrations; renewed with: npm run golden\n\n${parts.filter(Boolean).join('\n\n')}\n`;
}
