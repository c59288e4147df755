/**
 * Writes the mirror, and the feed of its changes. An unchanged row is not written, and an older
 * reading never overwrites a newer one.
 */

import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { Lease } from '../../schedule/sql/leases.ts';
import { maskErasedFamilies } from './erasures.ts';
import { type Change, toChange } from './feed.ts';
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
  type MirrorTable,
  type MirrorTables,
  rowSet,
  rowsWhere,
  tableRef,
  toFeedKey,
  type WrittenRow,
} from './mirror-tables.ts';
import {
  isConfirmedSince,
  mayWaitFor,
  type NumberedReading,
  otherReadersExist,
  type StreamTransaction,
} from './stream-transaction.ts';

/** The counts, ids and feed changes of one write. */
export interface UpsertResult {
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  /**
   * Ids of parents whose reading was not applied, because it is older than the stored row or its
   * age is unclear.
   */
  readonly stale: readonly number[];
  readonly changes: readonly Change[];
  /** Ids of parents that were equal to the reading, with all their child rows. */
  readonly unchanged: readonly number[];
  /** Ids of parents that were not stored before. */
  readonly inserted: readonly number[];
  /** Ids of stored parents that differed, or whose child rows did. */
  readonly changed: readonly number[];
}

const nothingWritten = {
  created: 0,
  updated: 0,
  removed: 0,
  changes: [],
  inserted: [],
  changed: [],
};

/**
 * Writes only the families that differ. A reading applies if its number is larger than that of the
 * stored parent, and no newer reading confirmed that parent. The parent decides for its child rows
 * too. Therefore a parent is also written if only its child rows changed: its `read_no` must be
 * that of the reading. Families of erased orders are masked.
 */
export async function upsertFamilies(
  transaction: StreamTransaction,
  reading: ReadingAge,
  tables: MirrorTables,
  read: readonly Family[],
): Promise<UpsertResult> {
  const { trx, client } = transaction;
  const families = await maskErasedFamilies(trx, client, tables, read);
  // A list may repeat a row. Within one page the last one counts.
  const byId = new Map(families.map((family) => [family.parent.id, family]));
  const { stored, ids: touchedIds } = await findTouched(transaction, reading.compare, tables, [
    ...byId.values(),
  ]);
  const isAgeUnclear = (id: number) =>
    (stored.get(id) ?? 0) > (reading.readNoAtRequest?.get(id) ?? Number.POSITIVE_INFINITY);
  const unclearIds = [...touchedIds].filter(isAgeUnclear);
  const touched = [...byId.values()].filter(
    ({ parent: { id } }) => touchedIds.has(id) && !isAgeUnclear(id),
  );
  const unchanged = [...byId.keys()].filter((id) => !touchedIds.has(id));
  if (touched.length === 0) return { ...nothingWritten, stale: unclearIds, unchanged };

  const parents = await writeParents(transaction, reading.readNo, tables.parent, touched);
  const accepted = new Set(parents.map(({ id }) => id));
  const applied = touched.filter(({ parent }) => accepted.has(parent.id));
  const changes = parents
    .filter(({ changed }) => changed)
    .map((row) => toChange(tables.parent.name, row));
  for (const child of tables.children) {
    const age = { readNo: reading.readNo, stored };
    const written = await writeFamilyChildren(
      transaction,
      { parent: tables.parent, child },
      applied,
      age,
    );
    for (const change of written) changes.push(change);
    // Only parents that were stored before can have child rows to remove.
    const storedBefore = applied.filter(({ parent }) => stored.has(parent.id));
    const gone = await removeChildren(trx, client, child, storedBefore);
    for (const { id, key } of gone)
      changes.push({ entity: child.name, id, key, operation: 'removed' });
  }
  const countChanges = (operation: Change['operation']) =>
    changes.filter((change) => change.operation === operation).length;
  return {
    created: countChanges('created'),
    updated: countChanges('updated'),
    removed: countChanges('removed'),
    unchanged,
    stale: [
      ...unclearIds,
      ...touched.map(({ parent }) => parent.id).filter((id) => !accepted.has(id)),
    ],
    changes,
    inserted: parents.filter((row) => row.changedColumns === null).map(({ id }) => id as number),
    changed: parents.filter((row) => row.changedColumns !== null).map(({ id }) => id as number),
  };
}

