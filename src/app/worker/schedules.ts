/**
 * Brings due jobs into the queues. Postgres says what is due; the queues can be lost at any time.
 */

import { type JobName, jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { tryRunExclusively } from '../../erp/connection/exclusive.ts';
import { inTransaction } from '../../erp/connection/transaction.ts';
import { noteDatabase } from '../../erp/outbox/push-database.ts';
import { recordAudit } from '../../erp/runs/audit.ts';
import { endHoldWaits } from '../../erp/runs/client-holds.ts';
import { type OfferedAccount, registerClients } from '../../erp/runs/clients.ts';
import { findDueJobs, hasAbandonedRuns, reviveAbandoned } from '../../erp/runs/due-jobs.ts';
import type { TaskQueue } from '../../queue/backend.ts';
import type { QueueName } from '../../queue/define-job.ts';
import { dispatchRuns, readWaitingRuns } from '../../queue/dispatch.ts';
import { alignSchedulers, findSchedulerChanges, findTickMs, hasChanges } from '../../queue/schedulers.ts';
import type { SweeperTasks } from '../../queue/sweeper.ts';
import { errorFields } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';
import { prepareJobs } from './prepare-jobs.ts';
import { type RunnerDeps, toClientIdentity } from './runner.ts';

/** The queue that holds the tick. */
const tickQueue: QueueName = 'poll';
/** Milliseconds that a tick looks further ahead than its interval, because the next tick may be late. */
const tickSlackMs = 1_000;
/** Milliseconds that a job is overdue before the sweeper queues it, because the ticks missed it. */
const overdueMs = 5_000;

const localJobs = jobNames.filter((job) => jobs[job].isLocal);

/** Queues the due jobs of this worker's clients. */
export class Schedules {
  readonly #queues: ReadonlyMap<QueueName, TaskQueue>;
  readonly #deps: RunnerDeps;
  readonly #clients: readonly OfferedAccount[];
  readonly #enabled: readonly JobName[];
  readonly #tickMs: number | null;
  /** Clients that were logged as parked. */
  #parked: readonly string[] = [];

  constructor(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>) {
    this.#deps = deps;
    this.#queues = queues;
    this.#clients = deps.config.clients.map(toClientIdentity);
    this.#enabled = jobNames.filter((job) => deps.config.schedules[job].kind !== 'off');
    this.#tickMs = findTickMs(jobNames.map((job) => deps.config.schedules[job]));
  }

  /** Gives every job of every client its row in `sync.jobs`. A schedule that became shorter takes effect at once. */
  async prepare(): Promise<void> {
    const { db, config } = this.#deps;
    await this.#register();
    // Before any run, because after a restore the gates have to wait.
    await noteDatabase(db, this.#deps.worker, []);
    const clients = this.#clients.map(({ client }) => client);
    await endHoldWaits(db, clients);
    await prepareJobs(db, config, clients, jobNames);
  }

  /** Queues every run that is due before the next tick, with a delay until its due time. */
  async onTick(): Promise<void> {
    await this.#fanOut(this.#enabled, this.#clients, (this.#tickMs ?? 0) + tickSlackMs);
  }

  /** Queues the due jobs of a client at once, for example when a slot becomes free. */
  wakeClient(client: string): void {
    const matches = this.#clients.filter((known) => known.client === client);
    // A run without a slot has left the queue, so the queue need not be read.
    this.#fanOut(this.#enabled, matches, 0, { look: false }).catch((error: unknown) =>
      // The sweeper queues it soon.
      this.#deps.log.warn({ event: 'dispatch_failed', client, ...errorFields(error) }),
    );
  }

  /** Returns the tasks that the sweeper repeats. */
  sweeperTasks(): SweeperTasks {
    const { db, log } = this.#deps;
    const warn = throttleWarnings(log);
    return {
      revive: async () => {
        if (!(await hasAbandonedRuns(db))) return;
        const abandoned = await inTransaction(db, (trx) => reviveAbandoned(trx));
        for (const { client, job } of abandoned) log.warn({ event: 'run_abandoned', client, job });
        // These jobs have waited for the length of a lease already, so they are queued at once.
        if (abandoned.length > 0) await this.#fanOut(this.#enabled, this.#clients, 0, { look: true });
      },
      dispatchOverdue: () => this.#fanOut(this.#enabled, this.#clients, -overdueMs, { look: true }),
      align: async () => {
        await this.#register();
        await this.#alignIfNeeded();
      },
      onError: (task, error) => {
        // No stack: a server that is away is not a fault of this program.
        const { code, error: words } = errorFields(error);
        warn({ event: 'sweep_failed', task, code, error: words });
      },
    };
  }

  /**
   * Queues the due runs of some jobs and clients.
   * @param withinMs also runs that are due within this time; negative: only runs that are overdue by more than this
   * @param overdue set if the runs may be overdue; `look` is true if they may be in the queue already
   */
  async #fanOut(
    names: readonly JobName[],
    clients: readonly OfferedAccount[],
    withinMs: number,
    overdue?: { readonly look: boolean },
  ): Promise<void> {
    const due = await findDueJobs(this.#deps.db, names, clients, withinMs, localJobs);
    const nowMs = Date.now();
    const runs = due.map((run) => ({ ...run, job: run.job as JobName }));
    for (const [name, queueRuns] of Map.groupBy(runs, ({ job }) => jobs[job].queue)) {
      const queue = this.#queues.get(name);
      if (queue === undefined) continue;
      const options = overdue && { nowMs, ...(overdue.look ? { waiting: await readWaitingRuns(queue) } : {}) };
      await dispatchRuns(queue, queueRuns, options);
    }
  }

  async #alignIfNeeded(): Promise<void> {
    const isAligned = await Promise.all([...this.#queues].map(([name, queue]) => this.#isAligned(name, queue)));
    // One worker at a time. A worker that does not get the lock leaves it to the one that has it.
    if (isAligned.includes(false)) await tryRunExclusively(this.#deps.db, 'schedulers', () => this.#align());
  }

  async #isAligned(name: QueueName, queue: TaskQueue): Promise<boolean> {
    return !hasChanges(await findSchedulerChanges(queue, name === tickQueue ? this.#tickMs : null));
  }

  /** Makes the schedulers of all queues fit the configuration. */
  async #align(): Promise<void> {
    const { db, log, worker } = this.#deps;
    for (const [name, queue] of this.#queues) {
      const tickMs = name === tickQueue ? this.#tickMs : null;
      const changes = await alignSchedulers(queue, tickMs);
      if (!hasChanges(changes)) continue;
      const { set, missing, removed } = changes;
      log.info({ event: 'schedulers_aligned', queue: name, set, lost: missing, tickMs, removedSchedulers: removed });
      // Workers of different configurations change each other's tick again and again; only a missing one is news.
      if (missing)
        await recordAudit(db, { by: worker, action: 'schedulers_set', client: null, detail: `queue ${name}` });
    }
  }

  /** Registers the clients. Logs once for each client that it is parked, and once that it no longer is. */
  async #register(): Promise<void> {
    const { db, log } = this.#deps;
    const parked = await registerClients(db, this.#clients);
    for (const client of parked.filter((key) => !this.#parked.includes(key)))
      log.error({
        event: 'client_parked',
        client,
        error: `the base URL or username differs from the account that the rows come from; correct it, or accept it with: fulfilment-sync client accept-identity ${client}`,
      });
    for (const client of this.#parked.filter((key) => !parked.includes(key)))
      log.info({ event: 'client_unparked', client });
    this.#parked = parked;
  }
}
