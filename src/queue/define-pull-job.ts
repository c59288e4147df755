import type { PollJobName } from '../../config/jobs.ts';
import { defineJob, type JobDefinition } from './define-job.ts';

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
