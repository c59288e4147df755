import { CronExpressionParser } from 'cron-parser';

/**
 * Every job and when it runs unless `SCHEDULE_<JOB>` says otherwise: `30s`, `2m`, `6h`, `1d`,
 * a 5-field cron expression in UTC, `on-request` (only when a command asks for it), or `off`.
 */
export const defaultSchedules = {
  'pull-shipments': '2m',
  'pull-return-items': '5m',
  'pull-inbounds': '5m',
  'pull-inbound-packing-slips': '5m',
  'pull-orders': '10m',
  'refresh-settings': '1d',
  'track-trace': '1h',
  'pull-stock': 'off',
  reconcile: '1d',
  prune: '1d',
  backfill: 'on-request',
} as const;

/** No leased job: every worker pushes as rows come, and looks for them so often where no notification came. */
export const pushJob = { name: 'push-outbox', sweep: '15s' } as const;

export type JobName = keyof typeof defaultSchedules;

export const jobNames = Object.keys(defaultSchedules) as JobName[];

/** The environment variable that sets a job's schedule. */
export const scheduleVariable = (job: string) => `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`;

export type Schedule =
  | { readonly kind: 'every'; readonly everyMs: number }
  | { readonly kind: 'cron'; readonly pattern: string }
  | { readonly kind: 'on-request' }
  | { readonly kind: 'off' };

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const scheduleForms = '30s, 2m, 6h, 1d, a 5-field cron expression (UTC), or off';

/** Whether a job comes by itself, rather than never or when a command asks for it. */
export const comesByItself = ({ kind }: Schedule): boolean => kind === 'every' || kind === 'cron';

/**
 * Milliseconds of a span written as `30s`, `2m`, `6h` or `1d`; null for anything else.
 */
export function parseSpanMs(text: string): number | null {
  const match = /^([1-9]\d{0,8})([smhd])$/.exec(text);
  return match?.[1] && match[2] ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : null;
}

/** A span as `parseSpanMs` reads it, in the largest unit that says it whole. */
export function writeSpan(ms: number): string {
  const [unit, size] = Object.entries(unitMs).findLast(([, size]) => ms % size === 0) ?? ['s', unitMs.s];
  return `${ms / size}${unit}`;
}

/**
 * Reads one schedule.
 * @throws RangeError that names the allowed forms
 */
export function parseSchedule(text: string): Schedule {
  if (text === 'off' || text === 'on-request') return { kind: text };
  const everyMs = parseSpanMs(text);
  if (everyMs !== null) return { kind: 'every', everyMs };
  if (text.trim().split(/\s+/).length !== 5) throw new RangeError(`is no schedule; use ${scheduleForms}`);
  try {
    CronExpressionParser.parse(text, { tz: 'UTC' });
  } catch (cause) {
    throw new RangeError(`is no cron expression; use ${scheduleForms}`, { cause });
  }
  return { kind: 'cron', pattern: text.trim() };
}
