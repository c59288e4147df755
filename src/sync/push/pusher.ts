import { operatorChoices, type UnknownRule } from '../../core/push-outcome.ts';
import type { Database } from '../../erp/connect.ts';
import { buryStrangers, nextDueByClient } from '../../erp/outbox.ts';
import { renewClaims, type TakenOver, takeOverClaims } from '../../erp/outbox-claims.ts';
import { readHolds, type StoredHold } from '../../erp/push-holds.ts';
import type { PushDeps } from './attempt.ts';
import { ClientPusher, type PushEvents } from './client-pusher.ts';
import type { AnyKind } from './kind.ts';

/** How often claims are renewed, and those of lost workers taken over. */
const tendMs = 3_000;
/** Where rows are due that nobody can claim now, it is looked again after this. */
const idleLookMs = 1_000;
/** While rows of some clients go out one after the other, it is looked for those of others this often at least. */
const wholeLookMs = 250;

export interface PusherOptions {
  readonly db: Database;
  /** A database whose pool is used for nothing else: a busy one must not cost a claim. */
  readonly claimsDb: Database;
  readonly worker: string;
  readonly clients: readonly PushDeps[];
  readonly kinds: readonly AnyKind[];
  /** Pushes at the same time, per client. */
  readonly slots: number;
  /** How often it is looked for rows where no notification came. */
  readonly sweepMs: number;
  readonly events: Omit<PushEvents, 'onChange'> & {
    readonly onTakenOver: (row: TakenOver) => void;
    readonly onBuried: (rows: number) => void;
  };
}

