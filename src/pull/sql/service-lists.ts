import { type Kysely, sql, type Transaction } from 'kysely';
import { minuteMs } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient } from '../../db/values.ts';
import { readTurns, recordTurnDone, takeTurn } from '../../schedule/sql/turns.ts';
import type { DecodedLists } from '../../service/decoding/decode-service-lists.ts';
import type { Change } from './feed.ts';
import type { MirrorTable } from './mirror-tables.ts';
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
  telling: ['raw'],
  since: 'removed_at',
};

/**
 * Lists that may be sent empty later, because they are obsolete (docs/interface.md, 6.2 Settings).
 */
const mayBecomeEmpty = ['paymentMethods'];

/**
 * Stores all service lists. Writes the entries that differ and marks missing entries as removed. If
 * a list is absent or suddenly empty, its stored entries are kept.
 */
export async function storeServiceLists(
  trx: Transaction<DB>,
  client: string,
  { options, warehouses, absentLists }: DecodedLists,
): Promise<StoredListsResult> {
  await lockName(trx, `settings ${client}`);

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

  const written = await writeRows({ trx, client }, settingOptions, [...byKey.values()]);
  const removed = await removeOptions(trx, client, options, keptLists);
  const links = keptLists.includes('mainShippingMethods')
    ? []
    : await writeWarehouses(trx, client, warehouses);
  await recordTurnDone(trx, toListsTurn(client), listsPauseMs);

  return { keptLists, changes: [...written, ...removed, ...links] };
}

async function removeOptions(
  trx: Transaction<DB>,
  client: string,
  options: DecodedLists['options'],
  keptLists: readonly string[],
): Promise<Change[]> {
  const { rows } = await sql<{ key: string; id: number }>`
    update fulfilment.setting_options t
    set removed_at = now()
    where t.client = ${anyClient(client)} and t.removed_at is null
      and t.list <> all(${keptLists}::text[])
      and not exists (
        select from unnest(${options.map(({ list }) => list)}::text[],
          ${options.map(({ id }) => id)}::bigint[]) as i (list, id)
        where i.list = t.list and i.id = t.id)
    returning t.list || ':' || t.id as key, t.id`.execute(trx);
  return rows.map(({ key, id }) => ({ entity: 'setting_options', id, key, operation: 'removed' }));
}

async function writeWarehouses(
  trx: Transaction<DB>,
  client: string,
  warehouses: DecodedLists['warehouses'],
): Promise<Change[]> {
  const listed = sql`json_to_recordset(${JSON.stringify(warehouses)}::json) as i (
    "mainShippingMethodId" bigint, "shippingMethodId" bigint, warehouse text)`;

  const { rows } = await sql<{ key: string; operation: 'created' | 'updated' | 'removed' }>`
    with written as (
      insert into fulfilment.main_shipping_method_warehouses
        as t (client, main_shipping_method_id, shipping_method_id,
        warehouse)
      select distinct ${client}, i."mainShippingMethodId", i."shippingMethodId", i.warehouse
      from ${listed}
      on conflict (client, main_shipping_method_id, shipping_method_id,
        warehouse) do update set removed_at = null
        where t.removed_at is not null
      returning t.*, case when xmax = 0 then 'created' else 'updated' end as operation
    ), removed as (
      update fulfilment.main_shipping_method_warehouses t
      set removed_at = now()
      where t.client = ${anyClient(client)} and t.removed_at is null and not exists (
        select from ${listed}
        where i."mainShippingMethodId" = t.main_shipping_method_id
          and i."shippingMethodId" = t.shipping_method_id
          and i.warehouse = t.warehouse)
      returning t.*, 'removed' as operation
    )
    select concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse) as key, operation
    from (select * from written union all select * from removed) as found`.execute(trx);
  const row = { entity: 'main_shipping_method_warehouses', id: null };
  return rows.map(({ key, operation }) =>
    operation === 'updated'
      ? { ...row, key, operation, changedColumns: ['removed_at'] }
      : { ...row, key, operation },
  );
}

/** An entry of a service list. Payloads may name it by its code. */
export interface StoredOption {
  readonly list: string;
  readonly id: number;
  readonly code: string | null;
}

/** The service lists of a client. */
export interface ServiceLists {
  readonly options: readonly StoredOption[];
  /** The warehouses that offer each main shipping method. */
  readonly offers: readonly { readonly methodId: number; readonly warehouse: string }[];
}

/** Reads a client's service lists. Leaves out removed entries. */
export async function readServiceLists(db: Kysely<DB>, client: string): Promise<ServiceLists> {
  const options = await db
    .selectFrom('fulfilment.setting_options')
    .select(['list', 'id', 'code'])
    .where('client', '=', anyClient(client))
    .where('removed_at', 'is', null)
    .orderBy('list')
    .orderBy('code')
    .orderBy('id')
    .execute();
  const offers = await db
    .selectFrom('fulfilment.main_shipping_method_warehouses')
    .select(['main_shipping_method_id as methodId', 'warehouse'])
    .distinct()
    .where('client', '=', anyClient(client))
    .where('removed_at', 'is', null)
    .orderBy('main_shipping_method_id')
    .orderBy('warehouse')
    .execute();
  return { options, offers };
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
