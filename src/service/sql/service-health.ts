/** Stores the health of the services, for all workers, and reads it for claims and for runs. */

import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { Failure } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import { inTransaction } from '../../db/transaction.ts';
import { anyText } from '../../db/values.ts';
import {
  awaitsAnswer,
  type Evidence,
  type Health,
  type HealthCode,
  judgeHealth,
  longestValidMs,
  trialMs,
} from '../health/judge-health.ts';

/** The scope of the health of a whole client. Other scopes are kinds and jobs. */
export const clientScope = 'client';
/** Health that concerns all workers. Other health concerns the worker that it names. */
export const everyWorker = '*';

/** What a health belongs to. */
export interface HealthKey {
  readonly client: string;
  /** `client`, a kind of the outbox, or a job. */
  readonly scope: string;
  /** The worker that has seen the evidence. */
  readonly worker: string;
}

/** A stored health. Without one, all may be asked. */
export interface StoredHealth extends HealthKey, Health {
  /** Milliseconds until the hold may end. 0 or less: its time is over, or there was no hold. */
  readonly untilInMs: number;
}

/** What a pusher needs of a stored health. */
export type CurrentHealth = Pick<StoredHealth, 'scope' | 'code' | 'sendWindow' | 'untilInMs'>;

/** Returns true if no row of the client or kind may be sent at present. */
export const isHeld = (health: Pick<StoredHealth, 'sendWindow' | 'untilInMs'>): boolean =>
  awaitsAnswer(health) || health.untilInMs > 0;

/** Returns true if no rows may be sent at present, or only as many as a send window allows. */
export const isRestricted = (health: StoredHealth): boolean =>
  isHeld(health) || health.sendWindow !== null;

/** SQL: true if a row `h` of sync.service_health is not void. */
export const isValid = sql<boolean>`(h.void_at > statement_timestamp()
  and h.void_at < statement_timestamp() + make_interval(secs => ${longestValidMs / 1_000}))`;

/** SQL: true if a valid row `h` of sync.service_health holds all that it concerns. */
export const holds = sql<boolean>`
  (h.send_window is not distinct from 0 or h.next_at > statement_timestamp())`;

/** Codes with which the client's runs wait. Too fast are only rows: they are sent more often. */
const runHoldCodes: readonly HealthCode[] = ['no_answer', 'credentials_refused', 'asked_to_wait'];

/** Returns true if the runs of the client wait, of all its jobs. */
export const holdsRuns = (health: StoredHealth): boolean =>
  health.scope === clientScope && runHoldCodes.includes(health.code) && isHeld(health);

/**
 * SQL: the hold for which the scheduled runs of a job wait on a worker; no row: they do not.
 * Silence comes first: only a service that answers can be asked about another hold.
 */
export const selectRunHold = (
  client: RawBuilder<unknown>,
  job: RawBuilder<unknown>,
  worker: string,
) => sql`
  select h.code, h.reason, h.next_at
  from sync.service_health h
  where h.client = ${client} and h.worker in (${everyWorker}, ${worker}) and ${isValid} and ${holds}
    and (h.scope = ${clientScope} and h.code = any(${runHoldCodes}::text[]) or h.scope = ${job})
  order by h.code = 'no_answer' desc, h.next_at desc
  limit 1`;

const selectHealth = (db: Kysely<DB>) =>
  db.selectFrom('sync.service_health as h').select([
    'h.client',
    'h.scope',
    'h.worker',
    sql<HealthCode>`h.code`.as('code'),
    sql<Failure>`json_build_object('code', h.error_code, 'httpStatus', h.http_status,
        'operation', h.operation, 'words', h.reason)`.as('cause'),
    'h.failures',
    'h.send_window as sendWindow',
    'h.since',
    'h.next_at as nextAt',
    'h.void_at as voidAt',
    sql<number>`extract(epoch from h.next_at - clock_timestamp())::float8 * 1000`.as('untilInMs'),
  ]);

/** Reads the health of all clients and of their kinds and jobs. */
export async function readHealth(db: Kysely<DB>): Promise<StoredHealth[]> {
  return selectHealth(db)
    .where(isValid)
    .orderBy('h.client')
    .orderBy('h.scope')
    .orderBy('h.worker')
    .execute();
}

/** The health after evidence was judged. */
export interface HealthUpdate {
  /** Null: everything is open. */
  readonly health: Health | null;
  /** Milliseconds of the hold that begins now; null if none begins. */
  readonly heldMs: number | null;
}

/**
 * Judges what a worker has seen, and stores the result for all workers, in one transaction. Each
 * row is locked while it is judged, so that the judgements of several workers are made one after
 * the other.
 */
