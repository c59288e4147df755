import { CronExpressionParser } from 'cron-parser';

export type Schedule =
  /**
   * With `slowMs`, a job runs every `everyMs` while something moves, and less often the longer
   * nothing does.
   */
  | { readonly kind: 'every'; readonly everyMs: number; readonly slowMs?: number }
  | { readonly kind: 'cron'; readonly pattern: string }
  | { readonly kind: 'on-request' }
  | { readonly kind: 'off' };

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
/** The longest span, ten years: much later times cannot be stored. */
const maxSpanMs = 3_650 * unitMs.d;
const scheduleForms = '30s, 2m, 6h, 1d (3650d at most), a 5-field cron expression (UTC), or off';
/** Matches a cron field with H: the parser would choose another value each time. */
const randomField = /(^|[\s,])h/i;

/** Returns true if the schedule starts runs by itself: it is neither off nor on request. */
export const isAutomatic = ({ kind }: Schedule): boolean => kind === 'every' || kind === 'cron';

/**
 * Reads a span such as `30s`, `2m`, `6h` or `1d` as milliseconds. Returns null for any other text,
 * and for more than ten years.
 */
export function parseSpanMs(text: string): number | null {
  const match = /^([1-9]\d{0,8})([smhd])$/.exec(text);
  if (!match?.[1] || !match[2]) return null;

  const ms = Number(match[1]) * unitMs[match[2] as keyof typeof unitMs];
  return ms <= maxSpanMs ? ms : null;
}

/**
 * Writes a span in the form that `parseSpanMs` reads, in the largest unit that gives a whole
 * number.
 */
export function writeSpan(ms: number): string {
  const [unit, size] = Object.entries(unitMs).findLast(([, size]) => ms % size === 0) ?? [
    's',
    unitMs.s,
  ];
  return `${ms / size}${unit}`;
}

/**
 * Reads one schedule.
 * @throws RangeError that names the allowed forms
 */
export function parseSchedule(text: string): Schedule {
  if (text === 'off' || text === 'on-request') return { kind: text };

  const [everyMs, slowMs, ...others] = text.split('-').map(parseSpanMs);
  if (everyMs != null && slowMs !== null && others.length === 0) {
    if (slowMs === undefined) return { kind: 'every', everyMs };
    if (slowMs <= everyMs)
      throw new RangeError('must name the shorter interval first, as 30s-4m does');
    return { kind: 'every', everyMs, slowMs };
  }

  if (text.trim().split(/\s+/).length !== 5 || randomField.test(text))
    throw new RangeError(`is not a schedule; use ${scheduleForms}`);

  try {
    CronExpressionParser.parse(text, { tz: 'UTC' });
  } catch (cause) {
    throw new RangeError(`is not a cron expression; use ${scheduleForms}`, { cause });
  }
  return { kind: 'cron', pattern: text.trim() };
}
