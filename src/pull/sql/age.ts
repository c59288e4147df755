import { sql } from 'kysely';

/** The date columns of a stream, for date windows and for the age of a row. */
export interface AgeColumns {
  readonly table: string;
  /** Column that date windows filter by; null if the list cannot be filtered by day. */
  readonly windowColumn: string | null;
  /**
   * Date columns of the parent. The earliest of them tells how old a row may be for the service.
   */
  readonly dates: readonly string[];
  /** The date columns that tell when a row last changed at the service. */
  readonly moved: readonly string[];
  /** Number of days that the lists reach back; null if they show everything. */
  readonly horizonDays: number | null;
}

/** Returns SQL: these columns of the row t as times. A date before 1970 is none. */
export const dateList = (columns: readonly string[]) =>
  sql.join(columns.map((column) => sql`sync.real_time(${sql.ref(`t.${column}`)}::timestamptz)`));

/**
 * Returns SQL: whether the row t is young enough that the lists must show it, if the service has
 * it. The service does not state by which date it counts the age (docs/interface.md, 5.2 Not
 * shown), so the earliest date is used.
 */
export function isYoungEnough(age: AgeColumns, serviceNow: Date) {
  if (age.horizonDays === null) return sql`true`;
  const span = sql`make_interval(days => ${age.horizonDays - 1})`;
  return sql`least(${dateList(age.dates)}, t.first_seen_at) > ${serviceNow}::timestamptz - ${span}`;
}
