import type { Schedule } from '../../../config/schedules.ts';
import type { WatchedArticles } from '../../erp/reports/database-facts.ts';
import { createProblem, type Problem } from './problem.ts';

/** Finds clients with watched articles whose stock is never read, because the job pull-stock is off. */
export function findStockProblems(watched: readonly WatchedArticles[], schedule: Schedule): Problem[] {
  if (schedule.kind !== 'off') return [];
  return watched.map(({ client, articles }) =>
    createProblem(
      'stock_off',
      'warn',
      { client },
      `pull-stock is off in this configuration, but ${articles === 1 ? '1 article is' : `${articles} articles are`} watched (fulfilment.stock_watch)`,
      'set SCHEDULE_PULL_STOCK, such as 1h, or delete these rows',
    ),
  );
}
