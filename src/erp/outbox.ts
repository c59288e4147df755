import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Own } from './clients.ts';
import { claimSpan } from './outbox-claims.ts';
import { pausedSince } from './pauses.ts';
import type { DB } from './rows.ts';

/** Rows behind the head of their lane are looked at again so much later; the settlement of the head wakes the next one. */
const deferral = sql`interval '10 minutes'`;
/** So many due rows are looked through for heads of lanes, where a short look did not fill the slots. */
const wideWindow = 100;

/** SQL: rows that block those behind them in their lane; as in the partial index outbox_lanes. */
export const unfinished = sql`('pending', 'sending', 'unknown', 'dead')`;

/** A row that this process may send now. */
export interface ClaimedRow {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  /** JSON text, with every digit. */
  readonly payload: string;
  /** Attempts so far, this one included, and how many of them count for PUSH_MAX_ATTEMPTS. */
  readonly attempts: number;
  readonly boundedAttempts: number;
  readonly ageMs: number;
  /** Drawn for the claim, before any request: settlements and readings are recognised by it. */
  readonly claimNo: number;
  /** Whether the claim itself noted that the request may be written. */
  readonly stamped: boolean;
  /** An earlier attempt may have been carried out. */
  readonly mayBeWritten: boolean;
  /** Since then a look-up did not find it, twice. */
  readonly cleared: boolean;
  /** Id that the tables know for the reference: of the order, or of the announced return. */
  readonly knownId: number | null;
  /** How many the tables know for the reference. */
  readonly knownCount: number;
}

export interface ClaimOptions {
  readonly client: string;
  /** Fingerprint of the account; where another one was accepted for this client, nothing is claimed. */
  readonly identity: string;
  readonly slots: number;
  /** Kinds that are looked up and sent again where they are absent: the claim itself stamps them, which spares a statement. */
  readonly stamped: readonly string[];
  /**
   * Kinds that were perhaps carried out and sent again: for so long after that first attempt it may still take effect, and
   * must not undo what follows in the lane.
   */
  readonly lingering: { readonly kinds: readonly string[]; readonly ms: number };
  /** Also what this hold holds (of a kind; empty: of the client): the one push that shows whether it is over. */
  readonly probing?: { readonly kind: string };
}

/** What a claim brought. */
export interface Claim {
  readonly rows: readonly ClaimedRow[];
  /** Whether it was worth its while: rows that are not first in their lane were put off, and others may be due behind them. */
  readonly putOff: number;
}

/**
 * Claims rows of one client that are due and first in their lane, at most `slots`, longest due first. What is due but not
 * first is put off.
 */
export async function claimRows(db: Kysely<DB>, options: ClaimOptions): Promise<Claim> {
  const window = Math.min(wideWindow, options.slots * 4);
  const near = await claimWithin(db, options, window);
  if (near.rows.length === options.slots || near.seen < window) return near;
  const wide = await claimWithin(db, { ...options, slots: options.slots - near.rows.length }, wideWindow);
  return { rows: [...near.rows, ...wide.rows], putOff: near.putOff + wide.putOff };
}

async function claimWithin(
  db: Kysely<DB>,
  { client, identity, slots, stamped, lingering, probing }: ClaimOptions,
  window: number,
): Promise<Claim & { readonly seen: number }> {
  const linger = sql`make_interval(secs => ${lingering.ms / 1_000})`;
  const free = sql`(${probing?.kind ?? ''} = '' or o.kind = ${probing?.kind ?? ''}) and not exists (
    select from sync.push_holds h
    where h.client = o.client and h.kind in ('', o.kind) and h.kind is distinct from ${probing?.kind ?? null}::text
      and (h.probe or h.until > statement_timestamp()))`;
  // What was seen is checked again under the lock: a row that was woken or put off meanwhile is another's to judge.
  const { rows } = await sql<{ rows: ClaimedRow[]; seen: number; putOff: number }>`
    with seen as materialized (
      select o.id, o.next_attempt_at from fulfilment.outbox o
      where o.client = ${client} and o.status = 'pending' and o.next_attempt_at <= statement_timestamp() and ${free}
        and (select ${mayPush(client, identity)})
      order by o.next_attempt_at, o.id limit ${window}
    ), locked as materialized (
      select o.id, o.family, o.reference, s.next_attempt_at as due_at from seen s join fulfilment.outbox o on o.id = s.id
      where o.status = 'pending' and o.next_attempt_at = s.next_attempt_at
      for update of o skip locked
    ), judged as materialized (
      select l.id, l.due_at, case
        when exists (
          select from fulfilment.outbox b
          where b.client = ${client} and b.family = l.family and b.reference = l.reference and b.id < l.id
            and b.status in ${unfinished}
          union all
          -- One that was committed late, with a lower number, comes behind what is under way already.
          select from fulfilment.outbox b
          where b.client = ${client} and b.family = l.family and b.reference = l.reference and b.id > l.id
            and b.status in ('sending', 'unknown')) then statement_timestamp() + ${deferral}
        else (
          select max(b.written_at) + ${linger} from fulfilment.outbox b
          where b.client = ${client} and b.family = l.family and b.reference = l.reference and b.id < l.id
            and b.written_at > statement_timestamp() - ${linger} and b.kind = any(${lingering.kinds}::text[])) end as not_before
      from locked l
    ), put_off as (
      update fulfilment.outbox o set next_attempt_at = j.not_before
      from judged j where o.id = j.id and j.not_before is not null
    ), heads as materialized (
      select id, due_at from judged where not_before is null order by due_at, id limit ${slots}
    ), numbered as materialized (select nextval('sync.read_no') as claim_no), c as (
      update fulfilment.outbox o set status = 'sending', next_attempt_at = null, claim_no = n.claim_no,
        lease_until = statement_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
        -- Waiting is not trying: the age counts from the first attempt that counts.
        bounded_from = case when o.attempts = o.bounded_attempts then statement_timestamp() else o.bounded_from end,
        sent_at = case when o.kind = any(${stamped}::text[]) and (o.written_at is null or o.absences >= 2)
                       then statement_timestamp() end
      from heads h, numbered n where o.id = h.id
      returning o.*, h.due_at
    )
    select (select count(*)::int from seen) as seen, (select count(not_before)::int from judged) as "putOff",
      coalesce((select json_agg(${claimedJson} order by c.due_at, c.id) from c), '[]') as rows`.execute(db);
  const { rows: claimed, seen, putOff } = rows[0] as { rows: ClaimedRow[]; seen: number; putOff: number };
  return { rows: claimed, seen, putOff };
}

