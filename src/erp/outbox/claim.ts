/**
 * The outbox: claims, settlements, look-ups, holds, send rates and what operators do. A row is sent only under a
 * claim, and only a claim that is still held settles it.
 */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import { claimSpan } from './claims-held.ts';
import { mayPush, pendingKinds } from './due.ts';
import { hampers, holds, lockFew } from './holds.ts';
import { judged, lingers, type WaitRule } from './lane-order.ts';

/** So many due rows are looked through for heads of lanes, where a short look did not fill the slots. */
const wideWindow = 100;
/** Bytes of payloads that one claim reads, unless its first row alone is larger; as JSON in JSON they may be twice as many. */
const mostBytes = 8 * 1024 * 1024;

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
  /** Times it was sent in vain, since the last attempt that counted, for reasons that are not its own. */
  readonly unburnt: number;
  /** When it was due, for who gives it back. */
  readonly dueAt: string;
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
   * Kinds that were perhaps carried out and sent again: for this long after that first attempt it may still take effect, and
   * must not undo what follows in the lane.
   */
  readonly lingering: { readonly kinds: readonly string[]; readonly ms: number };
  /** Kinds whose rows wait for rows of another kind: those whose references stand in a list of their payload. */
  readonly waits: readonly WaitRule[];
  /** Only rows of this kind (empty: of the client), of which few may be under way at a time: those that never failed first. */
  readonly few?: { readonly kind: string };
}

/** What a claim brought. */
export interface Claim {
  readonly rows: readonly ClaimedRow[];
  /** Whether it was worth its while: rows that are not first in their lane were put off, and others may be due behind them. */
  readonly putOff: number;
}

/**
 * Claims rows of one client that are due and first in their lane, at most `slots`, longest due first. What is due but not
 * first is put off. Of kinds that are held nothing is looked at, however many rows they have.
 */
export async function claimRows(db: Kysely<DB>, options: ClaimOptions): Promise<Claim> {
  if (options.few !== undefined) return claimFew(db, { ...options, few: options.few });
  const window = Math.min(wideWindow, options.slots * 4);
  const near = await claimWithin(db, options, window);
  if (near.rows.length === options.slots || near.seen < window) return near;
  const wide = await claimWithin(db, { ...options, slots: options.slots - near.rows.length }, wideWindow);
  return { rows: [...near.rows, ...wide.rows], putOff: near.putOff + wide.putOff };
}

/** Of what few rows may be under way, one worker claims at a time: the room is counted after the lock is had. */
function claimFew(db: Kysely<DB>, options: ClaimOptions & { readonly few: { readonly kind: string } }): Promise<Claim> {
  return db.transaction().execute(async (trx) => {
    const isMine = await lockFew(trx, { client: options.client, kind: options.few.kind });
    return isMine ? claimWithin(trx, options, wideWindow) : { rows: [], putOff: 0 };
  });
}

