import type { HoldCode } from '../../core/push-health.ts';
import { doubtOf } from '../../core/push-outcome.ts';
import type { ClaimedRow } from '../../erp/outbox/claim.ts';
import type { Settlement } from '../../erp/outbox/settle.ts';
import { attemptRow, type Ended, type PushDeps } from './attempt.ts';
import { type ClaimLook, claimDue } from './claim.ts';
import { ClaimedAhead, type Waiting } from './claimed-ahead.ts';
import { ClientHealth } from './client-health.ts';
import { lookUpAll } from './look-up.ts';
import { SettleQueue } from './settle-queue.ts';

/** This many rows of each slot may be answered and not yet settled: the service need not wait for the database. */
const unsettledPerSlot = 3;
/** What a pusher tells of its work. */
export interface PushEvents {
  /** One line per attempt or look-up that settled something. */
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  /** A client (kind empty) or kind is held for this many milliseconds. */
  readonly onHold: (client: string, kind: string, code: HoldCode, ms: number) => void;
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
  readonly health: ClientHealth;
  readonly #ahead: ClaimedAhead;
  /** Rows from when they got a slot until they are settled. */
  readonly #inFlight = new Map<ClaimedRow, Promise<void>>();
  /** Those of them that keep a slot. */
  readonly #sending = new Set<ClaimedRow>();
  readonly #others = new Set<Promise<void>>();
  /** Attempts that say something of the client (empty) or a kind that is not noted yet: none of its rows is begun meanwhile. */
  readonly #doubts = new Map<string, number>();
  /** Attempts that have not ended. */
  #asking = 0;
  #lookingUp = false;
  #probing = false;
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
    // Not when the queue of those to be settled is nearly full: soon nothing could be begun.
    const mayGather = () => this.#asking > 0 && this.#unsettled < slots * (unsettledPerSlot - 1);
    this.#settlements = new SettleQueue(deps, mayGather, signal, events);
    this.#ahead = new ClaimedAhead(deps.db, slots);
    const onHold = async (kind: string, code: HoldCode, ms: number) => {
      await this.#giveBack(kind);
      if (ms > 0) events.onHold(deps.client, kind, code, ms);
    };
    this.health = new ClientHealth({ deps, signal, onHold });
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
    await this.#giveBack('');
    while (this.#inFlight.size + this.#others.size > 0)
      await Promise.all([...this.#inFlight.values(), ...this.#others]);
  }

  /**
   * Claims what is due, for the free slots and those that will soon be, and begins to send it.
   * @param few only rows of this kind (empty: of the client), of which few may be under way at a time
   */
  async claim(few?: { readonly kind: string }): Promise<ClaimLook> {
    const { isLimited } = this.health;
    const free = this.#freeSlots;
    // Of a few, one waits for the next slot: behind a backlog of others there would never be a free one.
    const usual = few === undefined ? this.#ahead.wanted(free) : Math.max(1, free);
    const wanted = this.#isInDoubt('') ? 0 : isLimited ? free : usual;
    if (few === undefined) this.#expectsMore ||= wanted === 0;
    if (wanted === 0) return { claimed: 0, more: false };
    const allowance = isLimited ? await this.health.allow(wanted) : null;
    if (allowance?.rows === 0) return { claimed: 0, more: false, nextInMs: allowance.nextInMs };
    const [claimedAtMs, turn] = [performance.now(), this.#turn];
    const most = allowance?.rows ?? wanted;
    const { rows, putOff } = await claimDue(this.deps, most, few);
    if (few === undefined) this.#expectsMore = rows.length === wanted;
    this.#ahead.add(rows, claimedAtMs, few !== undefined);
    // What was claimed before a hold began is not to be sent after it.
    if (this.#finishing || turn !== this.#turn) await this.#giveBack('');
    else this.#beginWaiting();
    const look = { claimed: rows.length, more: putOff > 0 };
    if (allowance === null) return look;
    if (rows.length === most) return { ...look, nextInMs: allowance.nextInMs };
    await this.health.giveBack(most - rows.length).catch((error: unknown) => this.#events.onError('give back', error));
    return look;
  }

  /** Slots that a row may be sent on now. */
  get #freeSlots(): number {
    if (this.#isInDoubt('')) return 0;
    return Math.max(0, Math.min(this.#slots - this.#sending.size, this.#slots * unsettledPerSlot - this.#unsettled));
  }

  #isInDoubt(kind: string): boolean {
    return (this.#doubts.get(kind) ?? 0) > 0;
  }

  #doubt(kind: string, by: 1 | -1): void {
    this.#doubts.set(kind, (this.#doubts.get(kind) ?? 0) + by);
  }

  get #unsettled(): number {
    return this.#inFlight.size - this.#sending.size;
  }

  #beginWaiting(): void {
    for (const waiting of this.#ahead.take(this.#freeSlots, ({ kind }) => !this.#isInDoubt(kind))) this.#begin(waiting);
  }

  #begin({ row, claimedAtMs }: Waiting): void {
    this.#sending.add(row);
    this.#inFlight.set(row, this.#push(row, claimedAtMs));
  }

  /**
   * Gives back what was claimed ahead. Where the database does not take it, those claims run out by themselves.
   * @param kind only of this kind; empty: all
   */
  async #giveBack(kind: string): Promise<void> {
    this.#turn++;
    await this.#ahead.giveBack(kind).catch((error: unknown) => this.#events.onError('give back', error));
  }

  /** Begins a round of look-ups, unless one is under way. */
  lookUp(): void {
    if (this.#lookingUp) return;
    this.#lookingUp = true;
    this.#inBackground('look up', async () => {
      try {
        return await lookUpAll(this.deps, this.#settlements, this.health, this.#signal);
      } finally {
        this.#lookingUp = false;
      }
    });
  }

  /** Finds out whether a hold of the client is over, whose time is up. */
  probe(code: HoldCode): void {
    if (this.#probing) return;
    this.#probing = true;
    this.#inBackground('probe', async () => {
      try {
        await this.health.probe(code);
      } finally {
        this.#probing = false;
      }
      return true;
    });
  }

  /** @param work whether it may have made more rows due */
  #inBackground(task: string, work: () => Promise<boolean>): void {
    const running: Promise<void> = work()
      .catch((error: unknown) => {
        this.#events.onError(task, error);
        return false;
      })
      .then((more) => {
        this.#others.delete(running);
        if (more) this.#events.onChange(true);
      });
    this.#others.add(running);
  }

  async #push(row: ClaimedRow, claimedAtMs: number): Promise<void> {
    let doubted: string | null = null;
    const endDoubt = () => {
      if (doubted !== null) this.#doubt(doubted, -1);
      doubted = null;
    };
    try {
      const beganAtMs = performance.now();
      this.#asking++;
      const ended = await attemptRow(this.deps, row, claimedAtMs, this.#signal).finally(() => this.#asking--);
      if (ended === null) return;
      if (ended.asked) this.#ahead.noteRequest(performance.now() - beganAtMs);
      if (ended.fault !== undefined) this.#events.onError('push', ended.fault);
      const doubt = doubtOf(ended.news);
      if (doubt !== null) {
        doubted = doubt === 'client' ? '' : row.kind;
        this.#doubt(doubted, 1);
      }
      if (this.#mayGoOn(ended, row)) {
        this.#sending.delete(row);
        this.#beginWaiting();
        // Where nothing is known to wait for the slot, it is looked once this is settled, and not twice.
        if (this.#expectsMore) this.#events.onChange(false);
      }
      const { tried, settled } = this.#settlements.settle(ended, row.kind);
      await tried;
      await this.health.note(ended.news, row.kind);
      endDoubt();
      if (ended.settlement.status === 'done') await this.health.prove(row.kind);
      // Its claim is renewed until then; a row that the ERP has locked keeps only itself.
      await settled;
      if (ended.settlement.refund) this.deps.sent.forget(row);
    } catch (error) {
      this.#events.onError('push', error);
    } finally {
      endDoubt();
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
    return settlement.status === 'done' && this.deps.kinds.get(kind)?.unknown.do !== 'ask operator';
  }
}
