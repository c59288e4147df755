import { pollStream } from '../src/pull/poll.ts';
import type { Stream } from '../src/pull/stream.ts';
import type { Job } from '../src/schedule/job.ts';

/** Returns the job that polls a stream. config/jobs.ts states which job polls which stream. */
export const pullJob = (stream: Stream): Job => ({
  pool: 'poll',
  stream,
  run: (context) => pollStream(context, stream),
});
