import type { Database } from '../../db/pool.ts';
import type { Warehouse } from '../client.ts';
import { type CurrentHealth, clientScope, isHeld, noteEvidence } from '../sql/service-health.ts';
import { askWhetherOver, StatusQuestion } from './ask-service.ts';
import type { ScopedEvidence } from './evidence.ts';
import type { Evidence, HealthCode } from './judge-health.ts';

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
  readonly #status: StatusQuestion;

  constructor(options: ClientHealthOptions) {
    this.#options = options;
    this.#status = new StatusQuestion(options.warehouse, options.signal);
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
    const evidence = await askWhetherOver(this.#options, code);
    if (evidence !== null) await this.#noteEvidence(clientScope, evidence);
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
    const outage = await this.#status.ask();
    if (outage !== null) return this.#noteEvidence(clientScope, outage);

    if (this.#troubled.has(clientScope)) await this.#noteEvidence(clientScope, { seen: 'success' });
    if (row !== null)
      await this.#noteEvidence(kind, { seen: 'failure', failure, isNew: row.isNew });
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

/**
 * Returns what may have to be held because of this evidence: the client, the kind, or nothing
 * (null).
 */
export function findDoubtedScope(news: readonly ScopedEvidence[]): 'client' | 'kind' | null {
  const bad = news.filter(({ evidence }) => evidence === 'ask' || evidence.seen !== 'success');
  if (bad.length === 0) return null;
  return bad.some(({ of }) => of === 'client') ? 'client' : 'kind';
}
