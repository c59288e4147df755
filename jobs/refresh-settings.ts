import { defineJob } from '../src/queue/define-job.ts';
import { refreshSettings } from '../src/sync/pulls/settings.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Keeps the service's configuration lists (interface.md advises once a day). */
export const refreshSettingsJob = defineJob<PullContext>({
  name: 'refresh-settings',
  queue: 'poll',
  retries: true,
  run: refreshSettings,
});
