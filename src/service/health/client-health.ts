import { type Failure, toFailure, WarehouseError } from '../../core/errors.ts';
import type { Database } from '../../db/pool.ts';
import type { Warehouse } from '../client.ts';
import {
  type CurrentHealth,
  clientScope,
  isHeld,
  noteEvidence,
  takeTrial,
} from '../sql/service-health.ts';
import { isServiceAnswer, type ScopedEvidence } from './evidence.ts';
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

/** What the health of a client works with. */
export interface ClientHealthOptions {
  readonly db: Database;
  readonly client: string;
  readonly warehouse: Warehouse;
  readonly worker: string;
  /** Ends requests that are under way. */
  readonly signal: AbortSignal;
  /**
   * Called when fewer rows of a scope (the client, or a kind) may be sent than before: those that
   * wait are to be returned. `hold`: why and how long they are held; null if only a window has
   * changed.
   */
  readonly onLess: (
    scope: string,
    hold: { readonly code: HealthCode; readonly ms: number } | null,
  ) => Promise<void>;
}

/**
 * The health of one client and of its kinds, as this worker sees it. It keeps rows from being sent
 * while an outcome is judged (`maySend`), and learns from each outcome (`record`). The database has
 * the truth for all workers (sync.service_health), and claims obey it; what is kept here only saves
 * statements that would change nothing.
 */
export class ClientHealth {
  readonly #options: ClientHealthOptions;
  /** Scopes that have a stored health, as of the last read. */
  #troubled = new Set<string>();
  /**
   * Scopes that may have to be held, one entry for each outcome whose evidence is not stored yet.
   */
  readonly #judging: string[] = [];
  #asking: Promise<Evidence | null> | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ClientHealthOptions) {
    this.#options = options;
  }

  /** Takes over what was read from the database. Returns what is held. */
  update(health: readonly CurrentHealth[]): CurrentHealth[] {
    this.#troubled = new Set(health.map(({ scope }) => scope));
    return health.filter(isHeld);
  }

  /**
   * Returns false while it is not known whether an outcome makes the client or this scope be held.
   */
  maySend(scope: string): boolean {
    return !this.#judging.includes(clientScope) && !this.#judging.includes(scope);
  }

  /**
   * Stores what outcomes show of the client or the kind. Until then, rows that may have to be held
   * are not sent.
   */
  async record(evidence: readonly ScopedEvidence[], kind: string): Promise<void> {
    const doubted = findDoubtedScope(evidence);
    const scope = doubted === 'client' ? clientScope : kind;
    if (doubted !== null) this.#judging.push(scope);

    try {
      for (const one of evidence) {
        if (one.evidence === 'ask') await this.#noteNoAnswer(kind, one);
        else if (one.evidence.seen === 'success') await this.#noteSuccess(kind);
        else await this.#noteEvidence(one.of === 'client' ? clientScope : kind, one.evidence);
      }
    } finally {
      if (doubted !== null) this.#judging.splice(this.#judging.indexOf(scope), 1);
    }
  }

  /** Asks the service whether a hold of the client is over, unless another trial is under way. */
  async askWhetherOver(code: HealthCode): Promise<void> {
    const { db, warehouse, signal } = this.#options;
    if (!(await takeTrial(db, this.#options))) return;

    const findProblem = code === 'credentials_refused' ? findSignInProblem : findOutage;
    const problem = await findProblem(warehouse, signal);
    await this.#noteEvidence(clientScope, { ...(problem ?? { seen: 'answered' }), isTrial: true });
  }

  async #noteSuccess(kind: string): Promise<void> {
    for (const troubled of [clientScope, kind])
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
    if (outage !== null) return this.#noteEvidence(clientScope, outage);

    if (this.#troubled.has(clientScope)) await this.#noteEvidence(clientScope, { seen: 'success' });
    if (row !== null)
      await this.#noteEvidence(kind, { seen: 'failure', failure, isNew: row.isNew });
  }

  /** Asks status/get, once for all callers that wait at the same time. */
  async #askStatus(): Promise<Evidence | null> {
    if (performance.now() - this.#answeredAtMs < believedMs) return null;
    this.#asking ??= findOutage(this.#options.warehouse, this.#options.signal).finally(() => {
      this.#asking = undefined;
    });

    const outage = await this.#asking;
    if (outage === null) this.#answeredAtMs = performance.now();
    return outage;
  }

  async #noteEvidence(scope: string, evidence: Evidence): Promise<void> {
    const { db, client, worker, onLess } = this.#options;
    const { health, heldMs } = await noteEvidence(db, { client, scope, worker }, evidence);
    if (health === null) this.#troubled.delete(scope);
    else this.#troubled.add(scope);

    const isLess = evidence.seen !== 'success' && evidence.seen !== 'answered';
    if (health !== null && heldMs !== null) await onLess(scope, { code: health.code, ms: heldMs });
    else if (health !== null && health.sendWindow !== null && isLess) await onLess(scope, null);
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
export async function findOutage(
  warehouse: Warehouse,
  signal: AbortSignal,
): Promise<Evidence | null> {
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
