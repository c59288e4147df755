/**
 * The mirror, and the feed of its changes. An unchanged row is not written, and an older reading never overwrites a
 * newer one.
 */

import { sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import { isConfirmedSince, type NumberedReading } from '../runs/confirmations.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';
import { collectRows, findMoves, insertNewChildren, removeChildren, writeChildren } from './children.ts';
import { findTouched, type ReadingAge } from './differences.ts';
import { maskErasedFamilies } from './erasures.ts';
import { type Change, toChange } from './feed.ts';
import {
  type ChildTable,
  changedColumns,
  columnRefs,
  columnTypes,
  differs,
  type Family,
  feedNames,
  type MirrorRow,
  type MirrorTable,
  type MirrorTables,
  tableRef,
  toFeedKey,
  type WrittenRow,
} from './mirror-tables.ts';
import { rowSet } from './row-set.ts';

/** The counts, ids and feed changes of one write. */
export interface UpsertResult {
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  /** Ids of parents whose reading was not applied, because it is older than the stored row or its age is unclear. */
  readonly stale: readonly number[];
  readonly changes: readonly Change[];
  /** Ids of parents that were equal to the reading, with all their child rows. */
  readonly unchanged: readonly number[];
  /** Ids of parents that were not stored before. */
  readonly inserted: readonly number[];
  /** Ids of stored parents that differed, or whose child rows did. */
  readonly changed: readonly number[];
}

const nothingWritten = { created: 0, updated: 0, removed: 0, changes: [], inserted: [], changed: [] };

/**
 * Writes only the families that differ. A reading applies if its number is larger than that of the stored parent, and
 * no newer reading confirmed that parent. The parent decides for its child rows too. Therefore a parent is also written
 * if only its child rows changed: its `read_no` must be that of the reading. Families of erased orders are masked.
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
  const { stored, ids: touchedIds } = await findTouched(transaction, reading.compare, tables, [...byId.values()]);
  const isAgeUnclear = (id: number) =>
    (stored.get(id) ?? 0) > (reading.readNoAtRequest?.get(id) ?? Number.POSITIVE_INFINITY);
  const unclearIds = [...touchedIds].filter(isAgeUnclear);
  const touched = [...byId.values()].filter(({ parent: { id } }) => touchedIds.has(id) && !isAgeUnclear(id));
  const unchanged = [...byId.keys()].filter((id) => !touchedIds.has(id));
  if (touched.length === 0) return { ...nothingWritten, stale: unclearIds, unchanged };

  const parents = await writeParents(transaction, reading.readNo, tables.parent, touched);
  const accepted = new Set(parents.map(({ id }) => id));
  const applied = touched.filter(({ parent }) => accepted.has(parent.id));
  const changes = parents.filter(({ changed }) => changed).map((row) => toChange(tables.parent.name, row));
  for (const child of tables.children) {
    changes.push(...(await writeFamilyChildren(transaction, reading.readNo, tables.parent, child, applied, stored)));
    // Only parents that were stored before can have child rows to remove.
    const storedBefore = applied.filter(({ parent }) => stored.has(parent.id));
    const gone = await removeChildren(trx, client, child, storedBefore);
    changes.push(...gone.map(({ id, key }) => ({ entity: child.name, id, key, operation: 'removed' as const })));
  }
  const countChanges = (operation: Change['operation']) =>
    changes.filter((change) => change.operation === operation).length;
  return {
    created: countChanges('created'),
    updated: countChanges('updated'),
    removed: countChanges('removed'),
    unchanged,
    stale: [...unclearIds, ...touched.map(({ parent }) => parent.id).filter((id) => !accepted.has(id))],
    changes,
    inserted: parents.filter((row) => row.changedColumns === null).map(({ id }) => id as number),
    changed: parents.filter((row) => row.changedColumns !== null).map(({ id }) => id as number),
  };
}

/**
 * Writes the child rows of these families in one table. Rows of a parent that was not stored are usually new, so they
 * are inserted without a look at the table. Only the others, and those that are stored nevertheless, may have moved.
 */
async function writeFamilyChildren(
  { trx, client }: StreamTransaction,
  readNo: number,
  parent: MirrorTable,
  child: ChildTable,
  families: readonly Family[],
  stored: ReadonlyMap<number, number>,
): Promise<Change[]> {
  const rows = collectRows(child, families);
  const isNew = (row: MirrorRow) => !stored.has(row[child.parentColumn] as number);
  const inserted = await insertNewChildren(trx, client, child, rows.filter(isNew));
  const insertedKeys = new Set(inserted.map(({ id, key }) => key ?? id));
  const others = rows.filter((row) => !isNew(row) || !insertedKeys.has(toFeedKey(child, row)));
  const moves = await findMoves(trx, client, child, others);
  const readNos = new Map(families.map(({ parent: { id, read_no } }) => [id, read_no ?? readNo]));
  const former = moves.map(({ id, goesTo }) => ({ id, readNo: readNos.get(goesTo) ?? readNo }));
  await raiseFormerParents({ trx, client }, parent, former);
  const written = await writeChildren(trx, client, child, others);
  return [...inserted, ...written].map((row) => toChange(child.name, row));
}

/**
 * Raises the `read_no` of parents that lost a child row to another parent. Otherwise an older reading of the former
 * parent could bring the child row back.
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
    from (select id, max(read_no) as read_no from unnest(${ids}::bigint[], ${readNos}::bigint[]) as u (id, read_no)
      group by id) f
    where t.client = ${anyClient(client)} and t.id = f.id and t.read_no < f.read_no`.execute(trx);
}

/** Writes the parents whose reading is newer than the stored row. Returns the rows that it wrote. */
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
    on conflict (client, id) do update set ${sql.join(assignments)}, read_no = excluded.read_no, unlisted_since = null,
      changed_at = case when t.unlisted_since is not null or ${differs(table, 'columns', 'excluded')}
        then now() else t.changed_at end
      where t.read_no < excluded.read_no and not ${isConfirmedSince(client, stream, sql`excluded.read_no`, sql`t.id`)}
    returning ${feedNames(table)}, ${changedColumns(table)}, changed_at = now() as changed`.execute(trx);
  return rows;
}
