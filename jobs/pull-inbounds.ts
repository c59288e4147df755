import { inbounds } from '../src/sync/streams/inbounds.ts';
import { pullJob } from './job.ts';

export const pullInboundsJob = pullJob(inbounds);
