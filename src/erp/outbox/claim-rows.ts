/**
 * The outbox: claims, settlements, look-ups, push holds, send rates and the actions of operators. A row is sent only
 * under a claim, and only a claim that is still held settles it.
 */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import { type ClaimedRow, claimedColumns, type ReadRow, selectKnown } from './claimed-row.ts';
import { mayPush, pendingKinds } from './due-work.ts';
import { claimSpan } from './held-claims.ts';
import { holds, restricts, tryLockHealth } from './holds.ts';
import { judgedRows, lingerSpan, type WaitRule } from './lane-order.ts';

/** Minimum number of due rows that are searched for heads of lanes if a shorter search found few. */
const minWideWindow = 100;
const toWideWindow = (slots: number) => Math.max(minWideWindow, slots * 4);
/**
 * Maximum bytes of payloads that one claim reads. A first row that is larger is read alone. As JSON inside JSON,
 * payloads can take twice as many bytes.
 */
const maxBytes = 8 * 1024 * 1024;

export interface ClaimOptions {
  readonly client: string;
  /** Fingerprint of the account. Nothing is claimed if another account was accepted for this client. */
  readonly identity: string;
  readonly slots: number;
  /**
   * Kinds that are looked up, and sent again if the service does not have them. The claim itself records the send for
   * their rows, which saves a statement.
   */
  readonly stamped: readonly string[];
  /**
   * Kinds that are sent again after an attempt with unknown outcome. The first attempt may take effect for `ms`
   * milliseconds more. It must not undo the rows behind it in the lane.
   */
  readonly lingering: { readonly kinds: readonly string[]; readonly ms: number };
  /** Kinds whose rows wait for rows of another kind. A list in their payload names the references. */
  readonly waits: readonly WaitRule[];
  /**
   * Claims only rows of this kind (empty: of the whole client), within its send window. Rows that never failed come
   * first.
   */
  readonly few?: { readonly kind: string };
}

/** Result of a claim. */
export interface ClaimResult {
  readonly rows: readonly ClaimedRow[];
  /** Number of rows postponed because an earlier row of their lane is still open. Other rows may be due behind them. */
  readonly putOff: number;
}

/**
 * Claims up to `slots` rows of one client that are due and first in their lane. The row that is due longest comes
 * first. Due rows that are not first are postponed. Rows of kinds with a push hold are not read at all, so their number
 * does not matter.
 */
export async function claimRows(db: Kysely<DB>, options: ClaimOptions): Promise<ClaimResult> {
  if (options.few !== undefined) return claimInSendWindow(db, { ...options, few: options.few });
  const { slots } = options;
  // Usually each lane has one row. To read and lock more rows than are wanted would cost more than it finds.
  const near = await claimWithin(db, options, slots);
  if (near.rows.length * 2 > slots || near.seen < slots) return near;
  const wide = await claimWithin(db, { ...options, slots: slots - near.rows.length }, toWideWindow(slots));
  return { rows: [...near.rows, ...wide.rows], putOff: near.putOff + wide.putOff };
}

/**
 * Claims rows within a send window. One worker at a time counts the free places, because it holds the lock on the
 * health.
 */
function claimInSendWindow(
  db: Kysely<DB>,
  options: ClaimOptions & { readonly few: { readonly kind: string } },
): Promise<ClaimResult> {
  return db.transaction().execute(async (trx) => {
    const isLocked = await tryLockHealth(trx, { client: options.client, kind: options.few.kind });
    return isLocked ? claimWithin(trx, options, toWideWindow(options.slots)) : { rows: [], putOff: 0 };
  });
}

