/** What the requests of one run show of the service. Every job asks here what a failure means. */

import type { OperationName } from '../../../config/operations.ts';
import {
  isOutage,
  isSilence,
  readFailureCodes,
  toFailure,
  WarehouseError,
} from '../../core/errors.ts';
import type { Database } from '../../db/pool.ts';
import type { Warehouse } from '../client.ts';
import { ProvenRoutes } from '../sql/proven-routes.ts';
import { clientScope, noteEvidence } from '../sql/service-health.ts';
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

/** Which run it is, and where its requests go. */
export interface RunHealthOptions {
  readonly db: Database;
  readonly client: string;
  readonly job: string;
  /** Undefined if the job has none. */
  readonly operation: MainOperation | undefined;
  readonly warehouse: Warehouse;
  readonly signal: AbortSignal;
  readonly worker: string;
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
  readonly #proven: ProvenRoutes;
  /** Number of requests in a row that the service did not serve. */
  #failures = 0;
  /** Number of requests of the main operation that gave nothing, before it ever succeeded. */
  #fruitless = 0;
  /** The failure that shows that the path of the main operation is wrong; null: none does. */
  #wrongPath: WarehouseError | null = null;
  /** What status/get showed after the last failure. */
  #outage: Evidence | null = null;

  constructor(options: RunHealthOptions) {
    this.#options = options;
    this.#status = new StatusQuestion(options.warehouse, options.signal);
    this.#proven = new ProvenRoutes(options.db, options.client);
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
    const { job, operation, warehouse } = this.#options;
    if (operation !== undefined) await this.#proven.add(job, warehouse.findRoute(operation.name));
  }

  /** Notes for all later runs that an operation found a resource: its path is right. */
  async proveOperation(name: OperationName): Promise<void> {
    await this.#proven.add(name, this.#options.warehouse.findRoute(name));
  }

  /** Returns true if a 404 of an operation is about the resource, because its path is right. */
  async isProven(name: OperationName): Promise<boolean> {
    return this.#proven.has(name, this.#options.warehouse.findRoute(name));
  }

  /**
   * Judges a request that failed in a run that could do without it.
   * @param isExpected true if the service may not know the resource yet
   * @returns true if the run must end, because its other requests would fail, too; false if only
   *   one resource is concerned
   */
  async endsRun(error: WarehouseError, isExpected = false): Promise<boolean> {
    if (await this.#showsWrongPath(error, isExpected)) return true;
    if (codesOfAll.has(error.code) || error.retryAfterMs !== undefined) return true;

    if (error.outcome === 'refused') {
      this.#failures = 0;
      return false;
    }
    if (statusesOfAll.includes(error.status)) return true;
    this.#failures++;
    if (this.#failures >= minFailuresToHold) return true;
    if (isServiceAnswer(error) || error.code === 'undecodable') return false;

    this.#outage = await this.#status.ask();
    return this.#outage !== null;
  }

  /**
   * Stores what a run that has ended shows of the service.
   * @param failure the error that it failed with; undefined: it is done
   * @param mayEndHold true if its client or its job was held when it began, and it read something
   */
  async noteEnd(failure: unknown, mayEndHold: boolean): Promise<void> {
    const { job } = this.#options;
    if (failure === undefined && mayEndHold && this.#failures === 0) {
      await this.#note(clientScope, { seen: 'answered', signedIn: true });
      await this.#note(job, { seen: 'success' });
    }
    if (!(failure instanceof WarehouseError)) return;

    for (const { evidence } of readLookUpEvidence(failure)) {
      const seen = evidence === 'ask' ? await this.#findOutage(failure) : evidence;
      if (seen !== null) await this.#note(clientScope, seen);
    }
    if (!(await this.#showsWrongPath(failure, true))) return;
    const words = describeWrongPath(failure, `The job ${job} is`);
    await this.#note(job, { seen: 'wrong_path', failure: toFailure(failure, words) });
  }

  async #note(scope: string, evidence: Evidence): Promise<void> {
    const { db, client, worker } = this.#options;
    await noteEvidence(db, { client, scope, worker }, evidence);
  }

  /** Returns evidence if a request got no answer and status/get fails, too. */
  async #findOutage(error: WarehouseError): Promise<Evidence | null> {
    if (!isOutage(readFailureCodes(error))) return null;
    if (this.#outage !== null) return this.#outage;
    if (sharedOperations.includes(error.operation))
      return { seen: 'no_answer', failure: toFailure(error) };

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
    const { job, operation, warehouse } = this.#options;
    if (this.#wrongPath !== null) return error === this.#wrongPath;
    if (operation === undefined || error.operation !== operation.name) return false;

    const { namesResource } = operation;
    const isUndecodable = error.code === 'undecodable' || error.code === 'body_too_large';
    const isSure = mayBeWrongPath(error, namesResource) || (!namesResource && isUndecodable);
    const isFruitless = error.outcome === 'refused' || isUndecodable;
    if (isSilence(error) || !(isSure || isFruitless)) return false;
    if (await this.#proven.has(job, warehouse.findRoute(operation.name))) return false;

    if (!isSure && !isExpected) this.#fruitless++;
    if (!isSure && this.#fruitless < minFailuresToHold) return false;
    this.#wrongPath = error;
    return true;
  }
}
