/**
 * Claims rows of the outbox, and holds and returns claims. A row is sent only under a claim, and
 * only a claim that is still held settles it.
 *
 * A claim is a transaction: it reads what may be sent (gate), locks due rows and reads the facts
 * about their lanes, judges each row (judge-row.ts), postpones those that wait, marks those that
 * are sent, and reads them. Other transactions may commit at any time meanwhile. What is claimed is
 * still right:
 * - The row of the client and the due rows stay locked until the commit.
 * - The index outbox_sending lets only one row of a lane be sending. From the mark to the commit,
 *   no other row of the lane becomes sending.
 * - What other claims did with the lane before the mark shows when the marked rows are read. If
 *   that blocks one of them, such as an earlier row that was committed late, the claim is made
 *   again.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { readKnownMigrations } from '../../db/migration-files.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction, isConstraintViolated } from '../../db/transaction.ts';
import { rowSet } from '../../pull/sql/mirror-tables.ts';
import { clientScope, everyWorker, isValid } from '../../service/sql/service-health.ts';
import {
  type ClaimLimits,
  chooseRows,
  type DueRow,
  type Gate,
  type GateFacts,
  judgeGate,
  judgeRow,
  largeBytes,
  type Wait,
} from '../judge-row.ts';
import { isBlocked } from './lanes.ts';

/** Milliseconds that a claim lasts without renewal, by the clock of the database. */
export const claimMs = 10_000;
const claimSpan = sql`make_interval(secs => ${claimMs / 1_000})`;

/** Minimum number of due rows that are searched for rows that are first in their lane. */
const minSearched = 32;
/** The same for kinds with a send window, where rows that never failed come first. */
const minSearchedInWindow = 100;
/** Maximum number of times that a claim is made if other claims mark rows of its lanes. */
const maxTries = 5;

/** A row that this process may send now. */
export interface ClaimedRow {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  /** JSON text, with every digit. */
  readonly payload: string;
  readonly payloadBytes: number;
  /** Number of attempts, including this one. */
  readonly attempts: number;
  /** Number of attempts that count for PUSH_MAX_ATTEMPTS, including this one. */
  readonly countedAttempts: number;
  readonly ageMs: number;
  /**
   * Number of attempts since the last one that counted that failed for reasons outside this row.
   */
  readonly refusedForOthers: number;
  /** Due time of the row. It is restored when the claim is given back. */
  readonly dueAt: string;
  /** Claim number, drawn before any request. Settlements and readings are recognised by it. */
  readonly claimNo: number;
  /** When the claim was requested, by performance.now(). */
  readonly claimedAtMs: number;
  /** The same by Date.now(). */
  readonly claimedWallMs: number;
  /** True if the claim itself recorded that the request may be written. */
  readonly stamped: boolean;
  /** True if the service may have carried out an earlier attempt. */
  readonly maybeCarriedOut: boolean;
  /** True if two look-ups since that attempt did not find the row at the service. */
  readonly cleared: boolean;
  /** Id of the order or the announced return that the tables hold for the reference. */
  readonly knownId: number | null;
  /** Number of orders or announced returns that the tables hold for the reference. */
  readonly knownCount: number;
}

/** What a worker knows about the kinds of rows, besides what `sync.outbox_kinds` says. */
export interface KindRules {
  /** The kinds that the worker can send. */
  readonly names: readonly string[];
  /**
   * Kinds that are looked up, and sent again if the service does not have them. The claim itself
   * records the send for their rows, which saves a statement.
   */
  readonly stamped: readonly string[];
  /**
   * Milliseconds for which an attempt may still take effect whose answer was lost. An attempt of a
   * lingering kind must not undo the rows behind it in the lane.
   */
  readonly lingerMs: number;
}

export interface ClaimOptions extends ClaimLimits {
  readonly client: string;
  /**
   * Fingerprint of the account. Nothing is claimed if another account was accepted for this client.
   */
  readonly identity: string;
  readonly kinds: KindRules;
  readonly worker: string;
  /** Number of claims that this worker holds for the client. */
  readonly held: number;
  /** True if one large row may be claimed. */
  readonly takesLarge: boolean;
}

export interface ClaimResult {
  readonly rows: readonly ClaimedRow[];
  /** Number of rows postponed because something else comes first. */
  readonly postponed: number;
  /**
   * True if more rows may be due: there was no room for them, or rows in front of them were
   * postponed.
   */
  readonly more: boolean;
}

const noRows: ClaimResult = { rows: [], postponed: 0, more: false };

