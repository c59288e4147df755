import { type PollJobName, polledStreams } from '../../config/jobs.ts';
import { defineJob, type JobDefinition } from './define-job.ts';

/** A job that polls one stream. */
export interface PullJob<Context, Stream extends { readonly name: string }> extends JobDefinition<Context> {
  readonly stream: Stream;
}

/**
 * Declares the job that polls a stream.
 * @throws TypeError if config/jobs.ts states another stream for this job
 */
export function pullJob<Context, Stream extends { readonly name: string }>(
  name: PollJobName,
  stream: Stream,
  poll: (context: Context, stream: Stream) => Promise<void>,
): PullJob<Context, Stream> {
  if (polledStreams[name] !== stream.name)
    throw new TypeError(`${name} polls ${polledStreams[name]}, not ${stream.name}`);
  const run = (context: Context) => poll(context, stream);
  return { ...defineJob<Context>({ name, queue: 'poll', savesProgress: true, run }), stream };
}
