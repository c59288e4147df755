import { Breaker, breakerCapMs, breakerPauseMs } from '../../core/breaker.ts';
import type { Hold } from '../../core/push-outcome.ts';
import type { ClaimedRow } from '../../erp/outbox.ts';
import type { Settlement } from '../../erp/outbox-settle.ts';
import { passProbeOn, placeHold, releaseHold, type StoredHold, takeProbe } from '../../erp/push-holds.ts';
import { attemptRow, type Ended, type PushDeps, statusProblem } from './attempt.ts';
import { claimDue } from './claim.ts';
import { ClaimedAhead, type Waiting } from './claimed-ahead.ts';
import { lookUpRows } from './look-up.ts';
import { SettleQueue } from './settle-queue.ts';

/** So many rows of each slot may be answered and not yet settled: the service need not wait for the database. */
const unsettledPerSlot = 3;
/** How long others wait for the one push that shows whether a hold is over. */
const probeMs = 60_000;

/** What a pusher tells of its work. */
export interface PushEvents {
  /** One line per attempt or look-up that settled something. */
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  readonly onHold: (client: string, kind: string, hold: Hold) => void;
  readonly onError: (task: string, error: unknown) => void;
  /** A slot became free; `look`: it is also worth a look at what is due. */
  readonly onChange: (look: boolean) => void;
}

/** Pushes the rows of one client, several at a time. */
export class ClientPusher {
  readonly deps: PushDeps;
  readonly #slots: number;
  readonly #events: PushEvents;
  readonly #signal: AbortSignal;
  readonly #breaker = new Breaker();
  readonly #ahead: ClaimedAhead;
  /** Rows from when they got a slot until they are settled. */
  readonly #inFlight = new Map<ClaimedRow, Promise<void>>();
  /** Those of them that keep a slot. */
  readonly #sending = new Set<ClaimedRow>();
  readonly #others = new Set<Promise<void>>();
  /** Attempts that may say something of the service, and are not settled yet: nothing more is begun meanwhile. */
  #inDoubt = 0;
  /** Attempts that have not ended. */
  #asking = 0;
  #lookingUp = false;
  #expectsMore = false;
  #finishing = false;
  /** Raised whenever what was claimed ahead is given back. */
  #turn = 0;
  readonly #settlements: SettleQueue;

  /** @param signal ends what is under way; what was sent is unknown then */
  constructor(deps: PushDeps, slots: number, signal: AbortSignal, events: PushEvents) {
    this.deps = deps;
    this.#slots = slots;
    this.#signal = signal;
    this.#events = events;
    // Not where so many wait to be settled that soon nothing could be begun.
    const mayGather = () => this.#asking > 0 && this.#unsettled < slots * (unsettledPerSlot - 1);
    this.#settlements = new SettleQueue(deps, mayGather, signal, events);
    this.#ahead = new ClaimedAhead(deps.db, slots);
  }

