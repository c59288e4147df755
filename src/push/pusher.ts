/**
 * This room: sends rows of the outbox, settles them, and looks up those with an unknown outcome. A
 * row is sent again only if it was not carried out, or if its kind allows a repetition.
 */

import { awaitsAnswer } from '../service/health/judge-health.ts';
import { clientScope } from '../service/sql/service-health.ts';
import { Bell, ClientPusher, type PushEvents } from './client-pusher.ts';
import type { AnyKind } from './kind.ts';
import type { PushDeps } from './send-row.ts';
import { type DueKinds, type DueWork, lastLookMs, readDueWork, sayAwake } from './sql/due-work.ts';
import { Upkeep, type UpkeepOptions } from './upkeep.ts';

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

/**
 * Milliseconds for which a busy pusher promises to look by itself. A row that nobody was notified
 * of is found within this time, even if that pusher is killed: all workers look when it is over.
 */
export const awakeMs = 1_500;
/** The promise is renewed after this time, while rows keep coming. */
const renewMs = 500;
/** A pusher looks by itself once this many notifications came within these milliseconds. */
const crowd = 3;
const crowdMs = 10;
/**
 * Milliseconds until the look after a notification that named a client. Its due rows are claimed
 * without it; the look finds when its other rows are due.
 */
const afterClaimMs = 200;
/** Maximum number of looks for each one that found work. A pusher that looks more falls asleep. */
const maxLooksPerFind = 2;

/** What a pusher works with. The clients share `sent`. */
export interface PusherOptions
  extends Pick<UpkeepOptions, 'db' | 'claimsDb' | 'worker' | 'sent' | 'isFenced'> {
  readonly clients: readonly PushDeps[];
  readonly kinds: readonly AnyKind[];
  /** Number of rows that are sent at the same time, per client. */
  readonly slots: number;
  readonly numberFeed: PushDeps['numberFeed'];
  readonly events: Omit<PushEvents, 'onDue'> & UpkeepOptions['events'];
}

/**
 * Pushes the due rows of all clients of this process. It only looks what is due, with one statement
 * for all clients: what a client has to do, its ClientPusher does. Any number of processes can work
 * on one database: one worker claims a row, and nobody claims it while an earlier row of its lane
 * is open.
 */
export class Pusher {
  readonly #options: PusherOptions;
  readonly #pushers: ReadonlyMap<string, ClientPusher>;
  /** The identities of the accounts, by client. */
  readonly #accounts: ReadonlyMap<string, string>;
  readonly #kinds: DueKinds;
  readonly #hardStop = new AbortController();
  readonly #upkeep: Upkeep;
  readonly #waking = new Waking();
  /** Rings when the time of the next look has changed. */
  readonly #rescheduled = new Bell();
  #loop: Promise<void> | undefined;
  #isStopping = false;
  /** When to look for due rows, by performance.now(). */
  #nextLookAtMs = 0;

