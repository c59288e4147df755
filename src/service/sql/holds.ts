import { type Kysely, sql } from 'kysely';
import type { Failure } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import { inTransaction } from '../../db/transaction.ts';
import { type Evidence, type Health, type HoldCode, judgeHealth } from '../health/push-health.ts';

/** The stored health of a client or kind. Without a stored health, all rows may be sent. */
export interface StoredHealth extends Health {
  readonly client: string;
  /** Empty: the whole client. */
  readonly kind: string;
  readonly since: Date;
  /** Milliseconds until the hold may end. 0 or less: its time is over, or there was no hold. */
  readonly untilInMs: number;
}

/** What a pusher needs of a stored health. */
export type CurrentHealth = Pick<StoredHealth, 'kind' | 'code' | 'sendWindow' | 'untilInMs'>;

/** The client, or (kind not empty) the kind of a client, that a health belongs to. */
export interface HealthScope {
  readonly client: string;
  readonly kind: string;
}

/** Returns true if a client is held until the service has answered a question. */
export const awaitsAnswer = ({ kind, sendWindow }: CurrentHealth): boolean =>
  kind === '' && sendWindow === null;

/** Returns true if no row of the client or kind may be sent at present. */
export const isHeld = (health: CurrentHealth): boolean =>
  awaitsAnswer(health) || health.untilInMs > 0;

/** SQL: true if a row `h` of sync.push_holds keeps all its outbox rows from being sent. */
export const holds = sql`
  (h.kind = '' and h.send_window is null or h.until > statement_timestamp())`;

/** Returns true if no rows may be sent at present, or only as many as a send window allows. */
export const isRestricted = (health: StoredHealth): boolean =>
  isHeld(health) || health.sendWindow !== null;

const selectHealth = (db: Kysely<DB>) =>
  db
    .selectFrom('sync.push_holds')
    .select([
      'client',
      'kind',
      sql<HoldCode>`code`.as('code'),
      sql<Failure>`json_build_object('code', error_code, 'httpStatus', http_status,
        'operation', operation, 'words', reason)`.as('cause'),
      'since',
      'failures',
      'send_window as sendWindow',
      sql<number>`extract(epoch from until - clock_timestamp())::float8 * 1000`.as('untilInMs'),
    ])
    .where('code', 'is not', null);

/** Reads the stored health of all clients and kinds. */
export async function readHealth(db: Kysely<DB>): Promise<StoredHealth[]> {
  return selectHealth(db).orderBy('client').orderBy('kind').execute();
}

/** The health after evidence was judged. */
export interface HealthUpdate {
  readonly health: Health | null;
  /** Milliseconds of the hold that begins now; null if none begins. */
  readonly heldMs: number | null;
}

/**
 * Judges what a worker has seen of a client or kind, and stores the result for all workers. The
 * judgements of several workers are made one after the other.
 * @param isAnswer true if the evidence is the result of the question that ends a hold
 */
export function noteEvidence(
  db: Kysely<DB>,
  { client, kind }: HealthScope,
  evidence: Evidence,
  isAnswer = false,
): Promise<HealthUpdate> {
  return inTransaction(db, async (trx) => {
    const isBad = evidence.seen !== 'success' && evidence.seen !== 'answered';
    if (isBad) await lockHealth(trx, { client, kind });

    const former =
      (await selectHealth(trx)
        .where('client', '=', client)
        .where('kind', '=', kind)
        .forUpdate()
        .executeTakeFirst()) ?? null;

    const { health, holdMs } = judgeHealth(former, evidence, {
      isHeld: former !== null && isHeld(former),
      isAnswer,
    });

    if (health === null) {
      if (isBad || former !== null)
        await trx
          .deleteFrom('sync.push_holds')
          .where('client', '=', client)
          .where('kind', '=', kind)
          .execute();
    } else if (health !== former || holdMs !== null)
      await storeHealth(trx, { client, kind }, former, { health, holdMs });

    return { health, heldMs: holdMs !== null && holdMs > 0 && health !== null ? holdMs : null };
  });
}

/** Inserts a row without a code if there is none, and locks the row. */
async function lockHealth(trx: Kysely<DB>, { client, kind }: HealthScope): Promise<void> {
  await trx
    .insertInto('sync.push_holds')
    .values({ client, kind, until: sql<Date>`clock_timestamp()` })
    .onConflict((conflict) => conflict.columns(['client', 'kind']).doUpdateSet({ kind }))
    .execute();
}

async function storeHealth(
  trx: Kysely<DB>,
  { client, kind }: HealthScope,
  former: Health | null,
  { health, holdMs }: { readonly health: Health; readonly holdMs: number | null },
): Promise<void> {
  const { code, cause, failures, sendWindow } = health;
  const until = sql<Date>`clock_timestamp() + make_interval(secs => ${(holdMs ?? 0) / 1_000})`;
  // A later answer of the service can extend the hold that it asked for, never shorten it.
  const later = code === 'retry_after' ? sql<Date>`greatest(until, ${until})` : until;

  // Refused credentials have another cause than an outage, and so has an outage after rows were
  // done.
  const isOther =
    former !== null && (former.code === 'credentials_refused') !== (code === 'credentials_refused');
  const isNew = isOther || (sendWindow === null && (former?.sendWindow ?? 1) > 1);
  const since = isNew ? { since: sql<Date>`clock_timestamp()` } : {};

  await trx
    .updateTable('sync.push_holds')
    .set({
      code,
      reason: cause.words,
      error_code: cause.code,
      http_status: cause.httpStatus,
      operation: cause.operation,
      failures,
      send_window: sendWindow,
      ...since,
      ...(holdMs === null ? {} : { until: later }),
    })
    .where('client', '=', client)
    .where('kind', '=', kind)
    .execute();
}

/**
 * Takes the question that ends a client's hold for this worker.
 * @param ms milliseconds that other workers wait for the answer
 * @returns false if another worker asks it, or the hold is over
 */
export async function takeQuestion(db: Kysely<DB>, client: string, ms: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('sync.push_holds')
    .set({ until: sql<Date>`clock_timestamp() + make_interval(secs => ${ms / 1_000})` })
    .where('client', '=', client)
    .where('kind', '=', '')
    .where('send_window', 'is', null)
    .where('until', '<=', sql<Date>`clock_timestamp()`)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Deletes health without an active hold that was not updated for an hour. All its rows may be sent
 * again.
 */
export async function forgetOldHealth(db: Kysely<DB>): Promise<void> {
  await db
    .deleteFrom('sync.push_holds as h')
    .where(sql<boolean>`not ${holds}`)
    .where('until', '<', sql<Date>`clock_timestamp() - interval '1 hour'`)
    .execute();
}

/**
 * A kind that the service has carried out for a client, with the method and path of the request.
 */
export interface Proof {
  readonly client: string;
  readonly kind: string;
  readonly method: string;
  readonly path: string;
}

/**
 * Records that the service has carried out a kind. A later refusal of this kind is then not caused
 * by a wrong path.
 */
export async function recordProof(db: Kysely<DB>, proof: Proof): Promise<void> {
  await db
    .insertInto('sync.proven_kinds')
    .values(proof)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Returns true if any worker has seen the service carry out a kind with this method and path. */
export async function isProven(
  db: Kysely<DB>,
  { client, kind, method, path }: Proof,
): Promise<boolean> {
  const proven = await db
    .selectFrom('sync.proven_kinds')
    .select('kind')
    .where('client', '=', client)
    .where('kind', '=', kind)
    .where('method', '=', method)
    .where('path', '=', path)
    .executeTakeFirst();
  return proven !== undefined;
}
