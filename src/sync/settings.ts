import type { Database } from '../erp/connect.ts';
import { type SettingsStored, storeSettings } from '../erp/settings.ts';
import type { Warehouse } from '../warehouse/client.ts';
import { decodeSettings } from '../warehouse/settings.ts';

/**
 * Reads the service's configuration lists and stores them, all or nothing (interface.md, Settings result).
 * @throws WarehouseError where they cannot be read: what is stored stays
 */
export async function refreshSettings(
  db: Database,
  client: string,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<SettingsStored> {
  const settings = decodeSettings(await warehouse.ask({ operation: 'common.settings.get' }, { signal }));
  return db.transaction().execute((trx) => storeSettings(trx, client, settings));
}
