import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { stopReason, WarehouseError } from '../../core/errors.ts';
import { type Json, wholeIfKept } from '../../core/json.ts';
import { appendChanges } from '../../erp/mirror/feed.ts';
import { findWatched, removeUnwatched, type StockAnswer, storeStock } from '../../erp/resources/stock.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress } from '../../erp/runs/ledger.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** After each answer: there is one request for each article (interface.md, oldest calls), so no more than four a second. */
const paceMs = 250;
const batchSize = 50;

/** The result of stock/get: pieces. */
const stockSchema = z.preprocess(
  (value) => (typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : wholeIfKept(value)),
  z.int32(),
);

/** What was said of one article, and what stood in the way where nothing was. */
interface Asked extends StockAnswer {
  readonly problem: string | null;
}

/** Asks for the stock of every watched article. What was asked is stored every fifty; a run that is cut short goes on there. */
export async function pullStock(context: PullContext): Promise<void> {
  const { db, client, run, signal } = context;
  const skus = await findWatched(db, client);
  const problems: string[] = [];
  for (let start = 0; start < skus.length; start += batchSize) {
    const asked: Asked[] = [];
    try {
      for (const sku of skus.slice(start, start + batchSize)) {
        asked.push(await ask(context, sku));
        await pause(signal);
      }
    } finally {
      if (!signal.aborted) await store(context, asked);
    }
    problems.push(...asked.flatMap(({ sku, problem }) => (problem === null ? [] : [`${sku}: ${problem}`])));
  }
  const removed = await underLease(db, run.lease, async (trx) => {
    const changes = await removeUnwatched(trx, client);
    await appendChanges(trx, client, changes);
    return changes.length;
  });
  context.state.totals.removed += removed;
  if (problems.length > 0)
    warn(context, `no stock was told for ${problems.length} of ${skus.length} articles, such as ${problems[0]}`);
}

async function ask({ warehouse, signal }: PullContext, sku: string): Promise<Asked> {
  try {
    const result = await warehouse.ask({ operation: 'oldest.stock.get', path: { sku } }, { signal });
    return { sku, ...readStock(result) };
  } catch (error) {
    // Its own no to this article; anything else concerns them all.
    if (!(error instanceof WarehouseError) || error.outcome !== 'refused' || error.code === 'credentials_refused')
      throw error;
    return { sku, stock: null, problem: error.message };
  }
}

function readStock(result: Json): Pick<Asked, 'stock' | 'problem'> {
  const { data } = stockSchema.safeParse(result);
  return data === undefined ? { stock: null, problem: 'the answer is no number' } : { stock: data, problem: null };
}

async function pause(signal: AbortSignal): Promise<void> {
  await wait(paceMs, undefined, { signal }).catch(() => {
    throw stopReason(signal);
  });
}

async function store({ db, client, run, state: { totals } }: PullContext, asked: readonly Asked[]): Promise<void> {
  if (asked.length === 0) return;
  const sum = await underLease(db, run.lease, async (trx) => {
    const { created, updated, changes } = await storeStock(trx, client, asked);
    const counted = {
      ...totals,
      pages: totals.pages + asked.length,
      fetched: totals.fetched + asked.length,
      created: totals.created + created,
      updated: totals.updated + updated,
      unchanged: totals.unchanged + asked.length - created - updated,
    };
    await recordProgress(trx, run, counted);
    await appendChanges(trx, client, changes);
    return counted;
  });
  Object.assign(totals, sum);
}
