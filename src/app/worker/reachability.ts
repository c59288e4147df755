import { StoppedError, WarehouseError } from '../../core/errors.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { errorFields, type Logger } from '../logging/logger.ts';

/** Asks each client's service once whether it is up, so that a wrong base URL shows in the first lines of the log. */
export async function logReachability(
  warehouses: ReadonlyMap<string, Warehouse>,
  log: Logger,
  stop: AbortSignal,
): Promise<void> {
  const asked = [...warehouses].map(async ([client, warehouse]) => {
    try {
      await warehouse.status(stop);
      log.info({ event: 'service_up', client });
    } catch (error) {
      if (error instanceof StoppedError) return;
      if (!(error instanceof WarehouseError)) throw error;
      log.warn({ event: 'service_not_up', client, ...errorFields(error) });
    }
  });
  await Promise.all(asked);
}
