import { z } from 'zod';
import type { JobName, PollJobName } from '../../config/jobs.ts';

/** A queue: `poll` for data that must be fresh, `bulk` for long work that must not delay the polls. */
export type QueueName = 'poll' | 'bulk';

/** A job: its name, its queue, and what a run for one client does. */
export interface JobDefinition<Context> {
  readonly name: JobName;
  readonly queue: QueueName;
  readonly run: (context: Context) => Promise<void>;
  /** The stream that the job polls. */
  readonly stream?: { readonly name: string };
  /** True if its runs send nothing to the service, so that a client hold does not stop them. */
  readonly isLocal?: boolean;
  /** True if a failed run is retried with growing pauses, because the next scheduled run is far away. */
  readonly retries?: boolean;
  /**
   * True if its runs save their progress. If other runs wait, a long run can be stopped, and continues later.
   */
  readonly savesProgress?: boolean;
  /** True if its runs decide themselves when the next one is due. A shorter schedule does not make it due earlier. */
  readonly ownPace?: boolean;
}

/** Declares a job. The job exists only if jobs/registry.ts lists it. */
export function defineJob<Context>(definition: JobDefinition<Context>): JobDefinition<Context> {
  return definition;
}

/** A job that polls one stream. */
export interface PullJob<Context, Stream extends { readonly name: string }> extends JobDefinition<Context> {
  readonly stream: Stream;
}

/** Declares the job that polls a stream. config/jobs.ts states which job polls which stream. */
export function definePullJob<Context, Stream extends { readonly name: string }>(
  name: PollJobName,
  stream: Stream,
  poll: (context: Context, stream: Stream) => Promise<void>,
): PullJob<Context, Stream> {
  const run = (context: Context) => poll(context, stream);
  return { ...defineJob<Context>({ name, queue: 'poll', savesProgress: true, run }), stream };
}

/** The queue of all schedulers: their firings are short. */
export const schedulerQueue: QueueName = 'poll';

/**
 * The data of a queued job. A run has its client. A firing of the scheduler has none: it queues the runs of all clients
 * that are due before the next firing.
 */
export const jobDataSchema = z.object({ client: z.string().optional() });
export type JobData = z.infer<typeof jobDataSchema>;

/** A queued job as its processor receives it. */
export interface QueuedJob {
  readonly name: string;
  readonly data: JobData;
}

/** The function that runs a queued job. It must declare all three parameters, or BullMQ does not pass the signal. */
export type Processor = (job: QueuedJob, token: string | undefined, signal: AbortSignal | undefined) => Promise<void>;
