/**
 * This room: sends rows of the outbox, settles them, and looks up those with an unknown outcome. A
 * row is sent again only if it was not carried out, or if its kind allows a repetition.
 */

import { hasCode } from '../core/errors.ts';
import { awaitsAnswer } from '../service/health/judge-health.ts';
import { clientScope } from '../service/sql/service-health.ts';
import { ClientPusher, type PushEvents } from './client-pusher.ts';
import type { AnyKind } from './kind.ts';
import type { PushDeps } from './send-row.ts';
import { LaneReleaser } from './settler.ts';
import { sayAwake } from './sql/awake-clients.ts';
import { type DueKinds, type DueWork, readDueWork } from './sql/claim-rows.ts';
import type { PushDatabase } from './sql/push-database.ts';
import { enterOutcomes } from './sql/settle-rows.ts';
import { Upkeep, type UpkeepOptions } from './upkeep.ts';
import { awakeMs, lastLookMs, Waking } from './waking.ts';

/**
 * Maximum milliseconds between two looks for due rows if nothing wakes the pusher. Notifications
 * wake it, also those that the scheduler of push-outbox causes; this is for a queue that is away.
 */
const maxIdleMs = 60_000;
/** Milliseconds until the next look if rows are due that nobody can claim now. */
const busyLookMs = 1_000;
/** Minimum milliseconds between the beginnings of two looks, however often the pusher is woken. */
const minLookMs = 5;

/** The same while no further rows may be claimed. */
const fullLookMs = 20;

/** What a pusher works with. The clients share `sent`. */
export interface PusherOptions
  extends Pick<UpkeepOptions, 'db' | 'claimsDb' | 'worker' | 'sent' | 'isFenced'> {
  readonly clients: readonly PushDeps[];
  readonly kinds: readonly AnyKind[];
  /** Number of rows that are sent at the same time, per client. */
  readonly slots: number;
  readonly events: Omit<PushEvents, 'onDue'> &
    Pick<UpkeepOptions, 'onTakenOver' | 'onMarkedDead' | 'onOutdated'> & {
      /** Called when rows may be sent from this database, and when they may not any more. */
      readonly onDatabase: (database: PushDatabase) => void;
    };
}

