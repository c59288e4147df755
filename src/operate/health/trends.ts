/** Series of figures over time, for charts. They are computed from sync.figures without a clock. */

import { minuteMs } from '../../core/time.ts';
import type { Database } from '../../db/pool.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { type Figure, type Measure, readFigures } from '../sql/read-figures.ts';

/** The steps of a chart, and the resolution of the figures that it is made of. */
interface Steps {
  readonly span: string;
  /** Minutes of a figure. */
  readonly figureMinutes: 5 | 60;
  readonly minutes: number;
  readonly count: number;
}

/** The spans of the charts. */
const spans: readonly Steps[] = [
  { span: '24 hours', figureMinutes: 5, minutes: 15, count: 96 },
  { span: '30 days', figureMinutes: 60, minutes: 360, count: 120 },
];

/**
 * Reads the figures of the last 24 hours and 30 days of a client; of all together if `client` is
 * empty.
 */
export async function readTrends(db: Database, client: string, now: Date): Promise<Trends[]> {
  const names = streams.map(({ name }) => name);
  return Promise.all(
    spans.map(async (steps) => {
      const { figureMinutes, minutes } = steps;
      const from = findFirstStep(now, steps);
      const figures = await readFigures(db, client, {
        minutes: figureMinutes,
        stepMinutes: minutes,
        from,
      });
      return buildTrends(figures, steps, now, names);
    }),
  );
}

/** A named line or stack of a chart: a value for each time. */
export interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

/** What happened in a span of time, in steps of equal length. */
export interface Trends {
  /** What the chart covers, such as `24 hours`. */
  readonly span: string;
  readonly stepMinutes: number;
  /** Beginnings of the steps. The last step is under way. */
  readonly times: readonly Date[];
  /** Rows that polls wrote, by stream. */
  readonly rows: readonly Series[];
  /** Outcomes of attempts per minute, by outcome. */
  readonly pushes: readonly Series[];
  /**
   * Seconds from insert to done: half of the rows (p50), and 99 of 100 (p99), took at most this
   * long.
   */
  readonly waits: readonly Series[];
  /** Age of the oldest pending row, in seconds. */
  readonly oldestPending: readonly Series[];
  /** Seconds since the last complete poll, by stream. */
  readonly streamAges: readonly Series[];
}

/** Outcomes of attempts, in the order of the charts. */
const outcomes = ['done', 'pending', 'unknown', 'dead'] as const;

/**
 * Returns the beginning of the first step, if the last one is under way. Steps begin at multiples
 * of their length.
 */
export function findFirstStep(
  now: Date,
  { minutes, count }: Pick<Steps, 'minutes' | 'count'>,
): Date {
  const stepMs = minutes * minuteMs;
  return new Date((Math.floor(now.getTime() / stepMs) - count + 1) * stepMs);
}

/** Computes the series of a chart with these steps. Figures of shorter steps are put together. */
export function buildTrends(
  figures: readonly Figure[],
  steps: Steps,
  now: Date,
  streams: readonly string[],
): Trends {
  const stepMs = steps.minutes * minuteMs;
  const first = findFirstStep(now, steps).getTime();
  const times = Array.from({ length: steps.count }, (_, index) => new Date(first + index * stepMs));
  const byMeasure = Map.groupBy(figures, ({ measure }) => measure);
  const findPlace = ({ atMs }: Figure) => Math.floor((atMs - first) / stepMs);

  const collect = (
    measure: Measure,
    part: string,
    join: (one: number, other: number) => number,
  ) => {
    const values: (number | null)[] = times.map(() => null);
    for (const figure of byMeasure.get(measure) ?? []) {
      const index = findPlace(figure);
      if (figure.part === part && index >= 0 && index < values.length)
        values[index] = join(values[index] ?? 0, figure.value);
    }
    return values;
  };
  const add = (one: number, other: number) => one + other;
  const toCounts = (values: readonly (number | null)[]) => values.map((value) => value ?? 0);

  // The last step has not taken its whole time yet.
  const toRate = (sum: number | null, index: number) => {
    const passed = (now.getTime() - first - index * stepMs) / minuteMs;
    return (sum ?? 0) / Math.max(1, Math.min(steps.minutes, passed));
  };

  const waits = times.map(() => new Map<number, number>());
  for (const figure of byMeasure.get('waits') ?? []) {
    const counts = waits[findPlace(figure)];
    const span = Number(figure.part);
    counts?.set(span, (counts.get(span) ?? 0) + figure.value);
  }

  return {
    span: steps.span,
    stepMinutes: steps.minutes,
    times,
    rows: streams.map((name) => ({ name, values: toCounts(collect('rows', name, add)) })),
    pushes: outcomes.map((name) => ({ name, values: collect('pushes', name, add).map(toRate) })),
    waits: [50, 99].map((percent) => ({
      name: `p${percent}`,
      values: waits.map((counts) => findPercentile(counts, percent / 100)),
    })),
    oldestPending: [{ name: 'oldest', values: toCounts(collect('oldest_pending', '', Math.max)) }],
    streamAges: streams.map((name) => ({ name, values: collect('stream_age', name, Math.max) })),
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
