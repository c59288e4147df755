import { hostname } from 'node:os';

/** Hosts that mean every address of this machine. Nobody can call them. */
const wildcards: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** Returns an address that can be called. If the server listens on every address, also says how other machines reach it. */
export function describeReachableAddress(address: string, host: string): string {
  if (!wildcards.has(host)) return address;
  const { port } = new URL(address);
  return `http://127.0.0.1:${port} (from other machines: http://${hostname()}:${port})`;
}
