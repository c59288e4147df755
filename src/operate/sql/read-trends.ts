/** The last 24 hours as series for charts, counted from runs and rows that ended. */

import { type Kysely, sql } from 'kysely';
import { minuteMs } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { streams } from '../../pull/streams/all-streams.ts';

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
  /** Rows of the outbox that ended, by status. */
  readonly pushes: readonly Series[];
  /** Seconds from insert to done: half of the rows, and 99 of 100, took at most this long. */
  readonly waits: readonly Series[];
}

/** A value of one step of a series. */
interface Value {
  readonly chart: string;
  readonly name: string;
  readonly atMs: number;
  readonly value: number;
}

/** SQL: the step that a row `t` ended in, in milliseconds since 1970. */
const atMs = sql<number>`
  extract(epoch from date_bin(make_interval(mins => ${stepMinutes}), t.finished_at,
    timestamptz 'epoch'))::float8 * 1000`;

/** Reads the last 24 hours until `now`, of a client; of all together if `client` is empty. */
export async function readTrends(db: Kysely<DB>, client: string, now: Date): Promise<Trends> {
  const first = (Math.floor(now.getTime() / stepMs) - steps + 1) * stepMs;
  const times = Array.from({ length: steps }, (_, index) => new Date(first + index * stepMs));
  const end = new Date(first + steps * stepMs);
  const isRead = sql`t.finished_at >= ${times[0]} and t.finished_at < ${end}
    and ${client} in ('', t.client)`;

  const { rows } = await sql<Value>`
    select 'rows' as chart, j.stream as name, ${atMs} as "atMs",
      sum(t.created + t.updated + t.removed)::float8 as value
    from sync.runs t
    join sync.jobs j on j.client = t.client and j.job = t.job and j.stream is not null
    where ${isRead}
    group by 2, 3
    union all
    select 'pushes', t.status, ${atMs}, count(*)::float8
    from fulfilment.outbox t
    where ${isRead}
    group by 2, 3
    union all
    select 'waits', n.name, w."atMs", n.value
    from (
      select ${atMs} as "atMs", percentile_cont(array[0.5, 0.99]) within group (
        order by extract(epoch from t.finished_at - greatest(t.created_at, t.not_before))::float8
        ) as values
      from fulfilment.outbox t
      where ${isRead} and t.status = 'done'
      group by 1
    ) w
    cross join lateral unnest(array['p50', 'p99'], w.values) as n (name, value)`.execute(db);

  const collect = (chart: string, names: readonly string[], none: number | null): Series[] =>
    names.map((name) => {
      const ofSeries = rows.filter((row) => row.chart === chart && row.name === name);
      const values = new Map(ofSeries.map((row) => [row.atMs, row.value]));
      return { name, values: times.map((at) => values.get(at.getTime()) ?? none) };
    });

  const streamNames = streams.map(({ name }) => name);
  return {
    times,
    rows: collect('rows', streamNames, 0),
    pushes: collect('pushes', ['done', 'dead', 'cancelled'], 0),
    waits: collect('waits', ['p50', 'p99'], null),
  };
}
