/**
 * The job of retention: deletes old history, and erases old personal data. Each step commits by
 * itself.
 */

import { toStopError } from '../core/errors.ts';
import { recordAudit } from '../db/audit.ts';
import type { DatabaseTransaction } from '../db/pool.ts';
import { type AgedStep, findAgedOrders } from '../privacy/sql/aged-orders.ts';
import {
  type AgedTableName,
  agedTableNames,
  findClientsWithoutPrune,
  maskAgedRows,
} from '../privacy/sql/aged-rows.ts';
import { eraseOrders, OpenOrderError } from '../privacy/sql/erase-orders.ts';
import type { OrderToErase } from '../privacy/sql/order-scope.ts';
import { removeQuotedWords } from '../privacy/sql/quoted-words.ts';
import { appendChanges } from '../pull/sql/feed.ts';
import { maskAgedQuarantine } from '../pull/sql/quarantine.ts';
import { type RunContext, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { deleteOrders } from './sql/prune-mirror.ts';
import { pruneTargets } from './sql/prune-rows.ts';

/**
 * Number of orders that one transaction looks at, and maximum number of orders that one transaction
 * erases.
 */
const searchSize = 2_000;
const agedBatchSize = 100;

/**
 * Erases the personal data of a client that is older than PERSONAL_DATA_DAYS, in small batches: of
 * finished orders, of finished outbox rows and their documents, of returns without a stored order,
 * of the quarantine, and of errors.
 */
async function eraseAged(context: RunContext, client: string, days: number): Promise<void> {
  const { db, run } = context;
  const { totals } = context.state;
  const step: AgedStep = { client, by: run.worker, days, limit: agedBatchSize };
  const within: Within = (work) => {
    if (context.signal.aborted) throw toStopError(context.signal);
    return underLease(db, run.lease, work);
  };

  const counts: Record<string, number> = {};
  const add = (name: string, count: number) => {
    totals.updated += count;
    if (count > 0) counts[name] = (counts[name] ?? 0) + count;
  };

  try {
    const orders = await eraseAgedOrders(step, within);
    add('orders', orders.erased);
    warnOfKeptOrders(context, orders);

    for (const table of agedTableNames)
      for (let afterId: number | null = 0; afterId !== null; ) {
        const from: number = afterId;
        const part = await within((trx) => maskAgedRows(trx, step, table, from));
        add(countNames[table], part.rows);
        afterId = part.next;
      }

    add('quarantined resources', await within((trx) => maskAgedQuarantine(trx, client, days)));

    const texts = await within((trx) => removeQuotedWords(trx, client, days));
    for (const [table, count] of Object.entries(texts)) add(table, count);
  } finally {
    // Also if the run was stopped: the audit says what was erased until then.
    const detail = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
    if (detail.length > 0)
      await recordAudit(db, {
        by: run.worker,
        action: 'erased',
        client,
        detail: `personal data older than ${days} days: ${detail.join(', ')}`,
      });
  }
}

/** Runs work in one transaction of the run. */
type Within = <T>(work: (trx: DatabaseTransaction) => Promise<T>) => Promise<T>;

/** The names of masked rows in the audit. */
const countNames: Readonly<Record<AgedTableName, string>> = {
  outbox: 'outbox rows',
  documents: 'documents',
  return_items: 'returns',
  return_merchandise_authorizations: 'returns',
};

/** The number of orders that were erased, and of old orders that keep their data. */
interface OrderCounts {
  erased: number;
  /** Finished orders with open or dead outbox rows. */
  blocked: number;
  /** Orders with pieces to come. */
  incomplete: number;
}

function warnOfKeptOrders(context: RunContext, { blocked, incomplete }: OrderCounts): void {
  if (blocked > 0)
    warn(
      context,
      `${blocked} finished orders keep their personal data: outbox rows of them are open or dead`,
    );

  if (incomplete > 0)
    warn(
      context,
      `${incomplete} old orders keep their personal data: pieces of them are to come; ` +
        'articles that are never shipped belong in fulfilment.service_products',
    );
}

/** Erases finished orders. Looks at all orders of the client, one part after the other. */
async function eraseAgedOrders(step: AgedStep, within: Within): Promise<OrderCounts> {
  const counts: OrderCounts = { erased: 0, blocked: 0, incomplete: 0 };

  for (let afterId: number | null = 0; afterId !== null; ) {
    const from: number = afterId;
    const part = await within((trx) => findAgedOrders(trx, { ...step, limit: searchSize }, from));
    counts.blocked += part.blocked;
    counts.incomplete += part.incomplete;

    for (let start = 0; start < part.orders.length; start += agedBatchSize)
      await eraseBatch(step, within, part.orders.slice(start, start + agedBatchSize), counts);

    afterId = part.lastId;
  }

  return counts;
}

/**
 * Erases orders together. If outbox rows of one of them are open, erases each by itself, and leaves
 * that one out.
 */
async function eraseBatch(
  step: AgedStep,
  within: Within,
  orders: readonly OrderToErase[],
  counts: OrderCounts,
): Promise<void> {
  try {
    await within(async (trx) => {
      const { changes } = await eraseOrders(trx, step.client, orders, {
        by: step.by,
        cancelDead: false,
      });
      await appendChanges(trx, step.client, changes);
    });
    counts.erased += orders.length;
  } catch (error) {
    if (!(error instanceof OpenOrderError)) throw error;
    if (orders.length === 1) counts.blocked++;
    else for (const order of orders) await eraseBatch(step, within, [order], counts);
  }
}

/**
 * Deletes orders whose last date is older than MIRROR_DAYS and for which nothing is to come, with
 * their shipments and returns.
 */
async function deleteAgedOrders(context: RunContext, days: number): Promise<void> {
  const { db, run, client, state } = context;
  const step = { client, by: run.worker, days, limit: searchSize, findsErased: true };
  let deleted = 0;

  for (let afterId: number | null = 0; afterId !== null; ) {
    if (context.signal.aborted) throw toStopError(context.signal);
    const from: number = afterId;
    const { orders, lastId } = await underLease(db, run.lease, (trx) =>
      findAgedOrders(trx, step, from),
    );

    for (let start = 0; start < orders.length; start += agedBatchSize) {
      const ids = orders.slice(start, start + agedBatchSize).flatMap(({ id }) => id ?? []);
      const changes = await underLease(db, run.lease, async (trx) => {
        const removed = await deleteOrders(trx, client, ids);
        await appendChanges(trx, client, removed);
        return removed;
      });
      state.totals.removed += changes.length;
      deleted += ids.length;
    }
    afterId = lastId;
  }

  if (deleted > 0)
    await recordAudit(db, {
      ...{ by: run.worker, action: 'pruned', client },
      detail: `orders older than ${days} days, with shipments and returns: ${deleted}`,
    });
}

/** Maximum number of rows that one transaction deletes. Short transactions do not block others. */
const batchSize = 2_000;

/**
 * Deletes data older than RETENTION_DAYS of all clients, in small batches. Each client has a run,
 * and the first one does the work for all. Then deletes orders of its own client that are older
 * than MIRROR_DAYS, and erases personal data that is older than PERSONAL_DATA_DAYS, of its own
 * client and of clients that no worker has any more.
 */
export async function prune(context: RunContext): Promise<void> {
  const { client, db, run, config, signal } = context;
  const { RETENTION_DAYS: retentionDays, PERSONAL_DATA_DAYS: personalDataDays } = config;
  const { totals } = context.state;
  const counts: string[] = [];

  for (const { name, prune } of pruneTargets) {
    let removed = 0;
    for (let last = batchSize; last === batchSize; ) {
      if (signal.aborted) throw toStopError(signal);
      last = await underLease(db, run.lease, (trx) => prune(trx, retentionDays, batchSize));
      removed += last;
    }

    totals.removed += removed;
    if (removed > 0) counts.push(`${name} ${removed}`);
    // These resources never reached the tables, so an operator should know.
    if (removed > 0 && name === 'sync.quarantine')
      warn(
        context,
        `removed ${removed} resources from quarantine that were not met for ${retentionDays} days`,
      );
  }

  if (counts.length > 0)
    await recordAudit(db, {
      by: run.worker,
      action: 'pruned',
      client: null,
      detail: counts.join(', '),
    });

  if (config.MIRROR_DAYS !== undefined) await deleteAgedOrders(context, config.MIRROR_DAYS);
  if (personalDataDays === undefined) return;
  for (const one of [client, ...(await findClientsWithoutPrune(db, client))])
    await eraseAged(context, one, personalDataDays);
}
