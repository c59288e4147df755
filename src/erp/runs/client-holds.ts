import { type Kysely, sql, type Transaction } from 'kysely';
import type { ClientHold } from '../../core/client-hold.ts';
import { anyText, toPauseSpan } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** Time that other runs wait while the probe tests whether a hold is over. */
const probeSpan = sql`interval '60 seconds'`;

/** The reason and the end of a client hold. */
export interface HoldNotice {
  readonly reason: string;
  readonly until: Date;
}

/**
 * Checks whether a scheduled run of a client may begin. If a hold has expired, the first run that checks becomes the
 * probe.
 * @returns null if there is no hold; `probe` if the run may begin as the probe; otherwise the hold
 */
export async function checkClientHold(trx: Transaction<DB>, client: string): Promise<HoldNotice | 'probe' | null> {
  const hold = await trx
    .selectFrom('sync.clients')
    .select(['hold_reason as reason', 'hold_until as until'])
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .executeTakeFirst();
  if (hold?.reason == null || hold.until === null) return null;
  const { numUpdatedRows } = await trx
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp() + ${probeSpan}` })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .where('hold_until', '<=', sql<Date>`clock_timestamp()`)
    .executeTakeFirst();
  return numUpdatedRows > 0n ? 'probe' : { reason: hold.reason, until: hold.until };
}

/** Places a hold on a client after a failed run. A hold that is already there is extended only by the probe. */
export async function placeClientHold(
  trx: Transaction<DB>,
  client: string,
  { code, pause }: ClientHold,
  reason: string,
  probing: boolean,
): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set((eb) => ({
      hold_code: code,
      hold_reason: reason,
      hold_since: sql<Date>`coalesce(hold_since, clock_timestamp())`,
      hold_times: eb('hold_times', '+', 1),
      hold_until: sql<Date>`clock_timestamp() + ${toPauseSpan(pause, sql`hold_times + 1`)}`,
    }))
    .where('client', '=', client)
    .$if(!probing, (query) => query.where('hold_code', 'is', null))
    .execute();
}

/**
 * Ends the waiting time of holds for refused credentials and of held kinds. One run, and one row of each kind, then
 * tries again at once. Call it when user name, password or path may have been corrected.
 */
export async function endHoldWaits(db: Kysely<DB>, clients: readonly string[]): Promise<void> {
  await db
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp()` })
    .where('client', '=', anyText(clients))
    .where('hold_code', '=', 'credentials_refused')
    .execute();
  await db
    .updateTable('sync.push_holds')
    .set({ until: sql<Date>`clock_timestamp()` })
    .where('client', '=', anyText(clients))
    .where('code', 'in', ['credentials_refused', 'kind_parked', 'kind_failing'])
    .execute();
}

/** Ends a client hold that began before a run that is done. */
export async function endClientHold(trx: Transaction<DB>, client: string, runStartedAt: Date): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set({ hold_code: null, hold_reason: null, hold_since: null, hold_until: null, hold_times: 0 })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .where('hold_since', '<=', runStartedAt)
    .execute();
}

/** Returns an unused probe: the next run becomes the probe. */
export async function returnClientProbe(trx: Transaction<DB>, client: string): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp()` })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .execute();
}
