import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import type { HoldCode } from '../../core/push/push-health.ts';
import { findDoubtedScope } from '../../core/push/push-outcome.ts';
import type { ClaimedRow } from '../../erp/outbox/claimed-row.ts';
import { attemptRow, type PushDeps, type PushOutcome, type ReportStatus } from './attempt.ts';
import { type ClaimSummary, claimDueRows } from './claim.ts';
import { ClaimedAhead, type WaitingRow } from './claimed-ahead.ts';
import { ClientHealth, Doubts } from './client-health.ts';
import { lookUpDueRows } from './look-up.ts';
import { countMaxUnsettled, type SettleEvents, SettleQueue } from './settle-queue.ts';

/** Events of a pusher. */
export interface PushEvents extends SettleEvents {
  /** Called when a client (kind empty) or kind is put on hold for this many milliseconds. */
  readonly onHold: (client: string, kind: string, code: HoldCode, ms: number) => void;
  /** Called when a slot became free. `look` is true if more rows may be due. */
  readonly onChange: (look: boolean) => void;
}

/** Makes the spans of attempts. It does nothing unless the operator starts an SDK (deploy/otel). */
const tracer = trace.getTracer('fulfilment-sync');

/** Pushes the rows of one client, several at the same time. */
export class ClientPusher {
  readonly #deps: PushDeps;
  readonly #slots: number;
  readonly #maxUnsettled: number;
  readonly #events: PushEvents;
  readonly #signal: AbortSignal;
  readonly health: ClientHealth;
  readonly #ahead: ClaimedAhead;
  /** Rows that have a slot or are not settled yet. */
  readonly #inFlight = new Map<ClaimedRow, Promise<void>>();
  readonly #sending = new Set<ClaimedRow>();
  readonly #backgroundTasks = new Set<Promise<void>>();
  readonly #doubts = new Doubts();
  #attempting = 0;
  #isLookingUp = false;
  #isProbing = false;
  #expectsMore = false;
  #isFinishing = false;
  /** Counts how often claims made ahead were given back. */
  #giveBackCount = 0;
  readonly #settlements: SettleQueue;

  /** @param signal ends what is under way; rows that were sent become unknown */
  constructor(deps: PushDeps, slots: number, signal: AbortSignal, events: PushEvents) {
    this.#deps = deps;
    this.#slots = slots;
    this.#maxUnsettled = countMaxUnsettled(slots);
    this.#signal = signal;
    this.#events = events;
    // Do not wait for more rows if many rows are unsettled already: soon no row could begin.
    const mayGather = () => this.#attempting > 0 && this.#unsettled * 2 < this.#maxUnsettled;
    this.#settlements = new SettleQueue(deps, mayGather, signal, events);
    this.#ahead = new ClaimedAhead(deps.db, slots);
    const onHold = async (kind: string, code: HoldCode, ms: number) => {
      await this.#giveBack(kind);
      if (ms > 0) events.onHold(deps.client, kind, code, ms);
    };
    this.health = new ClientHealth({ deps, signal, onHold });
  }