/** What the tables know for a reference: `of` is an aggregate of r.id. */
const known = (of: RawBuilder<unknown>) => sql`case c.family
  when 'order' then (
    select ${of} from fulfilment.orders r
    where r.client = c.client and r.external_order_number = c.reference and r.unlisted_since is null)
  when 'return' then (
    select ${of} from fulfilment.return_merchandise_authorizations r
    where r.client = c.client and r.external_reference = c.reference and r.unlisted_since is null)
  end`;

const claimedJson = sql`json_build_object(
  'id', c.id, 'client', c.client, 'kind', c.kind, 'reference', c.reference, 'payload', c.payload::text,
  'attempts', c.attempts, 'boundedAttempts', c.attempts - c.bounded_attempts, 'claimNo', c.claim_no,
  'ageMs', extract(epoch from statement_timestamp() - c.bounded_from)::float8 * 1000,
  'stamped', c.sent_at is not null, 'mayBeWritten', c.written_at is not null, 'cleared', c.absences >= 2,
  'knownId', ${known(sql`max(r.id)`)}, 'knownCount', coalesce(${known(sql`count(*)`)}, 0))`;

/** SQL: whether this account is the one that a client's rows go to, and nobody has paused its pushes. */
const mayPush = (client: unknown, identity: unknown) => sql`
  exists (select from sync.clients k where k.client = ${client} and k.identity = ${identity})
  and ${pausedSince(client, 'push-outbox')} is null`;

/**
 * When each client's next row is due, pending or (of these kinds) to be looked up. Clients without any are left out, and
 * those for which nothing may be pushed.
 */
export async function nextDueByClient(
  db: Kysely<DB>,
  clients: readonly Own[],
  lookedUp: readonly string[],
): Promise<{ client: string; pendingInMs: number | null; unknownInMs: number | null }[]> {
  const inMs = (status: string, further = sql``) => sql`(
    select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
    from fulfilment.outbox o where o.client = c.client and o.status = ${sql.lit(status)} ${further})`;
  const { rows } = await sql<{ client: string; pendingInMs: number | null; unknownInMs: number | null }>`
    select c.client, ${inMs('pending')} as "pendingInMs", ${inMs('unknown', sql`and o.kind = any(${lookedUp}::text[])`)} as "unknownInMs"
    from unnest(${clients.map(({ client }) => client)}::text[], ${clients.map(({ identity }) => identity)}::text[]) as c (client, identity)
    where ${mayPush(sql`c.client`, sql`c.identity`)}`.execute(db);
  const atLeastNow = (ms: number | null) => (ms === null ? null : Math.max(0, ms));
  return rows
    .filter(({ pendingInMs, unknownInMs }) => pendingInMs !== null || unknownInMs !== null)
    .map(({ client, pendingInMs, unknownInMs }) => ({
      client,
      pendingInMs: atLeastNow(pendingInMs),
      unknownInMs: atLeastNow(unknownInMs),
    }));
}

/** How long a row may wait for its client to be set up for the first time. */
const strangerSpan = sql`interval '10 minutes'`;

/**
 * Ends rows of clients that no worker was ever set up with, ten minutes after they were inserted. Rows of a client that
 * is known, but not served by this worker, are left alone: another worker may serve it, or will.
 * @returns the number of rows, at most a thousand at a time
 */
export async function buryStrangers(db: Kysely<DB>, worker: string): Promise<number> {
  // From one client to the next by the index: the table may hold many rows.
  const { rows } = await sql`
    with recursive named as (
      (select o.client from fulfilment.outbox o where o.status = 'pending' order by o.client limit 1)
      union all
      select (select o.client from fulfilment.outbox o where o.status = 'pending' and o.client > n.client
              order by o.client limit 1)
      from named n where n.client is not null
    ), buried as (
      update fulfilment.outbox o set status = 'dead', next_attempt_at = null, finished_at = statement_timestamp(),
        last_error = format('no worker was ever set up with client %s; known are %s', o.client,
          coalesce((select string_agg(k.client, ', ' order by k.client) from sync.clients k), 'none'))
      where o.id in (
        select p.id from named n join fulfilment.outbox p on p.client = n.client and p.status = 'pending'
        where not exists (select from sync.clients k where k.client = n.client)
          and p.created_at < statement_timestamp() - ${strangerSpan}
        limit 1000 for update of p skip locked)
      returning o.id, o.last_error
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
    select id, 'sent', ${worker}, 'dead', 'unknown_client', last_error from buried returning 1`.execute(db);
  return rows.length;
}
