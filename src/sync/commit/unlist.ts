import type { Transaction } from 'kysely';
import type { DB } from '../../erp/generated/tables.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import { markUnlisted } from '../../erp/mirror/unlisted.ts';
import type { Stream } from '../reading/stream.ts';
import type { Beside } from './commit-reading.ts';

/**
 * Marks rows that the service said it does not have.
 * @param readNo of the reading that lacked them: whatever found them since wins
 */
export async function unlist(
  trx: Transaction<DB>,
  client: string,
  stream: Stream,
  ids: readonly number[],
  readNo: number,
): Promise<readonly Change[]> {
  const gone = (await stream.mayBeGone?.(trx, client, ids)) ?? ids;
  return markUnlisted(trx, client, { stream: stream.name, table: stream.tables.parent.name }, gone, readNo);
}

/** Marks the ids that a batch of reads by id lacked. */
export async function unlistAbsent(
  trx: Transaction<DB>,
  client: string,
  stream: Stream,
  { absent, readNo }: { readonly absent: readonly number[]; readonly readNo: number },
): Promise<Beside<null>> {
  return { changes: await unlist(trx, client, stream, absent, readNo), result: null };
}