  /** The claims that this process holds and has to renew. */
  get claims(): readonly ClaimedRow[] {
    return [...this.#inFlight.keys(), ...this.#ahead.rows];
  }

  /** True if the last claim got as many rows as it wanted, or needed none: more rows may be due. */
  get expectsMore(): boolean {
    return this.#expectsMore;
  }

  get isIdle(): boolean {
    return this.claims.length === 0 && this.#backgroundTasks.size === 0;
  }

  /** Begins nothing more, and resolves when everything under way is settled. */
  async finish(): Promise<void> {
    this.#isFinishing = true;
    await this.#giveBack('');
    while (this.#inFlight.size + this.#backgroundTasks.size > 0)
      await Promise.all([...this.#inFlight.values(), ...this.#backgroundTasks]);
  }

  /**
   * Claims due rows for the free slots and those that become free soon, and begins to send them.
   * @param few claims only rows of this kind (empty: of the whole client), within its send window
   */
  async claim(few?: { readonly kind: string }): Promise<ClaimSummary> {
    const { isLimited } = this.health;
    const free = this.#freeSlots;
    // Within a send window, one row waits for the next slot: behind a backlog of other rows no slot would ever be free.
    const usual = few === undefined ? this.#ahead.countWanted(free) : Math.max(1, free);
    const wanted = this.#doubts.has('') ? 0 : isLimited ? free : usual;
    if (few === undefined) this.#expectsMore ||= wanted === 0;
    if (wanted === 0) return { claimed: 0, more: false };
    const allowance = isLimited ? await this.health.allow(wanted) : null;
    if (allowance?.rows === 0) return { claimed: 0, more: false, nextInMs: allowance.nextInMs };
    const [claimedAtMs, giveBackCount] = [performance.now(), this.#giveBackCount];
    const maxRows = allowance?.rows ?? wanted;
    const { rows, putOff } = await claimDueRows(this.#deps, maxRows, few);
    if (few === undefined) this.#expectsMore = rows.length === wanted;
    this.#ahead.add(rows, claimedAtMs, few !== undefined);
    // Rows that were claimed before a hold began must not be sent after it.
    if (this.#isFinishing || giveBackCount !== this.#giveBackCount) await this.#giveBack('');
    else this.#beginWaiting();
    const look = { claimed: rows.length, more: putOff > 0 };
    if (allowance === null) return look;
    if (rows.length === maxRows) return { ...look, nextInMs: allowance.nextInMs };
    await this.health
      .returnUnused(maxRows - rows.length)
      .catch((error: unknown) => this.#events.onError('give back', error));
    return look;
  }

  /** Number of slots that can take a row now. */
  get #freeSlots(): number {
    if (this.#doubts.has('')) return 0;
    return Math.max(0, Math.min(this.#slots - this.#sending.size, this.#maxUnsettled - this.#unsettled));
  }

  get #unsettled(): number {
    return this.#inFlight.size - this.#sending.size;
  }

  #beginWaiting(): void {
    for (const waiting of this.#ahead.take(this.#freeSlots, ({ kind }) => !this.#doubts.has(kind)))
      this.#begin(waiting);
  }

  #begin({ row, claimedAtMs }: WaitingRow): void {
    this.#sending.add(row);
    this.#inFlight.set(
      row,
      this.#inSpan(row, (report) => this.#push(row, claimedAtMs, report)),
    );
  }

  /** Runs an attempt within a trace of its own: attempts begin from within others. */
  async #inSpan(row: ClaimedRow, attempt: (report: ReportStatus) => Promise<void>): Promise<void> {
    // The ERP may write any kind into a row, so an unknown kind is not named.
    const kind = this.#deps.kinds.has(row.kind) ? row.kind : 'unknown';
    const attributes = { 'fulfilment.client': row.client, 'fulfilment.outbox': row.id, 'fulfilment.kind': kind };
    const span = tracer.startSpan(`push ${kind}`, { root: true, attributes });
    const report: ReportStatus = (status) => {
      span.setAttribute('fulfilment.status', status);
      if (status !== 'done') span.setStatus({ code: SpanStatusCode.ERROR });
    };
    try {
      await context.with(trace.setSpan(ROOT_CONTEXT, span), () => attempt(report));
    } finally {
      span.end();
    }
  }

  /**
   * Gives back what was claimed ahead. If the database does not accept that, the claims expire.
   * @param kind only rows of this kind; empty: all rows
   */
  async #giveBack(kind: string): Promise<void> {
    this.#giveBackCount++;
    await this.#ahead.giveBack(kind).catch((error: unknown) => this.#events.onError('give back', error));
  }

  /**
   * Gives back rows that were claimed before another worker put their client (kind empty) or kind on hold. The worker
   * that places a hold gives back its own.
   */
  async giveBackHeld(kind: string): Promise<void> {
    if (this.#ahead.rows.some((row) => kind === '' || row.kind === kind)) await this.#giveBack(kind);
  }

  /** Begins a round of look-ups, unless one is under way. */
  lookUp(): void {
    if (this.#isLookingUp) return;
    this.#isLookingUp = true;
    this.#inBackground('look up', async () => {
      try {
        return await lookUpDueRows(this.#deps, this.#settlements, this.health, this.#signal);
      } finally {
        this.#isLookingUp = false;
      }
    });
  }

  /** Begins the probe of a client hold whose time is over. */
  probe(code: HoldCode): void {
    if (this.#isProbing) return;
    this.#isProbing = true;
    this.#inBackground('probe', async () => {
      try {
        await this.health.probe(code);
      } finally {
        this.#isProbing = false;
      }
      return true;
    });
  }

  /**
   * Runs `work` in the background.
   * @param work returns true if it may have made more rows due
   */
  #inBackground(task: string, work: () => Promise<boolean>): void {
    const running: Promise<void> = work()
      .catch((error: unknown) => {
        this.#events.onError(task, error);
        return false;
      })
      .then((more) => {
        this.#backgroundTasks.delete(running);
        if (more) this.#events.onChange(true);
      });
    this.#backgroundTasks.add(running);
  }

  async #push(row: ClaimedRow, claimedAtMs: number, report: ReportStatus): Promise<void> {
    let doubted: string | null = null;
    const endDoubt = () => {
      if (doubted !== null) this.#doubts.count(doubted, -1);
      doubted = null;
    };
    try {
      const beganAtMs = performance.now();
      this.#attempting++;
      const outcome = await attemptRow(this.#deps, row, claimedAtMs, this.#signal).finally(() => this.#attempting--);
      if (outcome === null) return;
      report(outcome.settlement.status);
      if (outcome.asked) this.#ahead.noteRequest(performance.now() - beganAtMs);
      if (this.#ahead.excess > 0) this.#inBackground('give back', () => this.#ahead.giveBackExcess().then(() => false));
      if (outcome.fault !== undefined) this.#events.onError('push', outcome.fault);
      const doubt = findDoubtedScope(outcome.evidence);
      if (doubt !== null) {
        doubted = doubt === 'client' ? '' : row.kind;
        this.#doubts.count(doubted, 1);
      }
      if (this.#mayFreeSlot(outcome, row)) {
        this.#sending.delete(row);
        this.#beginWaiting();
        // If no waiting row is known, the pusher looks for due rows when this row is settled, and only then.
        if (this.#expectsMore) this.#events.onChange(false);
      }
      const { tried, settled } = this.#settlements.settle(outcome, row.kind);
      await tried;
      await this.health.noteScopedEvidence(outcome.evidence, row.kind);
      endDoubt();
      if (outcome.settlement.status === 'done') await this.health.proveKind(row.kind);
      // The claim is renewed until the row is settled. A row that the ERP has locked delays only itself.
      await settled;
      if (outcome.settlement.refund) this.#deps.sent.forget(row);
    } catch (error) {
      this.#events.onError('push', error);
    } finally {
      endDoubt();
      this.#inFlight.delete(row);
      this.#sending.delete(row);
      this.#beginWaiting();
      // The settlement may have woken the next row of the lane. If a claim follows anyway, it finds that row.
      this.#events.onChange(!this.#expectsMore);
    }
  }

  /**
   * Returns true if the next row may have the slot before this row is settled. A failed row keeps it until we know whether
   * the service itself is failing. A kind that only an operator can decide keeps it: a lost worker leaves one row per slot.
   */
  #mayFreeSlot({ settlement }: PushOutcome, { kind }: ClaimedRow): boolean {
    return settlement.status === 'done' && this.#deps.kinds.get(kind)?.unknown.do !== 'ask operator';
  }
}
