import { inbounds } from '../src/pull/streams/inbounds.ts';
import { pullJob } from './job.ts';

export const pullInboundsJob = pullJob(inbounds);
