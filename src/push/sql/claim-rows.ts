/**
 * Claims rows of the outbox. A row is sent only under a claim, and only a claim that is still held
 * settles it.
 */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { readKnownMigrations } from '../../db/migration-files.ts';
import type { ClientAccount } from '../../service/sql/clients.ts';
import {
  type CurrentHealth,
  clientScope,
  everyWorker,
  holds,
  isOfClient,
  isValid,
} from '../../service/sql/service-health.ts';
import { lastLookMs } from '../waking.ts';
import { claimSpan } from './held-claims.ts';
import { letsPass, unfinishedStatuses } from './lanes.ts';

/** Minimum number of due rows of a kind that are searched for rows that are first in their lane. */
const minSearched = 32;
/** The same for a kind with a send window, where rows that never failed come first. */
const minSearchedInWindow = 100;
/** A row whose payload has more bytes as text is large. Large rows are sent one after the other. */
export const largeBytes = 4 * 1024 * 1024;

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

export interface ClaimOptions {
  readonly client: string;
  /**
   * Fingerprint of the account. Nothing is claimed if another account was accepted for this client.
   */
  readonly identity: string;
  readonly kinds: KindRules;
  readonly worker: string;
  /** Number of claims that this worker holds for the client. */
  readonly held: number;
  readonly maxRows: number;
  /** Maximum bytes of the payloads of rows that are not large. */
  readonly maxBytes: number;
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

/** A row that the statement returns: a claimed row, or only the counts if nothing was claimed. */
type ReadRow = Omit<ClaimedRow, 'id' | 'claimedAtMs'> & {
  readonly id: number | null;
  readonly postponed: number;
  readonly more: boolean;
};

/**
 * Claims rows of one client that are due and first in their lane. The row that is due longest comes
 * first. Due rows that have to wait are postponed. Workers that claim at the same moment may each
 * use the rest of a send window.
 */
export async function claimRows(db: Kysely<DB>, options: ClaimOptions): Promise<ClaimResult> {
  const { client, identity, kinds, worker, held, maxRows, maxBytes, takesLarge } = options;
  const claimedAtMs = performance.now();
  const searched = Math.max(minSearched, maxRows);
  const newestMigration = await readNewestMigration();
  const lingerSpan = sql`make_interval(secs => ${kinds.lingerMs / 1_000})`;
  const lingers = (kind: RawBuilder<string>) =>
    sql`exists (select from sync.outbox_kinds k where k.kind = ${kind} and k.lingers)`;
  const inLane = sql`b.client = ${client} and b.family = l.family and b.reference = l.reference`;
  const isNeeded = sql`not ${letsPass('b', sql.ref('l.kind'))}`;
  // Rows that are sent now, without those of lost workers: a claim that is renewed lasts at least 7
  // s longer.
  const sendingNow = sql`o.client = ${client} and o.status = 'sending'
            and o.lease_until > statement_timestamp() + interval '5 seconds'`;
  const { rows } = await sql<ReadRow>`
    with
    -- Nothing is claimed unless this database, the account and the pauses allow it, or while the
    -- client is held. Its send window limits all of its rows. Without a window, room is null. A
    -- change of the account waits for this claim.
    of_client as materialized (
      select least(h.of_all - case when h.of_all is not null then (
          select count(*) from fulfilment.outbox o where ${sendingNow}) end,
          h.own - ${held}::int) as room
      from sync.clients c
      -- What this worker alone has seen limits its own claims only.
      cross join lateral (
        select coalesce(bool_or(${holds}), false) as is_held,
          min(h.send_window) filter (where h.worker = ${everyWorker}) as of_all,
          min(h.send_window) filter (where h.worker <> ${everyWorker}) as own
        from sync.service_health h
        where ${isOfClient(sql`c.client`, worker)}
      ) h
      where c.client = ${client} and c.identity = ${identity} and not h.is_held
        and ${mayPush(client, newestMigration)}
      for key share of c
    ),
    -- The kinds that this worker knows and that are not held, each with the room in its send
    -- window. Rows of other kinds are not read at all, so their number does not matter.
    of_kind as materialized (
      select k.kind, h.send_window - case when h.send_window is not null then (
          select count(*) from fulfilment.outbox o where ${sendingNow} and o.kind = k.kind)
            end as room,
        coalesce(h.send_window, c.room) is not null as is_windowed
      from of_client c
      cross join unnest(${kinds.names}::text[]) as k (kind)
      left join sync.service_health h on h.client = ${client} and h.scope = k.kind and ${isValid}
      where not coalesce(${holds}, false) and (c.room is null or c.room > 0)
    ),
    -- The rows that are due, by one search of an index for each kind. Within a send window, rows
    -- that never failed come first. Rows of kinds with a window come before all others: behind a
    -- backlog they would never be sent.
    due as materialized (
      select d.*
      from (
        select d.*, row_number() over (partition by d.is_windowed order by d.next_attempt_at, d.id)
          as place
        from of_kind k
        cross join lateral (
          select o.id, o.next_attempt_at, k.room, k.is_windowed,
            k.is_windowed and (o.attempts + o.failed_checks > o.uncounted_attempts
              or o.refused_for_others > 0) as failed
          from fulfilment.outbox o
          where o.client = ${client} and o.kind = k.kind and o.status = 'pending'
            and o.next_attempt_at <= statement_timestamp()
            and (${takesLarge} or o.payload_bytes <= ${largeBytes})
          order by o.next_attempt_at, o.id
          limit case when k.is_windowed then ${minSearchedInWindow}::int else ${searched}::int end
        ) d
        where k.room is null or k.room > 0
      ) d
      where d.place <= case when d.is_windowed then ${minSearchedInWindow}::int
        else ${searched}::int end
    ),
    -- Each of them is checked again under its lock: another worker may have released or postponed
    -- it meanwhile. They are found one by one by their id, and their state is compared outside:
    -- with a join or a condition on the state, a plan that expects few open rows would search all
    -- of them for each.
    locked as materialized (
      select l.*, d.next_attempt_at as due_at, d.room, d.is_windowed, d.failed
      from due d
      cross join lateral (
        select o.id, o.kind, o.family, o.reference, o.payload_bytes, o.written_at, o.replaced_at,
          o.not_before, o.status
        from fulfilment.outbox o
        where o.id = d.id and o.next_attempt_at = d.next_attempt_at
        limit 1
        for update of o skip locked
      ) l
      where l.status = 'pending'
    ),
    -- The rules by which rows wait for rows of another kind. Usually no such row is open: that is
    -- found out once, not for each row.
    wait_rules as materialized (
      select k.kind, r.kind as other_kind, r.family, r.list, r.member
      from sync.outbox_kinds k
      cross join lateral jsonb_to_record(k.waits_for)
        as r (kind text, family text, list text, member text)
      -- With "exists" or without an order, a plan that expects few rows would read all pending
      -- ones.
      where k.waits_for is not null and coalesce((
          select true
          from fulfilment.outbox p
          where p.client = ${client} and p.kind = r.kind and p.status = 'pending'
          order by p.next_attempt_at
          limit 1
        ), (
          select true
          from fulfilment.outbox p
          where p.client = ${client} and p.family = r.family and p.kind = r.kind
            and p.status in ('sending', 'unknown')
          limit 1
        ), false)
    ),
    -- When each row may be sent. Null: now.
    judged as materialized (
      select l.*, w.waits_for, case
        -- The writer chose the time. It counts, even if the lane was released earlier.
        when l.not_before > statement_timestamp() then l.not_before
        -- An earlier row of the lane is unfinished. Usually its settlement releases this row before
        -- the time is over. A row with a smaller id that was committed late waits for later rows
        -- that are under way already.
        when exists (
          select from fulfilment.outbox b
          where ${inLane} and b.id < l.id and b.status in ${unfinishedStatuses} and ${isNeeded}
          union all
          select from fulfilment.outbox b
          where ${inLane} and b.id > l.id and b.status in ('sending', 'unknown') and ${isNeeded}
        ) then statement_timestamp() + interval '10 minutes'
        -- It waits for a row of another kind. A trigger releases rows that wait for a product.
        when w.waits_for is not null then statement_timestamp() + case
          when exists (select from sync.outbox_waits v where v.outbox_id = l.id)
            then interval '2 minutes' else interval '20 seconds' end
        -- The payload from before a replacement may still take effect.
        when l.replaced_at > l.written_at and l.written_at > statement_timestamp() - ${lingerSpan}
            and ${lingers(sql.ref('l.kind'))}
          then l.written_at + ${lingerSpan}
        -- An earlier row of the lane, of a kind that is sent again, may still take effect.
        else (
          select max(b.written_at) + ${lingerSpan} from fulfilment.outbox b
          where ${inLane} and b.id < l.id and b.written_at > statement_timestamp() - ${lingerSpan}
            and ${lingers(sql.ref('b.kind'))}) end as wait_until
      from locked l
      left join lateral (${selectAwaited(client)}) w on true
    ),
    postponed as (
      update fulfilment.outbox o
      set next_attempt_at = j.wait_until
      from judged j
      where o.id = j.id and j.wait_until is not null
    ),
    waiting as (
      insert into sync.outbox_waits (outbox_id, waits_for)
      select id, waits_for
      from judged
      where waits_for is not null and wait_until is not null
      on conflict (outbox_id) do update set waits_for = excluded.waits_for
    ),
    -- Send windows: of each kind only as many rows as there is room for.
    within_windows as materialized (
      select j.*
      from (
        select j.*, row_number() over (partition by kind order by failed, due_at, id)
          as place_in_kind
        from judged j
        where wait_until is null
      ) j
      where room is null or place_in_kind <= room
    ),
    -- Sizes: one large row, and others as long as their bytes fit.
    fitting as materialized (
      select f.id, f.due_at, row_number() over (order by not is_windowed, failed, due_at, id)
        as place
      from (
        select w.*, row_number() over in_order as place_in_size,
          sum(payload_bytes) over in_order as bytes
        from within_windows w
        window in_order as (
          partition by payload_bytes > ${largeBytes}
          order by not is_windowed, failed, due_at, id)
      ) f
      where case when payload_bytes > ${largeBytes} then place_in_size = 1
        else bytes <= ${maxBytes} end
    ),
    chosen as materialized (
      select id, due_at
      from fitting
      where place <= least(${maxRows}::int, (select room from of_client))
    ),
    numbered as materialized (select nextval('sync.read_no') as claim_no),
    c as (
      update fulfilment.outbox o
      set status = 'sending', next_attempt_at = null, claim_no = n.claim_no,
        lease_until = statement_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
        -- Only attempts count: the age starts with the first attempt that counts.
        limits_from = case when o.attempts + o.failed_checks = o.uncounted_attempts
                           then statement_timestamp() else o.limits_from end,
        sent_at = case when o.kind = any(${kinds.stamped}::text[])
          and (o.written_at is null or o.absences >= 2)
                       then statement_timestamp() end
      from chosen h, numbered n
      where o.id = h.id
      returning o.*, h.due_at
    )
    select s.postponed, s.postponed > 0 or s.ready > s.chosen or s.due >= ${searched} as more,
      c.id, c.client, c.kind, c.reference, c.payload::text as payload,
        c.payload_bytes as "payloadBytes", c.attempts,
      c.attempts + c.failed_checks - c.uncounted_attempts as "countedAttempts",
        c.claim_no as "claimNo",
      c.refused_for_others as "refusedForOthers", c.due_at::text as "dueAt",
      extract(epoch from statement_timestamp() - c.limits_from)::float8 * 1000 as "ageMs",
      c.sent_at is not null as stamped, c.written_at is not null as "maybeCarriedOut",
        c.absences >= 2 as cleared,
      known.id as "knownId", known.count as "knownCount"
    from (
      select count(j.wait_until)::int as postponed, count(j.id) - count(j.wait_until) as ready,
        (select count(*) from chosen) as chosen, (select count(*) from due) as due
      from judged j
    ) s
    left join c on true
    cross join lateral (${selectKnown}) known
    order by c.due_at, c.id`.execute(db);
  const { postponed, more } = rows[0] as ReadRow;
  const claimed = rows.flatMap(({ postponed: _postponed, more: _more, id, ...row }) =>
    id === null ? [] : [{ ...row, id, claimedAtMs }],
  );
  return { rows: claimed, postponed, more };
}

/**
 * SQL: an open row of another kind that row `l` waits for. An entity that is saved again and again
 * must not block a row for ever: what was inserted more than a minute after it does not.
 */
const selectAwaited = (client: string) => sql`
        select p.id as waits_for
        from wait_rules r
        join fulfilment.outbox o on o.id = l.id
        cross join lateral jsonb_array_elements(
          case when jsonb_typeof(o.payload -> r.list) = 'array' then o.payload -> r.list
            else '[]' end) i
        cross join lateral (
          select p.id
          from fulfilment.outbox p
          where p.client = ${client} and p.family = r.family and p.kind = r.other_kind
            and p.reference = i ->> r.member and p.status in ('pending', 'sending', 'unknown')
            and (p.id < o.id or p.created_at < o.created_at + interval '1 minute')
          limit 1
        ) p
        where r.kind = l.kind
        limit 1`;

/**
 * SQL: what the tables hold for the reference of a claimed row `c`. `count` beside `max` keeps
 * Postgres from walking through all ids of the client, from the largest.
 */
const selectKnown = sql`
      select max(k.id) as id, count(*)::int as count
      from (
        select r.id
        from fulfilment.orders r
        where c.family = 'order' and r.client = c.client and r.external_order_number = c.reference
          and r.unlisted_since is null
        union all
        select r.id
        from fulfilment.return_merchandise_authorizations r
        where c.family = 'return' and r.client = c.client and r.external_reference = c.reference
          and r.unlisted_since is null
      ) k`;

/**
 * SQL: true if rows may be sent from this database by this version of the program, and pushes of
 * this client are not paused.
 */
const mayPush = (client: unknown, newestMigration: string) =>
  sql`((select sync.pushes_allowed())
    and (select max(m.name) from sync.migrations m) <= ${newestMigration} and not exists (
    select from sync.pauses p where p.client in ('', ${client}) and p.job = 'push-outbox'))`;

const readNewestMigration = async () => (await readKnownMigrations()).at(-1)?.name ?? '';

/** Work that is due for a client. */
export interface DueWork {
  readonly client: string;
  /**
   * Milliseconds until the next row is due to be sent, without held kinds. Null: there is
   * none.
   */
  readonly pendingInMs: number | null;
  /** Milliseconds until the next look-up is due. Null: there is none. */
  readonly unknownInMs: number | null;
  /**
   * Milliseconds until no worker looks for rows of the client by itself any more, if one has said
   * that it does. Negative: since then, at most `lastLookMs`.
   */
  readonly awakeInMs: number | null;
  /**
   * Health of the client and of its kinds, if they are held, were held or had failures
   * recently.
   */
  readonly health: readonly CurrentHealth[];
}

/** Which kinds to look for. */
export interface DueKinds {
  readonly worker: string;
  /** The kinds that the worker can send. */
  readonly names: readonly string[];
  /** The kinds that are looked up when their outcome is unknown. */
  readonly lookedUp: readonly string[];
}

/**
 * SQL of a recursive query: the clients that have rows of a status. Each step is two searches of
 * indexes, from one such client to the next known one that may have some: neither clients without
 * rows, nor those that an ERP has invented, are read one by one.
 * @param order the columns of the index of such rows, which begins with the client
 */
function selectClientsWithRows(name: string, status: string, order: string): RawBuilder<unknown> {
  const self = sql.ref(name);
  const first = (where: RawBuilder<unknown>) => sql`
        select o.client
        from fulfilment.outbox o
        where o.status = ${sql.lit(status)} and ${where}
        order by ${sql.raw(order)}
        limit 1`;

  return sql`${self} (client) as (
      (${first(sql`true`)})
      union all
      select n.client
      from ${self} w
      cross join lateral (
        select c.client
        from sync.clients c
        where c.client > w.client
        order by c.client
        limit 1
      ) k
      cross join lateral (${first(sql`o.client >= k.client`)}) n
    )`;
}

/**
 * Reads the due work of each client. Clients without rows and without trouble are left out, and so
 * are clients for which nothing may be pushed.
 */
export async function readDueWork(
  db: Kysely<DB>,
  clients: readonly ClientAccount[],
  { worker, ...kinds }: DueKinds,
): Promise<DueWork[]> {
  const { rows } = await sql<DueWork & { readonly identity: string }>`
    with recursive
    ${selectClientsWithRows('waiting', 'pending', 'o.client, o.kind, o.next_attempt_at, o.id')},
    ${selectClientsWithRows('unsettled', 'unknown', 'o.client, o.next_attempt_at, o.id')},
    concerned as (
      select client
      from waiting
      union
      select client
      from unsettled
      union
      select client
      from sync.service_health h
      where h.worker in (${everyWorker}, ${worker}) and ${isValid}
      union
      select client
      from sync.awake_clients a
      where a.awake_until > clock_timestamp() - make_interval(secs => ${lastLookMs / 1_000})
    )
    select c.client, c.identity, (
        select min(d.in_ms)
        from unnest(${kinds.names}::text[]) as k (kind)
        cross join lateral (
          select (extract(epoch from o.next_attempt_at - clock_timestamp()) * 1000)::float8 as in_ms
          from fulfilment.outbox o
          where o.client = c.client and o.kind = k.kind and o.status = 'pending'
          order by o.next_attempt_at
          limit 1
        ) d
        where c.client in (select client from waiting)
          and not exists (
            select from sync.service_health h where h.client = c.client and h.scope = k.kind
              and ${isValid} and ${holds})
      ) as "pendingInMs", (
        select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'unknown'
          and o.kind = any(${kinds.lookedUp}::text[])
      ) as "unknownInMs", (
        select (extract(epoch from a.awake_until - clock_timestamp()) * 1000)::float8
        from sync.awake_clients a
        where a.client = c.client
          and a.awake_until > clock_timestamp() - make_interval(secs => ${lastLookMs / 1_000})
      ) as "awakeInMs",
      coalesce((
        select json_agg(json_build_object('scope', h.scope, 'code', h.code, 'sendWindow',
          h.send_window,
          'untilInMs', extract(epoch from h.next_at - clock_timestamp())::float8 * 1000))
        from sync.service_health h
        where h.client = c.client and h.worker in (${everyWorker}, ${worker}) and ${isValid}
          and h.scope = any(array[${clientScope}] || ${kinds.names}::text[])
      ), '[]') as health
    from concerned
    join sync.clients c on c.client = concerned.client
    where ${mayPush(sql`c.client`, await readNewestMigration())}`.execute(db);
  const toNonNegative = (ms: number | null) => (ms === null ? null : Math.max(0, ms));

  // The list of all clients of a worker would cost more than the search itself.
  const own = new Map(clients.map(({ client, identity }) => [client, identity]));

  return rows
    .filter(({ client, identity }) => own.get(client) === identity)
    .filter(
      ({ pendingInMs, unknownInMs, awakeInMs, health }) =>
        pendingInMs !== null || unknownInMs !== null || awakeInMs !== null || health.length > 0,
    )
    .map(({ identity: _identity, ...row }) => ({
      ...row,
      pendingInMs: toNonNegative(row.pendingInMs),
      unknownInMs: toNonNegative(row.unknownInMs),
    }));
}
