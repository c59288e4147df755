/**
 * Sends rows of the outbox, settles them, and looks up those with an unknown outcome. A row is sent again only if it
 * was not carried out, or if its kind allows a repetition.
 */

import type { Database } from '../../erp/connection/pool.ts';
import type { TakenOver } from '../../erp/outbox/claims-held.ts';
import { type Due, nextDueByClient } from '../../erp/outbox/due.ts';
import { isHeld, readHealth, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { PushDeps } from './attempt.ts';
import { ClientPusher, type PushEvents } from './client-pusher.ts';
import { LaneWaker } from './lane-waker.ts';
import { type Look, never, readLane, soonest } from './look.ts';
import type { AnyKind } from './payload/kind.ts';
import type { RecentSends } from './recent-sends.ts';
import { Upkeep } from './upkeep.ts';

/** Where rows are due that nobody can claim now, it is looked again after this. */
const idleLookMs = 1_000;
/** Where a rate is kept it is not looked more often than this. */
const minLookMs = 10;
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
  /** Rows that this process has sent last; the clients share it. */
  readonly sent: RecentSends;
  readonly events: Omit<PushEvents, 'onChange'> & {
    readonly onTakenOver: (row: TakenOver) => void;
    readonly onBuried: (rows: number) => void;
    /** Called when rows may be sent from this database, or no longer. */
    readonly onDatabase: (database: PushDatabase) => void;
  };
}

