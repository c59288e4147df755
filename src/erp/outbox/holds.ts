import { type Kysely, sql } from 'kysely';
import { type Evidence, type Health, type HoldCode, isProbed, judgeHealth } from '../../core/push-health.ts';
import { inTransaction } from '../connection/transaction.ts';
import { anyText } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** The health of a client, or of one of its kinds, as stored. Where none is stored, all rows may be sent. */
export interface StoredHealth extends Health {
  readonly client: string;
  /** Empty: all of the client. */
  readonly kind: string;
  readonly since: Date;
  /** Milliseconds until the hold may end; 0 or less: its time is up, or it was never held. */
  readonly untilInMs: number;
  /** The hold ends only once the service has answered a question. */
  readonly probe: boolean;
}

/** Whose health: of a client, or (kind not empty) of one of its kinds. */
export interface Whose {
  readonly client: string;
  readonly kind: string;
}

/** Nothing of it is sent at present. */
export const isHeld = ({ kind, probe, untilInMs }: Pick<StoredHealth, 'kind' | 'probe' | 'untilInMs'>): boolean =>
  (probe && kind === '') || untilInMs > 0;

/** Nothing of it is sent at present, or a few rows at a time. */
export const isHampered = (health: StoredHealth): boolean => isHeld(health) || health.sendWindow !== null;

const selectHealth = (db: Kysely<DB>) =>
  db
    .selectFrom('sync.push_holds')
    .select([
      'client',
      'kind',
      sql<HoldCode>`code`.as('code'),
      'reason',
      'since',
      'probe',
      'failures',
      'send_window as sendWindow',
      sql<number>`extract(epoch from until - clock_timestamp())::float8 * 1000`.as('untilInMs'),
    ]);

/** The health of these clients and their kinds, or (null) of all, where there is anything to tell. */
export async function readHealth(db: Kysely<DB>, clients: readonly string[] | null): Promise<StoredHealth[]> {
  return selectHealth(db)
    .$if(clients !== null, (query) => query.where('client', '=', anyText(clients ?? [])))
    .orderBy('client')
    .orderBy('kind')
    .execute();
}

/** What follows from evidence. */
export interface Noted {
  readonly health: Health | null;
  /** Milliseconds of the hold that begins now; null where none begins. */
  readonly heldMs: number | null;
}

/**
 * Judges evidence for all workers, one after the other.
 * @param byProber whether this worker asks on behalf of all whether a hold is over
 */
export function noteEvidence(
  db: Kysely<DB>,
  { client, kind }: Whose,
  evidence: Evidence,
  { byProber = false }: { readonly byProber?: boolean } = {},
): Promise<Noted> {
  return inTransaction(db, async (trx) => {
    // A row to lock: what two workers saw at once is judged one after the other.
    if (evidence.seen !== 'success' && evidence.seen !== 'let in') await lockHealth(trx, { client, kind });
    const stored =
      (await selectHealth(trx).where('client', '=', client).where('kind', '=', kind).forUpdate().executeTakeFirst()) ??
      null;
    const former = stored?.reason === '' ? null : stored;
    const held = former !== null && isHeld(former);
    const { health, holdMs } = judgeHealth(former, evidence, { isHeld: held, byProber });
    if (health === null) {
      if (stored !== null)
        await trx.deleteFrom('sync.push_holds').where('client', '=', client).where('kind', '=', kind).execute();
    } else if (health !== former || holdMs !== null) await store(trx, { client, kind }, health, holdMs);
    return { health, heldMs: holdMs !== null && holdMs > 0 && health !== null ? holdMs : null };
  });
}

/** Inserts a row without a reason if there is none, and locks it. */
async function lockHealth(trx: Kysely<DB>, { client, kind }: Whose): Promise<void> {
  const until = sql<Date>`clock_timestamp()`;
  await trx
    .insertInto('sync.push_holds')
    .values({ client, kind, code: 'kind_failing', reason: '', until, probe: false, times: 0 })
    .onConflict((conflict) => conflict.columns(['client', 'kind']).doUpdateSet({ kind }))
    .execute();
}

