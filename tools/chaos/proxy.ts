import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** The state of a network between two processes. */
export type NetworkState =
  | { readonly kind: 'fair' }
  /** Every piece of data arrives `ms` later. */
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'bandwidth'; readonly bytesPerSecond: number }
  /**
   * Nothing moves. When the pause is over, everything arrives, even data of requests that were
   * given up long ago.
   */
  | { readonly kind: 'pause' }
  /** Connections seem open to both sides, but all data vanishes, for ever and without an error. */
  | { readonly kind: 'half-open' }
  /** Open and new connections are closed normally, even in the middle of data. */
  | { readonly kind: 'drop' }
  /** Open and new connections are reset. */
  | { readonly kind: 'reset' };

interface Link {
  readonly near: Socket;
  readonly far: Socket;
  /**
   * True if `half-open` has hit this connection: its data vanishes, even after the network works
   * again.
   */
  lost: boolean;
}

/**
 * A proxy before a server on this machine. It forwards all data as the state of the network allows.
 */
export class TcpProxy {
  readonly #server: Server;
  #target: URL;
  readonly #links = new Set<Link>();
  #state: NetworkState = { kind: 'fair' };
  #changed = Promise.withResolvers<void>();

  private constructor(target: URL) {
    this.#target = target;
    // After one side has closed normally, the other side may still send data.
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#join(near));
  }

  /**
   * Starts a proxy on a free port.
   * @param target address of the server; its scheme does not matter
   */
  static async start(target: URL): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** The server's address with the host and port of this proxy. */
  get url(): URL {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String((this.#server.address() as AddressInfo).port);
    return url;
  }

  /** Number of connections to this proxy that the connecting side still holds. */
  get connections(): number {
    return [...this.#links].filter(({ near }) => !near.destroyed).length;
  }

  /** Changes the state of the network, for open and for new connections. */
  set(state: NetworkState): void {
    this.#state = state;
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
    for (const link of this.#links) {
      if (state.kind === 'half-open') link.lost = true;
      if (state.kind === 'drop') endBoth(link);
      if (state.kind === 'reset') resetBoth(link);
    }
  }

  /** Leads new connections to another server, and resets open ones. */
  lead(target: URL): void {
    this.#target = target;
    for (const link of this.#links) resetBoth(link);
  }

  /** Ends lost connections that the server still holds, as its keep-alive would do. */
  forgetLost(): void {
    for (const link of this.#links) if (link.lost) link.far.destroy();
  }

  async close(): Promise<void> {
    this.set({ kind: 'reset' });
    for (const link of this.#links) resetBoth(link);
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(near: Socket): void {
    const far = new Socket({ allowHalfOpen: true });
    const link: Link = { near, far, lost: this.#state.kind === 'half-open' };
    // `#carry` notices errors and closes the other side.
    near.on('error', () => undefined);
    far.on('error', () => undefined);
    if (this.#state.kind === 'drop') return void near.destroy();
    if (this.#state.kind === 'reset') return void near.resetAndDestroy();
    this.#links.add(link);
    far.connect(Number(this.#target.port), this.#target.hostname);
    const both = [this.#carry(link, near, far), this.#carry(link, far, near)];
    void Promise.all(both).finally(() => this.#links.delete(link));
  }

  async #carry(link: Link, from: Socket, to: Socket): Promise<void> {
    try {
      for await (const piece of from as AsyncIterable<Buffer>) {
        await this.#delayPiece(piece.length);
        if (link.lost || to.destroyed) continue;
        if (!to.write(piece)) await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
      // The end of a lost connection does not arrive either.
      if (link.lost) from.destroy();
      else to.end();
    } catch {
      // One side broke, so the other side is reset, unless the connection is lost.
      if (!link.lost) to.resetAndDestroy();
    }
  }

  /** Waits as long as the network needs for this many bytes. */
  async #delayPiece(bytes: number): Promise<void> {
    while (this.#state.kind === 'pause') await this.#changed.promise;
    const state = this.#state;
    if (state.kind === 'delay') await wait(state.ms);
    if (state.kind === 'bandwidth')
      await Promise.race([wait((bytes / state.bytesPerSecond) * 1_000), this.#changed.promise]);
  }
}

function endBoth({ near, far }: Link): void {
  near.destroy();
  far.destroy();
}

function resetBoth({ near, far }: Link): void {
  near.resetAndDestroy();
  far.resetAndDestroy();
}
