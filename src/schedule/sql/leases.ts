/** Leases: a run writes only while it holds the lease of its job. */

import { sql, type Transaction } from 'kysely';
import { LeaseLostError } from '../../core/errors.ts';
import { errorFields, type Logger } from '../../core/logger.ts';
import { connectForWriting, type OpenDatabase } from '../../db/connect.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';

/** Milliseconds that a lease lasts without renewal, by the clock of the database. */
const leaseMs = 10_000;
/** Milliseconds between two renewals of a lease. */
const heartbeatMs = 3_000;

/** SQL: the time that a lease lasts without renewal. */
export const leaseSpan = sql`make_interval(secs => ${leaseMs / 1_000})`;

/**
 * The right to run a job of a client. Its key is the fence: a holder of an older key cannot write.
 */
export interface Lease {
  readonly client: string;
  readonly name: string;
  readonly key: number;
}

/**
 * Checks the fence, extends the lease, and locks its row until the commit. It is the first
 * statement of every transaction that writes under a lease. The last transaction of a run releases
 * the lease instead.
 * @throws LeaseLostError if this process no longer holds the lease
 */
async function checkFence(trx: Transaction<DB>, lease: Lease): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('sync.leases')
    .set({ expires_at: sql<Date>`clock_timestamp() + ${leaseSpan}` })
    .where('client', '=', lease.client)
    .where('name', '=', lease.name)
    .where('key', '=', lease.key)
    .where('expires_at', 'is not', null)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) throw new LeaseLostError(lease.client, lease.name);
}

/**
 * Runs `work` in one transaction under the fence. The transaction commits completely, or not at all
 * if the lease is lost or `work` fails. `work` must take all that it writes from memory, because it
 * may be run again.
 * @throws LeaseLostError, or the error of `work`
 */
export function underLease<T>(
  db: Database,
  lease: Lease,
  work: (trx: Transaction<DB>) => Promise<T>,
): Promise<T> {
  return inTransaction(db, async (trx) => {
    await checkFence(trx, lease);
    const begunAtMs = performance.now();
    const result = await work(trx);
    // Others see the extension only at the commit. Extend again after a long transaction, or they
    // would find the lease expired.
    if (performance.now() - begunAtMs > leaseMs / 4) await checkFence(trx, lease);
    return result;
  });
}

/**
 * Renews the leases of this process on a timer and a separate connection, so that neither a slow
 * page nor a busy pool costs a lease. If a lease is lost, the run that held it is aborted.
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

  /**
   * Begins to renew a lease. Returns a signal that is aborted with a LeaseLostError if the lease is
   * lost.
   */
  keep(lease: Lease): AbortSignal {
    const abort = new AbortController();
    this.#held.set(lease, { abort, renewedAtMs: performance.now() });
    this.#timer ??= setInterval(() => void this.#beat(), heartbeatMs);
    return abort.signal;
  }

  /** Ends the renewal of a lease. `endRun` releases the lease itself. */
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
        if (!kept.has(toKey(lease))) this.#lose(lease);
        const held = this.#held.get(lease);
        if (held) held.renewedAtMs = askedAtMs;
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#beating = false;
    }
  }

  /**
   * Treats leases as lost that were not renewed for their whole duration: another worker may have
   * them.
   */
  #loseUnrenewed(nowMs: number): void {
    for (const [lease, held] of this.#held)
      if (nowMs - held.renewedAtMs > leaseMs) this.#lose(lease);
  }

  #lose(lease: Lease): void {
    this.#held.get(lease)?.abort.abort(new LeaseLostError(lease.client, lease.name));
    this.drop(lease);
  }
}

function toKey({ client, name, key }: Lease): string {
  return JSON.stringify([client, name, key]);
}

/**
 * Extends leases and returns the keys of those that this process still holds. A lease whose row is
 * locked is skipped, but counts as held: a transaction that writes a page under it extends it
 * itself. A slow page must not delay the renewal of the other leases.
 */
async function renewLeases(db: Database, leases: readonly Lease[]): Promise<Set<string>> {
  const { rows } = await sql<Lease>`
    with mine as (
      select l.client, l.name, l.key
      from sync.leases l
      join unnest(${leases.map(({ client }) => client)}::text[],
        ${leases.map(({ name }) => name)}::text[], ${leases.map(({ key }) => key)}::bigint[])
        as m (client, name, key) on l.client = m.client and l.name = m.name and l.key = m.key
      where l.expires_at is not null
    ), extended as (
      update sync.leases l
      set expires_at = clock_timestamp() + ${leaseSpan}
      where (l.client, l.name, l.key) in (
        select client, name, key
        from sync.leases l
        join mine using (client, name, key)
        where l.expires_at is not null
        for update of l skip locked)
    )
    select client, name, key
    from mine`.execute(db);

  return new Set(rows.map(toKey));
}

/**
 * Timeout of a heartbeat in milliseconds. It is shorter than a lease, so that a missing answer is
 * noticed in time.
 */
const heartbeatTimeoutMs = 5_000;

/** Opens a separate connection that renews leases. */
export function openLeaseKeeper(
  databaseUrl: string,
  log: Logger,
): OpenDatabase & { readonly keeper: LeaseKeeper } {
  const { db, close } = connectForWriting(databaseUrl, log, {
    name: 'leases',
    max: 1,
    queryTimeoutMs: heartbeatTimeoutMs,
  });
  const keeper = new LeaseKeeper(db, (error) =>
    log.warn({ event: 'heartbeat_failed', ...errorFields(error) }),
  );
  return { keeper, db, close };
}
