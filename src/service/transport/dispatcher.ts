import type { LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Config } from '../../../config/env.ts';
import { connectTcp, findAddress } from '../../db/connect-tcp.ts';
import { NotConnectedError } from './http-error.ts';

const connectTimeoutMs = 10_000;

/** Idle time after which the system sends a keep-alive probe to the other side. */
const keepAliveMs = 60_000;

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
    // undici itself connects to a proxy, and looks its name up by this function.
    proxyTls: { ...tls, lookup: createProxyLookup([HTTP_PROXY, HTTPS_PROXY], timeout) },
    // Empty instead of undefined: otherwise undici would read the environment.
    httpProxy: HTTP_PROXY ?? '',
    httpsProxy: HTTPS_PROXY ?? '',
    noProxy: NO_PROXY ?? '',
  });
}

/**
 * Creates a connector that works like undici's, but lets each address of a host use the whole time,
 * and throws NotConnectedError if it cannot connect. By its code alone, a failed TLS handshake
 * looks like a connection that broke after the request was written.
 */
function createConnector(timeoutMs: number): buildConnector.connector {
  const upgrade = buildConnector({ timeout: timeoutMs, rejectUnauthorized: true });

  const open = async (options: buildConnector.Options, callback: buildConnector.Callback) => {
    const isTls = options.protocol === 'https:';
    const port = Number(options.port) || (isTls ? 443 : 80);
    const deadlineMs = performance.now() + timeoutMs;

    const socket = await connectTcp({ host: options.hostname, port, timeoutMs });
    if (!isTls) return callback(null, socket.setNoDelay(true).setKeepAlive(true, keepAliveMs));

    const late = Object.assign(new Error(`no TLS handshake within ${timeoutMs} ms`), {
      code: 'ETIMEDOUT',
    });
    const timer = setTimeout(() => socket.destroy(late), deadlineMs - performance.now());
    return upgrade({ ...options, httpSocket: socket }, (...[error, secured]) => {
      clearTimeout(timer);
      if (error === null) callback(null, secured);
      else callback(new NotConnectedError(error), null);
    });
  };

  return (options, callback) => {
    open(options, callback).catch((error: Error) => callback(new NotConnectedError(error), null));
  };
}

/** Creates a lookup of the names of proxies, which returns the address that answers first. */
function createProxyLookup(
  proxies: readonly (string | undefined)[],
  timeoutMs: number,
): LookupFunction {
  const urls = proxies.flatMap((proxy) => (proxy === undefined ? [] : new URL(proxy)));

  return (host, { all }, callback) => {
    const { port = '', protocol = 'http:' } = urls.find(({ hostname }) => hostname === host) ?? {};
    const target = { host, port: Number(port) || (protocol === 'https:' ? 443 : 80), timeoutMs };
    findAddress(target).then(
      ({ address, family }) =>
        all ? callback(null, [{ address, family }]) : callback(null, address, family),
      (error: Error) => callback(error, ''),
    );
  };
}
