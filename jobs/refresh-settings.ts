import { refreshSettings } from '../src/pull/refresh-settings.ts';
import type { Job } from '../src/schedule/job.ts';

/**
 * The job that reads the service's configuration lists. Once a day is advised (docs/interface.md,
 * 5.1 Values).
 */
export const refreshSettingsJob: Job = {
  pool: 'poll',
  run: refreshSettings,
};
