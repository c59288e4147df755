import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import {
  type ChildTable,
  type Comparison,
  columnRefs,
  columnTypes,
  comparedTypes,
  differs,
  type Family,
  feedNames,
  hasSameKey,
  keyColumns,
  type MirrorRow,
  pickColumns,
  placeTypes,
  rowSet,
  rowsByIds,
  tableRef,
  type WrittenRow,
} from './tables.ts';

/** Collects the child rows of a table. If two families bring the same row, the last one counts. */
function collectRows(table: ChildTable, families: readonly Family[]): MirrorRow[] {
  const rows = families
    .flatMap(({ children }) => children.filter((set) => set.table === table.name))
    .flatMap((set) => set.rows);
  const keyed = rows.map(
    (row) =>
      [
        keyColumns(table)
          .map((column) => String(row[column]))
          .join(':'),
        row,
      ] as const,
  );
  return [...new Map(keyed).values()];
}

/** Returns SQL: the child rows as a set named i, with their key and parent only. */
function makePlaceSet(table: ChildTable, families: readonly Family[]) {
  const types = placeTypes(table);
  return rowSet(
    types,
    collectRows(table, families).map((row) => pickColumns(types, row)),
  );
}

/** Lists the ids of the parents whose child rows in this table are complete. */
const listCompleteParents = (table: ChildTable, families: readonly Family[]) =>
  families
    .filter(({ children }) => children.some((set) => set.table === table.name && set.complete))
    .map(({ parent }) => parent.id);

/**
 * Returns SQL, appended to a query with `union all`: the stored parent of each child row that the reading brings for
 * another parent, and that other parent.
 */
export function selectMoves(client: string, child: ChildTable, families: readonly Family[]) {
  // If the parent is part of its key, a child row cannot move.
  if (keyColumns(child).includes(child.parentColumn)) return sql``;
  const rows = collectRows(child, families);
  const [ids, parents] = [rows.map(({ id }) => id), rows.map((row) => row[child.parentColumn])];
  const stored = sql.ref(`t.${child.parentColumn}`);
  return sql`
    union all
    select ${stored}, i.goes_to, null::bigint from ${rowsByIds(child, client, ids)}
    join unnest(${ids}::bigint[], ${parents}::bigint[]) as i (id, goes_to) on i.id = t.id
    where ${stored} <> i.goes_to`;
}

/**
 * Returns SQL, appended to a query with `union`: ids of parents whose child rows in this table differ from the stored.
 */
export function selectTouchedByChildren(
  client: string,
  compare: Comparison,
  child: ChildTable,
  families: readonly Family[],
) {
  const [stored, claimed] = [sql.ref(`t.${child.parentColumn}`), sql.ref(`i.${child.parentColumn}`)];
  const types = comparedTypes(child, compare);
  const rows = collectRows(child, families).map((row) => pickColumns(types, row));
  return sql`
    union
    select ${claimed} from ${rowSet(types, rows)}
    left join ${tableRef(child.name)} t on ${hasSameKey(child, client)}
    where t.client is null or ${differs(child, compare, 'i')}
    union
    select ${stored} from ${tableRef(child.name)} t
    where t.client = ${anyClient(client)} and ${stored} = any(${listCompleteParents(child, families)}::bigint[])
      and not exists (select from ${makePlaceSet(child, families)} where ${hasSameKey(child, client)})`;
}

/** Writes the child rows of these families that are new or differ. Returns the rows that it wrote. */
export async function writeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  families: readonly Family[],
): Promise<WrittenRow[]> {
  const rows = collectRows(table, families);
  if (rows.length === 0) return [];
  const [key, columns] = [keyColumns(table), Object.keys(columnTypes(table))];
  const assignments = columns
    .filter((column) => !key.includes(column))
    .map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`);
  if (key.includes('id')) assignments.push(sql`unlisted_since = null`);
  const written = await sql<WrittenRow>`
    insert into ${tableRef(table.name)} as t (client, ${columnRefs(columns)})
    select ${client}, ${columnRefs(columns, 'i')}
    from ${rowSet(columnTypes(table), rows)}
    order by ${columnRefs(key, 'i')}
    on conflict (client, ${columnRefs(key)}) do update set ${sql.join(assignments)}, changed_at = now()
      where ${differs(table, 'columns', 'excluded')}
    returning ${feedNames(table)}, xmax = 0 as created, true as changed`.execute(trx);
  return written.rows;
}

/** Deletes stored child rows that a complete reading of their parent no longer lists. Returns the deleted rows. */
export async function removeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  families: readonly Family[],
): Promise<Pick<WrittenRow, 'id' | 'key'>[]> {
  const complete = listCompleteParents(table, families);
  if (complete.length === 0) return [];
  const { rows: gone } = await sql<Pick<WrittenRow, 'id' | 'key'>>`
    delete from ${tableRef(table.name)} t
    where t.client = ${anyClient(client)} and ${sql.ref(`t.${table.parentColumn}`)} = any(${complete}::bigint[])
      and not exists (select from ${makePlaceSet(table, families)} where ${hasSameKey(table, client)})
    returning ${feedNames(table)}`.execute(trx);
  return gone;
}
