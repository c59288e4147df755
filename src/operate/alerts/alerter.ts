/**
 * Finds problems that begin and end, and adds their posts to ALERT_WEBHOOK_URL to the deliveries.
 */

import type { Config } from '../../../config/env.ts';
import { errorFields, type Logger, throttleWarnings } from '../../core/logger.ts';
import { repeat } from '../../core/repeat.ts';
import type { Database } from '../../db/pool.ts';
import { takeTurns } from '../../schedule/sql/turns.ts';
import { postWebhook, type WebhookOptions } from '../deliveries/post-webhook.ts';
import { findOwnProblems } from '../health/causes.ts';
import { readOverview } from '../health/overview.ts';
import type { Problem } from '../health/problem.ts';
import { toClockSkewMs } from '../health/state.ts';
import { takesNoWrites } from '../sql/database-facts.ts';
import { readDatabaseClock } from '../sql/job-status.ts';
import { storeAlertChecks } from '../sql/open-alerts.ts';
import {
  type AlertPost,
  decideAlerts,
  type StoredAlert,
  toAlerts,
  toFoundAlerts,
} from './decide-alerts.ts';

/** Times of the alerter, in milliseconds. */
const usualTimes = {
  /** Interval in which a worker looks for due checks. */
  tickMs: 5_000,
  /** Minimum time between two checks of one scope, by any worker. */
  checkMs: 15_000,
  /** Time that a problem must last before it is posted, and be gone before its end is posted. */
  holdMs: 30_000,
};
/**
 * Maximum numbers of open problems, in all and of one client, and of waiting posts. Others wait
 * until there is room.
 */
const bounds = { alerts: 500, perClient: 50, posts: 1_000 };

/** What the alerter works with. The `config` decides which problems this worker can see. */
interface AlerterOptions {
  readonly db: Database;
  readonly config: Config;
  readonly webhook: WebhookOptions;
  readonly log: Logger;
  /** Since when Postgres refuses runs because its disk is full; null: it does not. */
  readonly diskFullSince: () => Date | null;
  readonly times?: typeof usualTimes;
}

/**
 * Finds problems that begin and end, now and then in each interval. Several workers share the
 * checks by Postgres: each problem is posted once when it begins, when it becomes worse, and when
 * it ends; the deliverer posts it. While the database is full or takes no writes, nothing is posted
 * but what this worker finds by itself: such problems and their posts are kept in its memory.
 * @returns `close` stops. A post under way is aborted, and sent again by another worker
 */
export function startAlerter(options: AlerterOptions): { readonly close: () => Promise<void> } {
  const { times = usualTimes, log } = options;
  const stopping = new AbortController();
  const warn = throttleWarnings(log);
  const tasks = {
    own: openOwnAlerts({ ...options, times }, warn, stopping.signal),
    check: openChecks({ ...options, times }),
  };

  const ticks = repeat(times.tickMs, async () => {
    // A part that fails does not stop the other.
    for (const [task, work] of Object.entries(tasks))
      await work().catch((error: unknown) =>
        warn({ event: 'alerts_failed', task, ...errorFields(error) }),
      );
  });

  return {
    close: async () => {
      stopping.abort();
      await ticks.close();
    },
  };
}

/**
 * Returns a function that makes the due checks: of the clients of this worker, and of what every
 * worker sees alike.
 */
function openChecks({ db, log, config, times: { checkMs, holdMs } }: Required<AlerterOptions>) {
  const scopes = ['', ...config.clients.map(({ key }) => key)];
  const link = config.ADMIN_PUBLIC_URL ?? null;
  let nextCheckMs = 0;

  return async (): Promise<void> => {
    // Taking a check locks a row for each client, so it is not tried with every tick.
    if (performance.now() < nextCheckMs) return;
    nextCheckMs = performance.now() + checkMs / 2;

    // No other worker takes these checks within this time.
    const checks = await takeTurns(db, { name: 'alerts', scopes }, checkMs);
    if (checks.length === 0) return;

    const { problems } = await readOverview(db, config);
    const { posts } = await storeAlertChecks(db, checks, bounds, (valid, open, now, capacity) =>
      decideAlerts(toFoundAlerts(problems, valid), open, { now, holdMs, capacity, link }),
    );
    if (posts.length > 0) log.info({ event: 'alerts_queued', rows: posts.length });
  };
}

/**
 * Returns a function that posts the problems that this worker finds by itself. While the receiver
 * is away, posts are tried again.
 */
function openOwnAlerts(
  { db, config, webhook, times: { holdMs }, diskFullSince }: Required<AlerterOptions>,
  warn: ReturnType<typeof throttleWarnings>,
  stop: AbortSignal,
) {
  const capacity = { ...bounds, alerts: bounds.perClient };
  const link = config.ADMIN_PUBLIC_URL ?? null;
  let open: readonly StoredAlert[] = [];
  // Those that the receiver has not taken yet.
  let waiting: readonly AlertPost[] = [];

  return async (): Promise<void> => {
    const found = toAlerts(await readOwnProblems(db, diskFullSince()));
    const { kept, posts } = decideAlerts(found, open, { now: new Date(), holdMs, capacity, link });
    open = kept;
    waiting = [...waiting, ...posts].slice(-bounds.perClient);

    for (const { alertId, body } of waiting) {
      const id = `alert_${alertId}_${body.type}`;
      const answer = await postWebhook(webhook, id, JSON.stringify(body), stop);
      if (answer.kind !== 'taken')
        warn({ event: 'alert_not_delivered', code: answer.code, error: answer.error });
      // One that the receiver refuses is not tried again: later ones would wait for it.
      if (answer.kind === 'away') return;
      waiting = waiting.slice(1);
    }
  };
}

async function readOwnProblems(db: Database, diskFullSince: Date | null): Promise<Problem[]> {
  // A database that is full may not even answer.
  const ask = <T>(question: Promise<T>) =>
    question.catch((error: unknown) => {
      if (diskFullSince === null) throw error;
      return null;
    });

  const readOnly = (await ask(takesNoWrites(db))) ?? false;
  const askedAtMs = Date.now();
  const clock = readOnly ? null : await ask(readDatabaseClock(db));
  const skewMs = clock === null ? 0 : toClockSkewMs(askedAtMs, clock);
  return findOwnProblems({ skewMs, diskFullSince, readOnly }, clock ?? new Date());
}
