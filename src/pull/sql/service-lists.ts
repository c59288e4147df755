import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { minuteMs } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient } from '../../db/values.ts';
import { readClock, readTurns, recordTurnDone, takeTurn } from '../../schedule/sql/turns.ts';
import type { DecodedLists } from '../../service/decoding/decode-service-lists.ts';
import { type Change, toChange, type WrittenRow } from './feed.ts';
import {
  columnRefs,
  feedNames,
  type MirrorTable,
  pickTypes,
  rowSet,
  tableRef,
} from './mirror-tables.ts';
import { writeRows } from './upsert.ts';

/** The result of storing service lists. */
export interface StoredListsResult {
  /**
   * Lists that the service did not send, or sent empty although entries are stored. Their stored
   * entries were kept.
   */
  readonly keptLists: readonly string[];
  /** Changes for the feed. The caller appends them in the last statement of the transaction. */
  readonly changes: readonly Change[];
}

const settingOptions: MirrorTable = {
  name: 'setting_options',
  key: ['list', 'id'],
  columns: { list: 'text', id: 'bigint', code: 'text', name: 'text', raw: 'jsonb' },
  since: 'removed_at',
};

const offerKey = {
  main_shipping_method_id: 'bigint',
  shipping_method_id: 'bigint',
  warehouse: 'text',
};
const offers: MirrorTable = {
  name: 'main_shipping_method_warehouses',
  key: Object.keys(offerKey),
  columns: offerKey,
  since: 'removed_at',
};

/**
 * Lists that may be sent empty later, because they are obsolete (docs/interface.md, 6.2 Settings).
 */
const mayBecomeEmpty = ['paymentMethods'];

/**
 * Stores all service lists. Writes the entries that differ and marks missing entries as removed. If
 * a list is absent or suddenly empty, or has an entry that cannot be read, its stored entries are
 * kept. So are the warehouses of a main shipping method that came without its list.
 * @param askedAt when the lists were asked for, by the database's clock
 * @returns null, and stores nothing, if others were stored since then: these may be newer
 */
export async function storeServiceLists(
  trx: Transaction<DB>,
  client: string,
  { options, warehouses, absentLists, withoutWarehouses, unreadable }: DecodedLists,
  askedAt: Date,
): Promise<StoredListsResult | null> {
  await lockName(trx, `settings ${client}`);
  const now = await readClock(trx);
  const [last] = await readTurns(trx, 'service-lists', client);
  const storedAt = last?.finishedAt ?? askedAt;
  // A later time was written before the clock was set back.
  if (storedAt > askedAt && storedAt <= now) return null;

  const listed = new Set<string>(options.map(({ list }) => list));
  const stored = await trx
    .selectFrom('fulfilment.setting_options')
    .select('list')
    .distinct()
    .where('client', '=', anyClient(client))
    .where('removed_at', 'is', null)
    .execute();
  const emptied = stored
    .map(({ list }) => list)
    .filter((list) => !listed.has(list) && !mayBecomeEmpty.includes(list));
  const keptLists = [...new Set<string>([...absentLists, ...emptied])];

  // A list may name an entry twice. The last one counts.
  const byKey = new Map(options.map((option) => [`${option.list} ${option.id}`, option]));

  const scope = { trx, client };
  const keptWhole = [...keptLists, ...unreadable.map(({ list }) => list)];
  const isJudged = sql`t.list <> all(${keptWhole}::text[])`;
  const changes = [
    await writeRows(scope, settingOptions, [...byKey.values()]),
    await markRemoved(scope, settingOptions, options, isJudged),
  ];
  if (!keptLists.includes('mainShippingMethods')) {
    const rows = warehouses.map(({ mainShippingMethodId, shippingMethodId, warehouse }) => ({
      ...{ main_shipping_method_id: mainShippingMethodId, warehouse },
      shipping_method_id: shippingMethodId,
    }));
    changes.push(await writeOffers(trx, client, rows));
    const isTold = sql`t.main_shipping_method_id <> all(${withoutWarehouses}::bigint[])`;
    if (!keptWhole.includes('mainShippingMethods'))
      changes.push(await markRemoved(scope, offers, rows, isTold));
  }
  await recordTurnDone(trx, toListsTurn(client), listsPauseMs);

  return { keptLists, changes: changes.flat() };
}