/**
 * Writes the child rows of these families in one table. Rows of a parent that was not stored are
 * usually new, so they are inserted without a look at the table. Only the others, and those that
 * are stored nevertheless, may have moved.
 * @param age number of the reading, and those of the stored parents by id
 */
async function writeFamilyChildren(
  transaction: StreamTransaction,
  { parent, child }: { readonly parent: MirrorTable; readonly child: ChildTable },
  families: readonly Family[],
  { readNo, stored }: { readonly readNo: number; readonly stored: ReadonlyMap<number, number> },
): Promise<Change[]> {
  const { trx, client } = transaction;
  const rows = collectRows(child, families);
  const isNew = (row: MirrorRow) => !stored.has(row[child.parentColumn] as number);
  const inserted = await insertChildren(transaction, child, rows.filter(isNew), sql`do nothing`);
  const insertedKeys = new Set(inserted.map(({ id, key }) => key ?? id));
  const others = rows.filter((row) => !isNew(row) || !insertedKeys.has(toFeedKey(child, row)));
  const moves = await findMoves(trx, client, child, others);
  const readNos = new Map(families.map(({ parent: { id, read_no } }) => [id, read_no ?? readNo]));
  const former = moves.map(({ id, goesTo }) => ({ id, readNo: readNos.get(goesTo) ?? readNo }));
  await raiseFormerParents(transaction, parent, former);
  const written = await insertChildren(transaction, child, others, overwrite(child));
  return [...inserted, ...written].map((row) => toChange(child.name, row));
}

/**
 * Raises the `read_no` of parents that lost a child row to another parent. Otherwise an older
 * reading of the former parent could bring the child row back.
 */
async function raiseFormerParents(
  { trx, client }: Pick<StreamTransaction, 'trx' | 'client'>,
  table: MirrorTable,
  former: readonly NumberedReading[],
): Promise<void> {
  if (former.length === 0) return;
  const [ids, readNos] = [former.map(({ id }) => id), former.map(({ readNo }) => readNo)];
  await sql`
    update ${tableRef(table.name)} t
    set read_no = f.read_no
    from (select id, max(read_no) as read_no
      from unnest(${ids}::bigint[], ${readNos}::bigint[]) as u (id, read_no)
      group by id) f
    where t.client = ${anyClient(client)} and t.id = f.id and t.read_no < f.read_no`.execute(trx);
}

/**
 * Writes the parents whose reading is newer than the stored row. Returns the rows that it wrote.
 */
async function writeParents(
  { trx, client, stream }: StreamTransaction,
  readNo: number,
  table: MirrorTable,
  families: readonly Family[],
): Promise<(WrittenRow & { readonly changed: boolean })[]> {
  const columns = Object.keys(columnTypes(table)).filter((column) => column !== 'id');
  const derived = table.derived ?? {};
  const assignments = columns.map((column) => {
    const [target, read] = [sql.ref(column), sql.ref(`excluded.${column}`)];
    const dependsOn = derived[column]?.dependsOn;
    if (dependsOn === undefined) return sql`${target} = ${read}`;
    const same = sql`t.${sql.ref(dependsOn)} is not distinct from excluded.${sql.ref(dependsOn)}`;
    return sql`${target} = coalesce(${read}, case when ${same} then t.${target} end)`;
  });
  const { rows } = await sql<WrittenRow & { readonly changed: boolean }>`
    insert into ${tableRef(table.name)} as t (client, id, read_no, ${columnRefs(columns)})
    select ${client}, i.id, coalesce(i.read_no, ${readNo}), ${columnRefs(columns, 'i')}
    from ${rowSet(
      { ...columnTypes(table), read_no: 'bigint' },
      families.map(({ parent }) => parent),
    )}
    order by i.id
    on conflict (client, id) do update set ${sql.join(assignments)}, read_no = excluded.read_no,
      unlisted_since = null,
      changed_at = case when t.unlisted_since is not null
        or ${differs(table, 'columns', 'excluded')}
        then now() else t.changed_at end
      where t.read_no < excluded.read_no
        and not ${isConfirmedSince(client, stream, sql`excluded.read_no`, sql`t.id`)}
    returning ${feedNames(table)}, ${changedColumns(table)}, changed_at = now() as changed`.execute(
    trx,
  );
  return rows;
}

