import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { CodedError, StoppedError } from '../../core/errors.ts';
import type { JobKey } from '../../erp/runs/due-jobs.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import { jobDataSchema, type Processor, type QueueName } from '../../queue/define-job.ts';
import type { RunSlots } from '../../queue/run-slots.ts';
import { errorFields } from '../logging/logger.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import type { Schedules } from './schedules.ts';

/** What runs need besides the parts of a run. */
export interface RunsParts {
  readonly deps: RunnerDeps;
  readonly schedules: Schedules;
  /** The slots of each queue. */
  readonly slots: ReadonlyMap<QueueName, RunSlots>;
  readonly stop: AbortSignal;
  readonly onOutdated: (error: SchemaError) => void;
}

/** The runs of this worker. The queue delivers most of them; a sweep starts those that the queue has lost. */
export class Runs {
  readonly #parts: RunsParts;
  /** The runs under way, by job and client. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  constructor(parts: RunsParts) {
    this.#parts = parts;
  }

  /** The function that the queue calls with a firing of a scheduler, or with a run that is due. */
  readonly process: Processor = async ({ name, data }, _token, cancelled) => {
    const { client } = jobDataSchema.parse(data);
    if (client === undefined) return this.#parts.schedules.fire(name);
    // `sync.runs` has the reason. BullMQ only shows that the job failed.
    if (!(await this.#start({ client, job: name }, cancelled)))
      throw new CodedError('run_failed', `${name} failed; see sync.runs`);
  };

  /** Starts runs that are due, as far as slots are free, and does not wait for their ends. */
  start(due: readonly JobKey[]): void {
    for (const run of due) void this.#start(run);
  }

  /** Starts the runs of a client that are due, for example when a slot becomes free. */
  startDueOf(client: string): void {
    const { schedules, deps } = this.#parts;
    schedules
      .findDueOf(client)
      .then((due) => this.start(due))
      // The next sweep starts them.
      .catch((error: unknown) => deps.log.warn({ event: 'dispatch_failed', client, ...errorFields(error) }));
  }

  /** Resolves when all runs under way have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** Makes one run, unless it is under way here. Returns false if it failed. */
  #start(run: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const key = `${run.job} ${run.client}`;
    if (this.#parts.stop.aborted || this.#underWay.has(key)) return Promise.resolve(true);
    const running = this.#run(run, cancelled).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, running);
    return running;
  }

  async #run({ client: key, job: name }: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const { deps, slots, stop, onOutdated } = this.#parts;
    const job = jobNames.find((known) => known === name);
    const client = deps.config.clients.find((known) => known.key === key);
    // A worker of another configuration queued it. That worker runs it.
    if (job === undefined || client === undefined || deps.config.schedules[job].kind === 'off') return true;
    const room = new AbortController();
    const makeRoom = () => {
      deps.log.info({ event: 'run_makes_room', client: key, job });
      room.abort(new StoppedError());
    };
    const slot = slots.get(jobs[job].queue)?.take(key, job, jobs[job].savesProgress ? makeRoom : null);
    // Without a slot the job stays due. It starts when a run of this client, or a long run, ends.
    if (slot == null) return true;
    let hasEnded = true;
    try {
      const signal = AbortSignal.any([stop, room.signal, ...(cancelled === undefined ? [] : [cancelled])]);
      const { status } = await runJob(deps, job, client, 'schedule', signal);
      hasEnded = status !== 'stopped';
      return status !== 'failed' && status !== 'abandoned';
    } catch (error) {
      // A failed run would be recorded. Here the database could not store the record.
      deps.log.error({ event: 'run_unrecorded', client: key, job, ...errorFields(error) });
      if (error instanceof SchemaError) onOutdated(error);
      return false;
    } finally {
      for (const waiting of slot.give(hasEnded)) if (!stop.aborted) this.startDueOf(waiting);
    }
  }
}
