import { WarehouseError } from '../../core/errors.ts';
import type { Evidence, HoldCode } from '../../core/push-health.ts';
import type { News } from '../../core/push-outcome.ts';
import { noteEvidence, noteProven, type StoredHealth, takeProbe } from '../../erp/outbox/holds.ts';
import { type Allowance, lowerRate, returnAllowance, takeAllowance } from '../../erp/outbox/rates.ts';
import type { PushDeps } from './attempt.ts';
import { statusProblem } from './status-problem.ts';

/** After an answer of status/get it is not asked again for this long. */
const believedMs = 1_000;
/** How long others wait for the one question that shows whether a hold is over. */
const probeMs = 60_000;
/** The span over which the rows that get through are counted. */
const rateOverMs = 1_000;
const mostCounted = 1_000;

/** What this worker tells the others, and is told, about one client's service. */
export interface ClientHealthOptions {
  readonly deps: PushDeps;
  /** Ends questions that are under way. */
  readonly signal: AbortSignal;
  /** A client (kind empty) or kind is held from now on. */
  readonly onHold: (kind: string, code: HoldCode, ms: number) => Promise<void>;
}

/**
 * The health of one client and of its kinds, as this worker sees it. The truth is in the database: what is kept here only
 * spares statements that would change nothing.
 */
export class ClientHealth {
  readonly #options: ClientHealthOptions;
  /** Kinds (empty: the client) of which the database has something to tell, by the last look. */
  #troubled: ReadonlySet<string> = new Set();
  #isLimited = false;
  #asking: Promise<string | null> | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  /** When rows got through lately. */
  #through: number[] = [];

  constructor(options: ClientHealthOptions) {
    this.#options = options;
  }

  get isLimited(): boolean {
    return this.#isLimited;
  }

  /** Takes over what the database says. */
  set(health: readonly StoredHealth[], isLimited: boolean): void {
    this.#troubled = new Set(health.map(({ kind }) => kind));
    this.#isLimited = isLimited;
  }

  /** Takes rows from what may be sent now; null where no rate is to be kept. */
  async allow(wanted: number): Promise<Allowance | null> {
    const { db, client } = this.#options.deps;
    const allowance = await takeAllowance(db, client, wanted);
    this.#isLimited = allowance !== null;
    return allowance;
  }

  /** Gives back what was allowed and for which there was no row. */
  async giveBack(rows: number): Promise<void> {
    const { db, client } = this.#options.deps;
    if (rows > 0) await returnAllowance(db, client, rows);
  }

  /** Notes what an attempt or a look-up said of more than its row. */
  async note(news: readonly News[], kind: string): Promise<void> {
    for (const one of news) {
      if (one.evidence === 'too fast') await this.#slowDown();
      else if (one.evidence === 'ask') await this.#noteNoAnswer(kind, one);
      else if (one.evidence.seen === 'success') await this.#noteSuccess(kind);
      else await this.#noteEvidence(one.of === 'client' ? '' : kind, one.evidence);
    }
  }

  /** Finds out, on behalf of all workers, whether a hold of the client is over. */
  async probe(code: HoldCode): Promise<void> {
    const { deps } = this.#options;
    if (!(await takeProbe(deps.db, deps.client, probeMs))) return;
    const problem = code === 'credentials_refused' ? await this.#doorProblem() : await this.#outage();
    await this.#noteEvidence('', problem ?? { seen: 'let in' }, true);
  }

  async #outage(): Promise<Evidence | null> {
    const { deps, signal } = this.#options;
    const reason = await statusProblem(deps.warehouse, signal);
    return reason === null ? null : { seen: 'no answer', reason };
  }

  /** Whether user name and password are still refused. */
  async #doorProblem(): Promise<Evidence | null> {
    const { deps, signal } = this.#options;
    try {
      await deps.warehouse.ready(signal);
      return null;
    } catch (error) {
      if (!(error instanceof WarehouseError)) throw error;
      const seen = error.code === 'credentials_refused' ? 'credentials refused' : 'no answer';
      return { seen, reason: error.message };
    }
  }

  /** Notes for all workers, and for good, that an assumed method and path are right: once for each kind and process. */
  async prove(name: string): Promise<void> {
    const { db, client, kinds, operations, proven } = this.#options.deps;
    const kind = kinds.get(name);
    if (kind === undefined || proven.has(name)) return;
    const { documented, method, path } = operations[kind.operation];
    if (!documented) await noteProven(db, { client, kind: name, method, path });
    proven.add(name);
  }

  async #noteSuccess(kind: string): Promise<void> {
    this.#through.push(performance.now());
    if (this.#through.length > 2 * mostCounted) this.#through.splice(0, mostCounted);
    for (const troubled of ['', kind])
      if (this.#troubled.has(troubled)) await this.#noteEvidence(troubled, { seen: 'success' });
  }

  async #slowDown(): Promise<void> {
    const { deps, onHold } = this.#options;
    const since = performance.now() - rateOverMs;
    const achieved = this.#through.filter((atMs) => atMs > since).length;
    await lowerRate(deps.db, deps.client, Math.max(1, achieved));
    this.#isLimited = true;
    // What was claimed ahead would still go out as fast as before.
    await onHold('', 'retry_after', 0);
  }

  /** Whether the service is there at all decides whether the client or only the kind is at fault. */
  async #noteNoAnswer(kind: string, { reason, row }: Extract<News, { evidence: 'ask' }>): Promise<void> {
    const outage = await this.#statusProblem();
    if (outage !== null) return this.#noteEvidence('', { seen: 'no answer', reason: outage });
    if (this.#troubled.has('')) await this.#noteEvidence('', { seen: 'success' });
    if (row !== null) await this.#noteEvidence(kind, { seen: 'failure', reason, isNew: row.isNew });
  }

  /** Asks status/get, once for all who want to know at the same time. */
  #statusProblem(): Promise<string | null> {
    if (performance.now() - this.#answeredAtMs < believedMs) return Promise.resolve(null);
    const { deps, signal } = this.#options;
    this.#asking ??= statusProblem(deps.warehouse, signal)
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
