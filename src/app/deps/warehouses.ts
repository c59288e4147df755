import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Config } from '../../../config/env.ts';
import { Warehouse } from '../../warehouse/client.ts';
import type { Exchange } from '../../warehouse/transport/http.ts';
import { NotConnectedError } from '../../warehouse/transport/http-error.ts';

/** Bytes of one answer; a page of 100 shipments has some 200 KB, a list of 100,000 parcels some 30 MB. */
const maxResponseBytes = 64 * 1024 * 1024;
const connectTimeoutMs = 10_000;

/**
 * Opens the service's side of every configured client, over one set of connections.
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
      const told = onExchange && { onExchange: (exchange: Exchange) => onExchange(client.key, exchange) };
      return [client.key, new Warehouse(client, { ...options, ...told })];
    }),
  );
  return { warehouses, close: () => dispatcher.destroy() };
}

/** Opens connections to services, directly or by the proxies that the settings name. */
function openDispatcher({ HTTP_TIMEOUT_MS, HTTP_PROXY, HTTPS_PROXY, NO_PROXY }: Config): Dispatcher {
  const timeout = Math.min(connectTimeoutMs, HTTP_TIMEOUT_MS);
  const options = {
    maxResponseSize: maxResponseBytes,
    keepAliveTimeout: 30_000,
    // One request at a time on a connection: an answer that hangs must not hold up others behind it.
    pipelining: 1,
  };
  if (HTTP_PROXY === undefined && HTTPS_PROXY === undefined)
    return new Agent({ ...options, connect: connectOrSayNot(timeout) });
  const tls = { timeout, rejectUnauthorized: true };
  return new EnvHttpProxyAgent({
    ...options,
    connect: connectOrSayNot(timeout),
    requestTls: tls,
    proxyTls: tls,
    // Empty rather than absent: undici would read the environment by itself.
    httpProxy: HTTP_PROXY ?? '',
    httpsProxy: HTTPS_PROXY ?? '',
    noProxy: NO_PROXY ?? '',
  });
}

/**
 * Connects as undici does. An error while connecting gets a type of its own: by its code alone a failed TLS handshake
 * looks like a connection that broke after the request was written.
 */
function connectOrSayNot(timeout: number): buildConnector.connector {
  const connect = buildConnector({ timeout, rejectUnauthorized: true });
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, socket);
      else callback(new NotConnectedError(error), null);
    });
}
