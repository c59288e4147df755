import { sql } from 'kysely';

/** Where a row belongs in time, for windows and for how late it was found. */
export interface AgeColumns {
  readonly table: string;
  /** Column that windows are of; null where lists are not asked by day. */
  readonly windowColumn: string | null;
  /** Date columns of the parent; the earliest tells how old a row is at least. */
  readonly dates: readonly string[];
  /** Those that tell when it last moved. */
  readonly moved: readonly string[];
  /** Days that lists reach back; null where they show everything. */
  readonly horizonDays: number | null;
}

/** SQL: columns of the row t as times. */
export const dateList = (columns: readonly string[]) =>
  sql.join(columns.map((column) => sql`${sql.ref(`t.${column}`)}::timestamptz`));

/** SQL: whether lists surely show the row t, were it there: the service tells age by a date that is not stated. */
export function youngEnough(age: AgeColumns, serviceNow: Date) {
  if (age.horizonDays === null) return sql`true`;
  const span = sql`make_interval(days => ${age.horizonDays - 1})`;
  return sql`least(${dateList(age.dates)}, t.first_seen_at) > ${serviceNow}::timestamptz - ${span}`;
}
