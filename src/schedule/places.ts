/** How many runs a worker makes at the same time, and which of the due runs get a place. */

import type { JobKey } from './plan-next.ts';

/** A run that is due. */
export interface DueRun extends JobKey {
  /** True if it continues: its last run has stopped at the end of its turn. */
  readonly isContinued: boolean;
}

/** Maximum share of the places that one client may use, if there are several clients. */
const maxClientShare = 0.25;
/** Maximum share of the places of runs that continue. The rest is left to others. */
const maxContinuedShare = 0.5;

/**
 * The places of one kind of runs. One client cannot use all of them, and runs that continue, such
 * as first loads, cannot use all of them either.
 */
export class Places {
  readonly #count: number;
  readonly #maxPerClient: number;
  readonly #maxContinued: number;
  readonly #taken = new Set<DueRun>();
  /** Due runs that got no place, by job and client; true: only because of their client's limit. */
  readonly #left = new Map<string, { readonly run: DueRun; readonly isOwnLimit: boolean }>();

  constructor(count: number, clients: number) {
    const toLimit = (share: number) =>
      clients > 1 ? Math.max(1, Math.floor(count * share)) : count;
    this.#count = count;
    this.#maxPerClient = toLimit(maxClientShare);
    this.#maxContinued = toLimit(maxContinuedShare);
  }

  /**
   * Chooses the due runs that fit into the free places, the first ones first. Remembers the others.
   * @param jobs the jobs of which `due` has all due runs
   */
  choose<T extends DueRun>(due: readonly T[], jobs: readonly string[]): T[] {
    for (const [key, { run }] of this.#left) if (jobs.includes(run.job)) this.#left.delete(key);

    const chosen: T[] = [];
    for (const run of due) {
      const limit = this.#findLimit(run, [...this.#taken, ...chosen]);
      if (limit === null) chosen.push(run);
      else this.#left.set(`${run.job} ${run.client}`, { run, isOwnLimit: limit === 'client' });
    }
    return chosen;
  }

  /** Returns the limit that keeps a run from getting a place; null if there is none. */
  #findLimit(run: DueRun, taken: readonly DueRun[]): 'all' | 'client' | null {
    const count = (counts: (other: DueRun) => boolean) => taken.filter(counts).length;
    if (count(({ client }) => client === run.client) >= this.#maxPerClient) return 'client';
    if (taken.length >= this.#count) return 'all';
    const isFull = count(({ isContinued }) => isContinued) >= this.#maxContinued;
    return run.isContinued && isFull ? 'all' : null;
  }

  take(run: DueRun): void {
    this.#taken.add(run);
  }

  free(run: DueRun): void {
    this.#taken.delete(run);
  }

  /** True if a due run has no place. */
  get areWanted(): boolean {
    return this.#left.size > 0;
  }

  /** Returns true if a due run could have the place of a run of this client. */
  isWantedFrom(client: string): boolean {
    return [...this.#left.values()].some((one) => !one.isOwnLimit || one.run.client === client);
  }
}
