import type { Transaction } from 'kysely';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { underLease } from './leases.ts';
import type { Run } from './ledger.ts';

/** A transaction that writes for one stream of one client. Everything that a page writes takes it. */
export interface StreamTransaction {
  readonly trx: Transaction<DB>;
  readonly client: string;
  /** Name of the stream. */
  readonly stream: string;
}

/** A StreamTransaction of a run: it commits only while the run holds its lease. */
export interface RunTransaction extends StreamTransaction {
  readonly run: Run;
}

/**
 * Runs `work` in one transaction under the lease of the run. `work` may be run again, so it must take all that it
 * writes from memory.
 * @throws LeaseLostError if the run no longer holds its lease, or the error of `work`
 */
export function writeStream<T>(
  db: Database,
  run: Run,
  stream: string,
  work: (transaction: RunTransaction) => Promise<T>,
): Promise<T> {
  return underLease(db, run.lease, (trx) => work({ trx, client: run.lease.client, stream, run }));
}
