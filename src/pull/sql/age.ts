import { sql } from 'kysely';

/** The table of a stream, and the dates by which its lists find a row. */
export interface ListedTable {
  readonly table: string;
  /**
   * Attribute for the list's date filters `[gt]` and `[lt]`; null if no such filter covers all
   * rows.
   */
  readonly filter: string | null;
  /** Column of the filter. A backfill compares it with its days. */
  readonly dayColumn: string;
  /** Date columns of the parent. The earliest date tells whether the list still shows the row. */
  readonly dates: readonly string[];
  /**
   * Date columns that tell when the resource changed. The latest date tells how late a change was
   * found.
   */
  readonly moved: readonly string[];
  /**
   * Number of days that the list reaches back (docs/interface.md, 5.1 Values); null if it shows
   * everything.
   */
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
export function isYoungEnough({ horizonDays, dates }: ListedTable, serviceNow: Date) {
  if (horizonDays === null) return sql`true`;
  const span = sql`make_interval(days => ${horizonDays - 1})`;
  return sql`least(${dateList(dates)}, t.first_seen_at) > ${serviceNow}::timestamptz - ${span}`;
}
