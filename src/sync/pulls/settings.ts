import type { Database } from '../../erp/connection/pool.ts';
import { inTransaction } from '../../erp/connection/transaction.ts';
import { appendChanges } from '../../erp/mirror/feed.ts';
import { storeSettings } from '../../erp/resources/settings.ts';
import { type Own, staysAccepted } from '../../erp/runs/clients.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress } from '../../erp/runs/ledger.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { decodeSettings, type Settings } from '../../warehouse/decoding/settings.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/**
 * Reads the service's configuration lists and stores them, all or nothing, as a payload names a code that is not known
 * (interface.md, Settings result).
 * @throws WarehouseError where they cannot be read: what is stored stays
 */
export async function readSettingsNow(
  db: Database,
  own: Own,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<void> {
  const settings = await askSettings(warehouse, signal);
  await inTransaction(db, async (trx) => {
    // Of another service than the one that was accepted meanwhile nothing is stored.
    if (!(await staysAccepted(trx, own))) return;
    const { changes } = await storeSettings(trx, own.client, settings);
    await appendChanges(trx, own.client, changes);
  });
}

/** One run of the job refresh-settings: the same under a lease, with its counts. A list that is suddenly empty is kept, and named. */
export async function refreshSettings(context: PullContext): Promise<void> {
  const { client, db, run, warehouse, signal } = context;
  const { totals } = context.state;
  const settings = await askSettings(warehouse, signal);
  const { keptLists, ...stored } = await underLease(db, run.lease, async (trx) => {
    const result = await storeSettings(trx, client, settings);
    const { created, updated, removed, changes } = result;
    await recordProgress(trx, run, {
      ...totals,
      pages: 1,
      fetched: settings.options.length,
      created,
      updated,
      removed,
    });
    await appendChanges(trx, client, changes);
    return result;
  });
  const { created, updated, removed } = stored;
  Object.assign(totals, { pages: 1, fetched: settings.options.length, created, updated, removed });
  if (keptLists.length > 0) warn(context, `the settings came without ${keptLists.join(', ')}; what was there is kept`);
}

async function askSettings(warehouse: Warehouse, signal: AbortSignal): Promise<Settings> {
  return decodeSettings(await warehouse.ask({ operation: 'common.settings.get' }, { signal }));
}
