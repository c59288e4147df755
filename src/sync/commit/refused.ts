import type { Transaction } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import { workOnHalves } from '../../core/halves.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { refusesData, sqlState } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { ReadingScope } from '../../erp/mirror/differences.ts';
import type { Family, MirrorTables } from '../../erp/mirror/tables.ts';
import { upsertFamilies } from '../../erp/mirror/upsert.ts';
import type { Lease } from '../../erp/runs/leases.ts';
import { underLease } from '../../erp/runs/leases.ts';

class Undone extends CodedError {
  constructor() {
    super('undone', 'Tried only');
  }
}

/** Finds the resources that the database does not take, by halves. Returns the reasons by id of the parent. */
export async function findRefused(
  db: Database,
  lease: Lease,
  scope: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<Map<number, string>> {
  const state = await stateOfRefusal(db, lease, (trx) => upsertFamilies(trx, scope, tables, families));
  const [only, ...others] = families;
  if (state === null || only === undefined) return new Map();
  // Not in its own words: they may quote the value.
  if (others.length === 0) return new Map([[only.parent.id, `cannot be stored in Postgres (SQLSTATE ${state})`]]);
  const halves = await workOnHalves(families, (half) => findRefused(db, lease, scope, tables, half));
  return new Map(halves.flatMap((half) => [...half]));
}

/** The SQLSTATE with which the database refuses a piece of work; null where it takes it. Nothing stays written. */
export async function stateOfRefusal(
  db: Database,
  lease: Lease,
  work: (trx: Transaction<DB>) => Promise<unknown>,
): Promise<string | null> {
  try {
    await underLease(db, lease, async (trx) => {
      await work(trx);
      throw new Undone();
    });
  } catch (error) {
    if (!(error instanceof Undone) && !refusesData(error)) throw error;
    return error instanceof Undone ? null : sqlState(error);
  }
  return null;
}
