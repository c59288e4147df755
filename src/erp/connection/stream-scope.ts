import type { Transaction } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** A transaction that writes for one stream of one client. */
export interface StreamScope {
  readonly trx: Transaction<DB>;
  readonly client: string;
  readonly stream: string;
}
