/**
 * Exports of tables and views of schema fulfilment with COPY. Nothing here reads another schema, and every name that a
 * person typed is compared with the catalog before it becomes part of a statement.
 */

import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';

/** A column, with its type in the words of Postgres, such as `timestamp with time zone`. */
export interface Column {
  readonly name: string;
  readonly type: string;
}

/** A table or view that can be exported. */
export interface Relation {
  readonly name: string;
  readonly columns: readonly Column[];
  /** Columns of the primary key; none for a view. */
  readonly key: readonly string[];
}

/** Reads the tables and views of schema fulfilment that the current role may read, by name. */
export async function readRelations(db: Database): Promise<Relation[]> {
  const { rows } = await sql<Relation>`
    select c.relname as name,
      json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum)
        as columns,
      coalesce((
        select json_agg(k.attname order by array_position(i.indkey, k.attnum))
        from pg_index i
        join pg_attribute k on k.attrelid = i.indrelid and k.attnum = any(i.indkey)
        where i.indrelid = c.oid and i.indisprimary), '[]') as key
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where n.nspname = 'fulfilment' and c.relkind in ('r', 'p', 'v', 'm')
      and has_schema_privilege(n.oid, 'USAGE') and has_table_privilege(c.oid, 'SELECT')
    group by c.oid, c.relname
    order by c.relname`.execute(db);
  return rows;
}
