import { appendChanges } from '../../erp/mirror/feed.ts';
import { type StockAnswer, storeStock } from '../../erp/resources/stock-rows.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress } from '../../erp/runs/ledger.ts';
import type { PullContext } from '../run/pull-context.ts';

/** The service's answer about one article; `problem` says why there is no stock. */
export interface ArticleAnswer extends StockAnswer {
  readonly problem: string | null;
}

/**
 * Stores answers with their feed entries, and counts them in the run.
 * @param requests number of requests that gave these answers
 */
export async function storeAnswers(
  { db, client, run, state: { totals } }: PullContext,
  answers: readonly ArticleAnswer[],
  requests: number,
): Promise<void> {
  if (answers.length === 0) return;
  const sum = await underLease(db, run.lease, async (trx) => {
    const { created, updated, changes } = await storeStock(trx, client, answers);
    const counted = {
      ...totals,
      pages: totals.pages + requests,
      fetched: totals.fetched + answers.length,
      created: totals.created + created,
      updated: totals.updated + updated,
      unchanged: totals.unchanged + answers.length - created - updated,
    };
    await recordProgress({ trx, run }, counted);
    await appendChanges(trx, client, changes);
    return counted;
  });
  Object.assign(totals, sum);
}
