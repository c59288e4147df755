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
 * Finds problems that begin and end. Several workers share the checks by Postgres: each problem is
 * posted once when it begins, when it becomes worse, and when it ends; the deliverer posts it.
 * While the database is full or takes no writes, nothing is posted but what this worker finds by
 * itself: such problems and their posts are kept in its memory.
 */
export class Alerter {
  readonly #options: AlerterOptions;
  readonly #times: typeof usualTimes;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  readonly #stopping = new AbortController();
  #ticks: ReturnType<typeof repeat> | undefined;
  #nextCheckMs = 0;
  /**
   * Open problems that only this worker can see, and their posts that the receiver has not taken
   * yet.
   */
  #ownAlerts: readonly StoredAlert[] = [];
  #ownPosts: readonly AlertPost[] = [];

  constructor(options: AlerterOptions) {
    this.#options = options;
    this.#times = options.times ?? usualTimes;
    this.#warn = throttleWarnings(options.log);
  }

  /** Checks now, and then in each interval. */
  start(): void {
    this.#ticks = repeat(this.#times.tickMs, () => this.#run());
  }

  /** Stops. A post under way is aborted, and sent again by another worker. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#ticks?.close();
  }

  /** Checks once. A part that fails does not stop the other. */
  async #run(): Promise<void> {
    const tasks = { own: () => this.#postOwn(), check: () => this.#check() };
    for (const [task, work] of Object.entries(tasks)) {
      try {
        await work();
      } catch (error) {
        this.#warn({ event: 'alerts_failed', task, ...errorFields(error) });
      }
    }
  }

  /** Makes the due checks: of the clients of this worker, and of what every worker sees alike. */
  async #check(): Promise<void> {
    const { db, log, config } = this.#options;
    const { checkMs, holdMs } = this.#times;
    // Taking a check locks a row for each client, so it is not tried with every tick.
    if (performance.now() < this.#nextCheckMs) return;
    this.#nextCheckMs = performance.now() + checkMs / 2;

    const scopes = ['', ...config.clients.map(({ key }) => key)];
    // No other worker takes these checks within this time.
    const checks = await takeTurns(db, { name: 'alerts', scopes }, checkMs);
    if (checks.length === 0) return;

    const { problems } = await readOverview(db, config);
    const link = config.ADMIN_PUBLIC_URL ?? null;
    const changes = await storeAlertChecks(db, checks, bounds, (valid, open, now, capacity) =>
      decideAlerts(toFoundAlerts(problems, valid), open, { now, holdMs, capacity, link }),
    );
    if (changes.posts.length > 0) log.info({ event: 'alerts_queued', rows: changes.posts.length });
  }

  /**
   * Posts the problems that this worker finds by itself. While the receiver is away, posts are
   * tried again.
   */
  async #postOwn(): Promise<void> {
    const { webhook, config } = this.#options;
    const found = toAlerts(await this.#findOwnProblems());
    const { kept, posts } = decideAlerts(found, this.#ownAlerts, {
      now: new Date(),
      holdMs: this.#times.holdMs,
      capacity: { ...bounds, alerts: bounds.perClient },
      link: config.ADMIN_PUBLIC_URL ?? null,
    });
    this.#ownAlerts = kept;
    this.#ownPosts = [...this.#ownPosts, ...posts].slice(-bounds.perClient);

    for (const { alertId, body } of this.#ownPosts) {
      const id = `alert_${alertId}_${body.type}`;
      const answer = await postWebhook(webhook, id, JSON.stringify(body), this.#stopping.signal);
      if (answer.kind !== 'taken')
        this.#warn({ event: 'alert_not_delivered', code: answer.code, error: answer.error });
      // One that the receiver refuses is not tried again: later ones would wait for it.
      if (answer.kind === 'away') return;
      this.#ownPosts = this.#ownPosts.slice(1);
    }
  }

  async #findOwnProblems(): Promise<Problem[]> {
    const { db, diskFullSince } = this.#options;
    const full = diskFullSince();
    // A database that is full may not even answer.
    const ask = <T>(question: Promise<T>) =>
      question.catch((error: unknown) => {
        if (full === null) throw error;
        return null;
      });

    const readOnly = (await ask(takesNoWrites(db))) ?? false;
    const askedAtMs = Date.now();
    const clock = readOnly ? null : await ask(readDatabaseClock(db));
    const skewMs = clock === null ? 0 : toClockSkewMs(askedAtMs, clock);
    return findOwnProblems({ skewMs, diskFullSince: full, readOnly }, clock ?? new Date());
  }
}