/**
 * Pushes what is due, of all clients of this process. Any number of them may work on one database: a row is claimed by one,
 * and by nobody while another of its lane comes first.
 */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #pushers: ReadonlyMap<string, ClientPusher>;
  readonly #lookedUp: readonly string[];
  readonly #hardStop = new AbortController();
  readonly #waker: LaneWaker;
  #stopping = false;
  #wake: () => void = () => undefined;
  #woken = false;
  /** When every client is to be looked at again, by performance.now(). */
  #wholeLookAtMs = 0;
  #loop: Promise<void> | undefined;
  readonly #upkeep: Upkeep;
  #databaseState = '';

  constructor(options: PusherOptions) {
    this.#options = options;
    const { signal } = this.#hardStop;
    this.#waker = new LaneWaker(options.db, signal, (error) => options.events.onError('wake', error));
    const events = { ...options.events, onChange: (look: boolean) => (look ? this.wake() : this.#proceed()) };
    this.#pushers = new Map(
      options.clients.map((deps) => [deps.client, new ClientPusher(deps, options.slots, signal, events)]),
    );
    this.#lookedUp = options.kinds.filter(({ unknown }) => unknown.do === 'look up').map(({ name }) => name);
    this.#upkeep = new Upkeep({
      ...options,
      rules: Object.fromEntries(options.kinds.map(({ name, unknown }) => [name, unknown.do])),
      claims: () => [...this.#pushers.values()].flatMap((pusher) => pusher.claims),
      onError: options.events.onError,
      onBuried: options.events.onBuried,
      onDatabase: (database) => this.#noteDatabase(database),
      onTakenOver: (row) => {
        options.events.onTakenOver(row);
        this.wake();
      },
    });
  }

  /** Begins to push, and goes on until stopped. */
  start(): void {
    this.#upkeep.start();
    void this.#upkeep.lookAtDatabase();
    this.#loop = this.#run(() => false);
  }

  /** Pushes until nothing is due any more, and ends. */
  async drain(): Promise<void> {
    this.#upkeep.start();
    await this.#upkeep.once();
    await this.#run((dueNow) => !dueNow && [...this.#pushers.values()].every((pusher) => pusher.isIdle));
    await this.stop(0);
  }

  #noteDatabase(database: PushDatabase): void {
    const { change, acceptedAs } = database;
    const state = `${change} ${acceptedAs}`;
    if (state === this.#databaseState) return;
    this.#databaseState = state;
    this.#options.events.onDatabase(database);
    this.wake();
  }

  /** Says that rows may be due. */
  wake(): void {
    this.#wholeLookAtMs = 0;
    this.#proceed();
  }

  /**
   * Says that rows may be due, as a notification of the channel `fulfilment_outbox` does.
   * @param payload empty, or the lane that a transaction has freed: what was put off meanwhile may be first in it now
   */
  async wakeFor(payload: string): Promise<void> {
    const lane = payload === '' ? null : readLane(payload);
    if (lane !== null) await this.#waker.wake([lane]);
    this.wake();
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
    await this.#upkeep.stop();
    // What still waits for a lock in the background is left to other workers.
    this.#hardStop.abort();
  }

  async #run(isDone: (dueNow: boolean) => boolean): Promise<void> {
    while (!this.#stopping) {
      this.#woken = false;
      let look: Look;
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
  async #claimOn(): Promise<Look | null> {
    const leftMs = this.#wholeLookAtMs - performance.now();
    const pushers = [...this.#pushers.values()].filter(({ expectsMore, health }) => expectsMore && !health.isLimited);
    if (leftMs <= 0 || pushers.length === 0) return null;
    const claims = await Promise.all(pushers.map((pusher) => pusher.claim()));
    return { inMs: claims.some(({ more }) => more) ? 0 : leftMs, dueNow: true };
  }

  /** Begins what can be begun. Says when to look again, and whether anything was due that could be pushed. */
  async #round(): Promise<Look> {
    this.#wholeLookAtMs = performance.now() + wholeLookMs;
    const due = await nextDueByClient(this.#options.db, this.#options.clients, this.#lookedUp);
    const troubled = due.filter(({ isTroubled }) => isTroubled).map(({ client }) => client);
    const health = troubled.length === 0 ? [] : await readHealth(this.#options.db, troubled);
    const byClient = Map.groupBy(health, ({ client }) => client);
    const looks = await Promise.all(due.map((one) => this.#lookAt(one, byClient.get(one.client) ?? [])));
    return soonest(looks);
  }

  async #lookAt(due: Due, health: readonly StoredHealth[]): Promise<Look> {
    const { client, pendingInMs, unknownInMs, isLimited } = due;
    const pusher = this.#pushers.get(client);
    if (pusher === undefined) return never;
    pusher.health.set(health, isLimited);
    const whole = health.find(({ kind }) => kind === '');
    if (whole !== undefined && isHeld(whole)) {
      if (whole.probe && whole.untilInMs <= 0) pusher.probe(whole.code);
      return { inMs: whole.untilInMs > 0 ? Math.max(minLookMs, whole.untilInMs) : idleLookMs, dueNow: false };
    }
    if (unknownInMs === 0) pusher.lookUp();
    // Look-ups that are due and cannot be made now are looked at again soon.
    const looks: Look[] = [
      { inMs: unknownInMs === 0 ? idleLookMs : (unknownInMs ?? never.inMs), dueNow: unknownInMs === 0 },
    ];
    for (const { untilInMs } of health.filter(isHeld))
      looks.push({ inMs: Math.max(minLookMs, untilInMs), dueNow: false });
    if (pendingInMs === null || pendingInMs > 0)
      return soonest([...looks, { inMs: pendingInMs ?? never.inMs, dueNow: false }]);
    return soonest([...looks, ...(await this.#claimFor(pusher, health))]);
  }

  /** Claims rows of a client: all that are due, or of what is just let go again a few at a time. */
  async #claimFor(pusher: ClientPusher, health: readonly StoredHealth[]): Promise<Look[]> {
    const few = health.filter((one) => one.sendWindow !== null && !isHeld(one));
    const looks: Look[] = [];
    const claim = async (kind?: string) => {
      const { claimed, more, nextInMs } = await pusher.claim(kind === undefined ? undefined : { kind });
      const inMs = nextInMs === undefined ? idleLookMs : Math.max(minLookMs, nextInMs);
      looks.push({ inMs: more ? 0 : inMs, dueNow: more || claimed > 0 || nextInMs !== undefined });
    };
    if (few.some(({ kind }) => kind === '')) await claim('');
    else {
      // First, as each of them is bounded: behind all others they would never have a slot.
      for (const { kind } of few) await claim(kind);
      await claim();
    }
    return looks;
  }
}
