import { jobNames } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import { CodedError, StoppedError } from '../../core/errors.ts';
import { SchemaError } from '../../erp/schema/migration-files.ts';
import type { Processor } from '../../queue/backend.ts';
import { jobDataSchema } from '../../queue/define-job.ts';
import type { RunSlots } from '../../queue/run-slots.ts';
import { errorFields } from '../logging/logger.ts';
import { type RunnerDeps, runJob } from './runner.ts';
import type { Schedules } from './schedules.ts';

/** What a worker does with a queued job: a tick is fanned out to the clients that are due, the rest is run. */
export function processorOf(
  deps: RunnerDeps,
  schedules: Schedules,
  slots: RunSlots,
  stop: AbortSignal,
  onOutdated: (error: SchemaError) => void,
): Processor {
  const clients = new Map(deps.config.clients.map((client) => [client.key, client]));
  return async ({ name, data }, _token, cancelled) => {
    const job = jobNames.find((known) => known === name);
    // Queued by a newer version, an older one, or one that is set up otherwise: theirs to run.
    if (job === undefined || deps.config.schedules[job].kind === 'off') return;
    const { client: key } = jobDataSchema.parse(data);
    if (key === undefined) return schedules.onTick(job);
    const client = clients.get(key);
    if (client === undefined) return;
    const room = new AbortController();
    const makeRoom = () => {
      deps.log.info({ event: 'run_makes_room', client: key, job });
      room.abort(new StoppedError());
    };
    const slot = slots.take(key, job, jobs[job].savesProgress ? makeRoom : null);
    // Without a slot it stays due, and is queued again when a run of this client or a long run ends.
    if (slot === null) return;
    let ended = true;
    try {
      const signal = AbortSignal.any([stop, room.signal, ...(cancelled === undefined ? [] : [cancelled])]);
      const report = await runJob(deps, job, client, 'schedule', signal).catch((error: unknown) => {
        // Not a failure of the run, which would be in the ledger: the database could not take its record.
        deps.log.error({ event: 'run_unrecorded', client: key, job, ...errorFields(error) });
        if (error instanceof SchemaError) onOutdated(error);
        throw new CodedError('run_unrecorded', `${job}: see the log`);
      });
      ended = report.status !== 'stopped';
      // The ledger has the story; BullMQ only shows that it failed.
      if (report.status === 'failed' || report.status === 'lost')
        throw new CodedError('run_failed', `${job}: see sync.runs`);
    } finally {
      for (const waiting of slot.give(ended)) if (!stop.aborted) schedules.wakeClient(waiting);
    }
  };
}
