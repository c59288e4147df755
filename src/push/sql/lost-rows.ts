/** Rows whose worker was lost, and rows that no worker can send. */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { rowSet } from '../../pull/sql/mirror-tables.ts';
import { judgeLost, type LostClaim, type LostVerdict, type UnknownRule } from '../judge-outcome.ts';
import type { HeldClaim } from './claim-rows.ts';

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

    const taken = lost.map((row) => ({
      ...row,
      ...judgeLost(row, rules[row.kind] ?? 'ask operator', Math.random()),
    }));
    await writeTakenRows(trx, taken);
    await noteTakenRows(trx, worker, taken);
    return taken.map(({ id, client, kind, became }) => ({ id, client, kind, became }));
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

async function writeTakenRows(
  trx: Transaction<DB>,
  taken: readonly (LostRow & LostVerdict)[],
): Promise<void> {
  await sql`
    update fulfilment.outbox o
    set status = t.became, last_error = t.error, refusal = t.refusal,
      finished_at = case when t.became = 'dead' then clock_timestamp() end,
      next_attempt_at = clock_timestamp() + make_interval(secs => t."delayMs" / 1000),
      attempts = o.attempts - case when t."isSent" then 0 else 1 end,
      tries = o.tries + case when t."isSent" then 1 else 0 end,
      written_at = coalesce(o.sent_at, o.written_at), sent_at = null, lease_until = null,
      lookups = 0, absences = 0, absent_at = null, refused_as = null
    from json_to_recordset(${JSON.stringify(taken)}::json)
      as t (id bigint, became text, error text, refusal text, "delayMs" float8, "isSent" boolean)
    where o.id = t.id`.execute(trx);
}

async function noteTakenRows(
  trx: Transaction<DB>,
  worker: string,
  taken: readonly (LostRow & LostVerdict)[],
): Promise<void> {
  await sql`
    insert into sync.outbox_attempts (outbox_id, step, by, claim_no, became, error_code, error)
    select t.id, 'taken over', ${worker}, t."claimNo", t.became, 'worker_lost', t.error
    from json_to_recordset(${JSON.stringify(taken)}::json)
      as t (id bigint, "claimNo" bigint, became text, error text)
    order by t.id`.execute(trx);
}

/** Time that a row waits for a worker that is set up with its client. */
const unknownClientSpan = sql`interval '10 minutes'`;
/**
 * Maximum number of rows that one call marks dead, and of pairs of client and kind that it looks
 * at.
 */
const maxMarked = 1_000;
const maxPairs = 5_000;

/** A client and a kind that pending rows have. */
interface PendingPair {
  readonly client: string;
  readonly kind: string;
  readonly isUnknownKind: boolean;
}

/** A row that no worker can send. */
export interface UnsendableRow {
  readonly id: number;
  readonly client: string;
  readonly code: 'unknown_kind' | 'unknown_client';
}

/** The result of one search for rows that no worker can send. */
export interface UnsendableRows {
  readonly rows: readonly UnsendableRow[];
  /** Where the next search among the clients that are not known begins; null: at the first one. */
  readonly next: Pick<PendingPair, 'client' | 'kind'> | null;
}

/**
 * Marks rows dead that no worker can send, whatever is in front of them in their lane: rows of a
 * kind that this version of the database does not have, and rows whose client no worker was ever
 * set up with, ten minutes after their insertion. Rows of a known client that this worker does not
 * serve stay as they are.
 *
 * The ERP can invent any number of clients and kinds, so each call does a bounded part. Rows of
 * known clients never wait for those of others.
 * @param after the result `next` of the call before
 */
export async function markUnsendableRowsDead(
  db: Kysely<DB>,
  worker: string,
  after: UnsendableRows['next'],
): Promise<UnsendableRows> {
  const known = await findUnknownKinds(db);
  const others = await findUnknownClients(db, after);
  const pairs = [...known, ...others.filter(({ isUnknownClient }) => isUnknownClient)];
  const rows = pairs.length === 0 ? [] : await markDead(db, worker, pairs);

  // Marked rows are no longer found: the same search finds the next ones.
  if (rows.length === maxMarked) return { rows, next: after };
  return { rows, next: others.length === maxPairs ? (others.at(-1) ?? null) : null };
}

/** Finds the unknown kinds of pending rows of known clients, in turn for each client. */
async function findUnknownKinds(db: Kysely<DB>): Promise<PendingPair[]> {
  const { rows } = await sql<PendingPair>`
    with recursive named (client, kind) as (
      -- Each pair is found from the one before by the index: the table may hold many rows.
      select c.client, f.kind
      from sync.clients c
      cross join lateral (
        select o.kind
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'pending'
        order by o.kind
        limit 1
      ) f
      union all
      select n.client, f.kind
      from named n
      cross join lateral (
        select o.kind
        from fulfilment.outbox o
        where o.client = n.client and o.status = 'pending' and o.kind > n.kind
        order by o.kind
        limit 1
      ) f
    )
    select n.client, n.kind, true as "isUnknownKind"
    from named n
    where not exists (select from sync.outbox_kinds k where k.kind = n.kind)
    limit ${maxMarked}`.execute(db);
  return rows;
}

/**
 * Finds the next pairs of pending rows. Those of known clients are among them, but are not marked.
 */
async function findUnknownClients(db: Kysely<DB>, after: UnsendableRows['next']) {
  const { rows } = await sql<PendingPair & { isUnknownClient: boolean }>`
    with recursive named (client, kind) as (
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
