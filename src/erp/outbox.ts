import { type Kysely, sql } from 'kysely';
import type { UnknownRule } from '../core/push-outcome.ts';
import type { Database } from './connect.ts';
import type { DB } from './rows.ts';

/** How long a claim lasts without a sign of life, by the database's clock. */
export const claimMs = 10_000;
const claimSpan = sql`make_interval(secs => ${claimMs / 1_000})`;
/** Rows behind the head of their lane are looked at again so much later; the settlement of the head wakes the next one. */
const deferral = sql`interval '10 minutes'`;
/** So many due rows are looked through for heads of lanes, where a short look did not fill the slots. */
const wideWindow = 500;

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
}

export interface ClaimOptions {
  readonly client: string;
  readonly slots: number;
  /** Kinds that can be looked up: they are stamped by the claim itself, which spares a statement. */
  readonly lookedUp: readonly string[];
  /** Also what is on hold: the one push that shows whether it is over. */
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
  { client, slots, lookedUp, probing }: ClaimOptions,
  window: number,
): Promise<Claim & { readonly seen: number }> {
  const free = probing
    ? sql`(${probing.kind} = '' or o.kind = ${probing.kind})`
    : sql`not exists (
        select from sync.push_holds h
        where h.client = o.client and h.kind in ('', o.kind) and (h.probe or h.until > statement_timestamp()))`;
  // What was seen is checked again under the lock: a row that was woken or put off meanwhile is another's to judge.
  const { rows } = await sql<{ rows: ClaimedRow[]; seen: number; putOff: number }>`
    with seen as materialized (
      select o.id, o.next_attempt_at from fulfilment.outbox o
      where o.client = ${client} and o.status = 'pending' and o.next_attempt_at <= statement_timestamp() and ${free}
      order by o.next_attempt_at, o.id limit ${window}
    ), locked as materialized (
      select o.id, o.family, o.reference, s.next_attempt_at as due_at from seen s join fulfilment.outbox o on o.id = s.id
      where o.status = 'pending' and o.next_attempt_at = s.next_attempt_at
      for update of o skip locked
    ), judged as materialized (
      select l.id, l.due_at, exists (
        select from fulfilment.outbox b
        where b.client = ${client} and b.family = l.family and b.reference = l.reference and b.id < l.id
          and b.status in ${unfinished}) as blocked
      from locked l
    ), put_off as (
      update fulfilment.outbox o set next_attempt_at = statement_timestamp() + ${deferral}
      from judged j where o.id = j.id and j.blocked
    ), heads as materialized (
      select id, due_at from judged where not blocked order by due_at, id limit ${slots}
    ), numbered as materialized (select nextval('sync.read_no') as claim_no), c as (
      update fulfilment.outbox o set status = 'sending', next_attempt_at = null, claim_no = n.claim_no,
        lease_until = statement_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
        sent_at = case when o.kind = any(${lookedUp}::text[]) and (o.written_at is null or o.absences >= 2)
                       then statement_timestamp() end
      from heads h, numbered n where o.id = h.id
      returning o.*, h.due_at
    )
    select (select count(*)::int from seen) as seen, (select count(*)::int from judged where blocked) as "putOff",
      coalesce((select json_agg(${claimedJson} order by c.due_at, c.id) from c), '[]') as rows`.execute(db);
  const { rows: claimed, seen, putOff } = rows[0] as { rows: ClaimedRow[]; seen: number; putOff: number };
  return { rows: claimed, seen, putOff };
}

const knownId = sql`case c.family
  when 'order' then (
    select max(r.id) from fulfilment.orders r
    where r.client = c.client and r.external_order_number = c.reference and r.unlisted_since is null)
  when 'return' then (
    select max(r.id) from fulfilment.return_merchandise_authorizations r
    where r.client = c.client and r.external_reference = c.reference and r.unlisted_since is null)
  end`;

const claimedJson = sql`json_build_object(
  'id', c.id, 'client', c.client, 'kind', c.kind, 'reference', c.reference, 'payload', c.payload::text,
  'attempts', c.attempts, 'boundedAttempts', c.attempts - c.bounded_attempts, 'claimNo', c.claim_no,
  'ageMs', extract(epoch from statement_timestamp() - c.bounded_from)::float8 * 1000,
  'stamped', c.sent_at is not null, 'mayBeWritten', c.written_at is not null, 'cleared', c.absences >= 2,
  'knownId', ${knownId})`;

/**
 * Notes, just before its request is written, that a row may be carried out from now on.
 * @returns false where the row was taken over meanwhile: nothing may be sent
 */
