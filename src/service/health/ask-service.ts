/** The questions to a service, by which pulls and pushes find out whether it is up. */

import { type Failure, toFailure, WarehouseError } from '../../core/errors.ts';
import type { Database } from '../../db/pool.ts';
import type { Warehouse } from '../client.ts';
import { takeTrial } from '../sql/service-health.ts';
import { isServiceAnswer } from './evidence.ts';
import type { Evidence, HealthCode } from './judge-health.ts';

/** After an answer of status/get, the service counts as reachable for this many milliseconds. */
const believedMs = 1_000;
/** Milliseconds after which a service that has not answered counts as not reachable. */
const statusWithinMs = 8_000;

/** The failure of such a service. */
const lateStatus: Failure = {
  code: 'timeout',
  httpStatus: null,
  operation: 'common.status.get',
  words: `common.status.get: no answer within ${statusWithinMs / 1_000} s`,
};

/** Asks status/get, once for all callers that wait at the same time. */
export class StatusQuestion {
  readonly #warehouse: Warehouse;
  readonly #signal: AbortSignal;
  #asking: Promise<Evidence | null> | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  constructor(warehouse: Warehouse, signal: AbortSignal) {
    this.#warehouse = warehouse;
    this.#signal = signal;
  }

  /**
   * Returns evidence if the service is not reachable; null if it answers, with whatever content.
   * @throws the reason of the signal if it was aborted
   */
  async ask(): Promise<Evidence | null> {
    if (performance.now() - this.#answeredAtMs < believedMs) return null;

    this.#asking ??= findOutage(this.#warehouse, this.#signal).finally(() => {
      this.#asking = undefined;
    });
    const outage = await this.#asking;
    if (outage === null) this.#answeredAtMs = performance.now();

    return outage;
  }
}

async function findOutage(warehouse: Warehouse, signal: AbortSignal): Promise<Evidence | null> {
  const deadline = AbortSignal.timeout(statusWithinMs);
  try {
    await warehouse.checkStatus(AbortSignal.any([signal, deadline]));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return { seen: 'no_answer', failure: lateStatus };

    // An answer in any form shows that the service is reachable.
    const isAnswer =
      error instanceof WarehouseError &&
      ((error.status ?? 500) < 500 || error.code === 'undecodable');
    return isAnswer || isServiceAnswer(error)
      ? null
      : { seen: 'no_answer', failure: toFailure(error) };
  }
}

/** Returns evidence if signing in fails; null if it works. */
async function findSignInProblem(
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<Evidence | null> {
  try {
    await warehouse.signIn(signal);
    return null;
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    const seen = error.code === 'credentials_refused' ? error.code : 'no_answer';
    return { seen, failure: toFailure(error, error.message) };
  }
}

/** Whose hold may be over, and who asks. */
interface Asker {
  readonly db: Database;
  readonly client: string;
  readonly worker: string;
  readonly warehouse: Warehouse;
  readonly signal: AbortSignal;
}

/**
 * Asks the service whether a hold of its client is over. One worker asks at a time.
 * @param code the code of the hold
 * @returns what the answer shows; null if somebody else asks
 */
export async function askWhetherOver(asker: Asker, code: HealthCode): Promise<Evidence | null> {
  if (!(await takeTrial(asker.db, asker, code))) return null;

  const signedIn = code === 'credentials_refused';
  const findProblem = signedIn ? findSignInProblem : findOutage;
  const problem = await findProblem(asker.warehouse, asker.signal);
  return { ...(problem ?? { seen: 'answered', signedIn }), isTrial: true };
}
