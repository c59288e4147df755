import type { Transaction } from 'kysely';
import type { DB } from '../../erp/generated/tables.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import { markUnlisted } from '../../erp/mirror/unlisted.ts';
import type { RefetchableResource, Stream } from '../reading/stream.ts';
import type { ExtraWrites } from './commit-reading.ts';

/**
 * Marks rows as unlisted because the service does not have them.
 * @param readNo number of the reading that lacked them; a row that a later reading found is not marked
 */
export async function unlist(
  trx: Transaction<DB>,
  client: string,
  stream: RefetchableResource,
  ids: readonly number[],
  readNo: number,
): Promise<readonly Change[]> {
  const gone = (await stream.mayBeGone?.(trx, client, ids)) ?? ids;
  return markUnlisted(trx, client, { stream: stream.name, table: stream.tables.parent.name }, gone, readNo);
}

/** Marks the rows that a batch of reads by id did not find at the service. */
export async function unlistAbsent(
  trx: Transaction<DB>,
  client: string,
  stream: Stream,
  { absent, readNo }: { readonly absent: readonly number[]; readonly readNo: number },
): Promise<ExtraWrites<null>> {
  return { changes: await unlist(trx, client, stream, absent, readNo), result: null };
}
