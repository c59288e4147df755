import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** How a network can be between two processes. */
export type Weather =
  | { readonly kind: 'fair' }
  /** How much later every piece arrives. */
  | { readonly kind: 'delay'; readonly ms: number }
  | { readonly kind: 'bandwidth'; readonly bytesPerSecond: number }
  /** Nothing moves; once it is over everything arrives after all, also what was given up long ago. */
  | { readonly kind: 'pause' }
  /** Both sides believe in a connection over which nothing will ever come again, and nobody is told. */
  | { readonly kind: 'half-open' }
  /** Connections end in good order, in the middle of whatever they carry; new ones too. */
  | { readonly kind: 'drop' }
  /** Connections are reset; new ones too. */
  | { readonly kind: 'reset' };

interface Link {
  readonly near: Socket;
  readonly far: Socket;
  /** Set where it was caught by `half-open`: what it is given vanishes, also in better weather. */
  lost: boolean;
}

/** Stands before a server on this machine and passes everything on, as the weather lets it. */
export class TcpProxy {
  readonly #server: Server;
  readonly #target: URL;
  readonly #links = new Set<Link>();
  #weather: Weather = { kind: 'fair' };
  #changed = Promise.withResolvers<void>();

  private constructor(target: URL) {
    this.#target = target;
    // A link whose one side ended in good order may still carry what the other has to say.
    this.#server = createServer({ allowHalfOpen: true }, (near) => this.#join(near));
  }

  /** @param target address of the server; its scheme does not matter */
  static async start(target: URL): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** The server's address, by way of this proxy. */
  get url(): URL {
    const url = new URL(this.#target);
    url.hostname = '127.0.0.1';
    url.port = String((this.#server.address() as AddressInfo).port);
    return url;
  }

  /** Connections made to it that are still open on the side of whoever made them. */
  get connections(): number {
    return [...this.#links].filter(({ near }) => !near.destroyed).length;
  }

  /** Changes the weather, for the connections there are and for those to come. */
  set(weather: Weather): void {
    this.#weather = weather;
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
    for (const link of this.#links) {
      if (weather.kind === 'half-open') link.lost = true;
      if (weather.kind === 'drop') endBoth(link);
      if (weather.kind === 'reset') resetBoth(link);
    }
  }

  /** Connections that the server still holds although their other side will never hear of it: as its keep-alive would, ends them. */
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
    const link: Link = { near, far, lost: this.#weather.kind === 'half-open' };
    // Both ends are told by what is carried; an error is an end like any other.
    near.on('error', () => undefined);
    far.on('error', () => undefined);
    if (this.#weather.kind === 'drop') return void near.destroy();
    if (this.#weather.kind === 'reset') return void near.resetAndDestroy();
    this.#links.add(link);
    far.connect(Number(this.#target.port), this.#target.hostname);
    const both = [this.#carry(link, near, far), this.#carry(link, far, near)];
    void Promise.all(both).finally(() => this.#links.delete(link));
  }

  async #carry(link: Link, from: Socket, to: Socket): Promise<void> {
    try {
      for await (const piece of from as AsyncIterable<Buffer>) {
        await this.#passage(piece.length);
        if (link.lost || to.destroyed) continue;
        if (!to.write(piece)) await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
      // Neither does the end of a lost one arrive.
      if (link.lost) from.destroy();
      else to.end();
    } catch {
      // One side broke: so does the other, unless nobody is to know.
      if (!link.lost) to.resetAndDestroy();
    }
  }

  /** Settles when a piece of this many bytes has got through. */
  async #passage(bytes: number): Promise<void> {
    while (this.#weather.kind === 'pause') await this.#changed.promise;
    const weather = this.#weather;
    if (weather.kind === 'delay') await wait(weather.ms);
    if (weather.kind === 'bandwidth')
      await Promise.race([wait((bytes / weather.bytesPerSecond) * 1_000), this.#changed.promise]);
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
