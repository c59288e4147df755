import { inbounds, pullInbounds } from '../src/sync/streams/inbounds.ts';
import { pullJob } from './pull-job.ts';

export const pullInboundsJob = pullJob(inbounds, pullInbounds);