async function store(
  trx: Kysely<DB>,
  { client, kind }: Whose,
  { code, reason, failures, sendWindow }: Health,
  holdMs: number | null,
): Promise<void> {
  const isNew = holdMs !== null && holdMs > 0;
  const until = sql<Date>`clock_timestamp() + make_interval(secs => ${(holdMs ?? 0) / 1_000})`;
  await trx
    .updateTable('sync.push_holds')
    .set((eb) => ({
      ...{ code, reason, failures, send_window: sendWindow },
      times: eb('times', '+', isNew ? 1 : 0),
      // A health that was only watched so far is held from now on.
      ...(isNew ? { since: sql<Date>`case when send_window is null then clock_timestamp() else since end` } : {}),
      ...(holdMs === null ? {} : { probe: isNew && isProbed(code) }),
      // The service may ask for more time, never for less.
      ...(holdMs === null ? {} : { until: code === 'retry_after' ? sql<Date>`greatest(until, ${until})` : until }),
    }))
    .where('client', '=', client)
    .where('kind', '=', kind)
    .execute();
}

/**
 * Takes the one question that shows whether the hold of a client is over.
 * @param ms how long others wait for what comes of it
 * @returns false where another worker has taken it, or the hold is gone
 */
export async function takeProbe(db: Kysely<DB>, client: string, ms: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('sync.push_holds')
    .set({ until: sql<Date>`clock_timestamp() + make_interval(secs => ${ms / 1_000})` })
    .where('client', '=', client)
    .where('kind', '=', '')
    .where('probe', '=', true)
    .where('until', '<=', sql<Date>`clock_timestamp()`)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Forgets health about which nothing new was seen for an hour, unless it is held: all rows may be sent again. */
export async function forgetOldHealth(db: Kysely<DB>): Promise<void> {
  await db
    .deleteFrom('sync.push_holds as h')
    .where(sql<boolean>`not ${holds}`)
    .where('until', '<', sql<Date>`clock_timestamp() - interval '1 hour'`)
    .execute();
}

/** SQL: whether nothing is sent by a row `h` of sync.push_holds. */
export const holds = sql`(h.probe and h.kind = '' or h.until > statement_timestamp())`;

/** SQL: whether a row `h` of sync.push_holds keeps its rows from being claimed like others: held, or a few at a time. */
export const hampers = sql`(${holds} or h.send_window is not null)`;

/**
 * Locks the health of a client or kind until the transaction ends, so that one worker at a time counts what may be sent.
 * @returns false where another worker has locked it
 */
export async function lockFew(trx: Kysely<DB>, { client, kind }: Whose): Promise<boolean> {
  const locked = await trx
    .selectFrom('sync.push_holds')
    .select('kind')
    .where('client', '=', client)
    .where('kind', '=', kind)
    .forNoKeyUpdate()
    .skipLocked()
    .executeTakeFirst();
  return locked !== undefined;
}

/** Whether kinds of a client were ever carried out by this method and path. */
export interface Proof {
  readonly client: string;
  readonly kind: string;
  readonly method: string;
  readonly path: string;
}

/** Notes that a kind was carried out: what is refused of it from now on is no matter of its path. */
export async function noteProven(db: Kysely<DB>, { client, kind, method, path }: Proof): Promise<void> {
  await db
    .insertInto('sync.proven_kinds')
    .values({ client, kind, method, path })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Whether a kind was ever carried out by this method and path, by any worker. */
export async function isProven(db: Kysely<DB>, { client, kind, method, path }: Proof): Promise<boolean> {
  const proven = await db
    .selectFrom('sync.proven_kinds')
    .select('kind')
    .where('client', '=', client)
    .where('kind', '=', kind)
    .where((eb) => eb.or([eb('path', '=', ''), eb.and([eb('method', '=', method), eb('path', '=', path)])]))
    .limit(1)
    .executeTakeFirst();
  return proven !== undefined;
}
