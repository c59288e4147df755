/**
 * When runs begin. Postgres says what is due; BullMQ fires the schedulers and holds the runs until
 * then. The queues can be lost at any time.
 */

import { type JobName, jobNames, pushJob } from '../../config/jobs.ts';
import { describeError } from '../core/errors.ts';
import { notifyPushers } from '../db/listener.ts';
import { tryRunExclusively } from '../db/transaction.ts';
import { noteQueue, registerClients } from '../service/sql/clients.ts';
import { endHoldWaits } from '../service/sql/service-health.ts';
import type { QueueName, TaskQueue } from './backend.ts';
import { type JobKey, planNext } from './plan-next.ts';
import type { RunClient } from './run.ts';
import { type RunnerDeps, toClientIdentity } from './runs.ts';
import {
  alignSchedulers,
  findFiringMs,
  findMisfits,
  type Misfits,
  queueRuns,
} from './schedulers.ts';
import { recordAudit } from './sql/audit.ts';
import {
  type DueFilter,
  type DueJob,
  ensureJobs,
  findDueJobs,
  makeParcelJobsDue,
  readScheduleClock,
  reviveAbandoned,
  type WantedJob,
} from './sql/due-jobs.ts';

/** Interval in which every worker looks for work that the queue has lost. */
export const sweepMs = 3_000;
/**
 * Milliseconds that a firing looks further ahead than its interval: the next one may be late, and
 * takes seconds for many.
 */
const firingSlackMs = 5_000;
/** Milliseconds that a job is overdue before a sweep starts it, because the queue did not. */
const overdueMs = 5_000;
/** Milliseconds that a job that sets its own due time may be later than its schedule. */
const ownPaceSlackMs = 60_000;

/**
 * The schedules of this worker's clients: their due times in Postgres, and the schedulers in the
 * queue.
 */
export class Schedules {
  readonly #queues: ReadonlyMap<QueueName, TaskQueue>;
  readonly #deps: RunnerDeps;
  readonly #clients: readonly RunClient[];
  readonly #enabled: readonly JobName[];
  /**
   * The schedulers that the queue should have, by name, with the milliseconds between two firings.
   */
  readonly #firings: ReadonlyMap<string, number>;
  /** True when the schedulers fitted this configuration once. */
  #hasAligned = false;
  /** Clients that were logged as parked. */
  #parked: readonly string[] = [];

