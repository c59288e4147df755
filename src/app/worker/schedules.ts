import { type JobName, jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { tryExclusively } from '../../erp/connection/exclusive.ts';
import { inTransaction } from '../../erp/connection/transaction.ts';
import { noteDatabase } from '../../erp/outbox/push-database.ts';
import { recordAudit } from '../../erp/runs/audit.ts';
import { retryRefused } from '../../erp/runs/client-holds.ts';
import { type ClientIdentity, registerClients } from '../../erp/runs/clients.ts';
import { bringForward, dueJobs, reviveAbandoned, scheduleClock } from '../../erp/runs/due-jobs.ts';
import { ensureJobs, type WantedJob } from '../../erp/runs/start-run.ts';
import type { TaskQueue } from '../../queue/backend.ts';
import type { QueueName } from '../../queue/define-job.ts';
import { dispatch, readWaiting } from '../../queue/dispatch.ts';
import { nextDue, tickReachMs } from '../../queue/next-due.ts';
import { alignSchedulers } from '../../queue/schedulers.ts';
import type { SweeperTasks } from '../../queue/sweeper.ts';
import { errorFields } from '../logging/logger.ts';
import { repeatedWarnings } from '../logging/repeated.ts';
import { version } from '../version.ts';
import { identified, type RunnerDeps } from './runner.ts';

/** What has been due for longer than this was missed by the ticks: the sweeper delivers it. */
const overdueMs = 5_000;
/** A job that says itself when it is due next may say so a little later than its schedule would. */
const ownPaceSlackMs = 60_000;

const localJobs = jobNames.filter((job) => jobs[job].isLocal);

/** Brings what is due, as it is written in Postgres, into the queues. */
export class Schedules {
  readonly #deps: RunnerDeps;
  readonly #queues: ReadonlyMap<QueueName, TaskQueue>;
  readonly #clients: readonly ClientIdentity[];
  readonly #enabled: readonly JobName[];
  /** Clients that were said to be parked. */
  #parked: readonly string[] = [];

  constructor(deps: RunnerDeps, queues: ReadonlyMap<QueueName, TaskQueue>) {
    this.#deps = deps;
    this.#queues = queues;
    this.#clients = deps.config.clients.map(identified);
    this.#enabled = jobNames.filter((job) => deps.config.schedules[job].kind !== 'off');
  }

  /** Every (client, job) gets its due row; a schedule that was shortened takes effect at once. */
  async prepare(): Promise<void> {
    const { db, config } = this.#deps;
    await this.#register();
    // Before any run: after a restore, gates wait.
    await noteDatabase(db, this.#deps.worker, []);
    await retryRefused(
      db,
      this.#clients.map(({ client }) => client),
    );
    const now = await scheduleClock(db);
    const turns = this.#clients.flatMap(({ client }) =>
      jobNames.map((job) => ({ client, job, stream: jobs[job].stream?.name ?? null })),
    );
    const wanted: WantedJob[] = turns.map(({ client, job, stream }) => {
      const schedule = config.schedules[job];
      if (schedule.kind === 'off' || schedule.kind === 'on-request') return { client, job, stream, due: 'never' };
      // Long work waits for its time: there is nothing to prove before the first load is done.
      const due = jobs[job].queue === 'bulk' ? nextDue(schedule, now, { client, job }) : null;
      return { client, job, stream, due };
    });
    await ensureJobs(db, wanted);
    const latest = turns.flatMap(({ client, job }) => {
      const schedule = config.schedules[job];
      const due = nextDue(schedule, now, { client, job });
      if (due === null) return [];
      if (!jobs[job].ownPace) return [{ client, job, due, ifNever: due }];
      // Its gate may open later than that, which it finds out itself; a plain restart is no reason to try.
      const latestDue = schedule.kind === 'every' ? new Date(now.getTime() + schedule.everyMs + ownPaceSlackMs) : due;
      return [{ client, job, due: latestDue, ifNever: now }];
    });
    await bringForward(db, latest);
  }

  /** Queues a run for every client that is due, or will be before long. */
  async onTick(job: JobName): Promise<void> {
    await this.#fanOut([job], this.#clients, tickReachMs(this.#deps.config.schedules[job]));
  }

  /** Queues at once what is due of a client that had to wait for a slot. */
  wakeClient(client: string): void {
    const own = this.#clients.filter((known) => known.client === client);
    // A rejected run has left the queue, so there is no need to look for it there.
    this.#fanOut(this.#enabled, own, 0, { look: false }).catch((error: unknown) =>
      // The sweeper finds it in a moment.
      this.#deps.log.warn({ event: 'dispatch_failed', client, ...errorFields(error) }),
    );
  }

  /** What the sweeper does. */
  sweeperTasks(): SweeperTasks {
    const { db, log } = this.#deps;
    const warn = repeatedWarnings(log);
    return {
      revive: async () => {
        const lost = await inTransaction(db, (trx) => reviveAbandoned(trx));
        for (const { client, job } of lost) log.warn({ event: 'run_abandoned', client, job });
        // They have waited for a lease's length already.
        if (lost.length > 0) await this.#fanOut(this.#enabled, this.#clients, 0, { look: true });
      },
      dispatchOverdue: () => this.#fanOut(this.#enabled, this.#clients, -overdueMs, { look: true }),
      align: async () => {
        await this.#register();
        // One registrar at a time; who does not get the lock leaves it to whoever has it.
        await tryExclusively(db, 'schedulers', () => this.#align());
      },
      onError: (task, error) => {
        // No stack: a server that is away is no fault of ours, however its client words it.
        const { code, error: words } = errorFields(error);
        warn({ event: 'sweep_failed', task, code, error: words });
      },
    };
  }

  async #fanOut(
    names: readonly JobName[],
    clients: readonly ClientIdentity[],
    withinMs: number,
    overdue?: { readonly look: boolean },
  ): Promise<void> {
    const due = await dueJobs(this.#deps.db, names, clients, withinMs, localJobs);
    const nowMs = Date.now();
    for (const [name, runs] of Map.groupBy(due, (run) => jobs[run.job as JobName].queue)) {
      const queue = this.#queues.get(name);
      if (queue === undefined) continue;
      const options = overdue && { nowMs, ...(overdue.look ? { waiting: await readWaiting(queue) } : {}) };
      for (const [job, own] of Map.groupBy(runs, (run) => run.job as JobName)) await dispatch(queue, job, own, options);
    }
  }

  async #align(): Promise<void> {
    const { db, config, log, worker } = this.#deps;
    for (const [name, queue] of this.#queues) {
      const plan = jobNames
        .filter((job) => jobs[job].queue === name)
        .map((job) => ({ job, schedule: config.schedules[job] }));
      const { set, missing, removed } = await alignSchedulers(queue, plan, version);
      if (set.length + removed.length === 0) continue;
      log.info({ event: 'schedulers_aligned', queue: name, set, lost: missing, removedSchedulers: removed });
      // Workers that are set up differently change each other's for ever; that is no news.
      if (missing.length === 0) continue;
      const detail = `queue ${name}: ${missing.join(', ')}`;
      await recordAudit(db, { by: worker, action: 'schedulers_set', client: null, detail });
    }
  }

  /** Says once of each client that its account is another than the one that was accepted. */
  async #register(): Promise<void> {
    const { db, log } = this.#deps;
    const parked = await registerClients(db, this.#clients);
    for (const client of parked.filter((key) => !this.#parked.includes(key)))
      log.error({
        event: 'client_parked',
        client,
        error: `base URL or username is not the one its rows come from; if that is meant: fulfilment-sync client accept-identity ${client}`,
      });
    for (const client of this.#parked.filter((key) => !parked.includes(key)))
      log.info({ event: 'client_unparked', client });
    this.#parked = parked;
  }
}
