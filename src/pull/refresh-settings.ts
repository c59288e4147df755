import type { Database } from '../db/pool.ts';
import { inTransaction } from '../db/transaction.ts';
import { type RunContext, warn } from '../schedule/run.ts';
import type { Warehouse } from '../service/client.ts';
import { type DecodedLists, decodeServiceLists } from '../service/decoding/decode-service-lists.ts';
import { type ClientAccount, isAcceptedUntilCommit } from '../service/sql/clients.ts';
import { commitRun } from './commit.ts';
import { appendChanges } from './sql/feed.ts';
import { storeServiceLists } from './sql/service-lists.ts';

/**
 * Reads the service lists and stores them in one transaction (docs/interface.md, 6.2 Settings).
 * Called when a payload names a code that is not known. Stores nothing if the client's account is
 * no longer the accepted one.
 * @throws WarehouseError if they cannot be read; the stored lists stay
 */
export async function readListsNow(
  db: Database,
  account: ClientAccount,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<void> {
  const lists = await fetchServiceLists(warehouse, signal);
  await inTransaction(db, async (trx) => {
    if (!(await isAcceptedUntilCommit(trx, account))) return;
    const { changes } = await storeServiceLists(trx, account.client, lists);
    await appendChanges(trx, account.client, changes);
  });
}

/** Maximum number of unreadable entries that a run names. */
const maxWarnings = 20;

/**
 * Runs the job refresh-settings: reads and stores the service lists under the run's lease, with
 * counts. If a list is absent or suddenly empty, or has an entry that cannot be read, keeps the
 * stored entries and warns.
 */
export async function refreshSettings(context: RunContext): Promise<void> {
  const lists = await fetchServiceLists(context.warehouse, context.signal);

  const keptLists = await commitRun(context, 'refresh-settings', async (transaction) => {
    const { trx, client, addChanges } = transaction;
    const stored = await storeServiceLists(trx, client, lists);
    addChanges(stored.changes);
    return { result: stored.keptLists, counts: { pages: 1, fetched: lists.options.length } };
  });

  if (keptLists.length > 0)
    warn(context, `the service lists lack ${keptLists.join(', ')}; the stored entries are kept`);
  for (const { problem } of lists.unreadable.slice(0, maxWarnings))
    warn(context, `an entry cannot be read, so its list keeps its stored entries: ${problem}`);
}

async function fetchServiceLists(warehouse: Warehouse, signal: AbortSignal): Promise<DecodedLists> {
  return decodeServiceLists(await warehouse.ask({ operation: 'common.settings.get' }, { signal }));
}
