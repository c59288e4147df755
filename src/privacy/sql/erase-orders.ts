/**
 * Erases the personal data of orders, and keeps it erased: each later reading of an erased order is
 * masked before it is written (src/pull/sql/erasures.ts). Rows, ids, numbers, articles, quantities,
 * prices, states and dates stay.
 */

import { sql, type Transaction } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { type Erasure, recordErasures } from '../../pull/sql/erasures.ts';
import { appendChanges, type Change } from '../../pull/sql/feed.ts';
import { maskErasedQuarantine } from '../../pull/sql/quarantine.ts';
import { isAny, listOrderTables, maskOutboxRows, maskRows, type Place } from './mask-rows.ts';
import {
  creatingKinds,
  lockOrderScope,
  lockOrderStreams,
  lockParcelWriters,
  type OrderOutboxRow,
  type OrderScope,
  type OrderToErase,
} from './order-scope.ts';
import { removeQuotedWords } from './quoted-words.ts';

/** An order has outbox rows that may still be sent or settled. */
export class OpenOrderError extends CodedError {
  constructor(rows: readonly OrderOutboxRow[]) {
    const named = rows.slice(0, 10).map(({ id, kind, status }) => `${id} (${kind}, ${status})`);
    super(
      'order_open',
      'Nothing was erased: outbox rows of the order are not finished: ' +
        `${named.join(', ')}. Wait until they are, or end them with: ` +
        'fulfilment-sync outbox cancel <id>, or outbox done <id>',
    );
  }
}

/**
 * The effect of an erasure: the number of rows that were changed, by table, and of dead rows that
 * were cancelled.
 */
export interface ErasedCounts {
  readonly tables: Readonly<Record<string, number>>;
  readonly cancelled: number;
}

/**
 * An erasure, and its entries for the feed, which the last statement of the transaction appends.
 */
export interface Erased extends ErasedCounts {
  readonly changes: readonly Change[];
}

/**
 * Erases the personal data of orders of one client, in the current transaction. No reading and no
 * settlement can commit in the middle: it locks what they lock.
 * @param by the name for the record: a worker or a person
 * @param cancelDead true: dead outbox rows are cancelled; false: they count as open
 * @throws OpenOrderError if outbox rows of an order may still be sent or settled; CodedError
 *   `order_unread` if the service has an order whose id is not known here
 */
export async function eraseOrders(
  trx: Transaction<DB>,
  client: string,
  orders: readonly OrderToErase[],
  { by, cancelDead }: { readonly by: string; readonly cancelDead: boolean },
): Promise<Erased> {
  const checkRows = (found: readonly OrderOutboxRow[]) => checkOrderRows(orders, found, cancelDead);

  await lockParcelWriters(trx, client);
  // Settlements lock outbox rows before streams. Lock in the same order; the other order would
  // deadlock.
  checkRows((await lockOrderScope(trx, client, orders)).rows);
  await lockOrderStreams(trx, client);
  const scope = await lockOrderScope(trx, client, orders);
  const { rows } = scope;
  const numbers = new Map(
    scope.numbers.filter(({ isPresent }) => isPresent).map(({ id, number }) => [id, number]),
  );
  checkRows(rows);

  await recordErasures(trx, client, by, [
    ...scope.orderIds.map((id) => ({
      entity: 'orders' as const,
      id,
      number: numbers.get(id) ?? null,
    })),
    ...findLostCreates(orders, rows),
  ]);

  const ids = rows.map(({ id }) => id);
  const outbox = await maskOutboxRows(trx, { client, by }, ids);
  const { counts, changes } = await maskRows(trx, client, listPlaces(client, scope, ids));
  const quarantined = await maskErasedQuarantine(trx, client, null);

  const tables = { ...counts, outbox: outbox.rows, 'sync.quarantine': quarantined };
  return {
    tables: Object.fromEntries(Object.entries(tables).filter(([, count]) => count > 0)),
    cancelled: outbox.cancelled,
    changes,
  };
}

