/** What the requests of one run show of the service. Every job asks here what a failure means. */

import type { OperationName } from '../../../config/operations.ts';
import {
  isOutage,
  isSilence,
  NotYetError,
  readFailureCodes,
  StoppedError,
  toFailure,
  WarehouseError,
} from '../../core/errors.ts';
import type { Database } from '../../db/pool.ts';
import type { Warehouse } from '../client.ts';
import { clientScope, isProven, recordProof } from '../sql/service-health.ts';
import { StatusQuestion } from './ask-service.ts';
import {
  describeWrongPath,
  isServiceAnswer,
  mayBeWrongPath,
  readLookUpEvidence,
} from './evidence.ts';
import { type Evidence, minFailuresToHold } from './judge-health.ts';

/** The operation without which a job can do nothing. If its assumed path is wrong, it is held. */
export interface MainOperation {
  readonly name: OperationName;
  /** True if each request names a resource, so that a refusal may be about that resource alone. */
  readonly namesResource: boolean;
}

/** Evidence, and the scope that it is about: the client, or a job. */
export interface RunEvidence {
  readonly scope: string;
  readonly evidence: Evidence;
}

/** Which run it is, and where its requests go. */
export interface RunHealthOptions {
  readonly db: Database;
  readonly client: string;
  readonly job: string;
  /** Undefined if the job has none. */
  readonly operation: MainOperation | undefined;
  readonly warehouse: Warehouse;
  readonly signal: AbortSignal;
}

/** Operations that every request needs. */
const sharedOperations: readonly (string | undefined)[] = ['common.status.get', 'common.token'];

/** Statuses that say that the service cannot be asked now, or not with these credentials. */
const statusesOfAll: readonly (number | undefined)[] = [401, 403, 429];
/** Codes of errors that every further request would meet. */
const codesOfAll: ReadonlySet<string> = new Set([
  ...['credentials_refused', 'token_refused', 'connect_failed', 'redirected'],
]);

export class RunHealth {
  readonly #options: RunHealthOptions;
  readonly #status: StatusQuestion;
  /** Number of requests in a row that the service did not serve. */
  #failures = 0;
  /** Number of requests of the main operation that gave nothing, before it ever succeeded. */
  #fruitless = 0;
  /** The failure that shows that the path of the main operation is wrong; null: none does. */
  #wrongPath: WarehouseError | null = null;
  #isProven: boolean | undefined;
  /** What status/get showed after the last failure. */
  #outage: Evidence | null = null;

  constructor(options: RunHealthOptions) {
    this.#options = options;
    this.#status = new StatusQuestion(options.warehouse, options.signal);
  }

  /** True if the path of the main operation is wrong: its refusals say nothing about resources. */
  get hasWrongPath(): boolean {
    return this.#wrongPath !== null;
  }

  /** Notes that a request was served. */
  noteAnswer(): void {
    this.#failures = 0;
  }

  /** Notes for all later runs that the main operation was carried out: its path is right. */
  async proveMainOperation(): Promise<void> {
    const { db, operation, warehouse } = this.#options;
    if (operation === undefined || warehouse.findRoute(operation.name).documented) return;
    if (this.#isProven !== true) await recordProof(db, this.#proof(operation));
    this.#isProven = true;
  }

  /**
   * Judges a request that failed in a run that could do without it.
   * @param isExpected true if the service may not know the resource yet
   * @returns true if the run must end, because its other requests would fail, too; false if only
   *   one resource is concerned
   */
  async endsRun(error: WarehouseError, isExpected = false): Promise<boolean> {
    if (await this.#showsWrongPath(error, isExpected)) return true;
    if (codesOfAll.has(error.code) || statusesOfAll.includes(error.status)) return true;
    if (error.retryAfterMs !== undefined) return true;

    if (error.outcome === 'refused') {
      this.#failures = 0;
      return false;
    }
    this.#failures++;
    if (this.#failures >= minFailuresToHold) return true;
    if (isServiceAnswer(error) || error.code === 'undecodable') return false;

    this.#outage = await this.#status.ask();
    return this.#outage !== null;
  }

  /**
   * Returns what a run that has ended shows of the service.
   * @param failure the error that it failed with; undefined: it is done
   * @param wasHeld true if its client or its job was held when it began
   */
  async findEvidence(failure: unknown, wasHeld: boolean): Promise<RunEvidence[]> {
    const { job } = this.#options;
    if (failure === undefined)
      return wasHeld
        ? [
            { scope: clientScope, evidence: { seen: 'answered' } },
            { scope: job, evidence: { seen: 'success' } },
          ]
        : [];
    if (failure instanceof StoppedError || failure instanceof NotYetError) return [];
    if (!(failure instanceof WarehouseError)) return [];

    const found: RunEvidence[] = [];
    for (const { evidence } of readLookUpEvidence(failure)) {
      const seen = evidence === 'ask' ? await this.#findOutage(failure) : evidence;
      if (seen !== null) found.push({ scope: clientScope, evidence: seen });
    }
    if (!(await this.#showsWrongPath(failure, true))) return found;
    const words = describeWrongPath(failure, `The job ${job} is`);
    return [
      ...found,
      { scope: job, evidence: { seen: 'wrong path', failure: toFailure(failure, words) } },
    ];
  }

  /** Returns evidence if a request got no answer and status/get fails, too. */
  async #findOutage(error: WarehouseError): Promise<Evidence | null> {
    if (!isOutage(readFailureCodes(error))) return null;
    if (this.#outage !== null) return this.#outage;
    if (sharedOperations.includes(error.operation))
      return { seen: 'no answer', failure: toFailure(error) };

    return this.#status.ask().catch((reason: unknown) => {
      // A run that must stop does not wait for the answer.
      if (this.#options.signal.aborted) return null;
      throw reason;
    });
  }

  /**
   * Returns true if a failure shows that the assumed path of the main operation is wrong: at once,
   * or because several resources gave nothing and none ever gave something.
   */
  async #showsWrongPath(error: WarehouseError, isExpected: boolean): Promise<boolean> {
    const { operation } = this.#options;
    if (this.#wrongPath !== null) return error === this.#wrongPath;
    if (operation === undefined || error.operation !== operation.name) return false;

    const { namesResource } = operation;
    const isUndecodable = error.code === 'undecodable' || error.code === 'body_too_large';
    const isSure = mayBeWrongPath(error, namesResource) || (!namesResource && isUndecodable);
    const isFruitless = error.outcome === 'refused' || isUndecodable;
    if (isSilence(error) || !(isSure || isFruitless) || (await this.#isKnown(operation)))
      return false;

    if (!isSure && !isExpected) this.#fruitless++;
    if (!isSure && this.#fruitless < minFailuresToHold) return false;
    this.#wrongPath = error;
    return true;
  }

  async #isKnown(operation: MainOperation): Promise<boolean> {
    this.#isProven ??=
      this.#options.warehouse.findRoute(operation.name).documented ||
      (await isProven(this.#options.db, this.#proof(operation)));
    return this.#isProven;
  }

  #proof({ name }: MainOperation) {
    const { client, job, warehouse } = this.#options;
    const { method, path } = warehouse.findRoute(name);
    return { client, kind: job, method, path };
  }
}
