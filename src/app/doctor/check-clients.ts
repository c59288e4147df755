import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import { describeError, hasCode, WarehouseError } from '../../core/errors.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { decodeServiceLists } from '../../warehouse/decoding/decode-service-lists.ts';
import { findSharedAccounts } from '../deps/shared-accounts.ts';
import { openWarehouses } from '../deps/warehouses.ts';
import { type Finding, fail, ok, runCheck, warn } from './finding.ts';

/** Largest accepted difference to the service's clock. Watermarks follow that clock. */
const maxSkewMs = 60_000;
const maxWaitMs = 20_000;
/** Time over which the rate of a clock that differs is measured. The Date header has whole seconds. */
const rateMs = 1_000;
/** A clock that is at least this many times as fast as ours is that of a sandbox. */
const virtualRate = 5;
/** Service lists whose codes payloads use. If one is empty, rows that use its codes may become dead. */
const neededLists = ['mainShippingMethods', 'orderTypes', 'returnReasons'];

/** Checks for each client that the service can be reached, accepts the credentials and has its lists. */
export async function checkClients(config: Config, known: readonly KnownClient[]): Promise<readonly Finding[]> {
  const { warehouses, close } = openWarehouses(config);
  // The operator is waiting for the result, so nothing is retried.
  const signal = AbortSignal.timeout(maxWaitMs);
  try {
    const checked = config.clients.map(async (client) => {
      const warehouse = warehouses.get(client.key)?.withoutRetries();
      if (warehouse === undefined) return [];
      const row = known.find((one) => one.client === client.key);
      return [...checkIdentity(client, row), ...(await checkService(client, warehouse, signal))];
    });
    return [...(await Promise.all(checked)).flat(), ...(await checkSharedAccounts(config))];
  } finally {
    await close();
  }
}

/** Checks that no two clients are one account: both would ask for its track-trace in the same hour. */
async function checkSharedAccounts({ clients }: Config): Promise<readonly Finding[]> {
  const shared = await findSharedAccounts(clients);
  const note = 'whether a worker with another database uses the same accounts cannot be seen from here';
  if (shared.length === 0) return [ok('accounts', `no two clients share one; ${note}`)];
  return shared.map((keys) =>
    warn(
      'accounts',
      `${keys.join(' and ')} may be one account: same addresses, port, path and user name; ${note}`,
      'if they are one account, keep one of them: each asks for track-trace once an hour',
    ),
  );
}

function checkIdentity(client: WarehouseClient, row: KnownClient | undefined): readonly Finding[] {
  if (row === undefined || row.identity === toIdentity(client)) return [];
  return [
    fail(
      `${client.key}: account`,
      `the client is parked: its rows come from ${row.baseUrl}, or from another account there`,
      `restore the former base URL and user name, or: fulfilment-sync client accept-identity ${client.key}`,
    ),
  ];
}

async function checkService(
  { key, baseUrl }: WarehouseClient,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const tls =
    baseUrl.protocol === 'https:'
      ? 'that it does not ask for a client certificate, which is not sent'
      : 'if its port speaks TLS, the base URL must begin with https://';
  const address = `check the base URL ${baseUrl.href}, the network, a proxy (HTTPS_PROXY, HTTP_PROXY), and TLS: ${tls}`;
  const up = await runCheck(`${key}: service`, address, async () => {
    await warehouse.checkStatus(signal);
    return [ok(`${key}: service`, `${baseUrl.href} is up`), await checkClock(key, () => readSkew(warehouse, signal))];
  });
  if (up.some(({ state }) => state === 'fail')) return up;
  return [...up, ...(await checkAccess(key, warehouse, signal))];
}

/** Returns by how many milliseconds the service's clock is ahead of this machine's; null if it sends no Date. */
async function readSkew(warehouse: Warehouse, signal: AbortSignal): Promise<number | null> {
  const askedAtMs = Date.now();
  const clockMs = await warehouse.readClock(signal);
  return clockMs === null ? null : clockMs - (askedAtMs + Date.now()) / 2;
}

async function checkClock(key: string, read: () => Promise<number | null>): Promise<Finding> {
  const check = `${key}: clock`;
  const skewMs = await read();
  if (skewMs === null)
    return warn(
      check,
      'the service sends no Date header, so the watermarks of dated streams cannot move',
      'tell the operator of the service',
    );
  if (Math.abs(skewMs) <= maxSkewMs) return ok(check, 'the service and this machine agree');
  const startedMs = performance.now();
  await wait(rateMs);
  const laterMs = (await read()) ?? skewMs;
  const rate = 1 + (laterMs - skewMs) / (performance.now() - startedMs);
  if (rate >= virtualRate) return ok(check, `${Math.round(rate)} times as fast as this machine's: it is a sandbox`);
  const found = `the service and this machine differ by ${Math.round(skewMs / 1_000)} s`;
  return warn(
    check,
    found,
    'synchronise the clock of this machine (NTP); if it is right, tell the operator of the service',
  );
}

async function checkAccess(key: string, warehouse: Warehouse, signal: AbortSignal): Promise<readonly Finding[]> {
  try {
    const { options } = decodeServiceLists(await warehouse.ask({ operation: 'common.settings.get' }, { signal }));
    const lists = new Set(options.map(({ list }) => list as string));
    const empty = neededLists.filter((list) => !lists.has(list));
    return [
      ok(`${key}: access`, 'the service accepts the user name and password'),
      empty.length === 0
        ? ok(`${key}: service lists`, `${options.length} entries`)
        : warn(
            `${key}: service lists`,
            `the service returned no entries for ${empty.join(', ')}`,
            'ask the operator of the service to set them up, unless the client has no use for them, such as no returns',
          ),
    ];
  } catch (error) {
    if (hasCode(error, 'credentials_refused'))
      return [
        fail(
          `${key}: access`,
          'the service refuses the user name and password',
          'correct them, or ask the operator of the service for new ones',
        ),
      ];
    const undocumented = error instanceof WarehouseError && ['nok', 'undecodable'].includes(error.code);
    return [
      undocumented
        ? fail(
            `${key}: service lists`,
            error.message,
            'ask the operator of the service: settings/get does not answer as documented',
          )
        : fail(
            `${key}: access`,
            describeError(error),
            'the service is up but does not answer this request; try again in a moment',
          ),
    ];
  }
}
