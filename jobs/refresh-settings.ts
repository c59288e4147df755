import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull-context.ts';
import { refreshSettings } from '../src/sync/settings.ts';

/** Keeps the service's configuration lists (interface.md advises once a day). */
export const refreshSettingsJob = defineJob<PullContext>({
  name: 'refresh-settings',
  queue: 'poll',
  retries: true,
  run: refreshSettings,
});