async function claimWithin(
  db: Kysely<DB>,
  options: ClaimOptions,
  window: number,
): Promise<ClaimResult & { readonly seen: number }> {
  const { client, slots, stamped, few } = options;
  const maxRows = few === undefined ? sql`${slots}::int` : sql`(select coalesce(max(rows), 0) from room)`;
  const { rows } = await sql<ReadRow>`
    with recursive ${claimableKinds(options)}, ${few === undefined ? sql`` : roomInSendWindow(client, few.kind, slots)}
    seen as materialized (
      select d.*
      from kinds k
      cross join lateral (
        select o.id, o.next_attempt_at, o.attempts > o.bounded_attempts or o.refused_for_others > 0 as failed
        from fulfilment.outbox o
        where o.client = ${client} and o.kind = k.kind and o.status = 'pending'
          and o.next_attempt_at <= statement_timestamp()
        order by o.next_attempt_at, o.id
        limit ${window}
      ) d
      order by d.next_attempt_at, d.id
      limit ${window}
    ), locked as materialized (
      -- Check each row again under the lock: another worker may have woken or postponed it meanwhile. Read the rows one
      -- by one: a join would scan all pending rows if the statistics expect few.
      select l.*
      from seen s
      cross join lateral (
        select o.id, o.kind, o.family, o.reference, s.next_attempt_at as due_at, s.failed,
          o.written_at > statement_timestamp() - ${lingerSpan(options)} and o.replaced_at > o.written_at
            and o.kind = any(${options.lingering.kinds}::text[]) as was_replaced, o.written_at,
          o.not_before as earliest
        from fulfilment.outbox o
        where o.id = s.id and o.status = 'pending' and o.next_attempt_at = s.next_attempt_at and ${maxRows} > 0
        for update of o skip locked
      ) l
    ), ${judgedRows(options)}, put_off as (
      update fulfilment.outbox o
      set next_attempt_at = j.not_before
      from judged j
      where o.id = j.id and j.not_before is not null
    ), waiting as (
      insert into sync.outbox_waits (outbox_id, waits_for)
      select id, waits_for
      from judged
      where waits_for is not null and not_before is not null
      on conflict (outbox_id) do update set waits_for = excluded.waits_for
    ), first as materialized (
      select id, due_at, row_number() over (order by ${few === undefined ? sql`` : sql`failed,`} due_at, id) as place
      from judged
      where not_before is null
    ), heads as materialized (
      select id, due_at
      from (
        -- A payload that is stored in few bytes can hardly be large. Only the others are read to be measured.
        select f.id, f.due_at, f.place, sum(
          case when pg_column_size(o.payload) > 1000 then octet_length(o.payload::text) else 1000 end
        ) over (order by f.place) as bytes
        from first f
        join fulfilment.outbox o on o.id = f.id
        where f.place <= ${maxRows}
      ) f
      where f.place = 1 or f.bytes <= ${maxBytes}
    ), numbered as materialized (select nextval('sync.read_no') as claim_no), c as (
      update fulfilment.outbox o
      set status = 'sending', next_attempt_at = null, claim_no = n.claim_no,
        lease_until = statement_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
        -- Only attempts count: the age starts with the first attempt that counts.
        bounded_from = case when o.attempts = o.bounded_attempts then statement_timestamp() else o.bounded_from end,
        sent_at = case when o.kind = any(${stamped}::text[]) and (o.written_at is null or o.absences >= 2)
                       then statement_timestamp() end
      from heads h, numbered n
      where o.id = h.id
      returning o.*, h.due_at
    )
    select s.seen, s."putOff", ${claimedColumns}
    from (select (select count(*)::int from seen) as seen, (select count(not_before)::int from judged) as "putOff") s
    left join c on true
    cross join lateral (${selectKnown}) known
    order by c.due_at, c.id`.execute(db);
  return {
    rows: rows.flatMap(({ seen: _seen, putOff: _putOff, id, ...row }) => (id === null ? [] : [{ ...row, id }])),
    seen: rows[0]?.seen ?? 0,
    putOff: rows[0]?.putOff ?? 0,
  };
}

/** SQL: the kinds whose rows may be claimed. */
function claimableKinds({ client, identity, few }: ClaimOptions) {
  const hasHold = (kind: RawBuilder<unknown>, how: RawBuilder<unknown>) =>
    sql`exists (select from sync.push_holds h where h.client = ${client} and h.kind = ${kind} and ${how})`;
  const mayClaim = few === undefined ? sql`not ${hasHold(sql`''`, restricts)}` : sql`true`;
  const isFree = sql`not ${hasHold(sql`n.kind`, few === undefined ? restricts : holds)}`;
  const wanted = few === undefined || few.kind === '' ? isFree : sql`n.kind = ${few.kind}`;
  return sql`${pendingKinds(client, sql`(select ${mayPush(client, identity)}) and ${mayClaim}`)},
    kinds as materialized (select n.kind from named n where n.kind is not null and ${wanted})`;
}

/** SQL: how many more rows the send window of a client (kind empty) or kind allows. */
function roomInSendWindow(client: string, kind: string, slots: number) {
  return sql`room as materialized (
      select greatest(0, least(${slots}, h.send_window - (
        select count(*) from fulfilment.outbox o
        where o.client = ${client} and o.status = 'sending' and (${kind} = '' or o.kind = ${kind})
          -- Do not count the rows of lost workers: a claim that is renewed lasts at least 7 s longer.
          and o.lease_until > statement_timestamp() + interval '5 seconds')))::int as rows
      from sync.push_holds h
      where h.client = ${client} and h.kind = ${kind} and not ${holds} and h.send_window is not null
    ),`;
}