/**
 * Claims rows of one client that are due and first in their lane. The row that is due longest comes
 * first. Due rows that have to wait are postponed. Workers that claim at the same moment may each
 * use the rest of a send window.
 */
export async function claimRows(db: Database, options: ClaimOptions): Promise<ClaimResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inTransaction(db, (trx) => claimRowsIn(trx, options));
    } catch (error) {
      // What another claim did with the same lane meanwhile can be seen now.
      const isTaken = error instanceof LaneTakenError || isConstraintViolated(error);
      if (!isTaken || attempt === maxTries) throw error;
    }
  }
}

/** Another claim has sent a row of the same lane meanwhile. */
class LaneTakenError extends Error {}

/** Claims rows in a transaction, as `claimRows` does. */
export async function claimRowsIn(
  trx: Transaction<DB>,
  options: ClaimOptions,
): Promise<ClaimResult> {
  const [claimedAtMs, claimedWallMs] = [performance.now(), Date.now()];
  const gate = await readGate(trx, options);
  if (gate === null) return noRows;

  const searched = Math.max(minSearched, options.maxRows);
  const { nowMs, found, locked } = await lockDueRows(trx, gate, options, searched);

  const { lingerMs } = options.kinds;
  const judged = locked.map((row) => {
    const lingers = gate.kinds.get(row.kind)?.lingers ?? false;
    return { row, waits: judgeRow(row, lingers, { nowMs, lingerMs }) };
  });
  const waiting = judged.flatMap(({ row: { id }, waits }) =>
    waits === null ? [] : [{ id, ...waits }],
  );
  await postpone(trx, waiting);

  const ready = judged.flatMap(({ row, waits }) => (waits === null ? [row] : []));
  const chosen = chooseRows(ready, gate, options);
  if (chosen.length > 0) await markSending(trx, chosen, options);
  const marked = chosen.length > 0 ? await readMarked(trx, chosen) : [];
  return {
    rows: marked.map((row) => ({ ...row, claimedAtMs, claimedWallMs })),
    postponed: waiting.length,
    more: waiting.length > 0 || ready.length > marked.length || found >= searched,
  };
}

/**
 * SQL: true if rows may be sent from this database by this version of the program, and pushes of
 * this client are not paused.
 */
export const mayPush = (client: unknown, newestMigration: string) =>
  sql<boolean>`((select sync.pushes_allowed())
    and (select max(m.name) from sync.migrations m) <= ${newestMigration} and not exists (
    select from sync.pauses p where p.client in ('', ${client}) and p.job = 'push-outbox'))`;

/** Returns the newest migration that this code knows. A later one may have changed the outbox. */
export const readNewestMigration = async (): Promise<string> =>
  (await readKnownMigrations()).at(-1)?.name ?? '';

/** SQL: a time as milliseconds since 1970, with its microseconds as decimals. */
const toMs = (time: unknown) => sql<number>`(extract(epoch from ${time}) * 1000)::float8`;

/**
 * Reads what may be claimed, and locks the client: a change of its account waits for the commit.
 * Rows of a kind that the database does not know are not claimed, because its rules are not known.
 * @returns null if nothing may be claimed
 */
async function readGate(
  trx: Transaction<DB>,
  { client, identity, worker, held, kinds: { names } }: ClaimOptions,
): Promise<Gate | null> {
  const scopes = [clientScope, ...names];
  const isConcerned = sql`h.client = c.client and h.worker in (${everyWorker}, ${worker})
          and h.scope = any(${scopes}::text[]) and ${isValid}`;
  const { rows } = await sql<GateFacts>`
    select coalesce((
        select json_agg(json_build_object('name', k.kind, 'lingers', k.lingers))
        from sync.outbox_kinds k
        where k.kind = any(${names}::text[])
      ), '[]') as kinds,
      coalesce((
        select json_agg(json_build_object('scope', h.scope, 'worker', h.worker,
          'sendWindow', h.send_window,
          'untilInMs', extract(epoch from h.next_at - clock_timestamp()) * 1000))
        from sync.service_health h
        where ${isConcerned}
      ), '[]') as health,
      case when exists (
        select from sync.service_health h where ${isConcerned} and h.send_window is not null
      ) then coalesce((
        -- Without those of lost workers: a claim that is renewed lasts at least 7 s longer.
        select json_object_agg(s.kind, s.count)
        from (
          select o.kind, count(*) as count
          from fulfilment.outbox o
          where o.client = c.client and o.status = 'sending'
            and o.lease_until > clock_timestamp() + interval '5 seconds'
          group by o.kind
        ) s
      ), '{}') end as sending
    from sync.clients c
    where c.client = ${client} and c.identity = ${identity}
      and ${mayPush(client, await readNewestMigration())}
    for key share of c`.execute(trx);
  const [facts] = rows;
  return facts === undefined ? null : judgeGate(facts, held);
}

