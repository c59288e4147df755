import type { Config } from '../../../config/env.ts';
import { identityOf, type WarehouseClient } from '../../../config/files.ts';
import { describeError, hasCode, WarehouseError } from '../../core/errors.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { decodeSettings } from '../../warehouse/decoding/settings.ts';
import { openWarehouses } from '../deps/warehouses.ts';
import { type Finding, fail, ok, orFailure, warn } from './finding.ts';

/** A service whose clock is further off moves watermarks by days. */
const maxSkewMs = 60_000;
const patienceMs = 20_000;
/** Lists that payloads name codes of: empty, they make every such row dead. */
const needed = ['mainShippingMethods', 'orderTypes', 'returnReasons'];

/** Whether the service of each client can be reached, lets us in and has its settings. */
export async function checkClients(config: Config, known: readonly KnownClient[]): Promise<readonly Finding[]> {
  const { warehouses, close } = openWarehouses(config);
  // The operator waits for an answer: one attempt is enough.
  const signal = AbortSignal.timeout(patienceMs);
  try {
    const checked = config.clients.map(async (client) => {
      const warehouse = warehouses.get(client.key)?.withoutRetries();
      if (warehouse === undefined) return [];
      const row = known.find((one) => one.client === client.key);
      return [...checkIdentity(client, row), ...(await checkService(client, warehouse, signal))];
    });
    return (await Promise.all(checked)).flat();
  } finally {
    await close();
  }
}

function checkIdentity(client: WarehouseClient, row: KnownClient | undefined): readonly Finding[] {
  if (row === undefined || row.identity === identityOf(client)) return [];
  return [
    fail(
      `${client.key}: account`,
      `its rows come from ${row.baseUrl}, or from another account there: it is parked`,
      `put base URL and user name back, or: fulfilment-sync client accept-identity ${client.key}`,
    ),
  ];
}

async function checkService(
  { key, baseUrl }: WarehouseClient,
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const address = `check the base URL ${baseUrl.href}, the network and the certificate`;
  const up = await orFailure(`${key}: service`, address, async () => {
    const askedAtMs = Date.now();
    await warehouse.status(signal);
    const clockMs = await warehouse.clock(signal);
    const skewMs = clockMs === null ? null : clockMs - (askedAtMs + Date.now()) / 2;
    return [ok(`${key}: service`, `${baseUrl.href} is up`), clockOf(key, skewMs)];
  });
  if (up.some(({ state }) => state === 'fail')) return up;
  return [...up, ...(await checkAccess(key, warehouse, signal))];
}

function clockOf(key: string, skewMs: number | null): Finding {
  const check = `${key}: clock`;
  if (skewMs === null)
    return warn(check, 'the service sends no Date', 'watermarks of dated streams cannot move; tell its operator');
  if (Math.abs(skewMs) <= maxSkewMs) return ok(check, 'the service and this machine agree');
  const found = `the service and this machine differ by ${Math.round(skewMs / 1_000)} s`;
  return warn(check, found, 'run a time service (NTP) here; if that is right, tell the operator of the service');
}

async function checkAccess(key: string, warehouse: Warehouse, signal: AbortSignal): Promise<readonly Finding[]> {
  try {
    const { options } = decodeSettings(await warehouse.ask({ operation: 'common.settings.get' }, { signal }));
    const lists = new Set(options.map(({ list }) => list as string));
    const empty = needed.filter((list) => !lists.has(list));
    return [
      ok(`${key}: access`, 'the service lets us in'),
      empty.length === 0
        ? ok(`${key}: settings`, `${options.length} entries`)
        : warn(`${key}: settings`, `${empty.join(', ')} came empty`, 'have the operator of the service set them up'),
    ];
  } catch (error) {
    if (hasCode(error, 'credentials_refused'))
      return [
        fail(`${key}: access`, 'the service refuses user name and password', 'check them with whoever issued them'),
      ];
    const undocumented = error instanceof WarehouseError && ['nok', 'undecodable'].includes(error.code);
    return [
      undocumented
        ? fail(
            `${key}: settings`,
            error.message,
            'ask the operator of the service: settings/get does not answer as documented',
          )
        : fail(
            `${key}: access`,
            describeError(error),
            'the service is up but does not answer this; try again in a moment',
          ),
    ];
  }
}
