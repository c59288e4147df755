import { CodedError } from '../core/errors.ts';
import type { Database } from '../db/pool.ts';
import { inTransaction } from '../db/transaction.ts';
import { type RunContext, warn } from '../schedule/run.ts';
import { readClock } from '../schedule/sql/turns.ts';
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
  await readLists({ db, warehouse, signal }, (lists, askedAt) =>
    inTransaction(db, async (trx) => {
      if (!(await isAcceptedUntilCommit(trx, account))) return 'not accepted';
      const stored = await storeServiceLists(trx, account.client, lists, askedAt);
      if (stored !== null) await appendChanges(trx, account.client, stored.changes);
      return stored;
    }),
  );
}

/** Maximum number of unreadable entries that a run names. */
const maxWarnings = 20;

/**
 * Runs the job refresh-settings: reads and stores the service lists under the run's lease, with
 * counts. If a list is absent or suddenly empty, or has an entry that cannot be read, keeps the
 * stored entries and warns.
 */
export async function refreshSettings(context: RunContext): Promise<void> {
  const { keptLists, unreadable } = await readLists(context, (lists, askedAt) =>
    commitRun(context, 'refresh-settings', async ({ trx, client, addChanges, count }) => {
      const stored = await storeServiceLists(trx, client, lists, askedAt);
      count({ pages: 1, fetched: lists.options.length });
      if (stored === null) return null;

      addChanges(stored.changes);
      return { ...lists, ...stored };
    }),
  );

  if (keptLists.length > 0)
    warn(context, `the service lists lack ${keptLists.join(', ')}; the stored entries are kept`);
  for (const { problem } of unreadable.slice(0, maxWarnings))
    warn(context, `an entry cannot be read, so its list keeps its stored entries: ${problem}`);
}

/** Maximum number of times that the lists are read until no others are stored meanwhile. */
const maxReads = 5;

/**
 * Reads the service lists, again if `store` returns null: others were stored since they were asked
 * for.
 * @throws CodedError `settings_unread` if that happens five times in a row
 */
async function readLists<Result>(
  { db, warehouse, signal }: Pick<RunContext, 'db' | 'warehouse' | 'signal'>,
  store: (lists: DecodedLists, askedAt: Date) => Promise<Result | null>,
): Promise<Result> {
  for (let reads = 0; reads < maxReads; reads++) {
    const askedAt = await readClock(db);
    const answer = await warehouse.ask({ operation: 'common.settings.get' }, { signal });

    const stored = await store(decodeServiceLists(answer), askedAt);
    if (stored !== null) return stored;
  }
  throw new CodedError('settings_unread', 'others stored the service lists during each reading');
}
