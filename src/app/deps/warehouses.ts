/**
 * Opens the service of every client over one set of connections. One request at a time is sent on a connection.
 */

import type { Config } from '../../../config/env.ts';
import type { WarehouseClient } from '../../../config/files.ts';
import { Warehouse } from '../../warehouse/client.ts';
import type { Exchange } from '../../warehouse/transport/http.ts';
import { Prober } from '../../warehouse/transport/prober.ts';
import { openDispatcher } from './dispatcher.ts';

/** Maximum bytes of one answer. A page of 100 shipments has about 200 KB, a list of 100,000 parcels about 30 MB. */
const maxResponseBytes = 64 * 1024 * 1024;

/**
 * Opens the service of every configured client.
 * @param onExchange receives every request with its outcome
 */
export function openWarehouses(
  config: Config,
  onExchange?: (client: string, exchange: Exchange) => void,
): { warehouses: Map<string, Warehouse>; close: () => Promise<void> } {
  const dispatcher = openDispatcher(config, maxResponseBytes);
  const options = {
    operations: config.operations,
    dispatcher,
    timeoutMs: config.HTTP_TIMEOUT_MS,
    requestsPerSecond: config.REQUESTS_PER_SECOND,
  };
  const warehouses = new Map(
    config.clients.map((client) => {
      const observer = onExchange && { onExchange: (exchange: Exchange) => onExchange(client.key, exchange) };
      return [client.key, new Warehouse(client, { ...options, ...observer })];
    }),
  );
  return { warehouses, close: () => dispatcher.destroy() };
}

/** Opens the service of one client for questions with any method and path. */
export function openProber(config: Config, client: WarehouseClient): { prober: Prober; close: () => Promise<void> } {
  const dispatcher = openDispatcher(config, maxResponseBytes);
  const { operations, HTTP_TIMEOUT_MS: timeoutMs, REQUESTS_PER_SECOND: requestsPerSecond } = config;
  const prober = new Prober(client, { operations, dispatcher, timeoutMs, requestsPerSecond });
  return { prober, close: () => dispatcher.destroy() };
}
