import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';
import { toStopError, WarehouseError } from '../../core/errors.ts';
import { type Json, toWholeNumber } from '../../core/json.ts';
import { appendChanges } from '../../erp/mirror/feed.ts';
import { findWatchedArticles, removeUnwatchedLevels, type StockAnswer, storeStock } from '../../erp/resources/stock.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress } from '../../erp/runs/ledger.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/**
 * Pause after each answer. Each article takes one request (docs/interface.md, 16.1 Operations), so this limits them to
 * four a second.
 */
const paceMs = 250;
const batchSize = 50;

/** The result of stock/get: a number of pieces. */
const stockSchema = z.preprocess(
  (value) => (typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : toWholeNumber(value)),
  z.int32(),
);

/** The service's answer about one article; `problem` says why there is no stock. */
interface ArticleAnswer extends StockAnswer {
  readonly problem: string | null;
}

/**
 * Reads the stock of every watched article, and stores it after every 50 articles. What an interrupted run has read
 * stays stored. Warns about articles for which the service gave no stock.
 */
export async function pullStock(context: PullContext): Promise<void> {
  const { db, client, run, signal } = context;
  const skus = await findWatchedArticles(db, client);
  const problems: string[] = [];
  for (let start = 0; start < skus.length; start += batchSize) {
    const answers: ArticleAnswer[] = [];
    try {
      for (const sku of skus.slice(start, start + batchSize)) {
        answers.push(await askStock(context, sku));
        await waitBetweenRequests(signal);
      }
    } finally {
      if (!signal.aborted) await storeAnswers(context, answers);
    }
    problems.push(...answers.flatMap(({ sku, problem }) => (problem === null ? [] : [`${sku}: ${problem}`])));
  }
  const removed = await underLease(db, run.lease, async (trx) => {
    const changes = await removeUnwatchedLevels(trx, client);
    await appendChanges(trx, client, changes);
    return changes.length;
  });
  context.state.totals.removed += removed;
  if (problems.length > 0)
    warn(
      context,
      `the service gave no stock for ${problems.length} of ${skus.length} articles, such as ${problems[0]}`,
    );
}

async function askStock({ warehouse, signal }: PullContext, sku: string): Promise<ArticleAnswer> {
  try {
    const result = await warehouse.ask({ operation: 'oldest.stock.get', path: { sku } }, { signal });
    return { sku, ...readStock(result) };
  } catch (error) {
    // A refusal concerns this article alone; any other error concerns all articles.
    if (!(error instanceof WarehouseError) || error.outcome !== 'refused' || error.code === 'credentials_refused')
      throw error;
    return { sku, stock: null, problem: error.message };
  }
}

function readStock(result: Json): Pick<ArticleAnswer, 'stock' | 'problem'> {
  const { data } = stockSchema.safeParse(result);
  return data === undefined ? { stock: null, problem: 'the answer is not a number' } : { stock: data, problem: null };
}

async function waitBetweenRequests(signal: AbortSignal): Promise<void> {
  await wait(paceMs, undefined, { signal }).catch(() => {
    throw toStopError(signal);
  });
}

async function storeAnswers(
  { db, client, run, state: { totals } }: PullContext,
  answers: readonly ArticleAnswer[],
): Promise<void> {
  if (answers.length === 0) return;
  const sum = await underLease(db, run.lease, async (trx) => {
    const { created, updated, changes } = await storeStock(trx, client, answers);
    const counted = {
      ...totals,
      pages: totals.pages + answers.length,
      fetched: totals.fetched + answers.length,
      created: totals.created + created,
      updated: totals.updated + updated,
      unchanged: totals.unchanged + answers.length - created - updated,
    };
    await recordProgress(trx, run, counted);
    await appendChanges(trx, client, changes);
    return counted;
  });
  Object.assign(totals, sum);
}
