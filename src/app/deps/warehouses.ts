/**
 * Opens the service of every client over one set of connections. One request at a time is sent on a connection.
 */

import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Config } from '../../../config/env.ts';
import type { WarehouseClient } from '../../../config/files.ts';
import { Warehouse } from '../../warehouse/client.ts';
import type { Exchange } from '../../warehouse/transport/http.ts';
import { NotConnectedError } from '../../warehouse/transport/http-error.ts';
import { Prober } from '../../warehouse/transport/prober.ts';

/** Maximum bytes of one answer. A page of 100 shipments has about 200 KB, a list of 100,000 parcels about 30 MB. */
const maxResponseBytes = 64 * 1024 * 1024;
const connectTimeoutMs = 10_000;

/**
 * Opens the service of every configured client.
 * @param onExchange receives every request with its outcome
 */
export function openWarehouses(
  config: Config,
  onExchange?: (client: string, exchange: Exchange) => void,
): { warehouses: Map<string, Warehouse>; close: () => Promise<void> } {
  const dispatcher = openDispatcher(config);
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
  const dispatcher = openDispatcher(config);
  const { operations, HTTP_TIMEOUT_MS: timeoutMs, REQUESTS_PER_SECOND: requestsPerSecond } = config;
  const prober = new Prober(client, { operations, dispatcher, timeoutMs, requestsPerSecond });
  return { prober, close: () => dispatcher.destroy() };
}

/** Creates the dispatcher of all connections, which go direct or through the proxies of the settings. */
function openDispatcher({ HTTP_TIMEOUT_MS, HTTP_PROXY, HTTPS_PROXY, NO_PROXY }: Config): Dispatcher {
  const timeout = Math.min(connectTimeoutMs, HTTP_TIMEOUT_MS);
  const options = {
    maxResponseSize: maxResponseBytes,
    keepAliveTimeout: 30_000,
    // One request at a time on a connection: an answer that hangs must not delay others.
    pipelining: 1,
  };
  if (HTTP_PROXY === undefined && HTTPS_PROXY === undefined)
    return new Agent({ ...options, connect: createConnector(timeout) });
  const tls = { timeout, rejectUnauthorized: true };
  return new EnvHttpProxyAgent({
    ...options,
    connect: createConnector(timeout),
    requestTls: tls,
    proxyTls: tls,
    // Empty instead of undefined: otherwise undici would read the environment.
    httpProxy: HTTP_PROXY ?? '',
    httpsProxy: HTTPS_PROXY ?? '',
    noProxy: NO_PROXY ?? '',
  });
}

/**
 * Creates a connector that works like undici's, but throws NotConnectedError if it cannot connect. By its code alone, a
 * failed TLS handshake looks like a connection that broke after the request was written.
 */
function createConnector(timeout: number): buildConnector.connector {
  const connect = buildConnector({ timeout, rejectUnauthorized: true });
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, socket);
      else callback(new NotConnectedError(error), null);
    });
}
