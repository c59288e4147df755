/** How many runs a worker makes at the same time, and which of the due runs get a place. */

import type { JobKey } from './plan-next.ts';

/** A run that is due. */
export interface DueRun extends JobKey {
  /**
   * True if it may take long: the last run of its job was stopped at the end of its turn or lasted
   * longer than a turn, or none was ever done.
   */
  readonly isLong: boolean;
}

/** A run that lasts longer gives its place to a due run, if that has none. */
export const turnMs = 30_000;
/** Maximum share of the places that one client may use, if there are several clients. */
const maxClientShare = 0.25;
/** Maximum share of the places of long runs, if there are other runs. */
const maxLongShare = 0.5;
/** A run that is under way for this long is a long one, and its client is slow. */
const longMs = 5_000;

/**
 * The places of one kind of runs. One client cannot use all of them, and long runs, such as first
 * loads or those of slow clients, cannot use all of them either.
 */
export class Places {
  readonly #count: number;
  readonly #maxPerClient: number;
  readonly #maxLong: number;
  readonly #nowMs: () => number;
  /** The runs under way, with the time at which each began. */
  readonly #taken = new Map<DueRun, number>();
  /** Due runs that got no place, by job and client; true: only because of their client's limit. */
  readonly #left = new Map<string, { readonly run: DueRun; readonly isOwnLimit: boolean }>();
  /** True if a run was ever due that is not long: places are kept for such runs. */
  #hasShort = false;

  /** @param nowMs a clock in milliseconds */
  constructor(count: number, clients: number, nowMs = () => performance.now()) {
    const toLimit = (share: number) =>
      clients > 1 ? Math.max(1, Math.floor(count * share)) : count;
    this.#count = count;
    this.#maxPerClient = toLimit(maxClientShare);
    this.#maxLong = toLimit(maxLongShare);
    this.#nowMs = nowMs;
  }

  /**
   * Chooses the due runs that fit into the free places, the first ones first. Remembers the others.
   * @param jobs the jobs of which `due` has all due runs
   */
  choose<T extends DueRun>(due: readonly T[], jobs: readonly string[]): T[] {
    for (const [key, { run }] of this.#left) if (jobs.includes(run.job)) this.#left.delete(key);
    this.#hasShort ||= due.some(({ isLong }) => !isLong);

    const slow = [...this.#taken].filter(([run, atMs]) => this.#isSlow(run, atMs));
    const slowClients = new Set(slow.map(([{ client }]) => client));
    const isLong = (run: DueRun) => run.isLong || slowClients.has(run.client);

    const chosen: T[] = [];
    for (const run of due) {
      const limit = this.#findLimit(run, [...this.#taken.keys(), ...chosen], isLong);
      if (limit === null) chosen.push(run);
      else this.#left.set(`${run.job} ${run.client}`, { run, isOwnLimit: limit === 'client' });
    }
    return chosen;
  }

  #isSlow({ isLong }: DueRun, atMs: number): boolean {
    return !isLong && this.#nowMs() - atMs > longMs;
  }

  /** Returns the limit that keeps a run from getting a place; null if there is none. */
  #findLimit(
    run: DueRun,
    taken: readonly DueRun[],
    isLong: (run: DueRun) => boolean,
  ): 'all' | 'client' | null {
    const ofClient = taken.filter(({ client }) => client === run.client);
    if (ofClient.length >= this.#maxPerClient) return 'client';
    if (taken.length >= this.#count) return 'all';
    if (!this.#hasShort || !isLong(run)) return null;

    return taken.filter(isLong).length >= this.#maxLong ? 'all' : null;
  }

  /** Notes that a run has begun. */
  take(run: DueRun): void {
    this.#taken.set(run, this.#nowMs());
  }

  /** Notes that a run has ended. */
  free(run: DueRun): void {
    this.#taken.delete(run);
  }

  /** True if a due run has no place. */
  get areWanted(): boolean {
    return this.#left.size > 0;
  }

  /** Returns true if a run has had its place for a turn, and a due run could have it. */
  isTurnOver(run: DueRun): boolean {
    const tookMs = this.#nowMs() - (this.#taken.get(run) ?? Number.POSITIVE_INFINITY);
    if (tookMs <= turnMs) return false;
    return [...this.#left.values()].some((one) => !one.isOwnLimit || one.run.client === run.client);
  }
}
