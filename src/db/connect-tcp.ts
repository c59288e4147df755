/**
 * Opens connections to other machines: the service, receivers, proxies, Postgres and Redis. A host
 * may have several addresses. Node tries them one after the other, and ends each attempt after 250
 * ms, so that an address with a longer way is never reached. Here, each address may use the whole
 * time.
 */

import dns, { type LookupAddress } from 'node:dns';
import { connect, isIP, Socket } from 'node:net';

/**
 * Time after which the next address is tried beside those that have not answered yet (RFC 8305).
 */
const headStartMs = 250;

/** Maximum number of addresses of a host that are tried. */
const maxAddresses = 16;

/** Where to connect to, and in which time. */
export interface TcpTarget {
  readonly host: string;
  readonly port: number;
  /** Maximum time for all addresses together. */
  readonly timeoutMs: number;
}

/**
 * Connects to a host. Tries its addresses side by side, each a moment after the one before, or at
 * once if that one has failed. The first that answers is used, and the others are ended.
 * @throws Error of the only address, AggregateError if several failed, or `ETIMEDOUT` if none
 *   answered in time
 */
export async function connectTcp({ host, port, timeoutMs }: TcpTarget): Promise<Socket> {
  const timeout = new AbortController();
  const words = `no address of ${host} answered within ${timeoutMs} ms`;
  const late = Object.assign(new Error(words), { code: 'ETIMEDOUT', syscall: 'connect' });
  const timer = setTimeout(() => timeout.abort(late), timeoutMs);

  try {
    const addresses = await Promise.race([listAddresses(host), whenAborted(timeout.signal)]);
    return await raceAddresses(addresses, port, timeout.signal);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Returns the address of a host to connect to, for drivers that connect by themselves. If the host
 * has several, it is the first that answers.
 */
export async function findAddress(target: TcpTarget): Promise<LookupAddress> {
  const [first, ...others] = await listAddresses(target.host);

  if (first !== undefined && others.length === 0) return first;

  const socket = await connectTcp(target);
  const { remoteAddress: address = target.host, remoteFamily } = socket;
  socket.destroy();

  return { address, family: remoteFamily === 'IPv6' ? 6 : 4 };
}

/**
 * A socket for drivers that call `connect(port, host)`: it connects to the address that answers
 * first.
 */
export class AddressedSocket extends Socket {
  readonly #timeoutMs: number;

  constructor(timeoutMs: number) {
    super();
    this.#timeoutMs = timeoutMs;
  }

  override connect(...given: unknown[]): this {
    const begin = super.connect.bind(this) as (...target: unknown[]) => this;

    const [port, host] = given;
    if (typeof port !== 'number' || typeof host !== 'string' || isIP(host) !== 0)
      return begin(...given);

    findAddress({ host, port, timeoutMs: this.#timeoutMs }).then(
      ({ address }) => this.destroyed || begin(port, address),
      (error: Error) => this.destroy(error),
    );
    return this;
  }
}

async function listAddresses(host: string): Promise<readonly LookupAddress[]> {
  const withoutBrackets = host.replace(/^\[(.*)\]$/, '$1');
  const family = isIP(withoutBrackets);
  if (family !== 0) return [{ address: withoutBrackets, family }];

  const found = await new Promise<LookupAddress[]>((resolve, reject) =>
    dns.lookup(host, { all: true }, (error, addresses) =>
      error === null ? resolve(addresses) : reject(error),
    ),
  );

  return alternateFamilies(found).slice(0, maxAddresses);
}

/**
 * Orders addresses so that IPv6 and IPv4 alternate: often, one of the two is wholly out of reach.
 */
function alternateFamilies(addresses: readonly LookupAddress[]): LookupAddress[] {
  const [first] = addresses;
  const alike = addresses.filter(({ family }) => family === first?.family);
  const others = addresses.filter(({ family }) => family !== first?.family);
  const longest = Math.max(alike.length, others.length);

  return Array.from({ length: longest }, (_, index) => [alike[index], others[index]])
    .flat()
    .filter((address) => address !== undefined);
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Connects to the first address that answers before the signal is aborted. */
function raceAddresses(
  addresses: readonly LookupAddress[],
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const waiting = [...addresses];
  const open = new Set<Socket>();
  const errors: Error[] = [];
  let timer: NodeJS.Timeout | undefined;

  const end = () => {
    clearTimeout(timer);
    waiting.length = 0;
    for (const socket of open) socket.destroy();
  };

  const tryNext = () => {
    clearTimeout(timer);
    const next = waiting.shift();
    if (next === undefined) return;

    const socket = connect({ host: next.address, port, family: next.family });
    open.add(socket);

    // A socket that lost the race, or that is used by now, has listeners of its own for errors.
    const fail = (error: Error) => {
      open.delete(socket);
      errors.push(error);
      if (waiting.length > 0) tryNext();
      else if (open.size === 0)
        reject(errors.length === 1 ? error : new AggregateError(errors, error.message));
    };
    socket.once('error', fail).once('connect', () => {
      socket.off('error', fail);
      open.delete(socket);
      resolve(socket);
    });

    if (waiting.length > 0) timer = setTimeout(tryNext, headStartMs);
  };

  signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  tryNext();

  return promise.finally(end);
}
