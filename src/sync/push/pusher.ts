/**
 * Sends rows of the outbox, settles them, and looks up those with an unknown outcome. A row is sent again only if it
 * was not carried out, or if its kind allows a repetition.
 */

import type { Database } from '../../erp/connection/pool.ts';
import { type DueWork, readDueWork } from '../../erp/outbox/due-work.ts';
import type { TakenOverRow } from '../../erp/outbox/held-claims.ts';
import { isHeld, readHealth, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { PushDeps } from './attempt.ts';
import { ClientPusher, type PushEvents } from './client-pusher.ts';
import { LaneWaker } from './lane-waker.ts';
import { findSoonest, idleLookMs, type Look, minLookMs, neverLook, readLane } from './next-look.ts';
import type { AnyKind } from './payload/kind.ts';
import type { RecentSends } from './recent-sends.ts';
import { Upkeep } from './upkeep.ts';

/**
 * Maximum milliseconds between two looks for due rows if nothing wakes the pusher. Notifications wake it, also those that
 * the scheduler of push-outbox causes; this is for a queue that is away.
 */
const maxIdleMs = 60_000;
/** Maximum milliseconds until all clients are looked at, while rows of some clients are sent one after the other. */
const wholeLookMs = 250;

export interface PusherOptions {
  readonly db: Database;
  /** A database whose pool is used for nothing else, so that a busy pool costs no claim. */
  readonly claimsDb: Database;
  readonly worker: string;
  readonly clients: readonly PushDeps[];
  readonly kinds: readonly AnyKind[];
  /** Number of rows that are sent at the same time, per client. */
  readonly slots: number;
  /** Rows that this process has sent last. The clients share it. */
  readonly sent: RecentSends;
  readonly events: Omit<PushEvents, 'onChange'> & {
    readonly onTakenOver: (row: TakenOverRow) => void;
    readonly onMarkedDead: (rows: number) => void;
    /** Called when rows may be sent from this database, and when they may not any more. */
    readonly onDatabase: (database: PushDatabase) => void;
  };
}

/**
 * Pushes the due rows of all clients of this process. Any number of processes can work on one database: one worker
 * claims a row, and nobody claims it while an earlier row of its lane is open.
 */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #pushers: ReadonlyMap<string, ClientPusher>;
  readonly #lookedUp: readonly string[];
  readonly #hardStop = new AbortController();
  readonly #waker: LaneWaker;
  #isStopping = false;
  #wake: () => void = () => undefined;
  #isWoken = false;
  /** When all clients are looked at again, by performance.now(). */
  #wholeLookAtMs = 0;
  #loop: Promise<void> | undefined;
  readonly #upkeep: Upkeep;
  #databaseState = '';

  constructor(options: PusherOptions) {
    this.#options = options;
    const { signal } = this.#hardStop;
    this.#waker = new LaneWaker(options.db, signal, (error) => options.events.onError('wake', error));
    const onChange = (look: boolean) => (look ? this.wake() : this.#wakeLoop());
    const events = { ...options.events, onChange };
    this.#pushers = new Map(
      options.clients.map((deps) => [deps.client, new ClientPusher(deps, options.slots, signal, events)]),
    );
    this.#lookedUp = options.kinds.filter(({ unknown }) => unknown.do === 'look up').map(({ name }) => name);
    this.#upkeep = new Upkeep({
      ...options,
      rules: Object.fromEntries(options.kinds.map(({ name, unknown }) => [name, unknown.do])),
      claims: () => this.#all.flatMap(({ claims }) => claims),
      onError: options.events.onError,
      onMarkedDead: options.events.onMarkedDead,
      onDatabase: (database) => this.#noteDatabase(database),
      onTakenOver: (row) => {
        options.events.onTakenOver(row);
        this.wake();
      },
    });
  }

  get #all(): ClientPusher[] {
    return [...this.#pushers.values()];
  }

  /** Begins to push, and continues until stopped. */
  start(): void {
    this.#upkeep.start();
    void this.#upkeep.lookAtDatabase();
    this.#loop = this.#run(() => false);
  }

  /** Pushes until nothing is due any more, and ends. */
  async drain(): Promise<void> {
    this.#upkeep.start();
    await this.#upkeep.once();
    await this.#run((dueNow) => !dueNow && this.#all.every((pusher) => pusher.isIdle));
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

  /** Wakes the pusher because rows may be due. */
  wake(): void {
    this.#wholeLookAtMs = 0;
    this.#wakeLoop();
  }

  /**
   * Wakes the pusher because of a notification of the channel `fulfilment_outbox`.
   * @param payload empty, or the lane that a transaction has freed: its first row may have been postponed meanwhile
   */
  async wakeFor(payload: string): Promise<void> {
    const lane = payload === '' ? null : readLane(payload);
    if (lane !== null) await this.#waker.wake([lane]);
    this.wake();
  }

  /** Wakes the pusher because a slot is free. */
  #wakeLoop(): void {
    this.#isWoken = true;
    this.#wake();
  }

  /**
   * Claims nothing more, and resolves when everything under way is settled. After `withinMs` milliseconds, what is
   * still under way is aborted.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#hardStop.abort(), withinMs);
    this.wake();
    await this.#loop;
    await Promise.all(this.#all.map((pusher) => pusher.finish()));
    clearTimeout(timer);
    await this.#upkeep.stop();
    // Other workers take over what still waits for a lock in the background.
    this.#hardStop.abort();
  }

  async #run(isDone: (dueNow: boolean) => boolean): Promise<void> {
    while (!this.#isStopping) {
      this.#isWoken = false;
      let look: Look;
      try {
        look = (await this.#claimAgain()) ?? (await this.#lookAtAll());
      } catch (error) {
        this.#options.events.onError('claim', error);
        look = { inMs: idleLookMs, dueNow: true };
      }
      // Settlements during the look may have made more rows due.
      if (!this.#isWoken && isDone(look.dueNow)) return;
      await this.#pause(Math.min(look.inMs, maxIdleMs));
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#isWoken || ms <= 0) return;
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
   * Claims again for clients whose last claim left rows behind, without first reading what is due.
   * @returns null if all clients have to be looked at
   */
  async #claimAgain(): Promise<Look | null> {
    const leftMs = this.#wholeLookAtMs - performance.now();
    const pushers = this.#all.filter(({ expectsMore, health }) => expectsMore && !health.isLimited);
    if (leftMs <= 0 || pushers.length === 0) return null;
    const claims = await Promise.all(pushers.map((pusher) => pusher.claim()));
    return { inMs: claims.some(({ more }) => more) ? 0 : leftMs, dueNow: true };
  }

  /**
   * Looks at all clients and begins what can begin. Returns when to look again, and whether any row was due that could
   * be pushed.
   */
  async #lookAtAll(): Promise<Look> {
    this.#wholeLookAtMs = performance.now() + wholeLookMs;
    const due = await readDueWork(this.#options.db, this.#options.clients, this.#lookedUp);
    const troubled = due.filter(({ isTroubled }) => isTroubled).map(({ client }) => client);
    const health = troubled.length === 0 ? [] : await readHealth(this.#options.db, troubled);
    const byClient = Map.groupBy(health, ({ client }) => client);
    const looks = await Promise.all(due.map((one) => this.#lookAt(one, byClient.get(one.client) ?? [])));
    return findSoonest(looks);
  }

  async #lookAt(due: DueWork, health: readonly StoredHealth[]): Promise<Look> {
    const { client, pendingInMs, unknownInMs, isLimited } = due;
    const pusher = this.#pushers.get(client);
    if (pusher === undefined) return neverLook;
    pusher.health.set(health, isLimited);
    const whole = health.find(({ kind }) => kind === '');
    if (whole !== undefined && isHeld(whole)) {
      await pusher.giveBackHeld('');
      if (whole.probe && whole.untilInMs <= 0) pusher.probe(whole.code);
      return { inMs: whole.untilInMs > 0 ? Math.max(minLookMs, whole.untilInMs) : idleLookMs, dueNow: false };
    }
    if (unknownInMs === 0) pusher.lookUp();
    // Look-ups that are due but cannot begin now are checked again soon.
    const looks: Look[] = [
      { inMs: unknownInMs === 0 ? idleLookMs : (unknownInMs ?? neverLook.inMs), dueNow: unknownInMs === 0 },
    ];
    for (const { kind, untilInMs } of health.filter(isHeld)) {
      await pusher.giveBackHeld(kind);
      looks.push({ inMs: Math.max(minLookMs, untilInMs), dueNow: false });
    }
    if (pendingInMs === null || pendingInMs > 0)
      return findSoonest([...looks, { inMs: pendingInMs ?? neverLook.inMs, dueNow: false }]);
    return findSoonest([...looks, ...(await claimFor(pusher, health))]);
  }
}

/** Claims rows of a client. Rows of a kind or client with a send window are claimed within it. */
async function claimFor(pusher: ClientPusher, health: readonly StoredHealth[]): Promise<Look[]> {
  const few = health.filter((one) => one.sendWindow !== null && !isHeld(one));
  const looks: Look[] = [];
  const claim = async (kind?: string) => {
    const { claimed, more, nextInMs } = await pusher.claim(kind === undefined ? undefined : { kind });
    const inMs = nextInMs === undefined ? idleLookMs : Math.max(minLookMs, nextInMs);
    looks.push({ inMs: more ? 0 : inMs, dueNow: more || claimed > 0 || nextInMs !== undefined });
  };
  if (few.some(({ kind }) => kind === '')) await claim('');
  else {
    // These come first: behind all other rows they would never get a slot, and their number is bounded.
    for (const { kind } of few) await claim(kind);
    await claim();
  }
  return looks;
}
