/**
 * Which run may start and write: leases, due times, pauses, clients, gates, the ledger and the audit. A run writes
 * only while it holds its lease.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { LeaseLostError } from '../../core/errors.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';

/** How long a lease lasts without a sign of life, by the database's clock. */
const leaseMs = 10_000;
/** How often a held lease is renewed. */
const heartbeatMs = 3_000;

const leaseSpan = sql`make_interval(secs => ${leaseMs / 1_000})`;

/** The right to write for one client and job. Its token fences: whoever holds an older one writes nothing. */
export interface Lease {
  readonly client: string;
  readonly name: string;
  readonly token: number;
}

/**
 * Takes the lease where it is free; null where another worker holds it, or let it run out: that one is to be revived first
 * (`reviveAbandoned`), so that no run is passed over whose worker was lost.
 */
export async function acquireLease(
  db: Kysely<DB>,
  client: string,
  name: string,
  holder: string,
): Promise<Lease | null> {
  const times = {
    acquired_at: sql<Date>`clock_timestamp()`,
    expires_at: sql<Date>`clock_timestamp() + ${leaseSpan}`,
  };
  const acquired = await db
    .insertInto('sync.leases')
    .values({ client, name, holder, ...times })
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'name'])
        .doUpdateSet((eb) => ({ token: eb('sync.leases.token', '+', 1), holder, ...times }))
        .where('sync.leases.expires_at', 'is', null),
    )
    .returning('token')
    .executeTakeFirst();
  return acquired === undefined ? null : { client, name, token: acquired.token };
}

/**
 * The first statement of every transaction that writes under a lease, but of the last, which gives it back: extends it,
 * and by its row lock keeps others out until the commit.
 * @throws LeaseLostError where it is no longer ours
 */
async function fence(trx: Transaction<DB>, lease: Lease): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('sync.leases')
    .set({ expires_at: sql<Date>`clock_timestamp() + ${leaseSpan}` })
    .where('client', '=', lease.client)
    .where('name', '=', lease.name)
    .where('token', '=', lease.token)
    .where('expires_at', 'is not', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new LeaseLostError(lease.client, lease.name);
}

/**
 * Runs `work` in one transaction that the lease fences: it commits whole, or (lease lost, error) not at all. `work`
 * must take all it writes from memory, as it may be run again.
 * @throws LeaseLostError, or what `work` threw
 */
export function underLease<T>(db: Database, lease: Lease, work: (trx: Transaction<DB>) => Promise<T>): Promise<T> {
  return inTransaction(db, async (trx) => {
    await fence(trx, lease);
    const begunAtMs = performance.now();
    const result = await work(trx);
    // What the first extension brought is seen by others only now: a long page would find its lease run out as it commits.
    if (performance.now() - begunAtMs > leaseMs / 4) await fence(trx, lease);
    return result;
  });
}

/**
 * Gives a lease back. As the first statement of a transaction that writes under it, it fences as well.
 * @returns whether it was still ours; nothing happens where it was not
 */
export async function releaseLease(db: Kysely<DB>, lease: Lease): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('sync.leases')
    .set({ holder: null, expires_at: null })
    .where('client', '=', lease.client)
    .where('name', '=', lease.name)
    .where('token', '=', lease.token)
    .where('expires_at', 'is not', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Keeps the leases of this process alive, on a timer and a connection of their own, so that neither a slow page nor a
 * busy pool costs a lease. A lost lease aborts the run that held it.
 */
export class LeaseKeeper {
  readonly #db: Database;
  readonly #held = new Map<Lease, { abort: AbortController; renewedAtMs: number }>();
  readonly #onError: (error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #beating = false;

  /** @param db a database whose pool is used for nothing else */
  constructor(db: Database, onError: (error: unknown) => void) {
    this.#db = db;
    this.#onError = onError;
  }

  /** Begins to renew a lease. The signal is aborted, with a LeaseLostError, once it is lost. */
  hold(lease: Lease): AbortSignal {
    const abort = new AbortController();
    this.#held.set(lease, { abort, renewedAtMs: performance.now() });
    this.#timer ??= setInterval(() => void this.#beat(), heartbeatMs);
    return abort.signal;
  }

  /** Ends the renewal; the lease itself is given back with releaseLease. */
  drop(lease: Lease): void {
    this.#held.delete(lease);
    if (this.#held.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #beat(): Promise<void> {
    const askedAtMs = performance.now();
    this.#loseUnrenewed(askedAtMs);
    if (this.#beating) return;
    this.#beating = true;
    const leases = [...this.#held.keys()];
    try {
      const kept = await renewLeases(this.#db, leases);
      for (const lease of leases) {
        if (!kept.has(keyOf(lease))) this.#lose(lease);
        const held = this.#held.get(lease);
        if (held) held.renewedAtMs = askedAtMs;
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#beating = false;
    }
  }

  /** Without an answer for a whole lease we cannot know that it is still ours. */
  #loseUnrenewed(nowMs: number): void {
    for (const [lease, held] of this.#held) if (nowMs - held.renewedAtMs > leaseMs) this.#lose(lease);
  }

  #lose(lease: Lease): void {
    this.#held.get(lease)?.abort.abort(new LeaseLostError(lease.client, lease.name));
    this.drop(lease);
  }
}

function keyOf({ client, name, token }: Lease): string {
  return JSON.stringify([client, name, token]);
}

/**
 * Extends the leases and says which are still ours. One whose row is locked is passed over rather than waited for: a
 * page is being written under it, which extends it itself, and its slowness must not cost the others theirs.
 */
export async function renewLeases(db: Database, leases: readonly Lease[]): Promise<Set<string>> {
  const { rows } = await sql<Lease>`
    with mine as (
      select l.client, l.name, l.token
      from sync.leases l
      join unnest(${leases.map(({ client }) => client)}::text[], ${leases.map(({ name }) => name)}::text[],
                  ${leases.map(({ token }) => token)}::bigint[]) as m (client, name, token)
        on l.client = m.client and l.name = m.name and l.token = m.token
      where l.expires_at is not null
    ), free as (
      select l.client, l.name
      from sync.leases l
      join mine
      using (client, name, token)
      where l.expires_at is not null
      for update of l skip locked
    ), extended as (
      update sync.leases l
      set expires_at = clock_timestamp() + ${leaseSpan}
      from free
      where l.client = free.client and l.name = free.name
    )
    select client, name, token
    from mine`.execute(db);
  return new Set(rows.map(keyOf));
}