export function noteEvidence(
  db: Kysely<DB>,
  key: HealthKey,
  evidence: Evidence,
): Promise<HealthUpdate> {
  return inTransaction(db, async (trx) => {
    if (evidence.seen === 'no_answer') return judgeStored(trx, key, evidence);

    const ofAll = await judgeStored(trx, { ...key, worker: everyWorker }, evidence);
    const isGood = evidence.seen === 'success' || evidence.seen === 'answered';
    if (!isGood || key.scope !== clientScope) return ofAll;

    const own = await judgeStored(trx, key, evidence);
    return ofAll.health === null ? own : ofAll;
  });
}

async function judgeStored(
  trx: Transaction<DB>,
  key: HealthKey,
  evidence: Evidence,
): Promise<HealthUpdate> {
  for (;;) {
    const { former, now } = await lockHealth(trx, key);
    const health = judgeHealth(former, evidence, now);
    if (health === former) return { health, heldMs: null };

    const isStored = await storeHealth(trx, key, former, health);
    const heldMs = health === null ? 0 : health.nextAt.getTime() - now.getTime();
    // Another worker has stored the first health meanwhile: the evidence is judged again.
    if (isStored) return { health, heldMs: heldMs > 0 ? heldMs : null };
  }
}

/** SQL: true for the row `h` of sync.service_health with this key. */
const hasKey = ({ client, scope, worker }: HealthKey) =>
  sql<boolean>`h.client = ${client} and h.scope = ${scope} and h.worker = ${worker}`;

/** Locks the stored health, and reads it with the clock that stores it. */
async function lockHealth(
  trx: Transaction<DB>,
  key: HealthKey,
): Promise<{ readonly former: Health | null; readonly now: Date }> {
  const former = await selectHealth(trx).where(hasKey(key)).forUpdate().executeTakeFirst();
  const { now } = await trx
    .selectNoFrom(sql<Date>`clock_timestamp()`.as('now'))
    .executeTakeFirstOrThrow();
  return { former: former ?? null, now };
}

/** Returns false if another transaction has inserted the health meanwhile. */
async function storeHealth(
  trx: Transaction<DB>,
  key: HealthKey,
  former: Health | null,
  health: Health | null,
): Promise<boolean> {
  if (health === null) {
    await trx.deleteFrom('sync.service_health as h').where(hasKey(key)).execute();
    return true;
  }

  const { code, cause, failures, sendWindow, since, nextAt, voidAt } = health;
  const values = {
    ...{ code, reason: cause.words, error_code: cause.code, http_status: cause.httpStatus },
    ...{ operation: cause.operation, failures, send_window: sendWindow },
    ...{ since, next_at: nextAt, void_at: voidAt },
  };
  const { numInsertedOrUpdatedRows = 0n } = await trx
    .insertInto('sync.service_health')
    .values({ ...key, ...values })
    .onConflict((conflict) =>
      former === null
        ? conflict.doNothing()
        : conflict.columns(['client', 'scope', 'worker']).doUpdateSet(values),
    )
    .executeTakeFirst();
  return numInsertedOrUpdatedRows > 0n;
}

/**
 * Takes the trial, the question that ends a hold of a client, for this worker.
 * @param code the code of the hold: a question that cannot end a hold must not delay its own
 * @returns false if another one tries or is just noting evidence, or if there is nothing to try
 */
export async function takeTrial(
  db: Kysely<DB>,
  { client, worker }: Omit<HealthKey, 'scope'>,
  code: HealthCode,
): Promise<boolean> {
  const trial = sql`make_interval(secs => ${trialMs / 1_000})`;
  const { rows } = await sql`
    update sync.service_health h
    set next_at = clock_timestamp() + ${trial},
      void_at = greatest(h.void_at, clock_timestamp() + 2 * ${trial})
    where (h.client, h.scope, h.worker) in (
      select h.client, h.scope, h.worker
      from sync.service_health h
      where h.client = ${client} and h.scope = ${clientScope}
        and h.worker in (${everyWorker}, ${worker}) and ${isValid} and h.code = ${code}
        and h.send_window = 0
        and h.next_at <= clock_timestamp()
      -- The runs of other clients begin in the same transaction.
      for update skip locked)
    returning h.client`.execute(db);
  return rows.length > 0;
}

/**
 * Ends the waiting time of holds that another configuration may end: refused credentials, wrong
 * paths, and kinds that fail. Each is then tried at once.
 */
export async function endHoldWaits(db: Kysely<DB>, clients: readonly string[]): Promise<void> {
  await db
    .updateTable('sync.service_health')
    .set({ next_at: sql<Date>`clock_timestamp()` })
    .where('client', '=', anyText(clients))
    .where('code', 'in', ['credentials_refused', 'wrong_path', 'kind_failing'])
    .execute();
}

/** Deletes health that is void. */
export async function forgetOldHealth(db: Kysely<DB>): Promise<void> {
  await db.deleteFrom('sync.service_health as h').where(sql<boolean>`not ${isValid}`).execute();
}