/** The age of a reading, and how it is compared. */
export interface ReadingAge {
  /**
   * The number drawn before the request was sent; of several requests, the smallest. A parent that
   * was read by another request brings that request's number as `read_no`.
   */
  readonly readNo: number;
  readonly compare: Comparison;
  /**
   * For readings whose number was drawn after their answer: by id, the number that was drawn before
   * their request. If the number of the stored row lies between the two, we cannot know which is
   * newer. The reading is then not applied.
   */
  readonly readNoAtRequest?: ReadonlyMap<number, number>;
}

/** The stored parents of a reading, and the parents that it changes. */
interface TouchedParents {
  /** Ids of stored parents, each with the number of its stored reading. */
  readonly stored: ReadonlyMap<number, number>;
  /** Ids of parents that are new here, differ, were unlisted, or have children that differ. */
  readonly ids: ReadonlySet<number>;
}

/**
 * Finds the parents that a reading touches. Parents that are not stored are not compared: in a
 * first load these are most of them.
 */
async function findTouched(
  { trx, client }: StreamTransaction,
  compare: Comparison,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<TouchedParents> {
  const ids = families.map(({ parent }) => parent.id);
  const { rows } = await sql<{ id: number; readNo: number }>`
    select t.id, t.read_no as "readNo"
    from ${tableRef(tables.parent.name)} t
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])`.execute(trx);
  const stored = new Map(rows.map(({ id, readNo }) => [id, readNo]));
  const known = families.filter(({ parent }) => stored.has(parent.id));
  const added = ids.filter((id) => !stored.has(id));
  if (known.length === 0) return { stored, ids: new Set(added) };
  const { rows: differing } = await sql<{ id: number }>`
    select id
    from (${selectDiffering(client, compare, tables, known)}) as differing`.execute(trx);
  return { stored, ids: new Set([...added, ...differing.map(({ id }) => id)]) };
}

/**
 * Returns SQL: ids of parents that are not stored, are unlisted, or differ in themselves or in
 * their child rows. Each stored row has one in the reading; the planner does not know that. It can
 * only hash or merge a full join, so it cannot compare each row with each other one.
 */
function selectDiffering(
  client: string,
  compare: Comparison,
  tables: MirrorTables,
  families: readonly Family[],
) {
  const types = comparedTypes(tables.parent, compare);
  const parents = families.map(({ parent }) => parent);
  const byChildren = tables.children.map((child) =>
    selectTouchedByChildren(client, compare, child, families),
  );
  return sql`
    select i.id
    from ${rowSet(types, parents)}
    full join ${rowsWhere(
      tables.parent,
      client,
      'id',
      families.map(({ parent }) => parent.id),
    )} on ${hasSameKey(tables.parent)}
    where case
      when t.id is null then true
      else t.unlisted_since is not null or ${differs(tables.parent, compare, 'i')}
    end
    ${sql.join(byChildren, sql``)}`;
}

/** Who asks about a reading, and how it is compared. */
interface ReadingQuestion {
  readonly lease: Lease;
  readonly stream: string;
  readonly compare: Comparison;
}

/**
 * Returns whether a reading may write anything: a row is new or differs, another reader is at work,
 * or a resource of the stream waits to be read or is in quarantine. If not, the reading need not
 * lock the stream: every later reader of the stream has a later reading.
 */
export async function mayWriteAnything(
  db: Kysely<DB>,
  { lease, stream, compare }: ReadingQuestion,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<boolean> {
  const { rows } = await sql<{ news: boolean }>`
    select ${otherReadersExist(lease, stream)} or ${mayWaitFor(lease.client, stream)}
      or exists (${selectDiffering(lease.client, compare, tables, families)}) as news`.execute(db);
  return rows[0]?.news ?? true;
}

/** Collects the child rows of a table. If two families bring the same row, the last one counts. */
function collectRows(table: ChildTable, families: readonly Family[]): MirrorRow[] {
  const sets = families.flatMap(({ children }) =>
    children.filter((set) => set.table === table.name),
  );
  const rows = sets.flatMap((set) => set.rows);
  return [...new Map(rows.map((row) => [toFeedKey(table, row), row])).values()];
}

/**
 * Returns SQL: whether the stored child row t is not among those of the reading. The planner cannot
 * join NOT IN: it reads the set once and keeps it as a hash table. A join could compare each stored
 * row with each row of the reading.
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
async function findMoves(
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
 * Returns SQL, appended to a query with `union`: ids of parents whose child rows in this table
 * differ from the stored. A child row that is stored for a parent elsewhere counts as new. The
 * planner can only hash or merge a full join.
 */
function selectTouchedByChildren(
  client: string,
  compare: Comparison,
  child: ChildTable,
  families: readonly Family[],
) {
  const [stored, claimed] = [
    sql.ref(`t.${child.parentColumn}`),
    sql.ref(`i.${child.parentColumn}`),
  ];
  const rows = rowSet(comparedTypes(child, compare), collectRows(child, families));
  const parents = families.map(({ parent }) => parent.id);
  return sql`
    union
    select coalesce(${claimed}, ${stored})
    from ${rows}
    full join ${rowsWhere(child, client, child.parentColumn, parents)} on ${hasSameKey(child)}
    where case
      when t.client is null then true
      when ${claimed} is null
        then ${stored} = any(${listCompleteParents(child, families)}::bigint[])
      else ${differs(child, compare, 'i')}
    end`;
}

/**
 * Inserts child rows, and returns the rows that it wrote.
 * @param onConflict what happens with those that are stored
 */
async function insertChildren(
  { trx, client }: Pick<StreamTransaction, 'trx' | 'client'>,
  table: ChildTable,
  rows: readonly MirrorRow[],
  onConflict: RawBuilder<unknown>,
): Promise<WrittenRow[]> {
  if (rows.length === 0) return [];
  const [key, columns] = [keyColumns(table), Object.keys(columnTypes(table))];
  const written = await sql<WrittenRow>`
    insert into ${tableRef(table.name)} as t (client, ${columnRefs(columns)})
    select ${client}, ${columnRefs(columns, 'i')}
    from ${rowSet(columnTypes(table), rows)}
    order by ${columnRefs(key, 'i')}
    on conflict (client, ${columnRefs(key)}) ${onConflict}
    returning ${feedNames(table)}, ${changedColumns(table)}`.execute(trx);
  return written.rows;
}

/** Returns SQL: overwrites stored child rows that differ. */
function overwrite(table: ChildTable) {
  const key = keyColumns(table);
  const assignments = Object.keys(columnTypes(table))
    .filter((column) => !key.includes(column))
    .map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`);
  if (key.includes('id')) assignments.push(sql`unlisted_since = null`);
  return sql`do update set ${sql.join(assignments)}, changed_at = now()
      where ${differs(table, 'columns', 'excluded')}`;
}

/**
 * Deletes stored child rows that a complete reading of their parent no longer lists. Returns the
 * deleted rows.
 */
async function removeChildren(
  trx: Transaction<DB>,
  client: string,
  table: ChildTable,
  families: readonly Family[],
): Promise<Pick<WrittenRow, 'id' | 'key'>[]> {
  const complete = listCompleteParents(table, families);
  if (complete.length === 0) return [];
  const { rows: gone } = await sql<Pick<WrittenRow, 'id' | 'key'>>`
    delete from ${tableRef(table.name)} t
    where t.client = ${anyClient(client)}
      and ${sql.ref(`t.${table.parentColumn}`)} = any(${complete}::bigint[])
      and ${isAbsent(table, families)}
    returning ${feedNames(table)}`.execute(trx);
  return gone;
}
