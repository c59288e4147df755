import { StoppedError, WarehouseError } from '../../core/errors.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { errorFields, type Logger } from '../logging/logger.ts';

/** Asks the service of each client once for its status, so that the first lines of the log show a wrong base URL. */
export async function logReachability(
  warehouses: ReadonlyMap<string, Warehouse>,
  log: Logger,
  stop: AbortSignal,
): Promise<void> {
  const requests = [...warehouses].map(async ([client, warehouse]) => {
    try {
      await warehouse.checkStatus(stop);
      log.info({ event: 'service_up', client });
    } catch (error) {
      if (error instanceof StoppedError) return;
      if (!(error instanceof WarehouseError)) throw error;
      log.warn({ event: 'service_not_up', client, ...errorFields(error) });
    }
  });
  await Promise.all(requests);
}