/** Writes the offers of shipping methods by warehouses that are new, or were removed before. */
async function writeOffers(
  trx: Transaction<DB>,
  client: string,
  rows: readonly object[],
): Promise<Change[]> {
  const { name, key, columns } = offers;

  const written = await sql<WrittenRow>`
    insert into ${tableRef(name)} as t (client, ${columnRefs(key)})
    select distinct ${client}, ${columnRefs(key, 'i')}
    from ${rowSet(columns, rows)}
    on conflict (client, ${columnRefs(key)}) do update set removed_at = null
      where t.removed_at is not null
    returning ${feedNames(offers)},
      case when xmax <> 0 then array['removed_at'] end as "changedColumns"`.execute(trx);
  return written.rows.map((row) => toChange(name, row));
}

/**
 * Marks stored entries as removed that are not among these rows.
 * @param isJudged SQL: whether the entry t belongs to a list that was sent
 */
async function markRemoved(
  scope: { readonly trx: Transaction<DB>; readonly client: string },
  table: MirrorTable,
  rows: readonly object[],
  isJudged: RawBuilder<unknown>,
): Promise<Change[]> {
  const { name, key } = table;

  const removed = await sql<Pick<WrittenRow, 'id' | 'key'>>`
    update ${tableRef(name)} t
    set removed_at = now()
    where t.client = ${anyClient(scope.client)} and t.removed_at is null and ${isJudged}
      and (${columnRefs(key, 't')}) not in (
        select ${columnRefs(key, 'i')} from ${rowSet(pickTypes(table, key), rows)})
    returning ${feedNames(table)}`.execute(scope.trx);
  return removed.rows.map((row) => ({ entity: name, ...row, operation: 'removed' }));
}

/** The service lists of a client, and the warehouses that offer each main shipping method. */
export type ServiceLists = Awaited<ReturnType<typeof readServiceLists>>;

/** An entry of a service list. Payloads may name it by its code. */
export type StoredOption = ServiceLists['options'][number];

/** Reads a client's service lists. Leaves out removed entries. */
export async function readServiceLists(db: Kysely<DB>, client: string) {
  const options = await db
    .selectFrom('fulfilment.setting_options')
    .select(['list', 'id', 'code'])
    .where('client', '=', anyClient(client))
    .where('removed_at', 'is', null)
    .orderBy('list')
    .orderBy('code')
    .orderBy('id')
    .execute();
  const stored = await db
    .selectFrom('fulfilment.main_shipping_method_warehouses')
    .select(['main_shipping_method_id as methodId', 'warehouse'])
    .distinct()
    .where('client', '=', anyClient(client))
    .where('removed_at', 'is', null)
    .orderBy('main_shipping_method_id')
    .orderBy('warehouse')
    .execute();
  return { options, offers: stored };
}

/** Minimum time between two readings of the service lists for unknown codes, in milliseconds. */
const listsPauseMs = 10 * minuteMs;

const toListsTurn = (client: string) => ({ name: 'service-lists', scope: client }) as const;

/**
 * Takes the turn to read the service lists, because a code was not found. All workers together get
 * one turn per ten minutes, or one per `failedMs` if the last reading failed or is under way.
 * @returns `taken`; `recent` if the service lists were read a short time ago; `later` if the last
 *   reading is not done or failed
 */
export async function takeListsTurn(
  db: Kysely<DB>,
  client: string,
  failedMs: number,
): Promise<'taken' | 'recent' | 'later'> {
  if ((await takeTurn(db, toListsTurn(client), failedMs)) !== null) return 'taken';
  const [last] = await readTurns(db, 'service-lists', client);
  return last?.finishedAt == null ? 'later' : 'recent';
}
