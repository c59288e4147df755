import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Database } from '../db/pool.ts';
import { ClientHealth } from '../service/health/client-health.ts';
import type { HealthCode } from '../service/health/judge-health.ts';
import { type CurrentHealth, clientScope } from '../service/sql/service-health.ts';
import { minAbsenceAgeMs } from './judge-absence.ts';
import { largeBytes } from './judge-row.ts';
import type { AnyKind } from './kind.ts';
import { lookUpDueRows } from './look-up-rows.ts';
import { type PushDeps, type PushOutcome, proveKind, sendRow } from './send-row.ts';
import { type SettleEvents, Settler } from './settler.ts';
import { type ClaimedRow, claimRows, type KindRules } from './sql/claim-rows.ts';
import { returnClaims } from './sql/held-claims.ts';

/** Events of a pusher. */
export interface PushEvents extends SettleEvents {
  /** Called when a scope of a client, a kind or the client itself, is put on hold. */
  readonly onHold: (
    client: string,
    scope: string,
    hold: { readonly code: HealthCode; readonly ms: number },
  ) => void;
}

/** Milliseconds until a claim that failed is made again. */
const failedClaimMs = 1_000;

/** Makes the spans of attempts. It does nothing unless the operator starts an SDK (deploy/otel). */
const tracer = trace.getTracer('fulfilment-sync');

/**
 * Pushes the rows of one client. The claimer (`#fillBuffer`) keeps the buffer full. Slots
 * (`#fillSlots`, `#push`) take rows from it and send them, several at the same time. The settler
 * writes what was answered since its last commit.
 */
export class ClientPusher {
  readonly #deps: PushDeps;
  readonly #slots: number;
  readonly #events: PushEvents;
  readonly #signal: AbortSignal;
  readonly #kinds: KindRules;
  readonly #buffer: RowBuffer;
  readonly #settler: Settler;
  readonly #health: ClientHealth;
  readonly #backgroundTasks = new Map<string, Promise<void>>();
  #sending = 0;
  #isFilling = false;
  #isStopping = false;
  /** True if a claim may find rows. */
  #rowsMayBeDue = false;
  /** Counts what may make room for further rows. */
  #changes = 0;
  /** Counts what was done: rows claimed, postponed or looked up, and questions asked. */
  #progress = 0;
  /** The progress at the last call of `hasProgressed`. */
  #seenProgress = 0;
  #onIdle: () => void = () => undefined;

