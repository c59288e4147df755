import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import {
  type ChildTable,
  type Comparison,
  columnRefs,
  comparedTypes,
  differs,
  type Family,
  feedNames,
  keyOf,
  type MirrorRow,
  only,
  placeTypes,
  rowSet,
  rowsByIds,
  sameKey,
  tableRef,
  typesOf,
  type Written,
} from './tables.ts';

/** A line that two families claim is one row: the last mention counts. */
function rowsFor(table: ChildTable, families: readonly Family[]): MirrorRow[] {
  const rows = families
    .flatMap(({ children }) => children.filter((set) => set.table === table.name))
    .flatMap((set) => set.rows);
  const keyed = rows.map(
    (row) =>
      [
        keyOf(table)
          .map((column) => String(row[column]))
          .join(':'),
        row,
      ] as const,
  );
  return [...new Map(keyed).values()];
}

/** The lines as a set named i, with no more than tells where they belong. */
function placesOf(table: ChildTable, families: readonly Family[]) {
  const types = placeTypes(table);
  return rowSet(
    types,
    rowsFor(table, families).map((row) => only(types, row)),
  );
}

/** Ids of the parents whose lines in this table are all there are. */
const completeFor = (table: ChildTable, families: readonly Family[]) =>
  families
    .filter(({ children }) => children.some((set) => set.table === table.name && set.complete))
    .map(({ parent }) => parent.id);

/** SQL, to be joined to a query by union all: parents that lines are stored for so far, each with the parent it goes to. */
export function movedFrom(client: string, child: ChildTable, families: readonly Family[]) {
  // Where the parent is part of its key a line cannot move.
  if (keyOf(child).includes(child.parentColumn)) return sql``;
  const rows = rowsFor(child, families);
  const [ids, parents] = [rows.map(({ id }) => id), rows.map((row) => row[child.parentColumn])];
  const stored = sql.ref(`t.${child.parentColumn}`);
  return sql`
    union all
    select ${stored}, i.goes_to, null::bigint from ${rowsByIds(child, client, ids)}
    join unnest(${ids}::bigint[], ${parents}::bigint[]) as i (id, goes_to) on i.id = t.id
    where ${stored} <> i.goes_to`;
}

/** SQL, to be joined to a query by union: ids of parents whose lines in this table differ from those stored. */
export function touchedByChildren(client: string, compare: Comparison, child: ChildTable, families: readonly Family[]) {
  const [stored, claimed] = [sql.ref(`t.${child.parentColumn}`), sql.ref(`i.${child.parentColumn}`)];
  const types = comparedTypes(child, compare);
  const rows = rowsFor(child, families).map((row) => only(types, row));
  return sql`
    union
    select ${claimed} from ${rowSet(types, rows)}
    left join ${tableRef(child.name)} t on ${sameKey(child, client)}
    where t.client is null or ${differs(child, compare, 'i')}
    union
    select ${stored} from ${tableRef(child.name)} t
    where t.client = ${anyClient(client)} and ${stored} = any(${completeFor(child, families)}::bigint[])
      and not exists (select from ${placesOf(child, families)} where ${sameKey(child, client)})`;
}

/** Writes the lines of these families that are new or differ. */
export async function writeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  families: readonly Family[],
): Promise<Written[]> {
  const rows = rowsFor(table, families);
  if (rows.length === 0) return [];
  const [key, columns] = [keyOf(table), Object.keys(typesOf(table))];
  const assignments = columns
    .filter((column) => !key.includes(column))
    .map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`);
  if (key.includes('id')) assignments.push(sql`unlisted_since = null`);
  const written = await sql<Written>`
    insert into ${tableRef(table.name)} as t (client, ${columnRefs(columns)})
    select ${client}, ${columnRefs(columns, 'i')}
    from ${rowSet(typesOf(table), rows)}
    order by ${columnRefs(key, 'i')}
    on conflict (client, ${columnRefs(key)}) do update set ${sql.join(assignments)}, changed_at = now()
      where ${differs(table, 'columns', 'excluded')}
    returning ${feedNames(table)}, xmax = 0 as created, true as changed`.execute(trx);
  return written.rows;
}

/** Deletes stored children that a complete reading of their parent no longer lists. */
export async function removeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  families: readonly Family[],
): Promise<Pick<Written, 'id' | 'key'>[]> {
  const complete = completeFor(table, families);
  if (complete.length === 0) return [];
  const { rows: gone } = await sql<Pick<Written, 'id' | 'key'>>`
    delete from ${tableRef(table.name)} t
    where t.client = ${anyClient(client)} and ${sql.ref(`t.${table.parentColumn}`)} = any(${complete}::bigint[])
      and not exists (select from ${placesOf(table, families)} where ${sameKey(table, client)})
    returning ${feedNames(table)}`.execute(trx);
  return gone;
}
