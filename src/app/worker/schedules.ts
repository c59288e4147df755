/**
 * When runs begin. Postgres says what is due; BullMQ fires the schedulers and holds the runs until then. The queues can be
 * lost at any time.
 */

import type { Config } from '../../../config/env.ts';
import { type JobName, jobNames, pushJob } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { tryRunExclusively } from '../../erp/connection/exclusive.ts';
import { notifyPushers } from '../../erp/connection/notify.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { noteDatabase } from '../../erp/outbox/push-database.ts';
import { recordAudit } from '../../erp/runs/audit.ts';
import { endHoldWaits, type OfferedAccount, registerClients } from '../../erp/runs/clients.ts';
import {
  bringDueTimesForward,
  type DueJob,
  findDueJobs,
  hasAbandonedRuns,
  type JobKey,
  readScheduleClock,
  reviveAbandoned,
} from '../../erp/runs/due-jobs.ts';
import { ensureJobs, type WantedJob } from '../../erp/runs/start-run.ts';
import type { TaskQueue } from '../../queue/backend.ts';
import { type QueueName, schedulerQueue } from '../../queue/define-job.ts';
import { findNextDue } from '../../queue/next-due.ts';
import {
  alignSchedulers,
  findFiringMs,
  findSchedulerChanges,
  hasChanges,
  queueRuns,
  type SchedulerChanges,
} from '../../queue/schedulers.ts';
import { type RunnerDeps, toClientIdentity } from './runner.ts';

/** Milliseconds that a firing looks further ahead than its interval, because the next firing may be late. */
const firingSlackMs = 1_000;
/** Milliseconds that a job is overdue before a sweep starts it, because the queue did not. */
const overdueMs = 5_000;

const localJobs = jobNames.filter((job) => jobs[job].isLocal);

/** The schedules of this worker's clients: their due times in Postgres, and the schedulers in the queue. */
export class Schedules {
  readonly #queues: ReadonlyMap<QueueName, TaskQueue>;
  readonly #deps: RunnerDeps;
  readonly #clients: readonly OfferedAccount[];
  readonly #enabled: readonly JobName[];
  /** The schedulers that the queue should have, by name, with the milliseconds between two firings. */
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
    const firings = [
      ...jobNames.map((job) => [job, findFiringMs(schedules[job])] as const),
      [pushJob.name, pushSweepMs] as const,
    ];
    this.#firings = new Map(firings.flatMap(([name, everyMs]) => (everyMs === null ? [] : [[name, everyMs]])));
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

  /**
   * Does what a firing of a scheduler asks for: queues the runs of its job that are due before the next firing, each with
   * a delay until its due time; or wakes the pushers of all workers.
   */
  async fire(name: string): Promise<void> {
    if (name === pushJob.name) return notifyPushers(this.#deps.db);
    const everyMs = this.#firings.get(name);
    const job = this.#enabled.find((known) => known === name);
    // A worker with another configuration has set this scheduler.
    if (job === undefined || everyMs === undefined) return;
    const queue = this.#queues.get(jobs[job].queue);
    if (queue !== undefined) await queueRuns(queue, await this.#findDue(everyMs + firingSlackMs, [job]));
  }

  /** Finds the runs that are due, of one client. */
  findDueOf(client: string): Promise<JobKey[]> {
    const matches = this.#clients.filter((known) => known.client === client);
    return this.#findDue(0, this.#enabled, matches);
  }

  /** Finds the runs that should have begun a while ago. */
  findOverdue(): Promise<JobKey[]> {
    return this.#findDue(-overdueMs);
  }

  /** Ends the leases of lost workers. Returns all runs that are due now, if there were any such leases. */
  async revive(): Promise<JobKey[]> {
    const { db, log } = this.#deps;
    if (!(await hasAbandonedRuns(db))) return [];
    const abandoned = await reviveAbandoned(db);
    for (const { client, job } of abandoned) log.warn({ event: 'run_abandoned', client, job });
    return abandoned.length === 0 ? [] : this.#findDue(0);
  }

  /** Registers the clients, and sets the schedulers that the queue lacks or has lost. */
  async align(): Promise<void> {
    await this.#register();
    const queue = this.#queues.get(schedulerQueue);
    if (queue === undefined) return;
    const wanted = [...this.#firings].map(([name, everyMs]) => ({ name, everyMs }));
    const find = () => findSchedulerChanges(queue, wanted, !this.#hasAligned);
    // One worker at a time. A worker that does not get the lock leaves it to the one that has it.
    if (hasChanges(await find()))
      await tryRunExclusively(this.#deps.db, 'schedulers', async () => this.#applyChanges(queue, await find()));
    else this.#hasAligned = true;
  }

  async #applyChanges(queue: TaskQueue, changes: SchedulerChanges): Promise<void> {
    const { db, log, worker } = this.#deps;
    if (!hasChanges(changes)) return;
    await alignSchedulers(queue, changes);
    const { set, lost, removed } = changes;
    log.info({ event: 'schedulers_aligned', set: set.map(({ name }) => name), lost, removedSchedulers: removed });
    if (lost.length > 0)
      await recordAudit(db, { by: worker, action: 'schedulers_set', client: null, detail: lost.join(', ') });
  }

  /** Finds the runs that are due within some milliseconds; negative: that are overdue by more than this. */
  #findDue(withinMs: number, names = this.#enabled, clients = this.#clients): Promise<DueJob[]> {
    return findDueJobs(this.#deps.db, names, clients, withinMs, localJobs);
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

/** Milliseconds that a job that sets its own due time may be later than its schedule. */
const selfPacedSlackMs = 60_000;

/** Gives jobs of clients their rows in `sync.jobs`. A schedule that became shorter takes effect at once. */
async function prepareJobs(
  db: Database,
  config: Config,
  clients: readonly string[],
  names: readonly JobName[],
): Promise<void> {
  const now = await readScheduleClock(db);
  const clientJobs = clients.flatMap((client) =>
    names.map((job) => ({ client, job, stream: jobs[job].stream?.name ?? null })),
  );
  const wanted: WantedJob[] = clientJobs.map(({ client, job, stream }) => {
    const schedule = config.schedules[job];
    if (schedule.kind === 'off' || schedule.kind === 'on-request') return { client, job, stream, due: 'never' };
    // Long work first runs when its schedule says so. Before the first load there is nothing to compare.
    const due = jobs[job].queue === 'bulk' ? findNextDue(schedule, now, { client, job }) : null;
    return { client, job, stream, due };
  });
  await ensureJobs(db, wanted);
  const latest = clientJobs.flatMap(({ client, job }) => {
    const schedule = config.schedules[job];
    const due = findNextDue(schedule, now, { client, job });
    if (due === null) return [];
    if (!jobs[job].ownPace) return [{ client, job, due, ifNever: due }];
    // The gate of such a job may open later than the schedule says. A restart must not make it try before.
    const latestDue = schedule.kind === 'every' ? new Date(now.getTime() + schedule.everyMs + selfPacedSlackMs) : due;
    return [{ client, job, due: latestDue, ifNever: now }];
  });
  await bringDueTimesForward(db, latest);
}
