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
 * Number of orders that one transaction looks at, and maximum number of orders or rows that one
 * transaction erases.
 */
const searchSize = 2_000;
const agedBatchSize = 100;
/** Maximum number of rows that one transaction deletes. Short transactions do not block others. */
const batchSize = 2_000;

/** Runs work in one transaction of the run, unless the run has to stop. */
type Within = <T>(work: (trx: DatabaseTransaction) => Promise<T>) => Promise<T>;

const openWithin =
  ({ db, run, signal }: RunContext): Within =>
  (work) => {
    if (signal.aborted) throw toStopError(signal);
    return underLease(db, run.lease, work);
  };

/** Calls work with the id after which it begins, until it returns none for the next part. */
async function walkParts(work: (afterId: number) => Promise<number | null>): Promise<void> {
  for (let afterId: number | null = 0; afterId !== null; ) afterId = await work(afterId);
}

/** Looks at all orders of a client, and calls work with small batches of those that are aged. */
async function walkAgedOrders(
  within: Within,
  step: AgedStep,
  work: (orders: readonly OrderToErase[]) => Promise<void>,
): Promise<KeptOrders> {
  const kept: KeptOrders = { blocked: 0, incomplete: 0 };

  await walkParts(async (afterId) => {
    const part = await within((trx) =>
      findAgedOrders(trx, { ...step, limit: searchSize }, afterId),
    );
    kept.blocked += part.blocked;
    kept.incomplete += part.incomplete;

    for (let start = 0; start < part.orders.length; start += agedBatchSize)
      await work(part.orders.slice(start, start + agedBatchSize));
    return part.lastId;
  });
  return kept;
}

/** Numbers of old orders that keep their data. */
interface KeptOrders {
  /** Finished orders with open or dead outbox rows. */
  blocked: number;
  /** Orders with pieces to come. */
  incomplete: number;
}

/**
 * Erases the personal data of a client that is older than PERSONAL_DATA_DAYS, in small batches: of
 * finished orders, of finished outbox rows and their documents, of returns and shipments without a
 * stored order, of the quarantine, and of errors.
 */
async function eraseAged(context: RunContext, client: string, days: number): Promise<void> {
  const { db, run } = context;
  const step: AgedStep = { client, by: run.worker, days, limit: agedBatchSize };
  const within = openWithin(context);

  const counts: Record<string, number> = {};
  const add = (name: string, count: number) => {
    context.state.totals.updated += count;
    if (count > 0) counts[name] = (counts[name] ?? 0) + count;
  };

  try {
    let blocked = 0;
    const kept = await walkAgedOrders(within, step, async (orders) => {
      const erased = await eraseBatch(within, step, orders);
      add('orders', erased);
      blocked += orders.length - erased;
    });
    warnOfKeptOrders(context, { ...kept, blocked: kept.blocked + blocked });

    for (const table of agedTableNames)
      await walkParts(async (afterId) => {
        const part = await within((trx) => maskAgedRows(trx, step, table, afterId));
        add(countNames[table], part.rows);
        return part.next;
      });

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

/** The names of masked rows in the audit. */
const countNames: Readonly<Record<AgedTableName, string>> = {
  outbox: 'outbox rows',
  documents: 'documents',
  return_items: 'returns',
  return_merchandise_authorizations: 'returns',
  shipments: 'shipments',
};

function warnOfKeptOrders(context: RunContext, { blocked, incomplete }: KeptOrders): void {
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

/**
 * Erases orders together. If outbox rows of one of them are open, erases each by itself, and leaves
 * that one out. Returns the number of erased orders.
 */
async function eraseBatch(
  within: Within,
  step: AgedStep,
  orders: readonly OrderToErase[],
): Promise<number> {
  try {
    await within(async (trx) => {
      const { changes } = await eraseOrders(trx, step.client, orders, {
        by: step.by,
        cancelDead: false,
      });
      await appendChanges(trx, step.client, changes);
    });
    return orders.length;
  } catch (error) {
    if (!(error instanceof OpenOrderError)) throw error;
    if (orders.length === 1) return 0;

    let erased = 0;
    for (const order of orders) erased += await eraseBatch(within, step, [order]);
    return erased;
  }
}

/**
 * Deletes orders whose last date is older than MIRROR_DAYS and for which nothing is to come, with
 * their shipments and returns.
 */
async function deleteAgedOrders(context: RunContext, days: number): Promise<void> {
  const { db, run, client, state } = context;
  const within = openWithin(context);
  const step = { client, by: run.worker, days, limit: agedBatchSize, findsErased: true };
  let deleted = 0;

  await walkAgedOrders(within, step, async (orders) => {
    const ids = orders.flatMap(({ id }) => id ?? []);
    state.totals.removed += await within(async (trx) => {
      const removed = await deleteOrders(trx, client, ids);
      await appendChanges(trx, client, removed);
      return removed.length;
    });
    deleted += ids.length;
  });

  if (deleted > 0)
    await recordAudit(db, {
      ...{ by: run.worker, action: 'pruned', client },
      detail: `orders older than ${days} days, with shipments and returns: ${deleted}`,
    });
}

/**
 * Deletes data older than RETENTION_DAYS of all clients, in small batches. Each client has a run,
 * and the first one does the work for all. Then deletes orders of its own client that are older
 * than MIRROR_DAYS, and erases personal data that is older than PERSONAL_DATA_DAYS, of its own
 * client and of clients that no worker has any more.
 */
export async function prune(context: RunContext): Promise<void> {
  const { client, db, run, config } = context;
  const { RETENTION_DAYS: retentionDays, PERSONAL_DATA_DAYS: personalDataDays } = config;
  const { totals } = context.state;
  const within = openWithin(context);
  const counts: string[] = [];

  for (const { name, prune } of pruneTargets) {
    let removed = 0;
    for (let last = batchSize; last === batchSize; ) {
      last = await within((trx) => prune(trx, retentionDays, batchSize));
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
