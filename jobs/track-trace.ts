import { pullTrackTrace } from '../src/pull/track-trace.ts';
import type { Job } from '../src/schedule/job.ts';

/**
 * The job that reads where packages are. It runs at most once an hour, even if scheduled more often
 * (docs/interface.md, 5.1 Values).
 */
export const trackTraceJob: Job = {
  pool: 'poll',
  operation: { name: 'v2.shipment.trackTrace', namesResource: false },
  ownPace: true,
  run: pullTrackTrace,
};