  constructor(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>) {
    const { clients, schedules, pushSweepMs } = deps.config;
    this.#deps = deps;
    this.#queues = queues;
    this.#clients = clients.map(toClientIdentity);
    this.#enabled = jobNames.filter((job) => schedules[job].kind !== 'off');
    const firings: [string, number | null][] = jobNames.map((job) => [
      job,
      findFiringMs(schedules[job]),
    ]);
    const all = [...firings, [pushJob.name, pushSweepMs] as const];
    this.#firings = new Map(
      all.flatMap(([name, everyMs]) => (everyMs === null ? [] : [[name, everyMs]])),
    );
  }

  /**
   * Gives every job of every client its row in `sync.jobs`. A schedule that became shorter takes
   * effect at once.
   */
  async prepare(): Promise<void> {
    const { db } = this.#deps;
    await this.#register();
    const clients = this.#clients.map(({ client }) => client);
    await endHoldWaits(db, clients);
    const now = await readScheduleClock(db);
    const wanted = clients.flatMap((client) =>
      jobNames.map((job) => this.#planJob({ client, job }, job, now)),
    );
    await ensureJobs(db, wanted);
    // Commands may have requested look-ups before a worker had the job.
    await makeParcelJobsDue(db, clients);
  }

  #planJob(jobKey: JobKey, job: JobName, now: Date): WantedJob {
    const schedule = this.#deps.config.schedules[job];
    const { queue, stream, ownPace = false } = this.#deps.jobs[job];
    const planned = { ...jobKey, stream: stream?.name ?? null };
    const next = planNext(schedule, jobKey, { kind: 'begin', at: now });
    if (next === null) return { ...planned, due: 'never' };
    // The gate of a job with its own pace may open later than the schedule says. A restart must not
    // make it try before.
    const latest =
      ownPace && schedule.kind === 'every'
        ? new Date(now.getTime() + schedule.everyMs + ownPaceSlackMs)
        : next;
    // Long work first runs when its schedule says so. Before the first load there is nothing to
    // compare.
    return { ...planned, due: queue === 'bulk' ? next : null, latest };
  }

  /**
   * Does what a firing of a scheduler asks for: queues the runs of its job that are due before the
   * next firing, each with a delay until its due time; or wakes the pushers of all workers.
   */
  async fire(name: string): Promise<void> {
    if (name === pushJob.name) return notifyPushers(this.#deps.db);
    const everyMs = this.#firings.get(name);
    const job = this.#enabled.find((known) => known === name);
    // A worker with another configuration has set this scheduler.
    if (job === undefined || everyMs === undefined) return;
    const queue = this.#queues.get(this.#deps.jobs[job].queue);
    if (queue !== undefined)
      await queueRuns(
        queue,
        await this.#findDue({ jobs: [job], withinMs: everyMs + firingSlackMs }),
      );
  }

  /**
   * Finds the runs that should have begun: those of lost workers, whose leases it ends, and those
   * overdue for a while.
   */
  async findOverdue(): Promise<DueJob[]> {
    const { db, log } = this.#deps;
    const abandoned = await reviveAbandoned(db);
    for (const { client, job } of abandoned) log.warn({ event: 'run_abandoned', client, job });
    return this.#findDue({ withinMs: abandoned.length === 0 ? -overdueMs : 0 });
  }

  /** Registers the clients, and sets the schedulers that the queue lacks or has lost. */
  async align(): Promise<void> {
    await this.#register();
    // The schedulers of all jobs are in one queue, because their firings are short.
    const queue = this.#queues.get('poll');
    if (queue === undefined) return;
    // One worker at a time. A worker that does not get the lock leaves it to the one that has it,
    // and looks again.
    if ((await this.#findMisfits(queue)) === null) this.#hasAligned = true;
    else await tryRunExclusively(this.#deps.db, 'schedulers', () => this.#alignNow(queue));
    await this.#noteQueue(null);
  }

  async #alignNow(queue: TaskQueue): Promise<void> {
    const { db, log, worker } = this.#deps;
    const misfits = await this.#findMisfits(queue);
    if (misfits !== null) {
      await this.#reach(alignSchedulers(queue, this.#firings, misfits));
      const { set, lost, removed } = misfits;
      log.info({ event: 'schedulers_aligned', set, lost, removedSchedulers: removed });
      if (lost.length > 0)
        await recordAudit(db, {
          by: worker,
          action: 'schedulers_set',
          client: null,
          detail: lost.join(', '),
        });
    }
    this.#hasAligned = true;
  }

  #findMisfits(queue: TaskQueue): Promise<Misfits | null> {
    return this.#reach(findMisfits(queue, this.#firings, !this.#hasAligned));
  }

  /** Waits for an answer of the queue. Notes for all to see that it does not come. */
  async #reach<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      await this.#noteQueue(describeError(error));
      throw error;
    }
  }

  #noteQueue(error: string | null): Promise<void> {
    const clients = this.#clients.map(({ client }) => client);
    return noteQueue(this.#deps.db, clients, error);
  }

  #findDue(filter: Partial<DueFilter>): Promise<DueJob[]> {
    const { db, jobs: known, worker } = this.#deps;
    const local = jobNames.filter((job) => known[job].isLocal);
    return findDueJobs(db, {
      jobs: this.#enabled,
      clients: this.#clients,
      worker,
      local,
      ...filter,
    });
  }

  /**
   * Registers the clients. Logs once for each client that it is parked, and once that it no longer
   * is.
   */
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