async function claimWithin(
  db: Kysely<DB>,
  options: ClaimOptions,
  window: number,
): Promise<Claim & { readonly seen: number }> {
  const { client, slots, stamped, few } = options;
  const most = few === undefined ? sql`${slots}::int` : sql`(select coalesce(max(rows), 0) from room)`;
  const { rows } = await sql<{ rows: ClaimedRow[]; seen: number; putOff: number }>`
    with recursive ${kindsDue(options)}, ${few === undefined ? sql`` : roomFor(client, few.kind, slots)}
    seen as materialized (
      select d.*
      from kinds k
      cross join lateral (
        select o.id, o.next_attempt_at, o.attempts > o.bounded_attempts or o.unburnt > 0 as failed
        from fulfilment.outbox o
        where o.client = ${client} and o.kind = k.kind and o.status = 'pending'
          and o.next_attempt_at <= statement_timestamp()
        order by o.next_attempt_at, o.id
        limit ${window}
      ) d
      order by d.next_attempt_at, d.id
      limit ${window}
    ), locked as materialized (
      -- What was seen is checked again under the lock: a row that was woken or put off meanwhile is another's to judge.
      -- One by one: a join would go through all pending rows where statistics know few.
      select l.*
      from seen s
      cross join lateral (
        select o.id, o.kind, o.family, o.reference, s.next_attempt_at as due_at, s.failed,
          o.written_at > statement_timestamp() - ${lingers(options)} and o.replaced_at > o.written_at
            and o.kind = any(${options.lingering.kinds}::text[]) as was_replaced, o.written_at
        from fulfilment.outbox o
        where o.id = s.id and o.status = 'pending' and o.next_attempt_at = s.next_attempt_at and ${most} > 0
        for update of o skip locked
      ) l
    ), ${judged(options)}, put_off as (
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
        -- What takes little room can hardly be large; the rest is read to be measured.
        select f.id, f.due_at, f.place, sum(
          case when pg_column_size(o.payload) > 1000 then octet_length(o.payload::text) else 1000 end
        ) over (order by f.place) as bytes
        from first f
        join fulfilment.outbox o on o.id = f.id
        where f.place <= ${most}
      ) f
      where f.place = 1 or f.bytes <= ${mostBytes}
    ), numbered as materialized (select nextval('sync.read_no') as claim_no), c as (
      update fulfilment.outbox o
      set status = 'sending', next_attempt_at = null, claim_no = n.claim_no,
        lease_until = statement_timestamp() + ${claimSpan}, attempts = o.attempts + 1,
        -- Waiting is not trying: the age counts from the first attempt that counts.
        bounded_from = case when o.attempts = o.bounded_attempts then statement_timestamp() else o.bounded_from end,
        sent_at = case when o.kind = any(${stamped}::text[]) and (o.written_at is null or o.absences >= 2)
                       then statement_timestamp() end
      from heads h, numbered n
      where o.id = h.id
      returning o.*, h.due_at
    )
    select (select count(*)::int from seen) as seen, (select count(not_before)::int from judged) as "putOff",
      coalesce((select json_agg(${claimedJson} order by c.due_at, c.id) from c), '[]') as rows`.execute(db);
  const { rows: claimed, seen, putOff } = rows[0] as { rows: ClaimedRow[]; seen: number; putOff: number };
  return { rows: claimed, seen, putOff };
}

/** SQL: the kinds of which rows may be claimed. */
function kindsDue({ client, identity, few }: ClaimOptions) {
  const held = (kind: RawBuilder<unknown>, how: RawBuilder<unknown>) =>
    sql`exists (select from sync.push_holds h where h.client = ${client} and h.kind = ${kind} and ${how})`;
  const mayClaim = few === undefined ? sql`not ${held(sql`''`, hampers)}` : sql`true`;
  const ofClient = sql`not ${held(sql`n.kind`, few === undefined ? hampers : holds)}`;
  const wanted = few === undefined || few.kind === '' ? ofClient : sql`n.kind = ${few.kind}`;
  return sql`${pendingKinds(client, sql`(select ${mayPush(client, identity)}) and ${mayClaim}`)},
    kinds as materialized (select n.kind from named n where n.kind is not null and ${wanted})`;
}

/** SQL: how many more rows may be under way of a client (kind empty) or kind of which few may be. */
function roomFor(client: string, kind: string, slots: number) {
  return sql`room as materialized (
      select greatest(0, least(${slots}, h.send_window - (
        select count(*) from fulfilment.outbox o
        where o.client = ${client} and o.status = 'sending' and (${kind} = '' or o.kind = ${kind})
          -- What a lost worker left behind is not under way: a claim that is kept lasts 7 s longer at least.
          and o.lease_until > statement_timestamp() + interval '5 seconds')))::int as rows
      from sync.push_holds h
      where h.client = ${client} and h.kind = ${kind} and not ${holds} and h.send_window is not null
    ),`;
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
  'unburnt', c.unburnt, 'dueAt', c.due_at,
  'ageMs', extract(epoch from statement_timestamp() - c.bounded_from)::float8 * 1000,
  'stamped', c.sent_at is not null, 'mayBeWritten', c.written_at is not null, 'cleared', c.absences >= 2,
  'knownId', ${known(sql`max(r.id)`)}, 'knownCount', coalesce(${known(sql`count(*)`)}, 0))`;
