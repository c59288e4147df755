/**
 * The tables that mirror the service, and the feed of their changes. An unchanged row is not written, and an older
 * reading never overwrites a newer one.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { confirmedSince, othersAtWork, type ReadAs, somethingWaits } from '../runs/confirmations.ts';
import type { Lease } from '../runs/leases.ts';
import { movedFrom, removeChildren, touchedByChildren, writeChildren } from './children.ts';
import type { Change } from './feed.ts';
import {
  type Comparison,
  columnRefs,
  comparedTypes,
  differs,
  type Family,
  feedNames,
  type MirrorTable,
  type MirrorTables,
  only,
  rowSet,
  rowsByIds,
  sameKey,
  tableRef,
  typesOf,
  type Written,
} from './tables.ts';

/** Whose reading it is, and how old. */
export interface ReadingScope {
  readonly client: string;
  readonly stream: string;
  /** Drawn before the request was sent. Of several requests the oldest; a parent may bring its own as `read_no`. */
  readonly readNo: number;
  readonly compare: Comparison;
  /**
   * Of readings whose number was drawn after their answer: by id, the number that was drawn before they asked. Where what
   * is stored comes from between the two, it cannot be known which is newer, and the reading is not applied.
   */
  readonly askedBy?: ReadonlyMap<number, number>;
}

export interface UpsertResult {
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  /** Parents whose reading was not applied, because a newer one was there already. It differs from what is stored. */
  readonly stale: readonly number[];
  readonly changes: readonly Change[];
  /** Parents that were as they are, with all their children. */
  readonly unchanged: readonly number[];
  /** Parents that were new here. */
  readonly inserted: readonly number[];
  /** Parents that were here and differed, or whose children did. */
  readonly changed: readonly number[];
}

const nothingWritten = { created: 0, updated: 0, removed: 0, changes: [], inserted: [], changed: [] };

/**
 * Writes what differs and nothing else. A reading applies where its `readNo` is larger than the stored row's, and no
 * newer reading confirmed that row; decided at the parent for its children too. A parent of changed children is written
 * as well, so that this can be told.
 */
