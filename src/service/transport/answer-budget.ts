import { toStopError } from '../../core/errors.ts';

/**
 * Answers up to this number of bytes take nothing from the budget, so that no client waits for
 * another one's large pages. A page of 100 shipments has about 100,000.
 */
export const freeAnswerBytes = 256_000;

/**
 * Number of bytes that all answers above `freeAnswerBytes` may have together. Each takes about six
 * times that in memory.
 */
const maxAnswerBytes = 32_000_000;

/**
 * What an answer of unknown size takes first. If it turns out to be larger, it takes the whole
 * budget.
 */
export const unknownAnswerBytes = 4_000_000;

/** A part of the budget. */
export interface AnswerPart {
  /** Gives back what an answer of `bytes` does not need. */
  readonly shrink: (bytes: number) => void;
  /** Gives back the part. May be called again. */
  readonly release: () => void;
}

interface Waiter {
  readonly bytes: number;
  readonly grant: () => void;
}

/**
 * Bounds the memory of a process that holds answers: those that are being read, and pages of lists
 * until they are committed. An answer waits for its part before it is read, in the order of the
 * requests. One that is larger than the budget waits until it is alone. Who holds a part must not
 * ask for another one before it gives the first back.
 */
export class AnswerBudget {
  readonly maxBytes: number;
  #usedBytes = 0;
  readonly #waiting = new Set<Waiter>();

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /**
   * Waits until the process may hold an answer of this size.
   * @throws StoppedError if the signal is aborted
   */
  async reserve(bytes: number, signal: AbortSignal): Promise<AnswerPart> {
    if (signal.aborted) throw toStopError(signal);

    const turn = Promise.withResolvers<void>();
    const waiter = { bytes: Math.min(bytes, this.maxBytes), grant: turn.resolve };
    const onAbort = () => {
      if (this.#waiting.delete(waiter)) turn.reject(toStopError(signal));
      this.#serveWaiters();
    };

    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(waiter);
    this.#serveWaiters();

    try {
      await turn.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }

    let held = waiter.bytes;
    const shrink = (left: number) => {
      const before = held;
      held = Math.min(before, left);
      this.#usedBytes -= before - held;
      this.#serveWaiters();
    };
    return { shrink, release: () => shrink(0) };
  }

  #serveWaiters(): void {
    for (const waiter of this.#waiting) {
      if (this.#usedBytes + waiter.bytes > this.maxBytes) return;
      this.#waiting.delete(waiter);
      this.#usedBytes += waiter.bytes;
      waiter.grant();
    }
  }
}

/** The budget of this process, for all clients together. */
export const answerBudget = new AnswerBudget(maxAnswerBytes);
