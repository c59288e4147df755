/**
 * Compares the present database with the one that rows were sent from. A mark is the text that the
 * SQL function sync.database_mark returns: `<system identifier>/<database oid>/<oid of
 * fulfilment.outbox>/<timeline>`. A part that the server does not tell is `-`.
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
  // A standby has no timeline, and Aurora does not tell it.
  return differs(3) && present[3] !== '-' ? 'timeline' : 'none';
}

/** The meaning of each difference, in words for an operator. */
export const changeInWords: Readonly<Record<DatabaseChange, string>> = {
  none: 'it is the database that rows were sent from before',
  timeline:
    'a standby was promoted, or the server was recovered to a point in time, and rows that were ' +
    'sent may be lost; workers that find all that they sent go on within half a minute',
  table: 'fulfilment.outbox was created again, as when a backup is restored into the same database',
  database:
    'it is another database of the same server, as when a backup is restored under another name',
  server: 'it is on another server, as after a restore, a copy, a migration or pg_upgrade',
};

/** What each answer of an operator means. */
export const acceptanceInWords = {
  moved: 'It is the whole former database, which is not used any more. Rows are sent as before.',
  restored:
    'It comes from a backup. Its open rows may have been sent since: they are looked up, or you ' +
    'decide.',
  copy: 'The former database is still in use. No row or event is ever sent from this one.',
};

/** What an operator says about a database, by what differs, in words. */
const choices: Readonly<Record<DatabaseChange, string>> = {
  none:
    '--as moved (only its address has changed), --as restored (it comes from a snapshot, and the ' +
    'former one is not used any more) or --as copy (that is in use)',
  timeline:
    '--as restored (also --as moved after a failover that lost nothing) ' +
    'or --as copy (the former primary is still in use)',
  table: '--as restored or --as copy (it is for tests)',
  database:
    '--as restored, --as copy (the former database is still in use) ' +
    'or --as moved (it was moved with all rows)',
  server:
    '--as moved (after pg_upgrade or a move with all rows), --as restored (from a backup) ' +
    'or --as copy (the former database is still in use)',
};

/** What is known about the present database. */
export interface FoundDatabase {
  readonly change: DatabaseChange;
  readonly acceptedAs: string;
  readonly isPlaceAccepted: boolean;
}

/** Returns what an operator may do about a database that nothing is sent from. */
export const describeChoice = (change: DatabaseChange): string =>
  `say what it is: fulfilment-sync database accept ${choices[change]}; see docs/operations.md`;

/** Returns why nothing is sent at this place of a database; null if rows are sent. */
export function describeHold({
  change,
  acceptedAs,
  isPlaceAccepted,
}: FoundDatabase): string | null {
  if (change !== 'none')
    return `no row is sent (database_changed): ${changeInWords[change]}; ${describeChoice(change)}`;
  if (acceptedAs === 'copy') return 'this database is a copy: nothing is sent from it';
  if (isPlaceAccepted) return null;
  return `no row is sent (database_changed): ${placeInWords}; ${describeChoice(change)}`;
}

/** The meaning of a place that was not accepted. */
export const placeInWords =
  'host, port or name of the database in its URL are new, and no worker at a known address ' +
  'is there: it may be a copy';

/** Says that a failover is planned (`database expect-failover`). */
export const describeExpected = (until: Date): string =>
  `a failover until ${until.toISOString()} is accepted as restored, without a person`;
