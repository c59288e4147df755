/** When runs begin: due times in Postgres, and schedulers in BullMQ, which can lose them. */

import { type JobName, jobNames } from '../../config/jobs.ts';
import { describeError } from '../core/errors.ts';
import { recordAudit } from '../db/audit.ts';
import { tryRunExclusively } from '../db/transaction.ts';
import { noteQueue, registerClients } from '../service/sql/clients.ts';
import { endHoldWaits } from '../service/sql/service-health.ts';
import type { TaskQueue } from './backend.ts';
import { adviseParked } from './decide-start.ts';
import { type JobKey, planNext } from './plan-next.ts';
import type { RunClient } from './run.ts';
import { type RunnerDeps, toClientIdentity } from './runs.ts';
import { alignSchedulers, findMisfits, type Pace, planPaces } from './schedulers.ts';
import {
  ensureJobs,
  makeParcelJobsDue,
  readScheduleClock,
  type WantedJob,
} from './sql/due-jobs.ts';

/** Interval in which every worker looks for work that the queue has lost. */
export const sweepMs = 3_000;
/** Milliseconds that a job that sets its own due time may be later than its schedule. */
const ownPaceSlackMs = 60_000;

/**
 * The schedules of this worker's clients: their due times in Postgres, and the schedulers in the
 * queue.
 */
export class Schedules {
  readonly #queue: TaskQueue;
  readonly #deps: RunnerDeps;
  readonly #clients: readonly RunClient[];
  /** The schedulers that the queue should have, by name. */
  readonly #paces: ReadonlyMap<string, Pace>;
  /** True when the schedulers fitted this configuration once. */
  #hasAligned = false;
  /** Clients that were logged as parked. */
  #parked: readonly string[] = [];

  constructor(deps: RunnerDeps, queue: TaskQueue) {
    const { clients, schedules, pushSweepMs } = deps.config;
    this.#deps = deps;
    this.#queue = queue;
    this.#clients = clients.map(toClientIdentity);
    this.#paces = planPaces(
      schedules,
      clients.map(({ key }) => key),
      pushSweepMs,
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
    const { pool, stream, ownPace = false } = this.#deps.jobs[job];
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
    return { ...planned, due: pool === 'bulk' ? next : null, latest };
  }

  /**
   * Registers the clients, and sets the schedulers that the queue lacks or has lost. Notes for all
   * to see whether the queue answers.
   */
  async align(): Promise<void> {
    await this.#register();
    const clients = this.#clients.map(({ client }) => client);
    try {
      await this.#alignQueue();
    } catch (error) {
      const { REDIS_URL: url } = this.#deps.config;
      const place = url === undefined ? '' : `Redis at ${new URL(url).host}: `;
      await noteQueue(this.#deps.db, clients, `${place}${describeError(error)}`);
      throw error;
    }
    await noteQueue(this.#deps.db, clients, null);
  }

  async #alignQueue(): Promise<void> {
    const { db, log, worker } = this.#deps;
    const find = () => findMisfits(this.#queue, this.#paces, !this.#hasAligned);
    const alignNow = async () => {
      const misfits = await find();
      if (misfits === null) return;
      await alignSchedulers(this.#queue, this.#paces, misfits);

      const { set, missing, removed } = misfits;
      log.info({ event: 'schedulers_aligned', set, missing, removedSchedulers: removed });
      const detail = missing.join(', ');
      if (missing.length > 0)
        await recordAudit(db, { by: worker, action: 'schedulers_set', client: null, detail });
    };

    // One worker at a time. A worker that does not get the lock leaves it to the one that has it,
    // and looks again.
    const fits = (await find()) === null || (await tryRunExclusively(db, 'schedulers', alignNow));
    if (fits) this.#hasAligned = true;
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
        error:
          'the base URL or user name differs from the account that the rows come from; ' +
          adviseParked(client),
      });
    for (const client of this.#parked.filter((key) => !parked.includes(key)))
      log.info({ event: 'client_unparked', client });
    this.#parked = parked;
  }
}