/**
 * Pushes what is due, of all clients of this process. Any number of them may work on one database: a row is claimed by one,
 * and by nobody while another of its lane comes first.
 */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #pushers: ReadonlyMap<string, ClientPusher>;
  readonly #rules: Readonly<Record<string, UnknownRule>>;
  readonly #lookedUp: readonly string[];
  readonly #hardStop = new AbortController();
  #stopping = false;
  #wake: () => void = () => undefined;
  #woken = false;
  /** When every client is to be looked at again, by performance.now(). */
  #wholeLookAtMs = 0;
  #loop: Promise<void> | undefined;
  #tending: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PusherOptions) {
    this.#options = options;
    const events = { ...options.events, onChange: (look: boolean) => (look ? this.wake() : this.#proceed()) };
    this.#pushers = new Map(
      options.clients.map((deps) => [
        deps.client,
        new ClientPusher(deps, options.slots, this.#hardStop.signal, events),
      ]),
    );
    this.#lookedUp = options.kinds.filter(({ lookUp }) => lookUp !== undefined).map(({ name }) => name);
    this.#rules = Object.fromEntries(options.kinds.map(({ name, unknown }) => [name, unknown]));
  }

  /** Begins to push, and goes on until stopped. */
  start(): void {
    this.#startTending();
    this.#loop = this.#run(() => false);
  }

  /** Pushes until nothing is due any more, and ends. */
  async drain(): Promise<void> {
    this.#startTending();
    await this.#tend();
    await this.#run((dueNow) => !dueNow && [...this.#pushers.values()].every((pusher) => pusher.isIdle));
    await this.stop(0);
  }

  /** Says that rows may be due. */
  wake(): void {
    this.#wholeLookAtMs = 0;
    this.#proceed();
  }

  /** A slot is free. */
  #proceed(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Claims nothing more, and ends when what is under way is settled; after `withinMs` that is called off. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping = true;
    const timer = setTimeout(() => this.#hardStop.abort(), withinMs);
    this.wake();
    await this.#loop;
    await Promise.all([...this.#pushers.values()].map((pusher) => pusher.finish()));
    clearTimeout(timer);
    clearInterval(this.#timer);
    await this.#tending;
    // What still waits for a lock in the background is left to other workers.
    this.#hardStop.abort();
  }

  async #run(isDone: (dueNow: boolean) => boolean): Promise<void> {
    while (!this.#stopping) {
      this.#woken = false;
      let look: { inMs: number; dueNow: boolean };
      try {
        look = (await this.#claimOn()) ?? (await this.#round());
      } catch (error) {
        this.#options.events.onError('claim', error);
        look = { inMs: idleLookMs, dueNow: true };
      }
      // What was settled while it looked may have made more rows due.
      if (!this.#woken && isDone(look.dueNow)) return;
      await this.#pause(Math.min(look.inMs, this.#options.sweepMs));
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#woken || ms <= 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = () => undefined;
  }

  /**
   * Where the last claim of a client left more behind, its next one needs no look at what is due: it finds out itself.
   * @returns null where every client has to be looked at
   */
  async #claimOn(): Promise<{ inMs: number; dueNow: boolean } | null> {
    const leftMs = this.#wholeLookAtMs - performance.now();
    const pushers = [...this.#pushers.values()].filter((pusher) => pusher.expectsMore);
    if (leftMs <= 0 || pushers.length === 0) return null;
    const claims = await Promise.all(pushers.map((pusher) => pusher.claim()));
    return { inMs: claims.some(({ more }) => more) ? 0 : leftMs, dueNow: true };
  }

  /** Begins what can be begun. Says when to look again, and whether anything was due that could be pushed. */
  async #round(): Promise<{ inMs: number; dueNow: boolean }> {
    this.#wholeLookAtMs = performance.now() + wholeLookMs;
    const due = await nextDueByClient(this.#options.db, this.#options.clients, this.#lookedUp);
    if (due.length === 0) return { inMs: Number.POSITIVE_INFINITY, dueNow: false };
    const names = due.map(({ client }) => client);
    const holds = Map.groupBy(await readHolds(this.#options.db, names), ({ client }) => client);
    const looks = await Promise.all(
      due.map(async ({ client, pendingInMs, unknownInMs }) => {
        const pusher = this.#pushers.get(client);
        if (pusher === undefined) return { inMs: Number.POSITIVE_INFINITY, dueNow: false };
        const own = holds.get(client) ?? [];
        const isClosed = own.some(({ kind, probe }) => kind === '' && probe);
        const lookUpNow = unknownInMs === 0 && !isClosed;
        if (lookUpNow) pusher.lookUp();
        // Look-ups that are due and cannot be made now are looked at again soon.
        const lookUpInMs = unknownInMs === 0 ? idleLookMs : (unknownInMs ?? Number.POSITIVE_INFINITY);
        const later = Math.min(pendingInMs || Number.POSITIVE_INFINITY, lookUpInMs);
        if (pendingInMs !== 0) {
          // Nothing else would find out whether the door is open again.
          if (unknownInMs === 0) this.#probeEnded(pusher, own);
          return { inMs: later, dueNow: lookUpNow };
        }
        const look = await this.#claimFor(pusher, own);
        return { inMs: Math.min(look.inMs, later), dueNow: look.dueNow || lookUpNow };
      }),
    );
    return {
      inMs: Math.min(...looks.map(({ inMs }) => inMs)),
      dueNow: looks.some(({ dueNow }) => dueNow),
    };
  }

  async #claimFor(pusher: ClientPusher, holds: readonly StoredHold[]): Promise<{ inMs: number; dueNow: boolean }> {
    const whole = holds.find(({ kind }) => kind === '');
    this.#probeEnded(pusher, holds);
    const heldMs = Math.max(idleLookMs, Math.min(...holds.map(({ untilInMs }) => untilInMs)));
    if (whole !== undefined) return { inMs: heldMs, dueNow: whole.untilInMs <= 0 };
    const { claimed, more } = await pusher.claim();
    if (more) return { inMs: 0, dueNow: true };
    return { inMs: idleLookMs, dueNow: claimed > 0 };
  }

  /** Of a hold of the client and those of kinds the former comes first. */
  #probeEnded(pusher: ClientPusher, holds: readonly StoredHold[]): void {
    const whole = holds.find(({ kind }) => kind === '');
    for (const hold of whole ? [whole] : holds) if (hold.probe && hold.untilInMs <= 0) pusher.probe(hold);
  }

  #startTending(): void {
    this.#timer = setInterval(() => void this.#tend(), tendMs);
  }

  /** Renews our claims, takes over those of lost workers, and ends rows of clients that nobody knows. */
  #tend(): Promise<void> {
    this.#tending ??= this.#tendOnce()
      .catch((error: unknown) => this.#options.events.onError('tend', error))
      .finally(() => {
        this.#tending = undefined;
      });
    return this.#tending;
  }

  async #tendOnce(): Promise<void> {
    const { claimsDb, db, worker, events } = this.#options;
    await renewClaims(
      claimsDb,
      [...this.#pushers.values()].flatMap((pusher) => pusher.claims),
    );
    const taken = await takeOverClaims(claimsDb, worker, this.#rules, operatorChoices);
    for (const row of taken) events.onTakenOver(row);
    const buried = await buryStrangers(db, worker);
    if (buried > 0) events.onBuried(buried);
    if (taken.length > 0) this.wake();
  }
}