export async function stampSent(db: Kysely<DB>, { id, claimNo }: Pick<ClaimedRow, 'id' | 'claimNo'>): Promise<boolean> {
  const { rows } = await sql`
    update fulfilment.outbox set sent_at = statement_timestamp(), lease_until = statement_timestamp() + ${claimSpan}
    where id = ${id} and claim_no = ${claimNo} and status = 'sending' and lease_until > statement_timestamp()
    returning 1`.execute(db);
  return rows.length > 0;
}

/** Keeps claims alive. One that was taken over is left alone: its answer is taken all the same, if it comes first. */
export async function renewClaims(db: Kysely<DB>, rows: readonly Pick<ClaimedRow, 'id' | 'claimNo'>[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    update fulfilment.outbox o set lease_until = statement_timestamp() + ${claimSpan}
    from unnest(${rows.map(({ id }) => id)}::bigint[], ${rows.map(({ claimNo }) => claimNo)}::bigint[]) as m (id, claim_no)
    where o.id = m.id and o.claim_no = m.claim_no and o.status = 'sending' and o.lease_until > statement_timestamp()`.execute(
    db,
  );
}

/** What a worker leaves behind that was lost while sending. */
export interface TakenOver {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly became: string;
}

/**
 * Takes claims from workers that gave no sign of life. What was certainly not written becomes pending; what may have been
 * is settled by the rule of its kind.
 * @param rules by kind; a kind that is not there is left to workers that know it
 */
export async function takeOverClaims(
  db: Database,
  worker: string,
  rules: Readonly<Record<string, UnknownRule>>,
  operatorError: string,
): Promise<TakenOver[]> {
  const kinds = Object.keys(rules);
  const { rows } = await sql<TakenOver>`
    with lost as materialized (
      select o.id, k.rule from fulfilment.outbox o
      join unnest(${kinds}::text[], ${kinds.map((kind) => rules[kind] ?? 'operator')}::text[]) as k (kind, rule) on k.kind = o.kind
      where o.status = 'sending' and o.lease_until <= statement_timestamp()
      for update of o skip locked
    ), taken as (
      update fulfilment.outbox o set
        status = case when o.sent_at is null or l.rule = 'send again' then 'pending' else 'unknown' end,
        next_attempt_at = case when o.sent_at is not null and l.rule = 'operator' then null else statement_timestamp() end,
        attempts = o.attempts - case when o.sent_at is null then 1 else 0 end,
        written_at = coalesce(o.sent_at, o.written_at), sent_at = null, lease_until = null,
        lookups = 0, absences = 0, absent_at = null,
        last_error = case when o.sent_at is null then o.last_error
                          when l.rule = 'operator' then ${`its worker was lost while sending. ${operatorError}`}
                          when l.rule = 'look up' then 'its worker was lost while sending; being looked up'
                          else 'its worker was lost while sending; sent again' end
      from lost l where o.id = l.id
      returning o.id, o.client, o.kind, o.status as became, o.claim_no, o.last_error
    ), noted as (
      insert into sync.outbox_attempts (outbox_id, step, by, claim_no, became, error_code, error)
      select id, 'taken over', ${worker}, claim_no, became, 'worker_lost', last_error from taken
    )
    select id, client, kind, became from taken`.execute(db);
  return rows;
}

/** When each client's next row is due, pending or to be looked up; clients without any are left out. */
export async function nextDueByClient(
  db: Kysely<DB>,
  clients: readonly string[],
): Promise<{ client: string; pendingInMs: number | null; unknownInMs: number | null }[]> {
  const inMs = (status: string) => sql`(
    select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
    from fulfilment.outbox o where o.client = c.client and o.status = ${sql.lit(status)})`;
  const { rows } = await sql<{ client: string; pendingInMs: number | null; unknownInMs: number | null }>`
    select c.client, ${inMs('pending')} as "pendingInMs", ${inMs('unknown')} as "unknownInMs"
    from unnest(${clients}::text[]) as c (client)`.execute(db);
  const atLeastNow = (ms: number | null) => (ms === null ? null : Math.max(0, ms));
  return rows
    .filter(({ pendingInMs, unknownInMs }) => pendingInMs !== null || unknownInMs !== null)
    .map(({ client, pendingInMs, unknownInMs }) => ({
      client,
      pendingInMs: atLeastNow(pendingInMs),
      unknownInMs: atLeastNow(unknownInMs),
    }));
}

/** Rows for clients that there are not become dead at once, saying so; their number. */
export async function buryStrangers(db: Kysely<DB>, worker: string, clients: readonly string[]): Promise<number> {
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
        last_error = format('there is no client %s; known are %s', o.client, ${clients.join(', ')}::text)
      from named n
      where o.client = n.client and o.status = 'pending' and n.client <> all(${clients}::text[])
      returning o.id, o.last_error
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
    select id, 'sent', ${worker}, 'dead', 'unknown_client', last_error from buried returning 1`.execute(db);
  return rows.length;
}
