import { type Kysely, sql, type Transaction } from 'kysely';
import { type Json, parseObject } from '../../core/json.ts';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { anyId, anyText } from '../../db/values.ts';
import { outboxKinds } from '../kinds/registry.ts';
import { maxPayloadValues } from '../payload.ts';
import { type OutboxDetail, type OutboxFilter, readOutbox, toCondition } from './read-outbox.ts';
import { insertFollowUps } from './settle-rows.ts';

/** The states in which a row must be for each action. */
export const allowedFrom = {
  retry: ['dead', 'unknown', 'pending'],
  done: ['dead', 'unknown', 'pending'],
  cancel: ['dead', 'pending'],
} as const;
export type OutboxAction = keyof typeof allowedFrom;

const changeableRows = (filter: OutboxFilter, action: OutboxAction) =>
  sql<boolean>`${toCondition(filter)} and o.status = any(${allowedFrom[action]}::text[])
    and (${action !== 'cancel'} or sync.find_cancel_problem(o) is null)`;

/** Returns why a row must not be cancelled, and what to do instead; null: it may be. */
export async function findCancelProblem(db: Kysely<DB>, id: number): Promise<string | null> {
  const found = await db
    .selectFrom('fulfilment.outbox as o')
    .select(sql<string | null>`sync.find_cancel_problem(o)`.as('problem'))
    .where('o.id', '=', id)
    .executeTakeFirst();
  return found?.problem ?? null;
}

/** Counts the rows that an action would change. */
export async function countOutbox(
  db: Kysely<DB>,
  filter: OutboxFilter,
  action: OutboxAction,
): Promise<number> {
  const { count } = await db
    .selectFrom('fulfilment.outbox as o')
    .select(sql<number>`count(*)::int`.as('count'))
    .where(changeableRows(filter, action))
    .executeTakeFirstOrThrow();
  return count;
}

/**
 * Applies an action to all rows that match the filter and are in a state that allows it. A retried
 * row is due at once. It is looked up first if its kind can be, unless its outcome was for the
 * operator to decide: that counts as two absences. A row that is marked as done gets `result`, and
 * its follow-ups are inserted. A worker releases the lanes and enters the rows into the feed.
 * @param by the name that the history shows
 * @returns the ids of the rows that were changed
 */
export async function actOnOutbox(
  db: Database,
  action: OutboxAction,
  filter: OutboxFilter,
  { by, result = {} }: { readonly by: string; readonly result?: Json | undefined },
): Promise<number[]> {
  const changes = {
    retry: sql`status = 'pending', next_attempt_at = clock_timestamp(), finished_at = null,
      refusal = null, refused_as = null, claim_no = null, lookups = 0, absent_at = null,
      absences = case when o.status = 'unknown' and o.next_attempt_at is null then 2 else 0 end,
      limits_from = clock_timestamp(), tries = 0, refused_for_others = 0`,
    done: sql`status = 'done', next_attempt_at = null, finished_at = clock_timestamp(),
      refusal = null, last_error = null, result = ${JSON.stringify(result)}::jsonb`,
    cancel: sql`status = 'cancelled', next_attempt_at = null, finished_at = clock_timestamp(),
      refusal = null`,
  } as const;

  const step = { retry: 'retried', done: 'marked done', cancel: 'cancelled' } as const;

  return inTransaction(db, async (trx) => {
    const chosen = await sql<{ id: number }>`
      select o.id
      from fulfilment.outbox o
      where ${changeableRows(filter, action)}
      order by o.id
      for update`.execute(trx);
    // Judged again under the locks: a worker may have sent a row while its lock was awaited.
    const locked = { ids: chosen.rows.map(({ id }) => id) };
    const { rows } = await sql<{ id: number; client: string }>`
      with changed as (
        update fulfilment.outbox o
        set ${changes[action]}
        where ${changeableRows(locked, action)}
        returning o.id, o.client, o.status
      ), noted as (
        insert into sync.outbox_attempts (outbox_id, step, by, became)
        select id, ${step[action]}, ${by}, status
          from changed
      )
      select id, client
      from changed
      order by id`.execute(trx);
    const ids = rows.map(({ id }) => id);
    if (action === 'done') await insertDeclaredFollowUps(trx, ids);
    await auditRows(trx, `outbox_${action}`, by, rows);
    await notifyPushers(trx);
    return ids;
  });
}

/** Kinds that have follow-ups. */
const followedKinds = new Map(
  outboxKinds.flatMap(({ name, followUps }) => (followUps ? [[name, followUps] as const] : [])),
);

/** Inserts the follow-ups of rows that are done, as their kinds declare them. */
async function insertDeclaredFollowUps(trx: Transaction<DB>, ids: readonly number[]) {
  const rows = await trx
    .selectFrom('fulfilment.outbox')
    .select(['id', 'kind'])
    .where('id', '=', anyId(ids))
    .where('kind', '=', anyText([...followedKinds.keys()]))
    .orderBy('id')
    .execute();

  // Read one payload at a time: each may have 16 MB.
  for (const { id, kind } of rows) {
    const { text } = await trx
      .selectFrom('fulfilment.outbox')
      .select(sql<string>`payload::text`.as('text'))
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const payload = parseObject(text, maxPayloadValues);
    const followUps = payload === null ? [] : (followedKinds.get(kind)?.(payload) ?? []);
    await insertFollowUps(
      trx,
      followUps.map((next) => ({ ...next, follows: id })),
    );
  }
}

/** Number of row ids that an audit entry names. The history of each row has its entry, too. */
export const maxNamedRows = 20;

/** Records in the audit what an operator did to rows. */
async function auditRows(
  trx: Kysely<DB>,
  action: 'outbox_retry' | 'outbox_done' | 'outbox_cancel' | 'outbox_replace' | 'outbox_reveal',
  by: string,
  rows: readonly { readonly id: number; readonly client: string }[],
): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const client = rows.every((row) => row.client === first.client) ? first.client : null;

  const outboxIds = rows.slice(0, maxNamedRows).map(({ id }) => id);
  const more = rows.length > maxNamedRows ? ` and ${rows.length - maxNamedRows} more` : '';
  const detail = `outbox ${rows.length === 1 ? 'row' : 'rows'} ${outboxIds.join(', ')}${more}`;
  await recordAudit(trx, { by, action, client, detail, outboxIds });
}

/**
 * Replaces the payload of a row, as `fulfilment.outbox_replace` does.
 * @throws a database error 22023 with the reason if the row does not allow it
 */
export async function replaceOutbox(
  db: Database,
  id: number,
  payload: string,
  by: string,
): Promise<void> {
  await inTransaction(db, async (trx) => {
    const { rows } = await sql<{ id: number; client: string }>`
      select r.id, r.client
      from fulfilment.outbox_replace(${id}, ${payload}::jsonb) r`.execute(trx);
    // The function can only name the role of the database.
    await sql`
      update sync.outbox_attempts a
      set by = ${by}
      where a.id = (select max(l.id) from sync.outbox_attempts l
        where l.outbox_id = ${id})`.execute(trx);
    await auditRows(trx, 'outbox_replace', by, rows);
  });
}

/**
 * Reads a row with its payload in clear, and records that in the audit. Null: there is no row with
 * this id.
 */
export async function revealOutbox(
  db: Database,
  id: number,
  by: string,
): Promise<OutboxDetail | null> {
  return inTransaction(db, async (trx) => {
    const row = await readOutbox(trx, id);
    if (row !== null) await auditRows(trx, 'outbox_reveal', by, [row]);
    return row;
  });
}
