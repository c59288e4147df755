import { type Failure, toFailure, WarehouseError } from '../core/errors.ts';
import type { Warehouse } from '../service/client.ts';
import type { Evidence, HoldCode } from '../service/health/push-health.ts';
import {
  type CurrentHealth,
  isHeld,
  noteEvidence,
  recordProof,
  takeQuestion,
} from '../service/sql/holds.ts';
import { isServiceAnswer, type ScopedEvidence } from './push-outcome.ts';
import type { PushDeps } from './send-row.ts';

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
/** Milliseconds that other workers wait for the result of the question that ends a hold. */
const questionMs = 60_000;

/** What the health of a client works with. */
export interface ClientHealthOptions {
  readonly deps: PushDeps;
  /** Ends requests that are under way. */
  readonly signal: AbortSignal;
  /**
   * Called when fewer rows of a client (kind empty) or kind may be sent than before: those that
   * wait are to be returned. `hold`: why and how long they are held; null if only a window has
   * changed.
   */
  readonly onLess: (
    kind: string,
    hold: { readonly code: HoldCode; readonly ms: number } | null,
  ) => Promise<void>;
}

/**
 * The health of one client and of its kinds, as this worker sees it. It keeps rows from being sent
 * while an outcome is judged (`maySend`), and learns from each outcome (`note`). The database has
 * the truth for all workers (sync.push_holds), and claims obey it; what is kept here only saves
 * statements that would change nothing.
 */
export class ClientHealth {
  readonly #options: ClientHealthOptions;
  /** Kinds (empty: the client) that have a stored health, as of the last read. */
  #troubled = new Set<string>();
  /**
   * Kinds (empty: the client) that may have to be held, one entry for each outcome whose evidence
   * is not stored yet.
   */
  readonly #judging: string[] = [];
  #asking: Promise<Evidence | null> | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ClientHealthOptions) {
    this.#options = options;
  }

  /**
   * Takes over what was read from the database. Returns the kinds (empty: the client) that are
   * held.
   */
  see(health: readonly CurrentHealth[]): CurrentHealth[] {
    this.#troubled = new Set(health.map(({ kind }) => kind));
    return health.filter(isHeld);
  }

  /**
   * Returns false while it is not known whether an outcome makes the client or this kind be held.
   */
  maySend(kind: string): boolean {
    return !this.#judging.includes('') && !this.#judging.includes(kind);
  }

  /**
   * Stores what outcomes show of the client or the kind. Until then, rows that may have to be held
   * are not sent.
   */
  async note(evidence: readonly ScopedEvidence[], kind: string): Promise<void> {
    const doubted = findDoubtedScope(evidence);
    const scope = doubted === 'client' ? '' : kind;
    if (doubted !== null) this.#judging.push(scope);
    try {
      for (const one of evidence) {
        if (one.evidence === 'ask') await this.#noteNoAnswer(kind, one);
        else if (one.evidence.seen === 'success') await this.#noteSuccess(kind);
        else await this.#noteEvidence(one.of === 'client' ? '' : kind, one.evidence);
      }
    } finally {
      if (doubted !== null) this.#judging.splice(this.#judging.indexOf(scope), 1);
    }
  }

  /** Asks the service, for all workers, whether a hold of the client is over. */
  async askWhetherOver(code: HoldCode): Promise<void> {
    const { deps, signal } = this.#options;
    if (!(await takeQuestion(deps.db, deps.client, questionMs))) return;
    const findProblem = code === 'credentials_refused' ? findSignInProblem : findOutage;
    const problem = await findProblem(deps.warehouse, signal);
    await this.#noteEvidence('', problem ?? { seen: 'answered' }, true);
  }

  /**
   * Records for all workers that the method and path of a kind are right. Writes once for each kind
   * and process.
   */
  async proveKind(name: string): Promise<void> {
    const { db, client, kinds, operations, proven } = this.#options.deps;
    const kind = kinds.get(name);
    if (kind === undefined || proven.has(name)) return;
    const { documented, method, path } = operations[kind.operation];
    if (!documented) await recordProof(db, { client, kind: name, method, path });
    proven.add(name);
  }

  async #noteSuccess(kind: string): Promise<void> {
    for (const troubled of ['', kind])
      if (this.#troubled.has(troubled)) await this.#noteEvidence(troubled, { seen: 'success' });
  }

  /**
   * Decides whether the client or only the kind is failing: the client, if status/get fails, too.
   */
  async #noteNoAnswer(
    kind: string,
    { failure, row }: Extract<ScopedEvidence, { evidence: 'ask' }>,
  ): Promise<void> {
    const outage = await this.#askStatus();
    if (outage !== null) return this.#noteEvidence('', outage);
    if (this.#troubled.has('')) await this.#noteEvidence('', { seen: 'success' });
    if (row !== null)
      await this.#noteEvidence(kind, { seen: 'failure', failure, isNew: row.isNew });
  }

  /** Asks status/get, once for all callers that wait at the same time. */
  async #askStatus(): Promise<Evidence | null> {
    if (performance.now() - this.#answeredAtMs < believedMs) return null;
    this.#asking ??= findOutage(this.#options.deps.warehouse, this.#options.signal).finally(() => {
      this.#asking = undefined;
    });
    const outage = await this.#asking;
    if (outage === null) this.#answeredAtMs = performance.now();
    return outage;
  }

  async #noteEvidence(kind: string, evidence: Evidence, isAnswer = false): Promise<void> {
    const { deps, onLess } = this.#options;
    const { health, heldMs } = await noteEvidence(
      deps.db,
      { client: deps.client, kind },
      evidence,
      isAnswer,
    );
    if (health === null) this.#troubled.delete(kind);
    else this.#troubled.add(kind);
    const isLess = evidence.seen !== 'success' && evidence.seen !== 'answered';
    if (health !== null && heldMs !== null) await onLess(kind, { code: health.code, ms: heldMs });
    else if (health !== null && health.sendWindow !== null && isLess) await onLess(kind, null);
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
    const seen = error.code === 'credentials_refused' ? 'credentials refused' : 'no answer';
    return { seen, failure: toFailure(error, error.message) };
  }
}

/**
 * Returns evidence if the service is not reachable; null if it answers status/get, with whatever
 * content.
 * @throws the reason of `signal` if it was aborted
 */
async function findOutage(warehouse: Warehouse, signal: AbortSignal): Promise<Evidence | null> {
  const deadline = AbortSignal.timeout(statusWithinMs);
  try {
    await warehouse.checkStatus(AbortSignal.any([signal, deadline]));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return { seen: 'no answer', failure: lateStatus };
    // An answer in any form shows that the service is reachable.
    const isAnswer =
      error instanceof WarehouseError &&
      ((error.status ?? 500) < 500 || error.code === 'undecodable');
    return isAnswer || isServiceAnswer(error)
      ? null
      : { seen: 'no answer', failure: toFailure(error) };
  }
}

/**
 * Returns what may have to be held because of this evidence: the client, the kind, or nothing
 * (null).
 */
export function findDoubtedScope(news: readonly ScopedEvidence[]): 'client' | 'kind' | null {
  const bad = news.filter(({ evidence }) => evidence === 'ask' || evidence.seen !== 'success');
  if (bad.length === 0) return null;
  return bad.some(({ of }) => of === 'client') ? 'client' : 'kind';
}
