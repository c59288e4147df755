import { lookup } from 'node:dns/promises';
import { setTimeout as wait } from 'node:timers/promises';
import type { WarehouseClient } from '../../../config/files.ts';

/** Maximum milliseconds for the addresses of a host. A host without addresses by then is left out. */
const lookupTimeoutMs = 5_000;

/**
 * Finds clients that may be one account under several host names: their hosts share an address, and port, path and user
 * name are the same. It is only a guess: one address may serve several services by their names.
 * @returns the keys of each account with several clients
 */
export async function findSharedAccounts(clients: readonly WarehouseClient[]): Promise<(readonly string[])[]> {
  const hosts = [...new Set(clients.map(({ baseUrl }) => baseUrl.hostname))];
  const addresses = new Map(await Promise.all(hosts.map(async (host) => [host, await readAddresses(host)] as const)));
  const places = clients.flatMap(({ key, baseUrl: { hostname, port, protocol, pathname }, username }) => {
    const usedPort = port || (protocol === 'https:' ? '443' : '80');
    const rest = [usedPort, pathname.toLowerCase().replace(/\/+$/, ''), username];
    return (addresses.get(hostname) ?? []).map((address) => ({ key, account: JSON.stringify([address, ...rest]) }));
  });
  const groups = [...Map.groupBy(places, ({ account }) => account).values()].filter(({ length }) => length > 1);
  // Hosts that share several addresses are one finding.
  return [...new Map(groups.map((group) => group.map(({ key }) => key)).map((keys) => [keys.join(), keys])).values()];
}

/** Returns the addresses of a host; none if they cannot be found. */
async function readAddresses(host: string): Promise<readonly string[]> {
  const found = lookup(host.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
  const addresses = await Promise.race([found, wait(lookupTimeoutMs, [], { ref: false })]);
  return [...new Set(addresses.map(({ address }) => address))];
}
