/**
 * Writes the mirror, and the feed of its changes. An unchanged row is not written, and an older
 * reading never overwrites a newer one.
 */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import type { Lease } from '../../schedule/sql/leases.ts';
import { otherReadersExist, waitingReadsExist } from '../../schedule/sql/ledger.ts';
import { anyErasure, maskErasedResources } from './erasures.ts';
import { type Change, selectBefore, toChange, type WrittenRow } from './feed.ts';
import {
  type ChildTable,
  type Comparison,
  columnRefs,
  comparedTypes,
  differs,
  feedNames,
  hasSameKey,
  type MirrorRow,
  type MirrorTable,
  type MirrorTables,
  overwriteColumns,
  pickTypes,
  type ResourceRows,
  returnedNames,
  rowSet,
  rowsWhere,
  tableRef,
  toFeedKey,
} from './mirror-tables.ts';
import {
  isConfirmedSince,
  type NumberedReading,
  readingSet,
  type StreamTransaction,
} from './stream-transaction.ts';

/** The parents of one write, by what became of them, and its feed changes. */
export interface UpsertResult {
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

/**
 * Writes only the resources that differ. A reading applies if its number is larger than that of the
 * stored parent, and no newer reading confirmed that parent. The parent decides for its child rows
 * too. Therefore a parent is also written if only its child rows changed: its `read_no` must be
 * that of the reading. Resources of erased orders are masked.
 */
export async function upsertResources(
  transaction: StreamTransaction,
  { readNo, compare, readNoAtRequest }: ReadingAge,
  tables: MirrorTables,
  read: readonly ResourceRows[],
): Promise<UpsertResult> {
  const { trx, client, stream } = transaction;
  const { stored, hasErasures } = await readStored(transaction, tables.parent, listIds(read));
  const masked = hasErasures ? await maskErasedResources(trx, client, tables, read) : read;
  const byId = findLastMentions(masked);
  const resources = [...byId.values()];

  const differing = await findDiffering(transaction, { compare, tables }, resources, stored);
  const isAgeUnclear = (id: number) =>
    (stored.get(id) ?? 0) > (readNoAtRequest?.get(id) ?? Number.POSITIVE_INFINITY);
  const written = resources.filter(({ parent: { id } }) => differing.has(id) && !isAgeUnclear(id));

  const isNewer = sql`t.read_no < excluded.read_no
        and not ${isConfirmedSince(client, stream, sql`excluded.read_no`, sql`t.id`)}`;
  const parents = await insertRows(
    transaction,
    tables.parent,
    written.map(({ parent }) => parent),
    { readNo: sql`coalesce(i.read_no, ${readNo})`, mayWrite: isNewer },
  );
  const accepted = new Set(parents.map(({ id }) => id));
  const applied = written.filter(({ parent }) => accepted.has(parent.id));
  const changes = parents
    .filter(({ changed }) => changed)
    .map((row) => toChange(tables.parent.name, row));
  for (const child of tables.children)
    for (const change of await writeChildren(
      transaction,
      { parent: tables.parent, child, readNo, stored },
      applied,
    ))
      changes.push(change);

  const findParents = (isNew: boolean) =>
    parents
      .filter(({ changedColumns }) => (changedColumns === null) === isNew)
      .map(({ id }) => id as number);
  return {
    unchanged: [...byId.keys()].filter((id) => !differing.has(id)),
    stale: [...differing].filter((id) => !accepted.has(id)),
    changes,
    inserted: findParents(true),
    changed: findParents(false),
  };
}

/** Returns the resources by id. A list may repeat a row: then the last one counts, in its place. */
function findLastMentions<Of extends ResourceRows>(resources: readonly Of[]): Map<number, Of> {
  const byId = new Map<number, Of>();
  for (const resource of resources) {
    byId.delete(resource.parent.id);
    byId.set(resource.parent.id, resource);
  }
  return byId;
}

/** A table of child rows that is written, and the numbers of the readings of the parents. */
interface ChildWrite {
  readonly parent: MirrorTable;
  readonly child: ChildTable;
  readonly readNo: number;
  /** The numbers of the stored parents, by id. */
  readonly stored: ReadonlyMap<number, number>;
}

/** A row that was written, with its parent now and before; null if it is new or has no parent. */
interface WrittenMirrorRow extends WrittenRow {
  /** False if only its number changed. */
  readonly changed: boolean;
  readonly parent: number | null;
  readonly formerParent: number | null;
}

/**
 * Writes the child rows of these resources in one table, and removes those that are no longer
 * listed.
 */
async function writeChildren(
  transaction: StreamTransaction,
  { parent, child, readNo, stored }: ChildWrite,
  resources: readonly ResourceRows[],
): Promise<Change[]> {
  const { parentColumn } = child;
  const before = selectBefore(tableRef(child.name), child.key, sql.ref(`f.${parentColumn}`));
  const parents = sql`${sql.ref(`t.${parentColumn}`)} as parent,
      case when xmax <> 0 then ${before} end as "formerParent"`;
  const mayWrite = isNewerThanFormerParent(parent, child);
  const rows = collectRows(child, resources);
  const written = await insertRows(transaction, child, rows, { parents, mayWrite });

  const readNos = new Map(resources.map(({ parent: { id, read_no } }) => [id, read_no ?? readNo]));
  const former = written.flatMap(({ parent: to, formerParent: id }) =>
    id === null || to === null || id === to ? [] : [{ id, readNo: readNos.get(to) ?? readNo }],
  );
  await raiseFormerParents(transaction, parent, former);

  // Only parents that were stored before can have child rows to remove.
  const storedBefore = resources.filter((resource) => stored.has(resource.parent.id));
  const removed = await removeChildren(transaction, child, storedBefore);
  return [...written.map((row) => toChange(child.name, row)), ...removed];
}

/**
 * SQL: false if the row t belongs to another parent by a later reading than that of the parent that
 * was just written.
 */
function isNewerThanFormerParent(parent: MirrorTable, { parentColumn }: ChildTable) {
  const readNo = (row: 't' | 'excluded') => sql`coalesce((
        select p.read_no
        from ${tableRef(parent.name)} p
        where p.client = t.client and p.id = ${sql.ref(`${row}.${parentColumn}`)}), 0)`;
  return sql`(${sql.ref(`t.${parentColumn}`)} = ${sql.ref(`excluded.${parentColumn}`)}
        or ${readNo('t')} <= ${readNo('excluded')})`;
}

/** Writes rows that are new or differ, whatever their age. Returns the changes for the feed. */
export async function writeRows(
  scope: Pick<StreamTransaction, 'trx' | 'client'>,
  table: MirrorTable,
  rows: readonly object[],
): Promise<Change[]> {
  const written = await insertRows(scope, table, rows);
  return written.map((row) => toChange(table.name, row));
}

/** How the rows of a table are written, as SQL. */
interface WriteRules {
  /** The columns for the number of a reading and its values; none if rows have no number. */
  readonly readNo?: RawBuilder<unknown>;
  /** Whether the stored row t may be overwritten. */
  readonly mayWrite?: RawBuilder<unknown>;
  /** For RETURNING: the parents of a row. */
  readonly parents?: RawBuilder<unknown>;
}

/** Writes rows that are new or differ. With numbers, also rows that only get a newer number. */
async function insertRows(
  { trx, client }: Pick<StreamTransaction, 'trx' | 'client'>,
  table: MirrorTable,
  rows: readonly object[],
  { readNo, mayWrite, parents }: WriteRules = {},
): Promise<WrittenMirrorRow[]> {
  if (rows.length === 0) return [];
  const columns = Object.keys(table.columns);
  const isNumbered = readNo !== undefined;
  const types = isNumbered ? { ...table.columns, read_no: 'bigint' } : table.columns;
  const isChanged = differs(table, 'columns', 'excluded');

  const written = await sql<WrittenMirrorRow>`
    insert into ${tableRef(table.name)} as t
      (client, ${isNumbered ? sql`read_no, ` : sql``}${columnRefs(columns)})
    select ${client}, ${isNumbered ? sql`${readNo}, ` : sql``}${columnRefs(columns, 'i')}
    from ${rowSet(types, rows)}
    order by ${columnRefs(table.key, 'i')}
    on conflict (client, ${columnRefs(table.key)}) do update
    set ${overwriteColumns(table)}, ${isNumbered ? sql`read_no = excluded.read_no, ` : sql``}
      changed_at = case when ${isChanged} then now() else t.changed_at end
      where ${isNumbered ? sql`true` : isChanged} and ${mayWrite ?? sql`true`}
    returning ${returnedNames(table)}, changed_at = now() as changed,
      ${parents ?? sql`null::bigint as parent, null::bigint as "formerParent"`}`.execute(trx);
  return written.rows;
}

/**
 * Raises the `read_no` of parents that lost a child row to another parent. Otherwise an older
 * reading of the former parent could bring the child row back.
 */
async function raiseFormerParents(
  { trx, client }: StreamTransaction,
  table: MirrorTable,
  former: readonly NumberedReading[],
): Promise<void> {
  if (former.length === 0) return;
  await sql`
    update ${tableRef(table.name)} t
    set read_no = f.read_no
    from (select i.id, max(i."readNo") as read_no from ${readingSet(former)} group by i.id) f
    where t.client = ${anyClient(client)} and t.id = f.id and t.read_no < f.read_no`.execute(trx);
}

/** What is stored before a write. */
interface StoredFacts {
  /** The ids of the stored parents, each with the number of its stored reading. */
  readonly stored: ReadonlyMap<number, number>;
  /** True if anything of the client was erased. */
  readonly hasErasures: boolean;
}

async function readStored(
  { trx, client }: StreamTransaction,
  parent: MirrorTable,
  ids: readonly number[],
): Promise<StoredFacts> {
  const { rows } = await sql<{ stored: [number, number][] | null; hasErasures: boolean }>`
    select json_agg(json_build_array(t.id, t.read_no)) as stored,
      ${anyErasure(client)} as "hasErasures"
    from ${tableRef(parent.name)} t
    where t.client = ${anyClient(client)} and t.id = ${anyId(ids)}`.execute(trx);
  const { stored = null, hasErasures = true } = rows[0] ?? {};
  return { stored: new Map(stored), hasErasures };
}

/** Returns the ids of the parents. */
export const listIds = (resources: readonly ResourceRows[]) =>
  resources.map(({ parent }) => parent.id);

/** Tables that are compared with a reading. */
interface ComparedTables {
  readonly compare: Comparison;
  readonly tables: MirrorTables;
}

/**
 * Finds the parents that are new here, differ, are unlisted, or have children that differ. Parents
 * that are not stored are not compared: in a first load these are most of them.
 */
async function findDiffering(
  { trx, client }: StreamTransaction,
  compared: ComparedTables,
  resources: readonly ResourceRows[],
  stored: ReadonlyMap<number, number>,
): Promise<ReadonlySet<number>> {
  const known = resources.filter(({ parent }) => stored.has(parent.id));
  const added = listIds(resources).filter((id) => !stored.has(id));
  if (known.length === 0) return new Set(added);

  const { rows } = await sql<{ id: number }>`
    select id
    from (${selectDiffering(client, compared, known)}) as differing`.execute(trx);
  return new Set([...added, ...rows.map(({ id }) => id)]);
}

/**
 * Returns SQL: ids of parents that are not stored, are unlisted, or differ in themselves or in
 * their child rows. Each stored row has one in the reading; the planner does not know that. It can
 * only hash or merge a full join, so it cannot compare each row with each other one.
 */
function selectDiffering(
  client: string,
  { compare, tables: { parent, children } }: ComparedTables,
  resources: readonly ResourceRows[],
) {
  const rows = resources.map((resource) => resource.parent);
  const byChildren = children.map((child) =>
    selectTouchedByChildren(client, compare, child, resources),
  );

  return sql`
    select i.id
    from ${rowSet(comparedTypes(parent, compare), rows)}
    full join ${rowsWhere(parent, client, 'id', listIds(resources))} on ${hasSameKey(parent)}
    where t.id is null or ${differs(parent, compare, 'i')}
    ${sql.join(byChildren, sql``)}`;
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
  resources: readonly ResourceRows[],
) {
  const { parentColumn } = child;
  const [stored, read] = [sql.ref(`t.${parentColumn}`), sql.ref(`i.${parentColumn}`)];
  const rows = rowSet(comparedTypes(child, compare), collectRows(child, resources));

  return sql`
    union
    select coalesce(${read}, ${stored})
    from ${rows}
    full join ${rowsWhere(child, client, parentColumn, listIds(resources))} on ${hasSameKey(child)}
    where case
      when t.client is null then true
      when ${read} is null then ${stored} = ${anyId(listCompleteParents(child, resources))}
      else ${differs(child, compare, 'i')}
    end`;
}

/** A reader of a stream, and how its readings are compared. */
interface StreamReader {
  readonly db: Kysely<DB>;
  readonly run: { readonly lease: Lease };
  readonly stream: { readonly name: string; readonly tables: MirrorTables };
  readonly compare: Comparison;
}

/**
 * Returns whether a reading may write anything: a row is new or differs, another reader is at work,
 * or a resource of the stream waits to be read or is in quarantine. If not, the reading need not
 * lock the stream: every later reader of the stream has a later reading.
 */
export async function mayWriteAnything(
  { db, run: { lease }, stream: { name, tables }, compare }: StreamReader,
  resources: readonly ResourceRows[],
): Promise<boolean> {
  const client = anyClient(lease.client);
  const { rows } = await sql<{ news: boolean }>`
    select ${otherReadersExist(client, lease.name, name)} or ${waitingReadsExist(client, name)}
      or exists (${selectDiffering(lease.client, { compare, tables }, resources)})
        as news`.execute(db);
  return rows[0]?.news ?? true;
}

/** Collects the child rows of a table. If two resources bring the same row, the last one counts. */
function collectRows(table: ChildTable, resources: readonly ResourceRows[]): MirrorRow[] {
  const sets = resources.flatMap(({ children }) =>
    children.filter((set) => set.table === table.name),
  );
  const rows = sets.flatMap((set) => set.rows);
  return [...new Map(rows.map((row) => [toFeedKey(table, row), row])).values()];
}

/** Lists the ids of the parents whose child rows in this table are complete, in every role. */
const listCompleteParents = ({ name }: ChildTable, resources: readonly ResourceRows[]) =>
  listIds(
    resources.filter(({ children }) => {
      const sets = children.filter(({ table }) => table === name);
      return sets.length > 0 && sets.every(({ complete }) => complete);
    }),
  );

/**
 * Deletes stored child rows that a complete reading of their parent no longer lists. The planner
 * cannot join NOT IN: it reads the set once and keeps it as a hash table. A join could compare each
 * stored row with each row of the reading.
 */
async function removeChildren(
  { trx, client }: StreamTransaction,
  table: ChildTable,
  resources: readonly ResourceRows[],
): Promise<Change[]> {
  const complete = listCompleteParents(table, resources);
  if (complete.length === 0) return [];
  const listed = rowSet(pickTypes(table, table.key), collectRows(table, resources));

  const { rows } = await sql<Pick<WrittenRow, 'id' | 'key'>>`
    delete from ${tableRef(table.name)} t
    where t.client = ${anyClient(client)}
      and ${sql.ref(`t.${table.parentColumn}`)} = any(${complete}::bigint[])
      and (${columnRefs(table.key, 't')}) not in (
        select ${columnRefs(table.key, 'i')} from ${listed})
    returning ${feedNames(table)}`.execute(trx);
  return rows.map(({ id, key }) => ({ entity: table.name, id, key, operation: 'removed' }));
}

/** Returns the ids of the parents that an upsert changed. */
export const findChangedIds = ({ parent }: MirrorTables, changes: readonly Change[]): number[] =>
  changes.filter(({ entity }) => entity === parent.name).map(({ id }) => id as number);
