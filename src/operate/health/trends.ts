/** The last 24 hours as series for charts. They are computed from sync.figures without a clock. */

import { minuteMs } from '../../core/time.ts';
import type { Database } from '../../db/pool.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { readDatabaseClock } from '../sql/job-status.ts';
import { type Figure, type Measure, readFigures } from '../sql/read-figures.ts';

const stepMinutes = 15;
const stepMs = stepMinutes * minuteMs;
const steps = 96;

/** A named line or stack of a chart: a value for each step. */
export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

/** What happened in 24 hours, in steps of 15 minutes. */
export interface Trends {
  /** Beginnings of the steps. The last step is under way. */
  readonly times: readonly Date[];
  /** Rows that polls wrote, by stream. */
  readonly rows: readonly Series[];
  /** Attempts of pushes, by outcome. */
  readonly pushes: readonly Series[];
  /** Seconds from insert to done: half of the rows, and 99 of 100, took at most this long. */
  readonly waits: readonly Series[];
  /** Age of the oldest pending row, in seconds. */
  readonly oldestPending: readonly Series[];
}

/** Reads the last 24 hours of a client; of all together if `client` is empty. */
export async function readTrends(db: Database, client: string): Promise<Trends> {
  const now = await readDatabaseClock(db);
  const from = findFirstStep(now);
  return buildTrends(await readFigures(db, client, { stepMinutes, from }), now);
}

/** Returns the beginning of the first step, if the last one is under way. */
export const findFirstStep = (now: Date): Date =>
  new Date((Math.floor(now.getTime() / stepMs) - steps + 1) * stepMs);

const names = {
  rows: streams.map(({ name }) => name),
  pushes: ['done', 'pending', 'unknown', 'dead'],
  oldest_pending: [''],
} as const;

/** Computes the series of the last 24 hours. */
export function buildTrends(figures: readonly Figure[], now: Date): Trends {
  const first = findFirstStep(now).getTime();
  const times = Array.from({ length: steps }, (_, index) => new Date(first + index * stepMs));
  const find = (measure: Measure, at: Date) =>
    figures.filter((figure) => figure.measure === measure && figure.atMs === at.getTime());

  const collect = (measure: keyof typeof names): Series[] =>
    names[measure].map((part) => ({
      name: part || 'oldest',
      values: times.map((at) => find(measure, at).find((one) => one.part === part)?.value ?? 0),
    }));

  const waits = times.map(
    (at) => new Map(find('waits', at).map(({ part, value }) => [Number(part), value])),
  );
  return {
    times,
    rows: collect('rows'),
    pushes: collect('pushes'),
    waits: [50, 99].map((percent) => ({
      name: `p${percent}`,
      values: waits.map((counts) => findPercentile(counts, percent / 100)),
    })),
    oldestPending: collect('oldest_pending'),
  };
}

/**
 * Finds a percentile of waiting times in seconds; null without counts. Span n counts from 2^(n/4)
 * to 2^((n+1)/4) ms.
 */
export function findPercentile(
  counts: ReadonlyMap<number, number>,
  fraction: number,
): number | null {
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;

  let below = 0;
  for (const [span, count] of [...counts].sort(([one], [other]) => one - other)) {
    below += count;
    if (below >= fraction * total) return 2 ** ((span + 0.5) / 4) / 1_000;
  }
  return null;
}