/** Due rows of a client. */
interface LockedRows {
  /** The time of the claim. */
  readonly nowMs: number;
  /** Number of due rows, without those that somebody else had locked. */
  readonly found: number;
  /** Those that are locked now, in the order in which they are due. */
  readonly locked: readonly DueRow[];
}

/** Columns of a due row; all null if it is no longer due. */
type FoundRow = DueRow & { readonly nowMs: number; readonly status: string | null };

/**
 * Locks the rows that are due longest, and reads the facts about their lanes and about what their
 * payloads name. They are found by one search of an index for each kind, so the number of rows of
 * other kinds does not matter.
 * @param searched maximum number of rows of kinds without a send window
 */
async function lockDueRows(
  trx: Transaction<DB>,
  { kinds }: Gate,
  { client, takesLarge, kinds: { lingerMs } }: ClaimOptions,
  searched: number,
): Promise<LockedRows> {
  const open = [...kinds.values()].map(({ name, isWindowed }) => ({
    ...{ kind: name, isWindowed, most: isWindowed ? minSearchedInWindow : searched },
  }));
  // A row is locked by its id, and its state is compared outside: with a join or a condition on the
  // state, a plan that expects few open rows would search all of them for each.
  const { rows } = await sql<FoundRow>`
    with due as materialized (
      select d.*, i.most, row_number() over (
        partition by i."isWindowed" order by d.next_attempt_at, d.id) as place
      from ${rowSet({ kind: 'text', most: 'integer', isWindowed: 'boolean' }, open)}
      cross join lateral (
        select o.id, o.next_attempt_at
        from fulfilment.outbox o
        where o.client = ${client} and o.kind = i.kind and o.status = 'pending'
          and o.next_attempt_at <= (select clock_timestamp())
          and (${takesLarge} or o.payload_bytes <= ${largeBytes})
        order by o.next_attempt_at, o.id
        limit i.most
        -- Those that somebody else has locked, however many, hide no others.
        for no key update of o skip locked
      ) d
    ), waiting as materialized (${selectWaitingKinds(
      client,
      open.map(({ kind }) => kind),
    )})
    select ${toMs(sql`clock_timestamp()`)} as "nowMs", o.id, o.kind, o.status,
      o.payload_bytes as "payloadBytes", d.next_attempt_at::text as "dueAt",
      ${toMs(sql`o.not_before`)} as "notBeforeMs", ${toMs(sql`o.replaced_at`)} as "replacedAtMs",
      ${toMs(sql`o.written_at`)} as "writtenAtMs", o.absences,
      o.tries > 0 or o.refused_for_others > 0 as "hasFailed",
      ${isBlocked} as "isBlocked", ${toMs(selectLingering(lingerMs))} as "lingeringSinceMs",
      w.id as "waitsFor",
      exists (select from sync.outbox_waits v where v.outbox_id = o.id) as "hasWaited"
    from due d
    left join lateral (
      select o.*
      from fulfilment.outbox o
      where o.id = d.id and o.next_attempt_at = d.next_attempt_at
      limit 1
      for no key update of o skip locked
    ) o on true
    left join lateral (${selectAwaited}) w on true
    where d.place <= d.most
    order by d.next_attempt_at, d.id`.execute(trx);
  return {
    nowMs: rows.at(-1)?.nowMs ?? 0,
    found: rows.length,
    locked: rows.filter(({ status }) => status === 'pending'),
  };
}

/** SQL: the last attempt of an earlier row of the lane of row `o` that may still take effect. */
const selectLingering = (lingerMs: number) => sql`(
        select max(b.written_at)
        from fulfilment.outbox b
        where b.client = o.client and b.family = o.family and b.reference = o.reference
          and b.id < o.id
          and b.written_at
            > (select clock_timestamp() - make_interval(secs => ${lingerMs / 1_000}))
          and exists (select from sync.outbox_kinds k where k.kind = b.kind and k.lingers)
      )`;

/**
 * SQL: the kinds that wait for products, if some products are open. Usually none is: that is found
 * out once, not for each row.
 */
