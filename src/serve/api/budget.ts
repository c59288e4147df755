import type { Socket } from 'node:net';
import { Transform } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, toCaller } from './api-deps.ts';

/** Maximum bytes of a body: a payload of 16 MB, and what is around it. */
export const maxBodyBytes = 16 * 1024 * 1024 + 64 * 1024;
/** Maximum bytes of the bodies of one token that are being received or stored at the same time. */
const maxTokenBytes = 2 * maxBodyBytes;
/** Bytes of all bodies at the same time from which a token gets no more than its share of them. */
const maxBytes = 4 * maxBodyBytes;
/** Maximum number of requests of one token that are being received or answered. */
const maxTokenRequests = 128;
/** Number of requests that use the database at the same time, each by one connection. */
export const maxTurns = 6;
/** Maximum number of them that belong to one token. */
const maxTokenTurns = 3;
/** Maximum milliseconds that a request waits for its turn. */
const maxWaitMs = 10_000;

const refuse = (words: string) => new ApiError(503, words, {}, { 'retry-after': '1' });

/** What the requests of one token use now. */
interface TokenUse {
  requests: number;
  bytes: number;
  turns: number;
  readonly waiting: (() => void)[];
}

/**
 * What one request uses. It is given back when the answer is sent and the work is over, also if the
 * caller has gone.
 */
interface RequestUse {
  readonly token: TokenUse;
  bytes: number;
  isWorking: boolean;
  hasEnded: boolean;
}

/**
 * Shares memory and database connections among the tokens, so that none of them can block the
 * others. Bytes count when they are received, not when they are announced. Tokens take turns at the
 * database, one request each.
 */
export class Budget {
  readonly #tokens = new Map<string, TokenUse>();
  readonly #requests = new WeakMap<FastifyRequest, RequestUse>();
  readonly #busy = new Set<Socket>();
  #bytes = 0;
  #turns = 0;

  /** Returns true if a request with a token is under way on a connection. */
  isBusy(socket: Socket): boolean {
    return this.#busy.has(socket);
  }

  /**
   * Admits a request whose token is known, before its body is read.
   * @throws ApiError if the token has too many requests under way
   */
  admit(request: FastifyRequest, reply: FastifyReply): void {
    const { name } = toCaller(request);
    const none = { requests: 0, bytes: 0, turns: 0, waiting: [] };
    const token = this.#tokens.get(name) ?? none;
    if (token.requests >= maxTokenRequests)
      throw refuse(`The token has ${maxTokenRequests} requests under way; wait for their answers`);

    this.#tokens.set(name, token);
    token.requests++;
    const use: RequestUse = { token, bytes: 0, isWorking: false, hasEnded: false };
    this.#requests.set(request, use);

    const { socket } = request.raw;
    this.#busy.add(socket);
    reply.raw.once('close', () => {
      this.#busy.delete(socket);
      use.hasEnded = true;
      this.#release(name, use);
    });
  }

  /**
   * Returns the body of a request, counted as it arrives. It fails with an ApiError if it is too
   * much.
   */
  count(request: FastifyRequest, body: NodeJS.ReadableStream): NodeJS.ReadableStream {
    const use = this.#findUse(request);
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        if (this.#takeBytes(use, chunk.length)) return done(null, chunk);

        // The rest is read and dropped: a caller that is still sending would not read the answer.
        body.unpipe(counted);
        body.resume();
        done(refuse('Too many large requests at once; try again'));
      },
    });

    body.once('error', (error: Error) => counted.destroy(error));
    return body.pipe(counted);
  }

  /**
   * Runs the work of a request when it is the turn of its token.
   * @throws ApiError if there was no turn in time
   */
  async run<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
    const { name } = toCaller(request);
    const use = this.#findUse(request);
    if (use.hasEnded) throw refuse('The caller has gone');

    use.isWorking = true;
    try {
      await this.#waitForTurn(use.token);
      try {
        if (use.hasEnded) throw refuse('The caller has gone');
        return await work();
      } finally {
        use.token.turns--;
        this.#turns--;
        this.#giveTurns();
      }
    } finally {
      use.isWorking = false;
      this.#release(name, use);
    }
  }

  #findUse(request: FastifyRequest): RequestUse {
    const use = this.#requests.get(request);
    if (use === undefined) throw new TypeError('the request was not admitted');
    return use;
  }

  #takeBytes(use: RequestUse, bytes: number): boolean {
    const own = use.token.bytes + bytes;
    const isFair = this.#bytes + bytes <= maxBytes || own <= maxBytes / this.#tokens.size;
    if (own > maxTokenBytes || !isFair) return false;

    use.bytes += bytes;
    use.token.bytes += bytes;
    this.#bytes += bytes;
    return true;
  }

  #release(name: string, use: RequestUse): void {
    const { token } = use;
    if (!use.hasEnded || use.isWorking) return;

    token.requests--;
    token.bytes -= use.bytes;
    this.#bytes -= use.bytes;
    if (token.requests === 0) this.#tokens.delete(name);
  }

  #waitForTurn(token: TokenUse): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();

    const timer = setTimeout(() => {
      token.waiting.splice(token.waiting.indexOf(start), 1);
      reject(refuse('The database has no time for the request; try again'));
    }, maxWaitMs);
    const start = () => {
      clearTimeout(timer);
      resolve();
    };

    token.waiting.push(start);
    this.#giveTurns();
    return promise;
  }

  /** Gives the free turns to the requests that wait, one token after the other. */
  #giveTurns(): void {
    for (const [name, token] of this.#tokens) {
      if (this.#turns >= maxTurns) return;
      if (token.turns >= maxTokenTurns) continue;
      const start = token.waiting.shift();
      if (start === undefined) continue;

      token.turns++;
      this.#turns++;
      // Now it is behind the others.
      this.#tokens.delete(name);
      this.#tokens.set(name, token);
      start();
    }
  }
}
