import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Config } from '../../../config/env.ts';
import '../../db/address-timeout.ts';
import { NotConnectedError } from './http-error.ts';

const connectTimeoutMs = 10_000;

/** Idle time after which the system sends a keep-alive probe to the other side. */
const keepAliveInitialDelay = 60_000;

/**
 * Creates the dispatcher of outgoing connections, which go direct or through the proxies of the
 * settings.
 * @param maxResponseBytes maximum bytes of one answer
 */
export function openDispatcher(
  { HTTP_TIMEOUT_MS, HTTP_PROXY, HTTPS_PROXY, NO_PROXY }: Config,
  maxResponseBytes: number,
): Dispatcher {
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
 * Creates undici's connector, which throws NotConnectedError if it cannot connect. By its code
 * alone, a failed TLS handshake looks like a connection that broke after the request was written.
 */
function createConnector(timeout: number): buildConnector.connector {
  const connect = buildConnector({ timeout, rejectUnauthorized: true, keepAliveInitialDelay });

  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error === null) callback(null, socket);
      else callback(new NotConnectedError(error), null);
    });
}