export async function upsertFamilies(
  trx: Transaction<DB>,
  scope: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<UpsertResult> {
  // A list may repeat a row; of one page the last mention counts.
  const byId = new Map(families.map((family) => [family.parent.id, family]));
  const { stored, ids: touchedIds, moves } = await findTouched(trx, scope, tables, [...byId.values()]);
  const isBetween = (id: number) => (stored.get(id) ?? 0) > (scope.askedBy?.get(id) ?? Number.POSITIVE_INFINITY);
  const between = [...touchedIds].filter(isBetween);
  const touched = [...byId.values()].filter(({ parent: { id } }) => touchedIds.has(id) && !isBetween(id));
  const unchanged = [...byId.keys()].filter((id) => !touchedIds.has(id));
  if (touched.length === 0) return { ...nothingWritten, stale: between, unchanged };

  const parents = await writeParents(trx, scope, tables.parent, touched);
  const accepted = new Set(parents.map(({ id }) => id));
  const applied = touched.filter(({ parent }) => accepted.has(parent.id));
  await touchFormerParents(
    trx,
    scope,
    tables.parent,
    moves
      .filter(({ goesTo }) => accepted.has(goesTo))
      .map(({ id, goesTo }) => ({ id, readNo: byId.get(goesTo)?.parent.read_no ?? scope.readNo })),
  );
  const changes = parents.filter(({ changed }) => changed).map(changeOf(tables.parent.name));
  for (const child of tables.children) {
    changes.push(...(await writeChildren(trx, scope.client, child, applied)).map(changeOf(child.name)));
    // What was not stored has none to lose.
    const here = applied.filter(({ parent }) => stored.has(parent.id));
    const gone = await removeChildren(trx, scope.client, child, here);
    changes.push(...gone.map(({ id, key }) => ({ entity: child.name, id, key, operation: 'removed' as const })));
  }
  const counted = (operation: Change['operation']) => changes.filter((change) => change.operation === operation).length;
  return {
    created: counted('created'),
    updated: counted('updated'),
    removed: counted('removed'),
    unchanged,
    stale: [...between, ...touched.map(({ parent }) => parent.id).filter((id) => !accepted.has(id))],
    changes,
    inserted: parents.filter(({ created }) => created).map(({ id }) => id as number),
    changed: parents.filter(({ created }) => !created).map(({ id }) => id as number),
  };
}

const changeOf =
  (entity: string) =>
  ({ id, key, created }: Written): Change => ({ entity, id, key, operation: created ? 'created' : 'updated' });

/** What a reading touches. */
interface Touched {
  /** Parents that are stored, each with the number of the reading it comes from. */
  readonly stored: ReadonlyMap<number, number>;
  /** Ids of parents that are new here, differ, were unlisted, or have children that differ. */
  readonly ids: ReadonlySet<number>;
  /** Parents that are stored for a line which goes to another. */
  readonly moves: readonly { readonly id: number; readonly goesTo: number }[];
}

/** Finds what a reading touches. What is not stored at all needs no comparing, which is most of the work of a first load. */
async function findTouched(
  trx: Transaction<DB>,
  { client, compare }: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<Touched> {
  const ids = families.map(({ parent }) => parent.id);
  const { rows } = await sql<{ id: number; goesTo: number | null; readNo: number | null }>`
    select t.id, null::bigint as "goesTo", t.read_no as "readNo" from ${tableRef(tables.parent.name)} t
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])
    ${sql.join(
      tables.children.map((child) => movedFrom(client, child, families)),
      sql``,
    )}`.execute(trx);
  const stored = new Map(rows.flatMap(({ id, goesTo, readNo }) => (goesTo === null ? [[id, readNo ?? 0]] : [])));
  const moves = rows.flatMap(({ id, goesTo }) => (goesTo === null ? [] : [{ id, goesTo }]));
  const known = families.filter(({ parent }) => stored.has(parent.id));
  const differing = await findDiffering(trx, { client, compare }, tables, known);
  return { stored, ids: new Set([...ids.filter((id) => !stored.has(id)), ...differing]), moves };
}

/** Of families whose parents are stored, those that differ from what is: in the parent, or in what belongs to it. */
async function findDiffering(
  trx: Transaction<DB>,
  { client, compare }: Pick<ReadingScope, 'client' | 'compare'>,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<number[]> {
  if (families.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    select id from (${differing({ client, compare }, tables, families)}) as differing`.execute(trx);
  return rows.map(({ id }) => id);
}

/** SQL: ids of parents that are not stored or differ from what is, in themselves or in what belongs to them. */
function differing(
  { client, compare }: Pick<ReadingScope, 'client' | 'compare'>,
  tables: MirrorTables,
  families: readonly Family[],
) {
  const types = comparedTypes(tables.parent, compare);
  const parents = families.map(({ parent }) => only(types, parent));
  const byChildren = tables.children.map((child) => touchedByChildren(client, compare, child, families));
  return sql`
    select i.id from ${rowSet(types, parents)}
    left join ${rowsByIds(
      tables.parent,
      client,
      families.map(({ parent }) => parent.id),
    )} on ${sameKey(tables.parent, client)}
    where t.id is null or t.unlisted_since is not null or ${differs(tables.parent, compare, 'i')}
    ${sql.join(byChildren, sql``)}`;
}

/**
 * Whether a reading may bring anything at all: a row that is new or differs, or something for what waits in its stream to be
 * read. Where it does not, there is nothing to write, and it need not enter the stream: whoever does afterwards reads later.
 */
export async function mayBringNews(
  db: Kysely<DB>,
  lease: Lease,
  scope: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<boolean> {
  const { rows } = await sql<{ news: boolean }>`
    select ${othersAtWork(lease, scope.stream)} or ${somethingWaits(lease.client, scope.stream)}
      or exists (${differing(scope, tables, families)}) as news`.execute(db);
  return rows[0]?.news ?? true;
}

/**
 * Where a line goes from one parent to another, the reading counts for the former parent too: an older reading of that
 * must not bring the line back.
 */
async function touchFormerParents(
  trx: Transaction<DB>,
  { client }: ReadingScope,
  table: MirrorTable,
  former: readonly ReadAs[],
): Promise<void> {
  if (former.length === 0) return;
  const [ids, readNos] = [former.map(({ id }) => id), former.map(({ readNo }) => readNo)];
  await sql`
    update ${tableRef(table.name)} t set read_no = f.read_no
    from (select id, max(read_no) as read_no from unnest(${ids}::bigint[], ${readNos}::bigint[]) as u (id, read_no)
      group by id) f
    where t.client = ${anyClient(client)} and t.id = f.id and t.read_no < f.read_no`.execute(trx);
}

async function writeParents(
  trx: Transaction<DB>,
  { client, stream, readNo }: ReadingScope,
  table: MirrorTable,
  families: readonly Family[],
): Promise<Written[]> {
  const columns = Object.keys(typesOf(table)).filter((column) => column !== 'id');
  const derived = table.derived ?? {};
  const assignments = columns.map((column) => {
    const [target, read] = [sql.ref(column), sql.ref(`excluded.${column}`)];
    const hangsOn = derived[column]?.hangsOn;
    if (hangsOn === undefined) return sql`${target} = ${read}`;
    const same = sql`t.${sql.ref(hangsOn)} is not distinct from excluded.${sql.ref(hangsOn)}`;
    return sql`${target} = coalesce(${read}, case when ${same} then t.${target} end)`;
  });
  const { rows } = await sql<Written>`
    insert into ${tableRef(table.name)} as t (client, id, read_no, ${columnRefs(columns)})
    select ${client}, i.id, coalesce(i.read_no, ${readNo}), ${columnRefs(columns, 'i')}
    from ${rowSet(
      { ...typesOf(table), read_no: 'bigint' },
      families.map(({ parent }) => parent),
    )}
    order by i.id
    on conflict (client, id) do update set ${sql.join(assignments)}, read_no = excluded.read_no, unlisted_since = null,
      changed_at = case when t.unlisted_since is not null or ${differs(table, 'columns', 'excluded')}
        then now() else t.changed_at end
      where t.read_no < excluded.read_no and not ${confirmedSince(client, stream, sql`excluded.read_no`, sql`t.id`)}
    returning ${feedNames(table)}, xmax = 0 as created, changed_at = now() as changed`.execute(trx);
  return rows;
}
