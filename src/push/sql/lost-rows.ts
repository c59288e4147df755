/** Rows whose worker was lost, and rows that no worker can send. */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { rowSet } from '../../pull/sql/mirror-tables.ts';
import { judgeLost, type LostClaim, type UnknownRule } from '../judge-outcome.ts';
import type { HeldClaim } from './claim-rows.ts';
import { type Settlement, settleRows } from './settle-rows.ts';

/** A row whose claim was taken from a lost worker. */
export interface TakenOverRow {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly became: string;
}

/**
 * Takes over the claims of workers that no longer renew them. `judgeLost` decides what becomes of
 * their rows.
 * @param rules rule of each kind. A row that may have been sent stays as it is if its kind has no
 *   rule here: a worker that knows the kind takes it over.
 */
export async function takeOverClaims(
  db: Database,
  worker: string,
  rules: Readonly<Record<string, UnknownRule>>,
): Promise<TakenOverRow[]> {
  return inTransaction(db, async (trx) => {
    const lost = await lockLostRows(trx, Object.keys(rules));
    if (lost.length === 0) return [];

    const settlements = lost.map((row): Settlement => {
      const { id, client, claimNo, kind, isSent } = row;
      const verdict = judgeLost(row, rules[kind] ?? 'ask operator', Math.random());
      return {
        ...{ id, client, claimNo, step: 'taken over', ...verdict },
        ...{ errorCode: 'worker_lost', written: isSent, refund: !isSent },
      };
    });
    const { settled } = await settleRows(trx, worker, settlements);
    return lost.map(({ id, client, kind }) => ({
      ...{ id, client, kind, became: settled.get(id) ?? 'sending' },
    }));
  });
}

/** A row that a lost worker has claimed. */
interface LostRow extends LostClaim, HeldClaim {
  readonly client: string;
  readonly kind: string;
}

/** Locks the rows whose claims have expired. Rows that somebody has locked are being settled. */
async function lockLostRows(trx: Transaction<DB>, kinds: readonly string[]): Promise<LostRow[]> {
  const { rows } = await sql<LostRow>`
    select o.id, o.client, o.kind, o.claim_no as "claimNo", o.last_error as "lastError",
      o.sent_at is not null as "isSent", sync.find_cancel_problem(o) as "cancelProblem", (
        -- Look-ups between the losses do not count as an outcome: they show nothing about the
        -- payload.
        select count(*)::int
        from sync.outbox_attempts a
        where a.outbox_id = o.id and a.step = 'taken over' and a.id > coalesce((
          select max(b.id)
          from sync.outbox_attempts b
          where b.outbox_id = o.id and b.step not in ('taken over', 'looked up')), 0)
      ) as losses
    from fulfilment.outbox o
    where o.status = 'sending' and o.lease_until <= clock_timestamp()
      and (o.sent_at is null or o.kind = any(${kinds}::text[]))
    for no key update of o skip locked`.execute(trx);
  return rows;
}

/** Time that a row waits for a worker that is set up with its client. */
const unknownClientSpan = sql`interval '10 minutes'`;
/**
 * Maximum number of rows that one call marks dead, and of pairs of client and kind that it looks
 * at.
 */
const maxMarked = 1_000;
const maxPairs = 5_000;

/** A row that no worker can send. */
export interface UnsendableRow {
  readonly id: number;
  readonly client: string;
  readonly code: 'unknown_kind' | 'unknown_client';
}

/** The result of one search for rows that no worker can send. */
export interface UnsendableRows {
  readonly rows: readonly UnsendableRow[];
  /** Where the next search begins; null: at the first client. */
  readonly next: { readonly client: string; readonly kind: string } | null;
}

/**
 * Marks rows dead that no worker can send, whatever is in front of them in their lane: rows of a
 * kind that this version of the database does not have, and rows whose client no worker was ever
 * set up with, ten minutes after their insertion. Rows of a known client that this worker does not
 * serve stay as they are.
 *
 * The ERP can invent any number of clients and kinds, so each call does a bounded part.
 * @param after the result `next` of the call before
 */
