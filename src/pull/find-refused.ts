import { CodedError } from '../core/errors.ts';
import { workOnHalves } from '../core/work-on-halves.ts';
import type { Database, DatabaseTransaction } from '../db/pool.ts';
import { isDataRefused, readSqlState } from '../db/transaction.ts';
import { type Lease, underLease } from '../schedule/sql/leases.ts';

/** Rolls back a trial transaction that the database has accepted. */
class TrialRollback extends CodedError {
  constructor() {
    super('undone', 'The trial transaction is rolled back');
  }
}

/**
 * Finds the items that the database refuses to store. Tries all of them, then halves, until each
 * refused item is alone. Every trial is rolled back.
 * @returns the reason for each refused item
 */
export async function findRefused<T>(
  db: Database,
  lease: Lease,
  items: readonly T[],
  write: (trx: DatabaseTransaction, items: readonly T[]) => Promise<unknown>,
): Promise<ReadonlyMap<T, string>> {
  const refusal: unknown = await underLease(db, lease, async (trx) => {
    await write(trx, items);
    throw new TrialRollback();
  }).catch((error: unknown) => error);
  if (!(refusal instanceof TrialRollback) && !isDataRefused(refusal)) throw refusal;
  const [only, ...others] = items;
  if (refusal instanceof TrialRollback || only === undefined) return new Map();
  // The database's own message may quote the value, so only its code is kept.
  if (others.length === 0)
    return new Map([[only, `cannot be stored in Postgres (SQLSTATE ${readSqlState(refusal)})`]]);
  const halves = await workOnHalves(items, (half) => findRefused(db, lease, half, write));
  return new Map(halves.flatMap((half) => [...half]));
}
