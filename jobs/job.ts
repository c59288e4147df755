import { pollStream } from '../src/pull/poll.ts';
import type { Stream } from '../src/pull/stream.ts';
import type { QueueName } from '../src/schedule/backend.ts';
import type { PullContext } from '../src/schedule/run.ts';

/** A job: its queue, and what a run for one client does. The job exists only if registry.ts lists it. */
export interface Job {
  readonly queue: QueueName;
  readonly run: (context: PullContext) => Promise<void>;
  /** The stream that the job polls. */
  readonly stream?: Stream;
  /** True if its runs send nothing to the service, so that a client hold does not stop them. */
  readonly isLocal?: boolean;
  /** True if its runs save their progress. If other runs wait, a long run can be stopped, and continues later. */
  readonly savesProgress?: boolean;
  /** True if its runs decide themselves when the next one is due. A shorter schedule does not make it due earlier. */
  readonly ownPace?: boolean;
}

/** Returns the job that polls a stream. config/jobs.ts states which job polls which stream. */
export const pullJob = (stream: Stream): Job & { readonly stream: Stream } => ({
  queue: 'poll',
  stream,
  savesProgress: true,
  run: (context) => pollStream(context, stream),
});
