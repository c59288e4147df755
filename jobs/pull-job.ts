import type { JobName } from '../config/jobs.ts';
import { defineJob, type JobDefinition } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';
import type { Stream } from '../src/sync/streams/stream.ts';

/** A job that polls one stream. */
export interface PullJob extends JobDefinition<PullContext> {
  readonly stream: Stream;
}

/** Declares the job that polls a stream: `pull-` and its name. */
export function pullJob(stream: Stream, poll: (context: PullContext) => Promise<void>): PullJob {
  const name = `pull-${stream.name}` as JobName;
  return {
    ...defineJob<PullContext>({
      name,
      queue: 'poll',
      savesProgress: true,
      run: (context) => pollStream(context, stream, poll),
    }),
    stream,
  };
}
