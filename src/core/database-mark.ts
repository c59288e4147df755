/**
 * Compares the present database with the one that rows were sent from. A mark is the text that the
 * SQL function sync.database_mark returns: `<system identifier>/<database oid>/<oid of
 * fulfilment.outbox>/<timeline>`.
 */

/**
 * The difference between two marks. `timeline` alone means a failover or a point-in-time recovery.
 */
export type DatabaseChange = 'none' | 'timeline' | 'table' | 'database' | 'server';

/** Compares two marks and returns the largest difference. */
export function compareMarks(accepted: string, found: string): DatabaseChange {
  const [former, present] = [accepted.split('/'), found.split('/')];
  const differs = (index: number) => former[index] !== present[index];

  if (differs(0)) return 'server';
  if (differs(1)) return 'database';
  if (differs(2)) return 'table';
  // The mark of a standby has `-` instead of a timeline.
  return differs(3) && present[3] !== '-' ? 'timeline' : 'none';
}

/** The meaning of each difference, in words for an operator. */
export const changeInWords: Readonly<Record<DatabaseChange, string>> = {
  none: 'it is the database that rows were sent from before',
  timeline:
    'a standby was promoted, or the server was recovered to a point in time, ' +
    'and rows that were sent may be lost',
  table: 'fulfilment.outbox was created again, as when a backup is restored into the same database',
  database:
    'it is another database of the same server, as when a backup is restored under another name',
  server: 'it is on another server, as after a restore, a copy, a migration or pg_upgrade',
};
