import { type Kysely, sql, type Transaction } from 'kysely';
import type { ClientHold } from '../../core/client-hold.ts';
import { anyText } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** How long other runs wait while one run tests whether a hold is over. */
const probeSpan = sql`interval '60 seconds'`;

/** Why a scheduled run of a client has to wait. */
export interface HeldBack {
  readonly reason: string;
  readonly until: Date;
}

/**
 * Asks whether scheduled runs of a client may begin. Where a hold has run out, the first to ask is the one that finds out.
 * @returns null: it may; `probe`: it may, and is the one that finds out
 */
export async function passHold(trx: Transaction<DB>, client: string): Promise<HeldBack | 'probe' | null> {
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

/** Holds a client after a run failed. One that is held is held on only by the run that was to find out. */
export async function placeClientHold(
  trx: Transaction<DB>,
  client: string,
  { code, ms, capMs }: ClientHold,
  reason: string,
  probing: boolean,
): Promise<void> {
  const pauseMs = sql`least(${capMs}::float8, ${ms}::float8 * power(2, least(hold_times, 10)))`;
  await trx
    .updateTable('sync.clients')
    .set((eb) => ({
      hold_code: code,
      hold_reason: reason,
      hold_since: sql<Date>`coalesce(hold_since, clock_timestamp())`,
      hold_times: eb('hold_times', '+', 1),
      hold_until: sql<Date>`clock_timestamp() + make_interval(secs => ${pauseMs} / 1000)`,
    }))
    .where('client', '=', client)
    .$if(!probing, (query) => query.where('hold_code', 'is', null))
    .execute();
}

/**
 * Ends the waiting of refused credentials and of held kinds: one run, and one row of each kind, tries again at once. A person
 * may have corrected user name, password or path.
 */
export async function retryRefused(db: Kysely<DB>, clients: readonly string[]): Promise<void> {
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

/** Lets go of a hold that was there before a run began which got done. */
export async function releaseClientHold(trx: Transaction<DB>, client: string, runStartedAt: Date): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set({ hold_code: null, hold_reason: null, hold_since: null, hold_until: null, hold_times: 0 })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .where('hold_since', '<=', runStartedAt)
    .execute();
}

/** The run that was to find out ended without doing so: the next one does. */
export async function passClientProbeOn(trx: Transaction<DB>, client: string): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp()` })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .execute();
}
