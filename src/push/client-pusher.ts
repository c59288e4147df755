import { setTimeout as wait } from 'node:timers/promises';
import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Database } from '../db/pool.ts';
import { ClientHealth } from '../service/health/client-health.ts';
import type { HealthCode } from '../service/health/judge-health.ts';
import { type CurrentHealth, clientScope } from '../service/sql/service-health.ts';
import { minAbsenceAgeMs } from './judge-outcome.ts';
import { largeBytes } from './judge-row.ts';
import type { AnyKind } from './kind.ts';
import { lookUpDueRows } from './look-up-rows.ts';
import { type PushDeps, type PushOutcome, proveKind, sendRow } from './send-row.ts';
import { type SettleEvents, Settler } from './settler.ts';
import { type ClaimedRow, claimRows, type KindRules, returnClaims } from './sql/claim-rows.ts';

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
/** Milliseconds that a slot waits for the settlement of a row that only a person could decide. */
const settlementMs = 2_000;

/** Makes the spans of attempts. It does nothing unless the operator starts an SDK (deploy/otel). */
const tracer = trace.getTracer('fulfilment-sync');

/**
 * Pushes the rows of one client, in three loops that run side by side. The claimer (`#claimRows`)
 * fills a buffer, the slots (`#sendRows`) send from it several rows at the same time, and the
 * settler (settler.ts) writes what was answered since its last commit.
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
  /**
   * Rings when the claimer or the slots may continue: rows are due or were claimed, or a slot, room
   * in the buffer or an allowance of the health is free.
   */
  readonly #changed = new Bell();
  /** Rings when something ended, so that nothing more may be under way. */
  readonly #ended = new Bell();
  /** What is under way besides sending and settling: a claim, a look-up, a question. */
  readonly #tasks = new Set<string>();
  #sending = 0;
  #isStopping = false;
  /** True if a claim may find rows. */
  #mayBeDue = false;
  /** True if rows were claimed, postponed or looked up, or a question was asked. */
  #hasWorked = false;

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

  /** Starts the loops. They claim nothing before `claimDue` is called. */
  start(): void {
    void this.#claimRows();
    void this.#sendRows();
  }

  /** The claimer: keeps the buffer full while rows are due. */
  async #claimRows(): Promise<void> {
    while (!this.#isStopping) {
      const change = this.#changed.next;
      const claim = this.#mayClaim && (await this.#runTask('claim', () => this.#claim()));
      const { found, more } = claim || nothingClaimed;

      // If rows are due that do not fit, what changes, also during the claim, may make room.
      if (found === 0) await change;
      this.#mayBeDue ||= more;
    }
  }

  /** The slots: give each free slot a row that may be sent. */
  async #sendRows(): Promise<void> {
    while (!this.#isStopping) {
      const change = this.#changed.next;

      while (this.#sending < this.#slots && this.#settler.hasRoom) {
        const row = this.#buffer.takeFirst(({ kind }) => this.#health.maySend(kind));
        if (row === undefined) break;
        this.#sending++;
        void inSpan(row, () => this.#send(row));
      }

      await change;
    }
  }

  get #mayClaim(): boolean {
    return (
      this.#mayBeDue &&
      !this.#isStopping &&
      this.#buffer.room.rows > 0 &&
      this.#health.maySend(clientScope)
    );
  }

  /** Claims once, as many rows as the buffer has room for. */
  async #claim(): Promise<typeof nothingClaimed> {
    const { room, returns } = this.#buffer;
    this.#mayBeDue = false;

    const { rows, postponed, more } = await claimRows(this.#deps.db, {
      ...this.#deps,
      kinds: this.#kinds,
      held: this.#buffer.held.length,
      maxRows: room.rows,
      maxBytes: room.bytes,
      takesLarge: room.takesLarge,
    }).catch((error: unknown) => {
      this.#events.onDue(failedClaimMs);
      throw error;
    });
    this.#buffer.add(rows);
    // Rows that were claimed before a hold or a stop must not be sent after it.
    if (returns !== this.#buffer.returns) await this.#return(clientScope);

    const found = rows.length + postponed;
    if (found > 0) this.#hasWorked = true;
    if (rows.length > 0) this.#changed.ring();
    // Look when the postponed rows are due.
    if (postponed > 0) this.#events.onDue(0);
    return { found, more };
  }

  /** A slot: sends a row and leaves the outcome to the settler. */
  async #send(row: ClaimedRow): Promise<void> {
    let settled: Promise<void> | undefined;
    const sentAtMs = performance.now();
    try {
      const outcome = await sendRow(this.#deps, row, this.#signal);
      this.#buffer.noteSendTime(performance.now() - sentAtMs);
      if (outcome !== null) settled = this.#settle(row, outcome);
      // If only a person can decide about a row, a lost worker should leave no more than one for
      // each slot. A row that somebody has locked must not keep its slot.
      if (this.#deps.kinds.get(row.kind)?.unknown.do === 'ask operator')
        await Promise.race([settled, wait(settlementMs, undefined, { ref: false })]);
    } catch (error) {
      // Without an outcome, the claim expires.
      this.#events.onError('push', error);
    }
    this.#sending--;
    this.#changed.ring();

    // The claim is renewed until the row is settled. A row that the ERP has locked delays only
    // itself.
    await settled;
    this.#buffer.release(row);
    this.#changed.ring();
    this.#ended.ring();
  }

  /** Has an outcome settled, and stores what it shows about the service. */
  async #settle(row: ClaimedRow, outcome: PushOutcome): Promise<void> {
    const { settlement, evidence } = outcome;
    if (outcome.fault !== undefined) this.#events.onError('push', outcome.fault);
    const span = trace.getActiveSpan()?.setAttribute('fulfilment.status', settlement.status);
    if (settlement.status !== 'done') span?.setStatus({ code: SpanStatusCode.ERROR });

    const settled = this.#settler.settle(outcome, row.kind);
    try {
      await this.#health.record(evidence, row.kind);
      if (settlement.status === 'done') await proveKind(this.#deps, row.kind);
    } catch (error) {
      this.#events.onError('push', error);
    }
    this.#changed.ring();

    await settled;
    if (settlement.refund) this.#deps.sent.forget(row);
  }

  /** Claims rows, because some may be due. */
  claimDue(): void {
    this.#mayBeDue = true;
    this.#changed.ring();
  }

  /** Looks up the due rows with an unknown outcome, unless those of a kind are under way. */
  lookUpDue(): void {
    for (const kind of this.#deps.kinds.values())
      void this.#runTask(`look up ${kind.name}`, () => this.#lookUpKind(kind));
  }

  async #lookUpKind(kind: AnyKind): Promise<void> {
    const settle = (outcome: PushOutcome) =>
      void this.#settler.settle(outcome, kind.name).then(() => {
        this.#changed.ring();
        this.#ended.ring();
      });
    const use = { health: this.#health, signal: this.#signal };
    if (!(await lookUpDueRows(this.#deps, kind, use, settle))) return;

    this.#hasWorked = true;
    this.#events.onDue(0);
  }

  /** Asks the service whether a hold of the client is over, unless that is under way. */
  askWhetherOver(code: HealthCode): void {
    void this.#runTask('ask', async () => {
      this.#hasWorked = true;
      await this.#health.askWhetherOver(code);
      this.#events.onDue(0);
    });
  }

  /** Runs a task, unless it is under way. Returns undefined if it fails, after reporting that. */
  async #runTask<T>(name: string, work: () => Promise<T>): Promise<T | undefined> {
    if (this.#tasks.has(name)) return undefined;
    this.#tasks.add(name);
    try {
      return await work();
    } catch (error) {
      this.#events.onError(name, error);
      return undefined;
    } finally {
      this.#tasks.delete(name);
      this.#ended.ring();
    }
  }

  /**
   * Takes over the stored health of the client.
   * @returns the holds that are in force. Rows that were claimed before another worker placed them
   *   are returned.
   */
  async applyHealth(health: readonly CurrentHealth[]): Promise<CurrentHealth[]> {
    const held = this.#health.update(health);
    for (const { scope } of held) if (this.#buffer.hasWaiting(scope)) await this.#return(scope);
    return held;
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

  /** True if no further rows may be claimed now. What makes room claims the next ones. */
  get isFull(): boolean {
    return this.#buffer.room.rows === 0;
  }

  /** Returns true if the client had something to do since the last call. */
  readHasWorked(): boolean {
    const hasWorked = this.#hasWorked;
    this.#hasWorked = false;
    return hasWorked;
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    const isIdle = () =>
      this.#buffer.isEmpty && this.#settler.isIdle && this.#tasks.size === 0 && !this.#mayClaim;

    for (let end = this.#ended.next; !isIdle(); end = this.#ended.next) await end;
  }

  /** Claims nothing more, returns what waits, and resolves when everything under way is settled. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    this.#changed.ring();
    await this.#return(clientScope);

    await this.idle();
  }
}

/** The result of a claim: rows that were claimed or postponed, and if more may be due. */
const nothingClaimed = { found: 0, more: false };

/** Does `work` within a trace of its own. */
async function inSpan(row: ClaimedRow, work: () => Promise<void>): Promise<void> {
  const attributes = {
    'fulfilment.client': row.client,
    'fulfilment.outbox': row.id,
    'fulfilment.kind': row.kind,
  };
  const span = tracer.startSpan(`push ${row.kind}`, { root: true, attributes });
  await context.with(trace.setSpan(ROOT_CONTEXT, span), work);
  span.end();
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
 * Rows wait for a slot about this long: other workers may have free slots, and the ERP can no
 * longer replace or cancel them.
 */
const maxWaitMs = 500;
/** Bounds of the number of rows that wait for each slot. After a crash, they are looked up. */
const minWaitingPerSlot = 4;
const maxWaitingPerSlot = 16;
/** The same for all slots together. */
const minWaiting = 8;
const maxWaiting = 256;
/** Share of one row in the moving average of the time that a row takes. */
const averageShare = 0.1;
/** Maximum bytes of the payloads that a worker holds for a client, besides one large one. */
const maxBytes = 16 * 1024 * 1024;

/**
 * The claimed rows of a client. Rows wait here for a slot, so that no slot has to wait for a claim.
 * Their number, and the bytes of all rows that are not settled, are bounded.
 */
export class RowBuffer {
  readonly #db: Database;
  readonly #slots: number;
  /** Milliseconds that a slot needs for a row, on average. */
  #sendMs = maxWaitMs;
  #waiting: ClaimedRow[] = [];
  /** All rows that this worker has claimed and not yet settled or returned. */
  readonly #held = new Set<ClaimedRow>();
  /** Counts the returns. A claim that was under way during one must not be kept. */
  returns = 0;

  constructor(db: Database, slots: number) {
    this.#db = db;
    this.#slots = slots;
  }

  /** Notes how long a slot needed for a row. */
  noteSendTime(ms: number): void {
    this.#sendMs += (ms - this.#sendMs) * averageShare;
  }

  /** Maximum number of rows that wait: more if the service answers fast. */
  get #maxWaiting(): number {
    const perSlot = clamp(minWaitingPerSlot, maxWaitMs / this.#sendMs, maxWaitingPerSlot);
    return clamp(minWaiting, Math.floor(perSlot * this.#slots), maxWaiting);
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
  takeFirst(maySend: (row: ClaimedRow) => boolean): ClaimedRow | undefined {
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

const clamp = (min: number, value: number, max: number) => Math.min(max, Math.max(min, value));

const isOfScope = ({ kind }: ClaimedRow, scope: string) => scope === clientScope || kind === scope;

/** Wakes loops: all that wait for it continue when it rings. */
export class Bell {
  #ring = Promise.withResolvers<void>();

  /**
   * Resolves at the next ring. Read it before you check what may change, so that no ring between
   * the check and the wait is missed.
   */
  get next(): Promise<void> {
    return this.#ring.promise;
  }

  ring(): void {
    const { resolve } = this.#ring;
    this.#ring = Promise.withResolvers();
    resolve();
  }

  /** Resolves at the next ring, or after this many milliseconds. */
  async nextWithin(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);

    await Promise.race([promise, this.next]);
    clearTimeout(timer);
  }
}
