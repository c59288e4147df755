import { WarehouseError } from '../../core/errors.ts';
import type { Evidence, HoldCode } from '../../core/push/push-health.ts';
import type { ScopedEvidence } from '../../core/push/push-outcome.ts';
import { noteEvidence, recordProof, type StoredHealth, takeProbe } from '../../erp/outbox/holds.ts';
import { type Allowance, lowerRate, returnAllowance, takeAllowance } from '../../erp/outbox/rates.ts';
import type { PushDeps } from './attempt.ts';
import { findStatusProblem } from './status-problem.ts';

/** After an answer of status/get, the service counts as reachable for this many milliseconds. */
const believedMs = 1_000;
/** Milliseconds that other workers wait for the result of a probe. */
const probeMs = 60_000;
/** Milliseconds over which done rows are counted for the send rate. */
const rateOverMs = 1_000;
const maxCounted = 1_000;

/** What the health of a client works with. */
export interface ClientHealthOptions {
  readonly deps: PushDeps;
  /** Ends requests that are under way. */
  readonly signal: AbortSignal;
  /** Called when a client (kind empty) or kind is put on hold, with the milliseconds of the hold. */
  readonly onHold: (kind: string, code: HoldCode, ms: number) => Promise<void>;
}

/**
 * The health of one client and of its kinds, as this worker sees it. The database has the truth; what is kept here only
 * saves statements that would change nothing.
 */
export class ClientHealth {
  readonly #options: ClientHealthOptions;
  /** Kinds (empty: the client) that have a stored health, as of the last read. */
  #troubled: ReadonlySet<string> = new Set();
  #isLimited = false;
  #asking: Promise<string | null> | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  /** When rows were done recently, by performance.now(). */
  #doneAtMs: number[] = [];

  constructor(options: ClientHealthOptions) {
    this.#options = options;
  }

  get isLimited(): boolean {
    return this.#isLimited;
  }

  /** Sets what was read from the database. */
  set(health: readonly StoredHealth[], isLimited: boolean): void {
    this.#troubled = new Set(health.map(({ kind }) => kind));
    this.#isLimited = isLimited;
  }

  /** Takes up to `wanted` rows from the allowance; null if there is no send rate. */
  async allow(wanted: number): Promise<Allowance | null> {
    const { db, client } = this.#options.deps;
    const allowance = await takeAllowance(db, client, wanted);
    this.#isLimited = allowance !== null;
    return allowance;
  }

  /** Gives back the allowance of rows that were not claimed. */
  async returnUnused(rows: number): Promise<void> {
    const { db, client } = this.#options.deps;
    if (rows > 0) await returnAllowance(db, client, rows);
  }

  /** Stores what an attempt or a look-up shows about the client or the kind. */
  async noteScopedEvidence(evidence: readonly ScopedEvidence[], kind: string): Promise<void> {
    for (const one of evidence) {
      if (one.evidence === 'too fast') await this.#slowDown();
      else if (one.evidence === 'ask') await this.#noteNoAnswer(kind, one);
      else if (one.evidence.seen === 'success') await this.#noteSuccess(kind);
      else await this.#noteEvidence(one.of === 'client' ? '' : kind, one.evidence);
    }
  }

  /** Makes the probe for all workers: finds out whether a hold of the client is over. */
  async probe(code: HoldCode): Promise<void> {
    const { deps } = this.#options;
    if (!(await takeProbe(deps.db, deps.client, probeMs))) return;
    const problem = code === 'credentials_refused' ? await this.#findSignInProblem() : await this.#findOutage();
    await this.#noteEvidence('', problem ?? { seen: 'answered' }, true);
  }

  async #findOutage(): Promise<Evidence | null> {
    const { deps, signal } = this.#options;
    const reason = await findStatusProblem(deps.warehouse, signal);
    return reason === null ? null : { seen: 'no answer', reason };
  }

  /** Returns evidence if signing in still fails; null if it works. */
  async #findSignInProblem(): Promise<Evidence | null> {
    const { deps, signal } = this.#options;
    try {
      await deps.warehouse.signIn(signal);
      return null;
    } catch (error) {
      if (!(error instanceof WarehouseError)) throw error;
      const seen = error.code === 'credentials_refused' ? 'credentials refused' : 'no answer';
      return { seen, reason: error.message };
    }
  }

  /** Records for all workers that the method and path of a kind are right. Writes once for each kind and process. */
  async proveKind(name: string): Promise<void> {
    const { db, client, kinds, operations, proven } = this.#options.deps;
    const kind = kinds.get(name);
    if (kind === undefined || proven.has(name)) return;
    const { documented, method, path } = operations[kind.operation];
    if (!documented) await recordProof(db, { client, kind: name, method, path });
    proven.add(name);
  }

  async #noteSuccess(kind: string): Promise<void> {
    this.#doneAtMs.push(performance.now());
    if (this.#doneAtMs.length > 2 * maxCounted) this.#doneAtMs.splice(0, maxCounted);
    for (const troubled of ['', kind])
      if (this.#troubled.has(troubled)) await this.#noteEvidence(troubled, { seen: 'success' });
  }

  async #slowDown(): Promise<void> {
    const { deps, onHold } = this.#options;
    const since = performance.now() - rateOverMs;
    const achieved = this.#doneAtMs.filter((atMs) => atMs > since).length;
    await lowerRate(deps.db, deps.client, Math.max(1, achieved));
    this.#isLimited = true;
    // Rows that were claimed ahead would still be sent at the former rate.
    await onHold('', 'retry_after', 0);
  }

  /** Decides whether the client or only the kind is failing: the client, if status/get fails, too. */
  async #noteNoAnswer(kind: string, { reason, row }: Extract<ScopedEvidence, { evidence: 'ask' }>): Promise<void> {
    const outage = await this.#askStatus();
    if (outage !== null) return this.#noteEvidence('', { seen: 'no answer', reason: outage });
    if (this.#troubled.has('')) await this.#noteEvidence('', { seen: 'success' });
    if (row !== null) await this.#noteEvidence(kind, { seen: 'failure', reason, isNew: row.isNew });
  }

  /** Asks status/get, once for all callers that wait at the same time. */
  #askStatus(): Promise<string | null> {
    if (performance.now() - this.#answeredAtMs < believedMs) return Promise.resolve(null);
    const { deps, signal } = this.#options;
    this.#asking ??= findStatusProblem(deps.warehouse, signal)
      .then((problem) => {
        if (problem === null) this.#answeredAtMs = performance.now();
        return problem;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }

  async #noteEvidence(kind: string, evidence: Evidence, byProber = false): Promise<void> {
    const { deps, onHold } = this.#options;
    const { health, heldMs } = await noteEvidence(deps.db, { client: deps.client, kind }, evidence, { byProber });
    const troubled = new Set(this.#troubled);
    if (health === null) troubled.delete(kind);
    else troubled.add(kind);
    this.#troubled = troubled;
    if (health !== null && heldMs !== null) await onHold(kind, health.code, heldMs);
  }
}
/**
 * Counts the attempts whose result for the client (kind empty) or kind is not stored yet. No row of it begins meanwhile:
 * the result may be a hold.
 */
export class Doubts {
  readonly #counts = new Map<string, number>();

  has(kind: string): boolean {
    return (this.#counts.get(kind) ?? 0) > 0;
  }

  count(kind: string, by: 1 | -1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + by);
  }
}
