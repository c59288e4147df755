import { streams } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readFigures } from '../../erp/figures/read-figures.ts';
import { buildTrends, findFirstStep, type Steps, type Trends } from './trends.ts';

/** A span of charts: the steps that are drawn, and longer ones for the table of numbers below. */
interface Span {
  readonly title: string;
  readonly minutes: 5 | 60;
  readonly drawn: Steps;
  readonly listed: Steps;
}

/** The spans of the overview. The longer steps are multiples of the shorter ones, and cover no more. */
const spans: readonly Span[] = [
  { title: '24 hours', minutes: 5, drawn: { minutes: 15, count: 96 }, listed: { minutes: 60, count: 24 } },
  { title: '30 days', minutes: 60, drawn: { minutes: 360, count: 120 }, listed: { minutes: 1_440, count: 30 } },
];

/** The figures of a span, in short steps for a chart and in long ones for a table. */
export interface ChartedSpan {
  readonly title: string;
  readonly drawn: Trends;
  readonly listed: Trends;
}

/**
 * Reads the figures of the last 24 hours and 30 days.
 * @param client key of the client; empty: all clients together
 */
export async function readTrends(db: Database, client: string, now: Date): Promise<ChartedSpan[]> {
  const names = streams.map(({ name }) => name);
  return Promise.all(
    spans.map(async ({ title, minutes, drawn, listed }) => {
      const from = new Date(Math.min(...[drawn, listed].map((steps) => findFirstStep(now, steps).getTime())));
      const figures = await readFigures(db, client, { minutes, stepMinutes: drawn.minutes, from });
      return {
        title,
        drawn: buildTrends(figures, drawn, now, names),
        listed: buildTrends(figures, listed, now, names),
      };
    }),
  );
}