/** Lists where tables have rows of the orders: those that are found by an id, and the others. */
function listPlaces(
  client: string,
  { orderIds, shipmentIds, numbers }: OrderScope,
  outboxIds: readonly number[],
): readonly Place[] {
  // Returns have no place in the outbox: a number that another order took means that one.
  const ownNumbers = numbers.flatMap(({ number, before }) => (before === null ? [number] : []));

  return [
    ...listOrderTables(client, orderIds),
    [
      'return_items',
      sql`t.order_id is null and t.external_order_number = any(${ownNumbers}::text[])`,
    ],
    ['track_trace_events', isAny('shipment_id', shipmentIds)],
    ['documents', isAny('order_id', orderIds)],
    ['documents', isAny('shipment_id', shipmentIds)],
    ['documents', isAny('id', outboxIds)],
  ];
}

/** The states in which a row may still be sent, looked up or settled. */
const openStates: readonly string[] = ['pending', 'sending', 'unknown'];

function checkOrderRows(
  orders: readonly OrderToErase[],
  rows: readonly OrderOutboxRow[],
  cancelDead: boolean,
): void {
  const open = rows.filter(
    ({ status }) => openStates.includes(status) || (!cancelDead && status === 'dead'),
  );
  if (open.length > 0) throw new OpenOrderError(open);

  const isPlaced = rows.some(
    ({ kind, status }) => creatingKinds.includes(kind) && status === 'done',
  );
  // Without its id, a later reading of the order could not be masked.
  if (isPlaced && orders.some(({ id }) => id === null))
    throw new CodedError(
      'order_unread',
      'Nothing was erased: the service has the order, but it has not been read yet. ' +
        'Read it with: fulfilment-sync run pull-orders, then erase it',
    );
}

/** Names the orders without an id that the service may have, each by its last order.create. */
function findLostCreates(
  orders: readonly OrderToErase[],
  rows: readonly OrderOutboxRow[],
): Erasure[] {
  return orders.flatMap(({ id, number }) => {
    const last = rows.findLast(
      (row) => creatingKinds.includes(row.kind) && row.reference === number && row.mayBeCarriedOut,
    );
    return id === null && last !== undefined ? [{ entity: 'outbox', id: last.id, number }] : [];
  });
}

/** Ends a trial: its transaction is rolled back. */
class TrialEnd extends CodedError {
  readonly counts: ErasedCounts;
  constructor(counts: ErasedCounts) {
    super('undone', 'The trial erasure is rolled back');
    this.counts = counts;
  }
}

/**
 * Erases one order, and records that in the audit. Its dead outbox rows are cancelled. Quoted words
 * of the service are removed from all errors of the client, because nothing tells which of them
 * concern the order.
 * @param isTrial true: everything is done and then rolled back
 * @throws OpenOrderError if outbox rows of the order may still be sent or settled; CodedError
 *   `order_unread` if the service has the order but its id is not known here
 */
export async function eraseOrder(
  db: Database,
  { client, ...order }: OrderToErase & { readonly client: string },
  by: string,
  isTrial: boolean,
): Promise<ErasedCounts> {
  try {
    return await inTransaction(db, async (trx) => {
      const { tables, cancelled, changes } = await eraseOrders(trx, client, [order], {
        by,
        cancelDead: true,
      });
      const counts = {
        tables: { ...tables, ...(await removeQuotedWords(trx, client, null)) },
        cancelled,
      };
      if (isTrial) throw new TrialEnd(counts);

      const detail = Object.entries(counts.tables).map(([table, count]) => `${table} ${count}`);
      const name = `order ${order.number}${order.id === null ? '' : ` (id ${order.id})`}`;
      await recordAudit(trx, {
        by,
        action: 'erased',
        client,
        detail: `${name}: ${detail.join(', ') || 'nothing left'}`,
      });
      await appendChanges(trx, client, changes);

      return counts;
    });
  } catch (error) {
    if (!(error instanceof TrialEnd)) throw error;
    return error.counts;
  }
}
