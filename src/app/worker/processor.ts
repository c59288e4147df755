import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { CodedError, StoppedError } from '../../core/errors.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import { jobDataSchema, type Processor, tickName } from '../../queue/define-job.ts';
import type { RunSlots } from '../../queue/run-slots.ts';
import { errorFields } from '../logging/logger.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import type { Schedules } from './schedules.ts';

/** What the processors of a worker share. */
export interface ProcessorParts {
  readonly deps: RunnerDeps;
  readonly schedules: Schedules;
  readonly stop: AbortSignal;
  readonly onOutdated: (error: SchemaError) => void;
}

/** Creates the processor of queued jobs. On a tick it queues what is due soon. It runs everything else. */
export function createProcessor({ deps, schedules, stop, onOutdated }: ProcessorParts, slots: RunSlots): Processor {
  return async ({ name, data }, _token, cancelled) => {
    if (name === tickName) return schedules.onTick();
    const job = jobNames.find((known) => known === name);
    // A worker of another configuration queued it. That worker runs it.
    if (job === undefined || deps.config.schedules[job].kind === 'off') return;
    const { client: key } = jobDataSchema.parse(data);
    const client = deps.config.clients.find((known) => known.key === key);
    if (client === undefined) return;
    const room = new AbortController();
    const makeRoom = () => {
      deps.log.info({ event: 'run_makes_room', client: client.key, job });
      room.abort(new StoppedError());
    };
    const slot = slots.take(client.key, job, jobs[job].savesProgress ? makeRoom : null);
    // Without a slot the job stays due. It is queued again when a run of this client, or a long run, ends.
    if (slot === null) return;
    let hasEnded = true;
    try {
      const signal = AbortSignal.any([stop, room.signal, ...(cancelled === undefined ? [] : [cancelled])]);
      const report = await runJob(deps, job, client, 'schedule', signal).catch((error: unknown) => {
        // A failed run would be recorded. Here the database could not store the record.
        deps.log.error({ event: 'run_unrecorded', client: client.key, job, ...errorFields(error) });
        if (error instanceof SchemaError) onOutdated(error);
        throw new CodedError('run_unrecorded', `the database could not store the record of ${job}; see the log`);
      });
      hasEnded = report.status !== 'stopped';
      // `sync.runs` has the reason. BullMQ only shows that the job failed.
      if (report.status === 'failed' || report.status === 'abandoned')
        throw new CodedError('run_failed', `${job} failed; see sync.runs`);
    } finally {
      for (const waiting of slot.give(hasEnded)) if (!stop.aborted) schedules.wakeClient(waiting);
    }
  };
}