  /** @param signal ends what is under way; rows that were sent become unknown */
  constructor(deps: PushDeps, slots: number, signal: AbortSignal, events: PushEvents) {
    this.#deps = deps;
    this.#slots = slots;
    this.#signal = signal;
    this.#events = events;
    this.#kinds = toKindRules([...deps.kinds.values()], deps.timeoutMs);
    this.#buffer = new RowBuffer(deps.db, slots);
    this.#settler = new Settler(deps, signal, events, () => this.claimDue());
    this.#health = new ClientHealth({
      ...deps,
      signal,
      onLess: async (scope, hold) => {
        await this.#return(scope);
        if (hold !== null) events.onHold(deps.client, scope, hold);
        events.onDue(0);
      },
    });
  }

  /** True if no further rows may be claimed now. What makes room claims the next ones. */
  get isFull(): boolean {
    return this.#buffer.room.rows === 0;
  }

  /** Returns true if something was done since the last call. */
  hasProgressed(): boolean {
    const before = this.#seenProgress;
    this.#seenProgress = this.#progress;
    return before !== this.#progress;
  }

  /** Claims rows, because some may be due. */
  claimDue(): void {
    this.#rowsMayBeDue = true;
    this.#changed();
  }

  /** The claimer: claims until the buffer is full or nothing more is due. */
  async #fillBuffer(): Promise<void> {
    if (this.#isFilling) return;
    this.#isFilling = true;
    let postponed = 0;
    try {
      while (
        this.#rowsMayBeDue &&
        !this.#isStopping &&
        this.#buffer.room.rows > 0 &&
        this.#health.maySend(clientScope)
      ) {
        const changes = this.#changes;
        this.#rowsMayBeDue = false;
        const claim = await this.#claim();
        postponed += claim.postponed;
        this.#rowsMayBeDue ||= claim.more;
        this.#fillSlots();
        // The rows that are due do not fit. What makes room calls this function again.
        if (claim.claimed + claim.postponed === 0 && changes === this.#changes) break;
      }
    } catch (error) {
      this.#events.onError('claim', error);
      this.#events.onDue(failedClaimMs);
    }
    this.#isFilling = false;
    // Look when the postponed rows are due.
    if (postponed > 0) this.#events.onDue(0);
    this.#checkIdle();
  }

  /** Claims once, as many rows as the buffer has room for. */
  async #claim(): Promise<{ claimed: number; postponed: number; more: boolean }> {
    const { room, returns } = this.#buffer;
    const { rows, postponed, more } = await claimRows(this.#deps.db, {
      ...this.#deps,
      kinds: this.#kinds,
      held: this.#buffer.held.length,
      maxRows: room.rows,
      maxBytes: room.bytes,
      takesLarge: room.takesLarge,
    });
    this.#progress += rows.length + postponed;
    this.#buffer.add(rows);
    // Rows that were claimed before a hold or a stop must not be sent after it.
    if (returns !== this.#buffer.returns) await this.#return(clientScope);
    return { claimed: rows.length, postponed, more };
  }

  /** Gives each free slot a row that may be sent. */
  #fillSlots(): void {
    while (this.#sending < this.#slots && this.#settler.hasRoom) {
      const row = this.#buffer.take(({ kind }) => this.#health.maySend(kind));
      if (row === undefined) return;
      this.#sending++;
      void this.#inSpan(row, () => this.#push(row));
    }
  }

  /** A slot: sends a row and leaves the outcome to the settler. */
  async #push(row: ClaimedRow): Promise<void> {
    let settled: Promise<void> | undefined;
    try {
      const outcome = await sendRow(this.#deps, row, this.#signal);
      if (outcome === null) this.#buffer.release(row);
      else settled = this.#settle(row, outcome);
      // If only a person can decide about a row, a lost worker leaves no more than one for each
      // slot.
      if (this.#deps.kinds.get(row.kind)?.unknown.do === 'ask operator') await settled;
    } catch (error) {
      // Without an outcome, the claim expires.
      this.#buffer.release(row);
      this.#events.onError('push', error);
    }
    this.#sending--;
    this.#changed();
    await settled;
  }

  /** Does `work` within a trace of its own. */
  async #inSpan(row: ClaimedRow, work: () => Promise<void>): Promise<void> {
    const attributes = {
      'fulfilment.client': row.client,
      'fulfilment.outbox': row.id,
      'fulfilment.kind': row.kind,
    };
    const span = tracer.startSpan(`push ${row.kind}`, { root: true, attributes });
    await context.with(trace.setSpan(ROOT_CONTEXT, span), work);
    span.end();
  }

  /** Has an outcome settled, and stores what it shows about the service. */
  async #settle(row: ClaimedRow, outcome: PushOutcome): Promise<void> {
    const { settlement, evidence } = outcome;
    if (outcome.fault !== undefined) this.#events.onError('push', outcome.fault);
    trace.getActiveSpan()?.setAttribute('fulfilment.status', settlement.status);
    if (settlement.status !== 'done')
      trace.getActiveSpan()?.setStatus({ code: SpanStatusCode.ERROR });
    const settled = this.#settler.settle(outcome, row.kind);
    try {
      await this.#health.note(evidence, row.kind);
      if (settlement.status === 'done') await proveKind(this.#deps, row.kind);
    } catch (error) {
      this.#events.onError('push', error);
    }
    this.#changed();
    // The claim is renewed until the row is settled. A row that the ERP has locked delays only
    // itself.
    await settled;
    if (settlement.refund) this.#deps.sent.forget(row);
    this.#buffer.release(row);
    this.#changed();
    this.#checkIdle();
  }

  /** Continues, because a slot, a place or an allowance may be free. */
  #changed(): void {
    this.#changes++;
    this.#fillSlots();
    void this.#fillBuffer();
  }

  /**
   * Returns what waits in the buffer: for a stop, a hold, or fewer rows at a time. If the database
   * does not accept that, the claims expire.
   * @param scope a kind: only its rows; the client: all rows
   */
  async #return(scope: string): Promise<void> {
    await this.#buffer
      .return(scope)
      .catch((error: unknown) => this.#events.onError('give back', error));
  }

  /** The claims that this process holds and has to renew. */
  get claims(): readonly ClaimedRow[] {
    return this.#buffer.held;
  }

  /**
   * Takes over the stored health of the client.
   * @returns the holds that are in force. Rows that were claimed before another worker placed them
   *   are returned.
   */
  async see(health: readonly CurrentHealth[]): Promise<CurrentHealth[]> {
    const held = this.#health.see(health);
    for (const { scope } of held) if (this.#buffer.hasWaiting(scope)) await this.#return(scope);
    return held;
  }

  /** Looks up the due rows with an unknown outcome, unless that is under way. */
  lookUp(): void {
    this.#inBackground('look up', async () => {
      const settle = (outcome: PushOutcome, kind: string) =>
        void this.#settler.settle(outcome, kind).then(() => this.#checkIdle());
      if (!(await lookUpDueRows(this.#deps, this.#health, this.#signal, settle))) return;
      this.#progress++;
      this.#events.onDue(0);
    });
  }

  /** Asks the service whether a hold of the client is over, unless that is under way. */
  askWhetherOver(code: HealthCode): void {
    this.#inBackground('ask', async () => {
      this.#progress++;
      await this.#health.askWhetherOver(code);
      this.#events.onDue(0);
    });
  }

  #inBackground(task: string, work: () => Promise<void>): void {
    if (this.#backgroundTasks.has(task)) return;
    const running = work()
      .catch((error: unknown) => this.#events.onError(task, error))
      .finally(() => {
        this.#backgroundTasks.delete(task);
        this.#checkIdle();
      });
    this.#backgroundTasks.set(task, running);
  }

  get #isIdle(): boolean {
    return (
      this.#buffer.isEmpty &&
      this.#settler.isIdle &&
      !this.#isFilling &&
      this.#backgroundTasks.size === 0
    );
  }

  #checkIdle(): void {
    if (this.#isIdle) this.#onIdle();
  }

  /** Resolves with the progress so far when nothing is under way. */
  async idle(): Promise<number> {
    while (!this.#isIdle) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    return this.#progress;
  }

  /** Claims nothing more, returns what waits, and resolves when everything under way is settled. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    await this.#return(clientScope);
    await this.idle();
  }
}

/** Returns what a claim has to know about the kinds. */
function toKindRules(kinds: readonly AnyKind[], timeoutMs: number): KindRules {
  const findNames = (isWanted: (kind: AnyKind) => boolean) =>
    kinds.filter(isWanted).map(({ name }) => name);
  return {
    names: findNames(() => true),
    stamped: findNames(
      ({ unknown }) =>
        unknown.do === 'look up' &&
        unknown.lookUp.whenAbsent === 'resend' &&
        !unknown.lookUp.byTarget,
    ),
    lingerMs: minAbsenceAgeMs(timeoutMs),
  };
}

/**
 * Number of rows that wait for each slot. More would wait long at a slow service, while other
 * workers have free slots, and would have to be looked up after a crash.
 */
const waitingPerSlot = 4;
const minWaiting = 8;
const maxWaiting = 256;
/** Maximum bytes of the payloads that a worker holds for a client, besides one large one. */
const maxBytes = 16 * 1024 * 1024;

/**
 * The claimed rows of a client. Rows wait here for a slot, so that no slot has to wait for a claim.
 * Their number, and the bytes of all rows that are not settled, are bounded.
 */
class RowBuffer {
  readonly #db: Database;
  readonly #maxWaiting: number;
  #waiting: ClaimedRow[] = [];
  /** All rows that this worker has claimed and not yet settled or returned. */
  readonly #held = new Set<ClaimedRow>();
  /** Counts the returns. A claim that was under way during one must not be kept. */
  returns = 0;

  constructor(db: Database, slots: number) {
    this.#db = db;
    this.#maxWaiting = Math.min(maxWaiting, Math.max(minWaiting, waitingPerSlot * slots));
  }

  get held(): readonly ClaimedRow[] {
    return [...this.#held];
  }

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  /** Returns true if rows of a scope wait for a slot. */
  hasWaiting(scope: string): boolean {
    return this.#waiting.some((row) => isOfScope(row, scope));
  }

  /**
   * What may be claimed now. No rows unless half of the places are free: one claim should bring
   * many rows.
   */
  get room() {
    const rows =
      this.#waiting.length * 2 <= this.#maxWaiting ? this.#maxWaiting - this.#waiting.length : 0;
    let bytes = maxBytes;
    let takesLarge = true;
    for (const row of this.#held) {
      if (row.payloadBytes > largeBytes) takesLarge = false;
      else bytes -= row.payloadBytes;
    }
    return { rows, bytes, takesLarge };
  }

  add(rows: readonly ClaimedRow[]): void {
    for (const row of rows) this.#held.add(row);
    for (const row of rows) this.#waiting.push(row);
  }

  /** Takes the first waiting row that may be sent; undefined if there is none. */
  take(maySend: (row: ClaimedRow) => boolean): ClaimedRow | undefined {
    const place = this.#waiting.findIndex(maySend);
    return place < 0 ? undefined : this.#waiting.splice(place, 1)[0];
  }

  release(row: ClaimedRow): void {
    this.#held.delete(row);
  }

  /**
   * Gives back the claims of all waiting rows, so that they are claimed again when they may be
   * sent, by any worker. They do not count as attempts.
   * @param scope a kind: only its rows; the client: all rows
   */
  async return(scope: string): Promise<void> {
    this.returns++;
    const isReturned = (row: ClaimedRow) => isOfScope(row, scope);
    const rows = this.#waiting.filter(isReturned);
    if (rows.length === 0) return;
    this.#waiting = this.#waiting.filter((row) => !isReturned(row));
    for (const row of rows) this.#held.delete(row);
    await returnClaims(this.#db, rows);
  }
}

const isOfScope = ({ kind }: ClaimedRow, scope: string) => scope === clientScope || kind === scope;
