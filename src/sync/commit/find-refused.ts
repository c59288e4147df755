import type { Transaction } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import { workOnHalves } from '../../core/work-on-halves.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { isDataRefused, readSqlState } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { ReadingScope } from '../../erp/mirror/differences.ts';
import type { Family, MirrorTables } from '../../erp/mirror/mirror-tables.ts';
import { upsertFamilies } from '../../erp/mirror/upsert.ts';
import type { Lease } from '../../erp/runs/leases.ts';
import { underLease } from '../../erp/runs/leases.ts';

/** Rolls back a trial transaction that the database has accepted. */
class TrialRollback extends CodedError {
  constructor() {
    super('undone', 'The trial transaction is rolled back');
  }
}

/**
 * Finds the families that the database refuses to store. Tries all of them, then halves, until each refused family is
 * alone. Writes nothing.
 * @returns the reason for each refused family, by id of the parent
 */
export async function findRefused(
  db: Database,
  lease: Lease,
  scope: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<Map<number, string>> {
  const state = await findRefusalSqlState(db, lease, (trx) => upsertFamilies(trx, scope, tables, families));
  const [only, ...others] = families;
  if (state === null || only === undefined) return new Map();
  // The database's own message may quote the value, so only its code is kept.
  if (others.length === 0) return new Map([[only.parent.id, `cannot be stored in Postgres (SQLSTATE ${state})`]]);
  const halves = await workOnHalves(families, (half) => findRefused(db, lease, scope, tables, half));
  return new Map(halves.flatMap((half) => [...half]));
}

/**
 * Runs `work` in a transaction that is always rolled back. Returns the SQLSTATE of the refusal; null if there is none.
 */
export async function findRefusalSqlState(
  db: Database,
  lease: Lease,
  work: (trx: Transaction<DB>) => Promise<unknown>,
): Promise<string | null> {
  try {
    await underLease(db, lease, async (trx) => {
      await work(trx);
      throw new TrialRollback();
    });
  } catch (error) {
    if (!(error instanceof TrialRollback) && !isDataRefused(error)) throw error;
    return error instanceof TrialRollback ? null : readSqlState(error);
  }
  return null;
}
