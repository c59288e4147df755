import type { Socket } from 'node:net';
import { Transform } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refuseForNow, toCaller } from './api-deps.ts';

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
/** Maximum number of requests of one token whose bodies are checked at the same time. */
const maxTokenChecks = 3;
/** Maximum milliseconds that a request waits for its turn. */
const maxWaitMs = 10_000;

/** What the requests of one token use now. */
interface TokenUse {
  requests: number;
  bytes: number;
}

/**
 * What one request uses. It is given back when the answer is sent and the work is over, also if the
 * caller has gone.
 */
interface RequestUse {
  readonly token: TokenUse;
  bytes: number;
  /** Number of pieces of work that are under way for it. */
  working: number;
  hasEnded: boolean;
}

/**
 * Shares memory, checks and database connections among the tokens, so that none of them can block
 * the others. Bytes count when they are received, not when they are announced. Tokens take turns at
 * the database, one request each. A check may take long, so it is no turn at the database.
 */
export class Budget {
  readonly #tokens = new Map<string, TokenUse>();
  readonly #requests = new WeakMap<FastifyRequest, RequestUse>();
  readonly #busy = new Set<Socket>();
  readonly #database = new Turns(maxTurns, maxTokenTurns);
  readonly #checks = new Turns(Number.POSITIVE_INFINITY, maxTokenChecks);
  #bytes = 0;

  /** Returns true if a request with a token is under way on a connection. */
  isBusy(socket: Socket): boolean {
    return this.#busy.has(socket);
  }

  /**
   * Admits a request whose token is known, before its body is read.
   * @throws RequestError if the token has too many requests under way
   */
  admit(request: FastifyRequest, reply: FastifyReply): void {
    const { name } = toCaller(request);
    const none = { requests: 0, bytes: 0 };
    const token = this.#tokens.get(name) ?? none;
    if (token.requests >= maxTokenRequests)
      throw refuseForNow(
        `The token has ${maxTokenRequests} requests under way; wait for their answers`,
      );

    this.#tokens.set(name, token);
    token.requests++;
    const use: RequestUse = { token, bytes: 0, working: 0, hasEnded: false };
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
   * Returns the body of a request, counted as it arrives. It fails with a RequestError if it is
   * too much.
   */
  count(request: FastifyRequest, body: NodeJS.ReadableStream): NodeJS.ReadableStream {
    const use = this.#findUse(request);
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        if (this.#takeBytes(use, chunk.length)) return done(null, chunk);

        // The rest is read and dropped: a caller that is still sending would not read the answer.
        body.unpipe(counted);
        body.resume();
        done(refuseForNow('Too many large requests at once; try again'));
      },
    });

    body.once('error', (error: Error) => counted.destroy(error));
    return body.pipe(counted);
  }

  /**
   * Runs what a request does with the database when it is the turn of its token.
   * @throws RequestError if there was no turn in time
   */
  run<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
    return this.#work(request, this.#database, work);
  }

  /**
   * Checks the body of a request when it is the turn of its token.
   * @throws RequestError if there was no turn in time
   */
  check<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
    return this.#work(request, this.#checks, work);
  }

  async #work<T>(request: FastifyRequest, turns: Turns, work: () => Promise<T>): Promise<T> {
    const { name } = toCaller(request);
    const use = this.#findUse(request);
    if (use.hasEnded) throw refuseForNow('The caller has gone');

    use.working++;
    try {
      await turns.wait(name);
      try {
        if (use.hasEnded) throw refuseForNow('The caller has gone');
        return await work();
      } finally {
        turns.end(name);
      }
    } finally {
      use.working--;
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
    if (!use.hasEnded || use.working > 0) return;

    token.requests--;
    token.bytes -= use.bytes;
    this.#bytes -= use.bytes;
    if (token.requests === 0) this.#tokens.delete(name);
  }
}

/** The turns of one token. */
interface TokenTurns {
  turns: number;
  readonly waiting: (() => void)[];
}

/** Turns of the tokens, which are given to one token after the other. */
class Turns {
  readonly #max: number;
  readonly #maxOfToken: number;
  readonly #tokens = new Map<string, TokenTurns>();
  #turns = 0;

  constructor(max: number, maxOfToken: number) {
    this.#max = max;
    this.#maxOfToken = maxOfToken;
  }

  /**
   * Waits for a turn. Call `end` when it is over.
   * @throws RequestError if there was none in time
   */
  wait(name: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const token = this.#tokens.get(name) ?? { turns: 0, waiting: [] };
    this.#tokens.set(name, token);

    const timer = setTimeout(() => {
      token.waiting.splice(token.waiting.indexOf(start), 1);
      reject(refuseForNow('There is no time for the request; try again'));
    }, maxWaitMs);
    const start = () => {
      clearTimeout(timer);
      resolve();
    };

    token.waiting.push(start);
    this.#give();
    return promise;
  }

  end(name: string): void {
    const token = this.#tokens.get(name);
    if (token !== undefined) token.turns--;
    this.#turns--;
    this.#give();
  }

  /** Gives the free turns to the requests that wait, one token after the other. */
  #give(): void {
    for (const [name, token] of this.#tokens) {
      if (this.#turns >= this.#max) return;
      if (token.turns >= this.#maxOfToken) continue;
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