const selectWaitingKinds = (client: string, kinds: readonly string[]) => sql`
      select k.kind
      from sync.outbox_kinds k
      where k.kind = any(${kinds}::text[]) and k.awaits_products
        -- With "exists" or without an order, a plan that expects few rows would read all pending
        -- ones.
        and coalesce((
          select true
          from fulfilment.outbox p
          where p.client = ${client} and p.kind = 'product.save' and p.status = 'pending'
          order by p.next_attempt_at
          limit 1
        ), (
          select true
          from fulfilment.outbox p
          where p.client = ${client} and p.family = 'product' and p.kind = 'product.save'
            and p.status in ('sending', 'unknown')
          limit 1
        ), false)`;

/**
 * SQL: an open product that row `o` waits for. A product that is saved again and again must not
 * block a row for ever: what was inserted more than a minute after it does not.
 */
const selectAwaited = sql`
        select p.id
        from jsonb_array_elements(
          case when jsonb_typeof(o.payload -> 'items') = 'array' then o.payload -> 'items'
            else '[]' end) i
        cross join lateral (
          select p.id
          from fulfilment.outbox p
          where p.client = o.client and p.family = 'product' and p.kind = 'product.save'
            and p.reference = i ->> 'sku' and p.status in ('pending', 'sending', 'unknown')
            and (p.id < o.id or p.created_at < o.created_at + interval '1 minute')
          limit 1
        ) p
        where o.kind in (select kind from waiting)
        limit 1`;

