import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { CodedError, StoppedError } from '../../core/errors.ts';
import type { JobKey } from '../../erp/runs/due-jobs.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import type { Processor, QueueName } from '../../queue/backend.ts';
import { RunSlots } from '../../queue/run-slots.ts';
import { errorFields } from '../logging/logger.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import type { Schedules } from './schedules.ts';

/** Maximum number of runs of one queue that a worker makes at the same time. */
export const concurrency = 8;

/** The runs of this worker. The queue delivers most of them; a sweep starts those that the queue has lost. */
export class Runs {
  readonly #deps: RunnerDeps;
  readonly #schedules: Schedules;
  readonly #stop: AbortSignal;
  readonly #onOutdated: (error: SchemaError) => void;
  readonly #slots: Readonly<Record<QueueName, RunSlots>>;
  /** The runs under way, by job and client. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  constructor(deps: RunnerDeps, schedules: Schedules, stop: AbortSignal, onOutdated: (error: SchemaError) => void) {
    this.#deps = deps;
    this.#schedules = schedules;
    this.#stop = stop;
    this.#onOutdated = onOutdated;
    const clients = deps.config.clients.length;
    this.#slots = { poll: new RunSlots(concurrency, clients), bulk: new RunSlots(concurrency, clients, true) };
  }

  /** The function that the queue calls with a firing of a scheduler, or with a run that is due. */
  readonly process: Processor = async ({ name, data: { client } }, _token, cancelled) => {
    if (client === undefined) return this.#schedules.fire(name);
    // `sync.runs` has the reason. BullMQ only shows that the job failed.
    if (!(await this.#start({ client, job: name }, cancelled)))
      throw new CodedError('run_failed', `${name} failed; see sync.runs`);
  };

  /** Starts runs that are due, as far as slots are free, and does not wait for their ends. */
  start(due: readonly JobKey[]): void {
    for (const run of due) void this.#start(run);
  }

  /** Resolves when all runs under way have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** Makes one run, unless it is under way here. Returns false if it failed. */
  #start(run: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const key = `${run.job} ${run.client}`;
    if (this.#stop.aborted || this.#underWay.has(key)) return Promise.resolve(true);
    const running = this.#run(run, cancelled).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, running);
    return running;
  }

  async #run({ client: key, job: name }: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const { log, config } = this.#deps;
    const job = jobNames.find((known) => known === name);
    const client = config.clients.find((known) => known.key === key);
    // A worker of another configuration queued it. That worker runs it.
    if (job === undefined || client === undefined || config.schedules[job].kind === 'off') return true;
    const room = new AbortController();
    const makeRoom = () => {
      log.info({ event: 'run_makes_room', client: key, job });
      room.abort(new StoppedError());
    };
    const { queue, savesProgress = false } = jobs[job];
    const giveSlot = this.#slots[queue].take({ client: key, job }, savesProgress ? makeRoom : null);
    // Without a slot the job stays due. It starts when another run ends.
    if (giveSlot === null) return true;
    let hasEnded = true;
    try {
      const signal = AbortSignal.any([this.#stop, room.signal, ...(cancelled === undefined ? [] : [cancelled])]);
      const { status } = await runJob(this.#deps, job, client, 'schedule', signal);
      hasEnded = status !== 'stopped';
      return status !== 'failed' && status !== 'abandoned';
    } catch (error) {
      // A failed run would be recorded. Here the database could not store the record.
      log.error({ event: 'run_unrecorded', client: key, job, ...errorFields(error) });
      if (error instanceof SchemaError) this.#onOutdated(error);
      return false;
    } finally {
      this.start(giveSlot(hasEnded));
    }
  }
}
