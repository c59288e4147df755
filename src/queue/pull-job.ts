import type { JobName } from '../../config/jobs.ts';
import { defineJob, type JobDefinition } from './define-job.ts';

/** A job that polls one stream. */
export interface PullJob<Context, Stream extends { readonly name: string }> extends JobDefinition<Context> {
  readonly stream: Stream;
}

/** Declares the job that polls a stream. Its name is `pull-` and the name of the stream. */
export function pullJob<Context, Stream extends { readonly name: string }>(
  stream: Stream,
  poll: (context: Context, stream: Stream) => Promise<void>,
): PullJob<Context, Stream> {
  const name = `pull-${stream.name}` as JobName;
  const run = (context: Context) => poll(context, stream);
  return { ...defineJob<Context>({ name, queue: 'poll', savesProgress: true, run }), stream };
}
