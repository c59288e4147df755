import type { Transaction } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { refusesData, sqlState } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import { type ReadingScope, upsertFamilies } from '../../erp/mirror/upsert.ts';
import type { Lease } from '../../erp/runs/leases.ts';
import { underLease } from '../../erp/runs/leases.ts';
import type { PullContext } from '../run/pull-context.ts';
import type { Mirrored } from '../streams/stream.ts';
import type { Reading } from './commit-reading.ts';

/** As what a reading is written. */
export const scopeOf = ({ client, compare }: PullContext, stream: Mirrored, { readNo }: Reading): ReadingScope => ({
  client,
  stream: stream.name,
  readNo,
  compare,
});

class Undone extends CodedError {
  constructor() {
    super('undone', 'Tried only');
  }
}

/** Which resources the database does not take, found by halves; their parents by id with the reason. */
export async function findRefused(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  families: readonly Family[],
): Promise<Map<number, string>> {
  const state = await refusalOf(context, stream, reading, families);
  const [only, ...others] = families;
  if (state === null || only === undefined) return new Map();
  // Not in its own words: they may quote the value.
  if (others.length === 0) return new Map([[only.parent.id, `cannot be stored in Postgres (SQLSTATE ${state})`]]);
  const middle = Math.ceil(families.length / 2);
  const first = await findRefused(context, stream, reading, families.slice(0, middle));
  const second = await findRefused(context, stream, reading, families.slice(middle));
  return new Map([...first, ...second]);
}

/** The SQLSTATE with which the database refuses these resources; null where it takes them. Nothing stays written. */
const refusalOf = (
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  families: readonly Family[],
): Promise<string | null> =>
  stateOfRefusal(context.db, context.run.lease, (trx) =>
    upsertFamilies(trx, scopeOf(context, stream, reading), stream.tables, families),
  );

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
