import { type RawBuilder, sql } from 'kysely';
import type { Backoff } from '../core/backoff.ts';

/**
 * Returns SQL for a comparison with any of these ids. It is one parameter: one prepared plan serves
 * lists of any length.
 */
export const anyId = (ids: readonly number[]) => sql<number>`any(${ids}::bigint[])`;

/** Returns SQL for a comparison with any of these texts, as one parameter. */
export const anyText = (texts: readonly string[]) => sql<string>`any(${texts}::text[])`;

/**
 * Returns SQL for the span of a pause without jitter, an interval.
 * @param number SQL for the number of the pause, from 1
 */
export function toPauseSpan(
  { firstMs, longestMs, growth }: Backoff,
  number: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const factor =
    growth === 'linear'
      ? sql`(${number})`
      : sql`power(${growth}::float8, least(${number} - 1, 100))`;

  return sql`
    least(${longestMs}::float8, ${firstMs}::float8 * ${factor}) * interval '1 millisecond'`;
}

/**
 * Returns SQL for the client key that hides its value from the planner.
 *
 * If the planner sees the value, it looks it up in the statistics. For a client that was added
 * after the last ANALYZE it expects one row. It then scans all rows of the client and compares each
 * of them with each row of the joined table: 25,000 new shipments beside 600,000 of another client
 * took more than a minute. Behind a subquery the planner expects the average number of rows per
 * client, for every client.
 */
export const anyClient = (client: string) => sql<string>`(select ${client}::text)`;
