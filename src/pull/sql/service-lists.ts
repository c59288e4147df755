import { type Kysely, sql, type Transaction } from 'kysely';
import type { Json } from '../../core/json.ts';
import { minuteMs } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient } from '../../db/values.ts';
import { readTurns, recordTurnDone, takeTurn } from '../../schedule/sql/turns.ts';
import { type Change, type ChangedRow, changedColumnsOrNew, toChange } from './feed.ts';

/** The entries of the service lists, as they are stored. */
export interface ServiceListRows {
  readonly options: readonly {
    readonly list: string;
    readonly id: number;
    readonly code: string | null;
    readonly name: string | null;
    readonly raw: Json;
  }[];
  readonly warehouses: readonly {
    readonly mainShippingMethodId: number;
    readonly shippingMethodId: number;
    readonly warehouse: string;
  }[];
  /** Lists that the service did not send. */
  readonly absentLists: readonly string[];
}

/** The result of storing service lists. */
export interface StoredListsResult {
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  /**
   * Lists that the service did not send, or sent empty although entries are stored. Their stored
   * entries were kept.
   */
  readonly keptLists: readonly string[];
  /** Changes for the feed. The caller appends them in the last statement of the transaction. */
  readonly changes: readonly Change[];
}

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
  { options, warehouses, absentLists }: ServiceListRows,
): Promise<StoredListsResult> {
  await lockName(trx, `settings ${client}`);
  const listed = new Set(options.map(({ list }) => list));
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
  const keptLists = [...new Set([...absentLists, ...emptied])];
  const written = await writeOptions(trx, client, options);
  const removed = await removeOptions(trx, client, options, keptLists);
  const links = await writeWarehouses(
    trx,
    client,
    warehouses,
    keptLists.includes('mainShippingMethods'),
  );
  await recordTurnDone(trx, toListsTurn(client), listsPauseMs);
  const changes = [...written, ...removed, ...links];
  const countChanges = (operation: Change['operation']) =>
    changes.filter((change) => change.operation === operation).length;
  return {
    created: countChanges('created'),
    updated: countChanges('updated'),
    removed: countChanges('removed'),
    keptLists,
    changes,
  };
}

async function writeOptions(
  trx: Transaction<DB>,
  client: string,
  options: ServiceListRows['options'],
): Promise<Change[]> {
  const { rows } = await sql<ChangedRow & { readonly id: number }>`
    insert into fulfilment.setting_options as t (client, list, id, code, name, raw)
    select distinct on (i.list, i.id) ${client}, i.list, i.id, i.code, i.name, i.raw
    from json_to_recordset(${JSON.stringify(options)}::json)
      as i (list text, id bigint, code text, name text,
      raw jsonb)
    order by i.list, i.id
    on conflict (client, list, id) do update
      set code = excluded.code, name = excluded.name, raw = excluded.raw, changed_at = now(),
        removed_at = null
      where (t.code, t.name, t.raw) is distinct from (excluded.code, excluded.name, excluded.raw)
        or t.removed_at is not null
    returning t.list || ':' || t.id as key, t.id, ${changedColumnsOrNew(
      sql.table('fulfilment.setting_options'),
      ['list', 'id'],
      ['code', 'name', 'raw', 'removed_at'],
    )}`.execute(trx);
  return rows.map((row) => toChange('setting_options', row));
}

async function removeOptions(
  trx: Transaction<DB>,
  client: string,
  options: ServiceListRows['options'],
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
  warehouses: ServiceListRows['warehouses'],
  kept: boolean,
): Promise<Change[]> {
  if (kept) return [];
  const rowSet = sql`json_to_recordset(${JSON.stringify(warehouses)}::json) as i (
    "mainShippingMethodId" bigint, "shippingMethodId" bigint, warehouse text)`;
  const { rows } = await sql<{ key: string; operation: Change['operation'] }>`
    with written as (
      insert into fulfilment.main_shipping_method_warehouses
        as t (client, main_shipping_method_id, shipping_method_id,
        warehouse)
      select distinct ${client}, i."mainShippingMethodId", i."shippingMethodId", i.warehouse
      from ${rowSet}
      on conflict (client, main_shipping_method_id, shipping_method_id,
        warehouse) do update set removed_at = null
        where t.removed_at is not null
      returning t.*, xmax = 0 as created
    ), removed as (
      update fulfilment.main_shipping_method_warehouses t
      set removed_at = now()
      where t.client = ${anyClient(client)} and t.removed_at is null and not exists (
        select from ${rowSet}
        where i."mainShippingMethodId" = t.main_shipping_method_id
          and i."shippingMethodId" = t.shipping_method_id
          and i.warehouse = t.warehouse)
      returning t.*
    )
    select concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse) as key,
      case when created then 'created' else 'updated' end as operation
    from written
    union all
    select concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse), 'removed'
    from removed`.execute(trx);
  const entity = 'main_shipping_method_warehouses';
  return rows.map(({ key, operation }) =>
    operation === 'removed'
      ? { entity, id: null, key, operation }
      : toChange(entity, { key, changedColumns: operation === 'created' ? null : ['removed_at'] }),
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
