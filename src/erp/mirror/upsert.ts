/**
 * The tables that mirror the service, and the feed of their changes. An unchanged row is not written, and an older
 * reading never overwrites a newer one.
 */

import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { confirmedSince, type ReadAs } from '../runs/confirmations.ts';
import { removeChildren, writeChildren } from './children.ts';
import { findTouched, type ReadingScope } from './differences.ts';
import type { Change } from './feed.ts';
import {
  columnRefs,
  differs,
  type Family,
  feedNames,
  type MirrorTable,
  type MirrorTables,
  rowSet,
  tableRef,
  typesOf,
  type Written,
} from './tables.ts';

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
    update ${tableRef(table.name)} t
    set read_no = f.read_no
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