  constructor(options: PusherOptions) {
    this.#options = options;
    const { clients, kinds, slots, events } = options;
    const { signal } = this.#hardStop;
    const onDue = (inMs: number) => this.#lookWithin(inMs);
    this.#pushers = new Map(
      clients.map((deps) => [
        deps.client,
        new ClientPusher(deps, slots, signal, { ...events, onDue }),
      ]),
    );
    this.#accounts = new Map(clients.map(({ client, identity }) => [client, identity]));
    this.#kinds = {
      worker: options.worker,
      names: kinds.map(({ name }) => name),
      lookedUp: kinds.filter(({ unknown }) => unknown.do === 'look up').map(({ name }) => name),
    };

    this.#upkeep = new Upkeep({
      ...options,
      rules: Object.fromEntries(kinds.map(({ name, unknown }) => [name, unknown.do])),
      claims: () => this.#all.flatMap(({ claims }) => claims),
      wake: () => this.wake(),
    });
  }

  get #all(): ClientPusher[] {
    return [...this.#pushers.values()];
  }

  /** Begins to push, and continues until stopped. */
  start(): void {
    this.#upkeep.start();
    void this.#upkeep.lookAtDatabase();
    for (const pusher of this.#all) pusher.start();
    this.#loop = this.#run();
  }

  /** The loop: looks for due rows when it is woken or when some will be due. */
  async #run(): Promise<void> {
    while (!this.#isStopping) {
      const beganAtMs = performance.now();
      this.#nextLookAtMs = beganAtMs + maxIdleMs;

      try {
        await this.#stayAwake(await this.#look());
      } catch (error) {
        this.#options.events.onError('look', error);
        this.#lookWithin(busyLookMs);
      }

      await this.#waitForNextLook(beganAtMs + minLookMs);
    }
  }

  async #waitForNextLook(earliestMs: number): Promise<void> {
    const findMsLeft = () => Math.max(this.#nextLookAtMs, earliestMs) - performance.now();

    for (let ms = findMsLeft(); ms > 0 && !this.#isStopping; ms = findMsLeft())
      await this.#rescheduled.nextWithin(ms);
  }

  #lookWithin(ms: number): void {
    const atMs = performance.now() + ms;
    if (atMs >= this.#nextLookAtMs) return;
    this.#nextLookAtMs = atMs;
    this.#rescheduled.ring();
  }

  /** Looks for due rows now. Any number of calls before the look has begun cause one look. */
  wake(): void {
    this.#lookWithin(0);
  }

  /**
   * Wakes the pusher because of a notification of the channel `fulfilment_outbox`. Any role that
   * may connect can send one, so it decides nothing: a claim finds out what may be sent.
   * @param client the client of a row that was inserted, or empty
   */
  onNotification(client: string): void {
    const isCrowded = this.#waking.notify(performance.now());
    const pusher = this.#pushers.get(client);
    pusher?.claimDue();

    this.#lookWithin(pusher === undefined || isCrowded ? 0 : afterClaimMs);
  }

  /** Looks at all clients, and has them begin what can begin. */
  async #look(): Promise<DueWork[]> {
    const works = await readDueWork(this.#options.db, this.#accounts, this.#kinds);

    await Promise.all(works.map((work) => this.#lookAt(work)));
    return works;
  }

  async #lookAt(work: DueWork): Promise<void> {
    const { client, pendingInMs, unknownInMs, awakeInMs, health } = work;
    const pusher = this.#pushers.get(client);
    if (pusher === undefined) return;
    // Inserts notify nobody while another worker is awake.
    if (awakeInMs !== null) this.#lookWithin(awakeInMs > 0 ? awakeInMs : lastLookMs + awakeInMs);

    const held = await pusher.applyHealth(health);
    for (const { untilInMs } of held) this.#lookWithin(untilInMs > 0 ? untilInMs : busyLookMs);
    const holds = held.filter(({ scope }) => scope === clientScope);
    if (holds.length > 0) {
      // Only a service that answers can be asked about another hold.
      const silence = holds.filter(({ code }) => code === 'no_answer');
      const awaiting = (silence.length > 0 ? silence : holds).find(awaitsAnswer);
      if (awaiting !== undefined && awaiting.untilInMs <= 0) pusher.askWhetherOver(awaiting.code);
      return;
    }

    if (unknownInMs === 0) pusher.lookUpDue();
    if (pendingInMs === 0) pusher.claimDue();
    // What is due but cannot begin now is looked at again soon.
    for (const inMs of [pendingInMs, unknownInMs])
      if (inMs !== null) this.#lookWithin(inMs === 0 ? busyLookMs : inMs);
  }

  /** Looks again soon while inserts come faster than looks, and says so. */
  async #stayAwake(works: readonly DueWork[]): Promise<void> {
    const nowMs = performance.now();
    const due = works.flatMap(({ client, pendingInMs }) => (pendingInMs === 0 ? [client] : []));
    const full = due.filter((client) => this.#pushers.get(client)?.isFull);
    // Due rows that nobody can claim, such as those of a held client, are no reason to look soon.
    const worked = [...this.#pushers]
      .filter(([, pusher]) => pusher.readHasWorked())
      .map(([client]) => client);

    const busy = [...new Set([...due, ...worked])];
    const promised = this.#waking.look(busy, full.length + worked.length > 0, nowMs);
    if (promised.length > 0) await sayAwake(this.#options.db, promised, awakeMs);
    if (!this.#waking.isAwake(nowMs)) return;

    const areFull = due.length > 0 && due.length === full.length;
    this.#lookWithin(areFull ? fullLookMs : minLookMs);
  }

  /** Pushes until nothing is due any more, and ends. */
  async drain(): Promise<void> {
    this.#upkeep.start();
    await this.#upkeep.once();
    await this.#upkeep.awaitPlace();
    for (const pusher of this.#all) pusher.start();

    let hasWorked = true;
    while (hasWorked && !this.#isStopping) {
      // Lanes of rows that were settled, or that an ERP cancelled, may have been postponed.
      await this.#options.numberFeed();
      await this.#look().catch((error: unknown) => this.#options.events.onError('look', error));
      await Promise.all(this.#all.map((pusher) => pusher.idle()));
      hasWorked = this.#all.filter((pusher) => pusher.readHasWorked()).length > 0;
    }

    await this.stop(0);
  }

  /**
   * Claims nothing more, and resolves when all is settled. Aborts what is still under way after
   * `withinMs`.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#hardStop.abort(), withinMs);
    this.#rescheduled.ring();
    await this.#loop;

    await Promise.all(this.#all.map((pusher) => pusher.finish()));
    clearTimeout(timer);

    await this.#upkeep.stop();
    // Other workers take over what still waits for a lock in the background.
    this.#hardStop.abort();
  }
}

/**
 * Decides when a pusher looks for due rows by itself: while inserts come faster than it looks.
 * Notifications make the commits of the ERP wait for each other, so only pushers that have little
 * to do need them.
 */
export class Waking {
  /** When the last notifications came, at most `crowd`. */
  #notifiedAtMs: readonly number[] = [];
  /** True if notifications came close together since the last look. */
  #isCrowded = false;
  /** Looks since the last promise, and those at which there was work. */
  #looks = 0;
  #finds = 0;
  #awakeUntilMs = Number.NEGATIVE_INFINITY;
  /** When each client was last promised to. */
  readonly #promisedAtMs = new Map<string, number>();

  /** Notes a notification. Returns true if it is one of several that came close together. */
  notify(nowMs: number): boolean {
    this.#notifiedAtMs = [...this.#notifiedAtMs, nowMs].slice(-crowd);
    const [firstMs = nowMs] = this.#notifiedAtMs;

    if (this.#notifiedAtMs.length === crowd && nowMs - firstMs < crowdMs) this.#isCrowded = true;
    return this.#isCrowded;
  }

  /** Returns true if the pusher has to look by itself. */
  isAwake(nowMs: number): boolean {
    return nowMs < this.#awakeUntilMs;
  }

  /**
   * Notes a look.
   * @param busy the clients that have due rows, or that rows were claimed of since the last look
   * @param isWorking true if rows were claimed since the last look, or due rows wait for room
   * @returns the clients to which it must be said now that the pusher is awake for `awakeMs`
   */
  look(busy: readonly string[], isWorking: boolean, nowMs: number): readonly string[] {
    const isCrowded = this.#isCrowded;
    this.#isCrowded = false;
    this.#looks++;
    if (isWorking) this.#finds++;

    const findsEnough = this.#finds * maxLooksPerFind >= this.#looks;
    if (!isCrowded && !(this.isAwake(nowMs) && findsEnough)) return [];

    const isOver = (client: string) =>
      nowMs - (this.#promisedAtMs.get(client) ?? Number.NEGATIVE_INFINITY) >= renewMs;
    const promised = busy.filter(isOver);
    if (promised.length === 0) return [];

    for (const client of promised) this.#promisedAtMs.set(client, nowMs);
    this.#awakeUntilMs = nowMs + awakeMs;
    this.#looks = 0;
    this.#finds = 0;
    return promised;
  }
}
