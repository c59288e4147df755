/**
 * All jobs with their default schedules, which `SCHEDULE_<JOB>` overrides: `30s`, `2m`, `6h`, `1d`,
 * a 5-field cron expression in UTC, `on-request` (runs only if a command asks for it), or `off`.
 * Polls can have two intervals, `30s-4m`: the first while something moves, up to the second when
 * nothing has moved for long.
 */
export const defaultSchedules = {
  'pull-shipments': '30s-4m',
  'pull-return-items': '5m',
  'pull-inbounds': '5m',
  'pull-inbound-packing-slips': '5m',
  'pull-orders': '10m',
  'refresh-settings': '1d',
  'track-trace': '1h',
  'pull-parcels': '10m',
  'pull-stock': 'off',
  reconcile: '1d',
  prune: '1d',
  backfill: 'on-request',
} as const;

/**
 * The push is not a job with a lease: every worker pushes rows when it is notified, and also looks
 * for rows every `sweep`.
 */
export const pushJob = { name: 'push-outbox', sweep: '15s' } as const;

export type JobName = keyof typeof defaultSchedules;

/** The stream that each polling job polls. */
export const polledStreams = {
  'pull-shipments': 'shipments',
  'pull-return-items': 'return-items',
  'pull-inbounds': 'inbounds',
  'pull-inbound-packing-slips': 'inbound-packing-slips',
  'pull-orders': 'orders',
} as const satisfies Partial<Record<JobName, string>>;

export const jobNames = Object.keys(defaultSchedules) as JobName[];

/** What can be run and paused by name: the jobs and the push. */
export const runnableNames = [...jobNames, pushJob.name];

/** Returns the name of the environment variable for a job's schedule. */
export const toScheduleVariable = (job: string) =>
  `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`;