export async function markUnsendableRowsDead(
  db: Kysely<DB>,
  worker: string,
  after: UnsendableRows['next'],
): Promise<UnsendableRows> {
  const pairs = await listPendingPairs(db, after);
  const unsendable = pairs.filter((pair) => pair.isUnknownKind || pair.isUnknownClient);
  const rows = unsendable.length === 0 ? [] : await markDead(db, worker, unsendable);

  // Marked rows are no longer found: the same search finds the next ones.
  if (rows.length === maxMarked) return { rows, next: after };
  return { rows, next: pairs.length === maxPairs ? (pairs.at(-1) ?? null) : null };
}

/** A client and a kind that pending rows have. */
interface PendingPair {
  readonly client: string;
  readonly kind: string;
  readonly isUnknownKind: boolean;
  readonly isUnknownClient: boolean;
}

/** Lists the next clients and kinds of pending rows. */
async function listPendingPairs(
  db: Kysely<DB>,
  after: UnsendableRows['next'],
): Promise<PendingPair[]> {
  const { rows } = await sql<PendingPair>`
    with recursive named (client, kind) as (
      -- Each pair is found from the one before by the index: the table may hold many rows.
      (select o.client, o.kind
       from fulfilment.outbox o
       where o.status = 'pending' and (o.client, o.kind) > (${after?.client ?? ''}::text,
         ${after?.kind ?? ''}::text)
       order by o.client, o.kind
       limit 1)
      union all
      select p.client, p.kind
      from named n
      cross join lateral (
        select o.client, o.kind
        from fulfilment.outbox o
        where o.status = 'pending' and (o.client, o.kind) > (n.client, n.kind)
        order by o.client, o.kind
        limit 1
      ) p
    ), bounded as (
      select *
      from named
      limit ${maxPairs}
    )
    select s.client, s.kind,
      not exists (select from sync.outbox_kinds k where k.kind = s.kind) as "isUnknownKind",
      not exists (select from sync.clients c where c.client = s.client) as "isUnknownClient"
    from bounded s`.execute(db);
  return rows;
}

/**
 * Marks rows of these pairs as dead: of an unknown kind at once, others ten minutes after their
 * insertion.
 */
async function markDead(
  db: Kysely<DB>,
  worker: string,
  pairs: readonly PendingPair[],
): Promise<UnsendableRow[]> {
  const { rows } = await sql<UnsendableRow>`
    with marked as (
      update fulfilment.outbox o
      set status = 'dead', next_attempt_at = null, finished_at = clock_timestamp(),
        last_error = case
          when f.is_unknown_kind then format(
            'there is no kind %s; cancel this row, and insert it with one of %s',
            o.kind, (select string_agg(k.kind, ', ' order by k.kind collate "C")
              from sync.outbox_kinds k))
          else format('no worker was ever set up with client %s; known are %s', o.client,
            left(coalesce((select string_agg(k.client, ', ' order by k.client) from sync.clients k),
              'none'), 3000)) end
      from (
        select p.id, i."isUnknownKind" as is_unknown_kind
        from ${rowSet({ client: 'text', kind: 'text', isUnknownKind: 'boolean' }, pairs)}
        cross join lateral (
          select q.id
          from fulfilment.outbox q
          where q.status = 'pending'
            and (i."isUnknownKind" or q.created_at < clock_timestamp() - ${unknownClientSpan})
            -- With a plain join, a plan made while the table was empty would read all pending rows.
            and q.id = any(array(
              select r.id
              from fulfilment.outbox r
              where r.client = i.client and r.kind = i.kind and r.status = 'pending'
              order by r.next_attempt_at, r.id
              limit ${maxMarked}))
          for update skip locked
        ) p
        limit ${maxMarked}
      ) f
      where o.id = f.id
      returning o.id, o.client, o.last_error,
        case when f.is_unknown_kind then 'unknown_kind' else 'unknown_client' end as code
    ), noted as (
      insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
      select id, 'checked', ${worker}, 'dead', code, last_error
      from marked
    )
    select id, client, code
    from marked`.execute(db);
  return rows;
}