/**
 * Pushes the due rows of all clients of this process. Any number of processes can work on one
 * database: one worker claims a row, and nobody claims it while an earlier row of its lane is open.
 */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #pushers: ReadonlyMap<string, ClientPusher>;
  readonly #kinds: DueKinds;
  readonly #hardStop = new AbortController();
  readonly #lanes: LaneReleaser;
  readonly #upkeep: Upkeep;
  readonly #waking = new Waking();
  #isStopping = false;
  #loop: Promise<void> | undefined;
  /** When to look for due rows, by performance.now(). */
  #nextLookAtMs = 0;
  /** Makes the loop read again when to look. */
  #rearm: () => void = () => undefined;
  /** True if an ERP may have cancelled rows. */
  #hasOutcomes = true;
  #databaseState = '';

  constructor(options: PusherOptions) {
    this.#options = options;
    const { db, clients, kinds, slots, events } = options;
    const { signal } = this.#hardStop;
    const onDue = (inMs: number) => this.#lookWithin(inMs);
    this.#lanes = new LaneReleaser(
      db,
      signal,
      () => this.wake(),
      (error) => events.onError('release', error),
    );
    this.#pushers = new Map(
      clients.map((deps) => [
        deps.client,
        new ClientPusher(deps, slots, signal, { ...events, onDue }),
      ]),
    );
    this.#kinds = {
      worker: options.worker,
      names: kinds.map(({ name }) => name),
      lookedUp: kinds.filter(({ unknown }) => unknown.do === 'look up').map(({ name }) => name),
    };
    this.#upkeep = new Upkeep({
      ...options,
      rules: Object.fromEntries(kinds.map(({ name, unknown }) => [name, unknown.do])),
      claims: () => this.#all.flatMap(({ claims }) => claims),
      onError: (task, error) => {
        events.onError(task, error);
        // The listener may have lost its connection, too, and notices that later.
        if (hasCode(error, 'database_lost')) this.wake();
      },
      onMarkedDead: events.onMarkedDead,
      onDatabase: (database) => this.#noteDatabase(database),
      onOutcomes: () => this.#enterOutcomes(),
      onOutdated: events.onOutdated,
      onLookUpsDue: () => this.wake(),
      onTakenOver: (row) => {
        events.onTakenOver(row);
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
    this.#loop = this.#run();
  }

  /** Pushes until nothing is due any more, and ends. */
  async drain(): Promise<void> {
    this.#upkeep.start();
    await this.#upkeep.once();
    await this.#upkeep.awaitPlace();
    for (let [before, after] = [-1, 0]; before !== after && !this.#isStopping; ) {
      before = after;
      await this.#look().catch((error: unknown) => this.#options.events.onError('look', error));
      const progress = await Promise.all(this.#all.map((pusher) => pusher.idle()));
      after = progress.reduce((sum, one) => sum + one, 0);
    }
    await this.stop(0);
  }

  /** Looks for due rows now. Any number of calls before the look has begun cause one look. */
  wake(): void {
    this.#lookWithin(0);
  }

  /**
   * Wakes the pusher because of a notification of the channel `fulfilment_outbox`. Any role that
   * may connect can send one, so its text decides nothing.
   * @param payload empty for an inserted row; else an ERP may have cancelled a row
   */
  notice(payload: string): void {
    if (payload !== '') this.#hasOutcomes = true;
    else this.#waking.notify();
    this.wake();
  }

  #lookWithin(ms: number): void {
    const atMs = performance.now() + ms;
    if (atMs >= this.#nextLookAtMs) return;
    this.#nextLookAtMs = atMs;
    this.#rearm();
  }

  /**
   * Claims nothing more, and resolves when all is settled. Aborts what is still under way after
   * `withinMs`.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#hardStop.abort(), withinMs);
    this.#rearm();
    await this.#loop;
    await Promise.all(this.#all.map((pusher) => pusher.finish()));
    clearTimeout(timer);
    await this.#upkeep.stop();
    // Other workers take over what still waits for a lock in the background.
    this.#hardStop.abort();
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      const beganAtMs = performance.now();
      this.#nextLookAtMs = beganAtMs + maxIdleMs;
      try {
        if (this.#hasOutcomes) await this.#enterOutcomes();
        await this.#look();
      } catch (error) {
        this.#options.events.onError('look', error);
        this.#lookWithin(busyLookMs);
      }
      this.#nextLookAtMs = Math.max(this.#nextLookAtMs, beganAtMs + minLookMs);
      for (let ms = this.#msToLook; ms > 0 && !this.#isStopping; ms = this.#msToLook)
        await this.#pause(ms);
    }
  }

  get #msToLook(): number {
    return this.#nextLookAtMs - performance.now();
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#rearm = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#rearm = () => undefined;
  }

  /** Enters what ERPs cancelled into the feed, and releases the lanes. */
  async #enterOutcomes(): Promise<void> {
    this.#hasOutcomes = false;
    await this.#lanes.release(await enterOutcomes(this.#options.db));
  }

  #noteDatabase(database: PushDatabase): void {
    const { change, acceptedAs, isPlaceAccepted } = database;
    const state = `${change} ${acceptedAs} ${isPlaceAccepted}`;
    if (state === this.#databaseState) return;
    this.#databaseState = state;
    this.#options.events.onDatabase(database);
    this.wake();
  }

  /** Looks at all clients, and begins what can begin. */
  async #look(): Promise<void> {
    const { db, clients } = this.#options;
    const works = await readDueWork(db, clients, this.#kinds);
    const areOpen = await Promise.all(works.map((work) => this.#lookAt(work)));
    await this.#stayAwake(works.filter((_, place) => areOpen[place]));
  }

  /**
   * Looks again soon while inserts come faster than looks, and says so.
   * @param open work of the clients that are not held
   */
  async #stayAwake(open: readonly DueWork[]): Promise<void> {
    const nowMs = performance.now();
    const due = open.flatMap(({ client, pendingInMs }) => (pendingInMs === 0 ? [client] : []));
    const full = due.filter((client) => this.#pushers.get(client)?.isFull);
    // Due rows that nobody can claim, such as locked ones, are no reason to look soon.
    const progressed = open.filter(({ client }) => this.#pushers.get(client)?.hasProgressed());

    const promised = this.#waking.look(due, full.length + progressed.length > 0, nowMs);
    if (promised.length > 0) await sayAwake(this.#options.db, promised, awakeMs);
    if (!this.#waking.isAwake(nowMs)) return;

    const areFull = due.length > 0 && due.length === full.length;
    this.#lookWithin(areFull ? fullLookMs : minLookMs);
  }

  /** Begins what can begin for a client. Returns false if the client is held. */
  async #lookAt(work: DueWork): Promise<boolean> {
    const { client, pendingInMs, unknownInMs, awakeInMs, health } = work;
    const pusher = this.#pushers.get(client);
    if (pusher === undefined) return false;
    // Inserts notify nobody while another worker is awake.
    if (awakeInMs !== null) this.#lookWithin(awakeInMs > 0 ? awakeInMs : lastLookMs + awakeInMs);
    const held = await pusher.see(health);
    const whole = held.filter(({ scope }) => scope === clientScope);
    for (const { untilInMs } of held) this.#lookWithin(untilInMs > 0 ? untilInMs : busyLookMs);
    if (whole.length > 0) {
      const asked = whole.find((hold) => awaitsAnswer(hold) && hold.untilInMs <= 0);
      if (asked !== undefined) pusher.askWhetherOver(asked.code);
      return false;
    }
    if (unknownInMs === 0) pusher.lookUp();
    if (pendingInMs === 0) pusher.claimDue();
    // What is due but cannot begin now is looked at again soon.
    for (const inMs of [pendingInMs, unknownInMs])
      if (inMs !== null) this.#lookWithin(inMs === 0 ? busyLookMs : inMs);
    return true;
  }
}