  /** Claims under way, for their renewal. */
  get claims(): readonly ClaimedRow[] {
    return [...this.#inFlight.keys(), ...this.#ahead.rows];
  }

  /** The last claim got as many rows as it asked for, or needed none: there may be more. */
  get expectsMore(): boolean {
    return this.#expectsMore;
  }

  get isIdle(): boolean {
    return this.claims.length === 0 && this.#others.size === 0;
  }

  /** Begins nothing more, and ends when all that is under way is settled. */
  async finish(): Promise<void> {
    this.#finishing = true;
    await this.#giveBack();
    while (this.#inFlight.size + this.#others.size > 0)
      await Promise.all([...this.#inFlight.values(), ...this.#others]);
  }

  /**
   * Claims what is due, for the free slots and those that will soon be, and begins to send it.
   * @returns whether more may be due right now
   */
  async claim(probing?: { readonly kind: string }): Promise<{ claimed: number; more: boolean }> {
    const wanted = probing ? 1 : this.#inDoubt > 0 ? 0 : this.#ahead.wanted(this.#freeSlots);
    this.#expectsMore ||= wanted === 0;
    if (wanted === 0) return { claimed: 0, more: false };
    const [claimedAtMs, turn] = [performance.now(), this.#turn];
    const { rows, putOff } = await claimDue(this.deps, wanted, probing);
    this.#expectsMore = rows.length === wanted;
    if (probing) for (const row of rows) this.#begin({ row, claimedAtMs }, probing);
    else this.#ahead.add(rows, claimedAtMs);
    // What was claimed before a hold began is not to be sent after it.
    if (this.#finishing || turn !== this.#turn) await this.#giveBack();
    else this.#beginWaiting();
    return { claimed: rows.length, more: putOff > 0 };
  }

  /** Slots that a row may be sent on now. */
  get #freeSlots(): number {
    if (this.#inDoubt > 0) return 0;
    return Math.max(0, Math.min(this.#slots - this.#sending.size, this.#slots * unsettledPerSlot - this.#unsettled));
  }

  get #unsettled(): number {
    return this.#inFlight.size - this.#sending.size;
  }

  #beginWaiting(): void {
    for (const waiting of this.#ahead.take(this.#freeSlots)) this.#begin(waiting);
  }

  #begin({ row, claimedAtMs }: Waiting, probing?: { readonly kind: string }): void {
    this.#sending.add(row);
    this.#inFlight.set(row, this.#push(row, claimedAtMs, probing));
  }

  /** Gives back what was claimed ahead. Where the database does not take it, those claims run out by themselves. */
  async #giveBack(): Promise<void> {
    this.#turn++;
    await this.#ahead.giveBack().catch((error: unknown) => this.#events.onError('give back', error));
  }

  /** Begins a round of look-ups, unless one is under way. */
  lookUp(): void {
    if (this.#lookingUp) return;
    this.#lookingUp = true;
    this.#inBackground('look up', async () => {
      try {
        for (const kind of this.deps.kinds.values())
          if (kind.lookUp !== undefined)
            await this.#settlements.settleAll(await lookUpRows(this.deps, kind, this.#signal), kind.name);
      } finally {
        this.#lookingUp = false;
      }
    });
  }

  /** Finds out whether a hold that has run out is over: first whether the service is up, then with one push. */
  probe(hold: StoredHold): void {
    this.#inBackground('probe', async () => {
      const { db, client } = this.deps;
      if (!(await takeProbe(db, hold, probeMs))) return;
      if (hold.code === 'breaker_open') {
        const outage = await statusProblem(this.deps.warehouse, this.#signal);
        if (outage !== null) return this.#openBreaker(outage, true);
      }
      const { claimed } = await this.claim({ kind: hold.kind });
      if (claimed === 0) await releaseHold(db, { client, kind: hold.kind });
    });
  }

  #inBackground(task: string, work: () => Promise<void>): void {
    const running: Promise<void> = work()
      .catch((error: unknown) => this.#events.onError(task, error))
      .finally(() => {
        this.#others.delete(running);
        this.#events.onChange(true);
      });
    this.#others.add(running);
  }

  async #push(row: ClaimedRow, claimedAtMs: number, probing?: { readonly kind: string }): Promise<void> {
    let inDoubt = false;
    try {
      const beganAtMs = performance.now();
      this.#asking++;
      const ended = await attemptRow(this.deps, row, claimedAtMs, this.#signal).finally(() => this.#asking--);
      if (ended === null) return;
      if (ended.answered !== null) this.#ahead.noteRequest(performance.now() - beganAtMs);
      if (ended.fault !== undefined) this.#events.onError('push', ended.fault);
      inDoubt = ended.settlement.status !== 'done' && (ended.settlement.status !== 'dead' || ended.answered === false);
      if (inDoubt) this.#inDoubt++;
      if (this.#mayGoOn(ended, row)) {
        this.#sending.delete(row);
        this.#beginWaiting();
        // Where nothing is known to wait for the slot, it is looked once this is settled, and not twice.
        if (this.#expectsMore) this.#events.onChange(false);
      }
      const { tried, settled } = this.#settlements.settle(ended, row.kind);
      await tried;
      await this.#noteService(ended, row.kind, probing);
      if (inDoubt) this.#inDoubt--;
      inDoubt = false;
      // Its claim is renewed until then; a row that the ERP has locked keeps only itself.
      await settled;
    } catch (error) {
      this.#events.onError('push', error);
    } finally {
      if (inDoubt) this.#inDoubt--;
      this.#inFlight.delete(row);
      this.#sending.delete(row);
      this.#beginWaiting();
      // What is settled may have woken the next row of its lane; a claim that follows anyway finds that too.
      this.#events.onChange(!this.#expectsMore);
    }
  }

  /**
   * Whether the next row may have the slot before this one is settled. What failed keeps it until it is known what that says
   * of the service; and of kinds that only a person can settle no more than the slots are lost with a worker.
   */
  #mayGoOn({ settlement }: Ended, { kind }: ClaimedRow): boolean {
    return settlement.status === 'done' && this.deps.kinds.get(kind)?.unknown !== 'operator';
  }

  /** What an attempt says of the service: a hold, an outage, or that it is there again. */
  async #noteService(
    { hold, answered, settlement }: Ended,
    kind: string,
    probing?: { readonly kind: string },
  ): Promise<void> {
    const { db, client } = this.deps;
    const isOutage = answered !== null && this.#breaker.note(answered);
    const reason = settlement.error ?? '';
    if (probing !== undefined) {
      const held = { client, kind: probing.kind };
      // A new hold, if there is one, takes the place of the one that was probed.
      if (answered === true) await releaseHold(db, held);
      else if (answered === false) await this.#openBreaker(reason, true);
      else await passProbeOn(db, held);
    }
    if (hold !== null) {
      await placeHold(db, client, kind, hold);
      if (hold.ms > 0) await this.#giveBack();
      this.#events.onHold(client, kind, hold);
    }
    if (isOutage && probing === undefined) await this.#openBreaker(reason, false);
  }

  async #openBreaker(error: string, byProber: boolean): Promise<void> {
    const { db, client } = this.deps;
    const reason = `the service does not answer: ${error}`;
    const hold: Hold = { code: 'breaker_open', scope: 'client', reason, ms: breakerPauseMs, probe: true };
    await placeHold(db, client, '', hold, { capMs: breakerCapMs, byProber });
    await this.#giveBack();
    this.#events.onHold(client, '', hold);
  }
}