/** Postpones rows. A trigger releases those that wait for a row of another kind. */
async function postpone(
  trx: Transaction<DB>,
  rows: readonly (Wait & { readonly id: number })[],
): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    with waits as materialized (
      select *
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as w (id bigint, "untilMs" float8, "waitsFor" bigint)
    ), postponed as (
      update fulfilment.outbox o
      set next_attempt_at = to_timestamp(w."untilMs" / 1000)
      from waits w
      where o.id = w.id
    )
    insert into sync.outbox_waits (outbox_id, waits_for)
    select id, "waitsFor"
    from waits
    where "waitsFor" is not null
    on conflict (outbox_id) do update set waits_for = excluded.waits_for`.execute(trx);
}

/**
 * Marks rows as sending.
 * @throws Error of a constraint if another claim marks a row of the same lane at this moment
 */
async function markSending(
  trx: Transaction<DB>,
  chosen: readonly DueRow[],
  { kinds }: ClaimOptions,
): Promise<void> {
  // Rows that may have been carried out are looked up first, unless two look-ups missed them.
  const marked = chosen.map(({ id, kind, writtenAtMs, absences }) => ({
    ...{ id, isStamped: kinds.stamped.includes(kind) && (writtenAtMs === null || absences >= 2) },
  }));
  await sql`
    update fulfilment.outbox o
    set status = 'sending', next_attempt_at = null, claim_no = (select nextval('sync.read_no')),
      lease_until = clock_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
      -- Only attempts count: the age starts with the first attempt that counts.
      limits_from = case when o.tries = 0 then clock_timestamp() else o.limits_from end,
      sent_at = case when i."isStamped" then clock_timestamp() end
    from ${rowSet({ id: 'bigint', isStamped: 'boolean' }, marked)}
    where o.id = i.id`.execute(trx);
}

type MarkedRow = Omit<ClaimedRow, 'claimedAtMs' | 'claimedWallMs' | 'dueAt'> & {
  readonly isBlocked: boolean;
};

/**
 * Reads what is sent of the rows that were marked.
 * @throws LaneTakenError if another claim has marked a row of the same lane since this one read it
 */
async function readMarked(
  trx: Transaction<DB>,
  chosen: readonly DueRow[],
): Promise<(MarkedRow & Pick<ClaimedRow, 'dueAt'>)[]> {
  const { rows } = await sql<MarkedRow>`
    select o.id, o.client, o.kind, o.reference, o.payload::text as payload,
      o.payload_bytes as "payloadBytes", o.attempts, o.claim_no as "claimNo",
      o.tries + 1 as "countedAttempts",
      o.refused_for_others as "refusedForOthers",
      extract(epoch from clock_timestamp() - o.limits_from)::float8 * 1000 as "ageMs",
      o.sent_at is not null as stamped, o.written_at is not null as "maybeCarriedOut",
      o.absences >= 2 as cleared, known.id as "knownId", known.count as "knownCount",
      ${isBlocked} as "isBlocked"
    from unnest(${chosen.map(({ id }) => id)}::bigint[]) as m (id)
    cross join lateral (select * from fulfilment.outbox o where o.id = m.id limit 1) o
    cross join lateral (${selectKnown}) known`.execute(trx);
  if (rows.some((row) => row.isBlocked)) throw new LaneTakenError();

  const dueTimes = new Map(chosen.map(({ id, dueAt }) => [id, dueAt]));
  return rows.map((row) => ({ ...row, dueAt: dueTimes.get(row.id) ?? '' }));
}

/**
 * SQL: what the tables hold for the reference of a claimed row `o`. `count` beside `max` keeps
 * Postgres from walking through all ids of the client, from the largest.
 */
const selectKnown = sql`
      select max(k.id) as id, count(*)::int as count
      from (
        select r.id
        from fulfilment.orders r
        where o.family = 'order' and r.client = o.client and r.external_order_number = o.reference
          and r.unlisted_since is null
        union all
        select r.id
        from fulfilment.return_merchandise_authorizations r
        where o.family = 'return' and r.client = o.client and r.external_reference = o.reference
          -- An earlier attempt may have removed it, and a reading has missed it since.
          and (r.unlisted_since is null or o.kind = 'return.delete' and o.written_at is not null
            and r.unlisted_since > o.limits_from)
      ) k`;

/**
 * Gives back claims whose rows were not sent: they become due at their former times. Claims that
 * this process no longer holds are ignored. A claim whose row somebody has locked expires.
 */
export async function returnClaims(
  db: Kysely<DB>,
  claims: readonly Pick<ClaimedRow, 'id' | 'claimNo' | 'dueAt'>[],
): Promise<void> {
  await sql`
    with held as (
      select o.id, i."dueAt"
      from fulfilment.outbox o
      join ${rowSet({ id: 'bigint', claimNo: 'bigint', dueAt: 'timestamptz' }, claims)}
        on o.id = i.id and o.claim_no = i."claimNo"
      where o.status = 'sending'
      for no key update of o skip locked
    )
    update fulfilment.outbox o
    set status = 'pending', next_attempt_at = held."dueAt", lease_until = null,
      claim_no = null, sent_at = null, attempts = o.attempts - 1
    from held
    where o.id = held.id`.execute(db);
}

/** A claim that a worker holds: the row and the claim number. */
export type HeldClaim = Pick<ClaimedRow, 'id' | 'claimNo'>;

/** The order that a request is about. */
export interface PushTarget {
  readonly id: number;
  /** Names of the members that the order has before the request. */
  readonly present?: Iterable<string>;
}

/**
 * Maximum time to wait for a row that is about to be sent. Renewals of claims lock it for moments.
 * Who waits longer keeps a connection from the rows of other lanes.
 */
const stampLockTimeout = '500ms';

/**
 * Records, just before the request is written, that the service may carry the row out from now on,
 * and stores the order that the request is about. The members that a first attempt found are kept:
 * a later one may no longer find them.
 * @returns false if another worker has taken the row over: then nothing may be sent
 * @throws a lock timeout if somebody keeps the row locked
 */
export async function stampSent(
  db: Kysely<DB>,
  { id, claimNo }: HeldClaim,
  target?: PushTarget,
): Promise<boolean> {
  const { rows } = await sql`
    with patience as materialized (
      select set_config('lock_timeout', ${stampLockTimeout}, true)
    ), stamped as (
      update fulfilment.outbox o
      set sent_at = clock_timestamp(), lease_until = clock_timestamp() + ${claimSpan}
      from patience
      where o.id = ${id} and o.claim_no = ${claimNo} and o.status = 'sending'
        and o.lease_until > clock_timestamp()
      returning o.id
    ), targeted as (
      insert into sync.outbox_targets as t (outbox_id, target_id, present)
      select id, ${target?.id ?? null}::bigint, ${[...(target?.present ?? [])]}::text[]
      from stamped
      where ${target !== undefined}
      on conflict (outbox_id) do update set target_id = excluded.target_id, is_open = true,
        present = case when t.target_id = excluded.target_id
          and cardinality(t.present) > 0 then t.present
                       else excluded.present end
    )
    select
    from stamped`.execute(db);
  return rows.length > 0;
}

/**
 * Renews claims, including claims that expired and that nobody took over. A locked row is skipped,
 * because it is being settled. A row that was taken over is not touched: the late answer still
 * settles it, if it comes first.
 */
export async function renewClaims(db: Kysely<DB>, rows: readonly HeldClaim[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    with held as (
      select o.id
      from fulfilment.outbox o
      join ${rowSet({ id: 'bigint', claimNo: 'bigint' }, rows)}
        on o.id = i.id and o.claim_no = i."claimNo"
      where o.status = 'sending'
      for update of o skip locked
    )
    update fulfilment.outbox o
    set lease_until = clock_timestamp() + ${claimSpan}
    from held
      where o.id = held.id`.execute(db);
}
