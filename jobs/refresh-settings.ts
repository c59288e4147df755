import { defineJob } from '../src/queue/define-job.ts';
import { refreshSettings } from '../src/sync/pulls/refresh-settings.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** The job that reads the service's configuration lists. Once a day is advised (docs/interface.md, 5.1 Values). */
export const refreshSettingsJob = defineJob<PullContext>({
  name: 'refresh-settings',
  queue: 'poll',
  retries: true,
  run: refreshSettings,
});
