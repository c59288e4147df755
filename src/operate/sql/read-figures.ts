import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';

/** What a figure counts or measures. */
export type Measure = 'rows' | 'pushes' | 'waits' | 'oldest_pending';

/** A figure of a step of a chart. */
export interface Figure {
  readonly measure: Measure;
  /** Stream, outcome, or the number of a span of waiting times; see sync.figures. */
  readonly part: string;
  /** Beginning of the step, in milliseconds since 1970. */
  readonly atMs: number;
  /** The sum of a step, or for ages its largest value in seconds. */
  readonly value: number;
}

/**
 * Reads the figures of one client since a time, by steps of some minutes; of all clients together
 * if `client` is empty.
 */
export async function readFigures(
  db: Kysely<DB>,
  client: string,
  { stepMinutes, from }: { readonly stepMinutes: number; readonly from: Date },
): Promise<Figure[]> {
  const { rows } = await sql<Figure>`
    select f.measure, f.part,
      extract(epoch from date_bin(make_interval(mins => ${stepMinutes}), f.at,
        timestamptz 'epoch'))::float8 * 1000
        as "atMs",
      case when f.measure = 'oldest_pending' then max(f.value) else sum(f.value) end as value
    from sync.figures f
    where f.client = ${anyClient(client)} and f.at >= ${from}
    group by f.measure, f.part, 3
    order by f.measure, f.part, 3`.execute(db);

  return rows;
}
