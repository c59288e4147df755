import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import {
  type ChildTable,
  type Comparison,
  changedColumns,
  columnRefs,
  columnTypes,
  comparedTypes,
  differs,
  type Family,
  feedNames,
  hasSameKey,
  keyColumns,
  keyTypes,
  type MirrorRow,
  rowsWhere,
  tableRef,
  type WrittenRow,
} from './mirror-tables.ts';
import { rowSet } from './row-set.ts';

/** Collects the child rows of a table. If two families bring the same row, the last one counts. */
export function collectRows(table: ChildTable, families: readonly Family[]): MirrorRow[] {
  const [column, ...more] = keyColumns(table) as [string, ...string[]];
  const rows = new Map<unknown, MirrorRow>();
  for (const { children } of families)
    for (const set of children)
      if (set.table === table.name)
        for (const row of set.rows)
          rows.set(more.length === 0 ? row[column] : [column, ...more].map((name) => String(row[name])).join(':'), row);
  return [...rows.values()];
}

/**
 * Returns SQL: whether the stored child row t is not among those of the reading. The planner cannot join NOT IN: it
 * reads the set once and keeps it as a hash table. A join could compare each stored row with each row of the reading.
 */
function isAbsent(table: ChildTable, families: readonly Family[]) {
  const key = keyColumns(table);
  return sql`(${columnRefs(key, 't')}) not in (
        select ${columnRefs(key, 'i')}
        from ${rowSet(keyTypes(table), collectRows(table, families))})`;
}

/** Lists the ids of the parents whose child rows in this table are complete. */
const listCompleteParents = (table: ChildTable, families: readonly Family[]) =>
  families
    .filter(({ children }) => children.some((set) => set.table === table.name && set.complete))
    .map(({ parent }) => parent.id);

/** A parent that loses a child row to the parent `goesTo`. */
interface ChildMove {
  readonly id: number;
  readonly goesTo: number;
}

/** Finds the stored parents of child rows that these families bring for another parent. */
export async function findMoves(
  trx: Transaction<DB>,
  client: string,
  child: ChildTable,
  rows: readonly MirrorRow[],
): Promise<ChildMove[]> {
  // If the parent is part of its key, a child row cannot move.
  if (rows.length === 0 || keyColumns(child).includes(child.parentColumn)) return [];
  const { rows: stored } = await sql<{ id: number; parent: number }>`
    select t.id, ${sql.ref(`t.${child.parentColumn}`)} as parent
    from ${rowsWhere(
      child,
      client,
      'id',
      rows.map(({ id }) => id),
    )}`.execute(trx);
  const parents = new Map(rows.map((row) => [row.id, row[child.parentColumn] as number]));
  return stored
    .map(({ id, parent }) => ({ id: parent, goesTo: parents.get(id) ?? parent }))
    .filter(({ id, goesTo }) => id !== goesTo);
}

/**
 * Returns SQL, appended to a query with `union`: ids of parents whose child rows in this table differ from the stored.
 * A child row that is stored for a parent elsewhere counts as new. The planner can only hash or merge a full join.
 */
export function selectTouchedByChildren(
  client: string,
  compare: Comparison,
  child: ChildTable,
  families: readonly Family[],
) {
  const [stored, claimed] = [sql.ref(`t.${child.parentColumn}`), sql.ref(`i.${child.parentColumn}`)];
  const rows = rowSet(comparedTypes(child, compare), collectRows(child, families));
  const parents = families.map(({ parent }) => parent.id);
  return sql`
    union
    select coalesce(${claimed}, ${stored})
    from ${rows}
    full join ${rowsWhere(child, client, child.parentColumn, parents)} on ${hasSameKey(child)}
    where case
      when t.client is null then true
      when ${claimed} is null then ${stored} = any(${listCompleteParents(child, families)}::bigint[])
      else ${differs(child, compare, 'i')}
    end`;
}

/** Inserts those of these child rows that are not stored at all. Returns the rows that it wrote. */
export async function insertNewChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  rows: readonly MirrorRow[],
): Promise<WrittenRow[]> {
  if (rows.length === 0) return [];
  const columns = Object.keys(columnTypes(table));
  const written = await sql<WrittenRow>`
    insert into ${tableRef(table.name)} as t (client, ${columnRefs(columns)})
    select ${client}, ${columnRefs(columns, 'i')}
    from ${rowSet(columnTypes(table), rows)}
    order by ${columnRefs(keyColumns(table), 'i')}
    on conflict (client, ${columnRefs(keyColumns(table))}) do nothing
    returning ${feedNames(table)}, null::text[] as "changedColumns"`.execute(trx);
  return written.rows;
}

/** Writes those of these child rows that are new or differ. Returns the rows that it wrote. */
export async function writeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  rows: readonly MirrorRow[],
): Promise<WrittenRow[]> {
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
    returning ${feedNames(table)}, ${changedColumns(table)}`.execute(trx);
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
      and ${isAbsent(table, families)}
    returning ${feedNames(table)}`.execute(trx);
  return gone;
}
