import { sql, type Transaction } from 'kysely';
import { parseExact } from '../../core/json.ts';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { OrderScope } from './order-tables.ts';

/** An outbox row of an order. */
export interface OrderOutboxRow {
  readonly id: number;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
  /** True if the service may have carried it out. */
  readonly mayBeCarriedOut: boolean;
}

/**
 * Finds the outbox rows of orders, and locks them until the transaction ends: those with a number
 * of the order, unless they name or mean another order, and the announcements of returns.
 */
export async function lockOrderRows(
  trx: Transaction<DB>,
  scope: OrderScope,
): Promise<OrderOutboxRow[]> {
  const { client, numbers, shipmentIds, returnReferences } = scope;

  const { rows } = await sql<OrderOutboxRow>`
    with named as (
      select *
      from unnest(${numbers.map(({ number }) => number)}::text[],
        ${numbers.map(({ id }) => id)}::bigint[],
        ${numbers.map(({ after }) => after)}::bigint[],
          ${numbers.map(({ before }) => before)}::bigint[])
        as n (number, order_id, after, before)
    ), found as materialized (
      select o.id
      from named n
      join fulfilment.outbox o on o.client = ${anyClient(client)} and o.reference = n.number
        and o.family = 'order'
      left join sync.outbox_targets t on t.outbox_id = o.id
      cross join lateral (values (coalesce(t.target_id::text, o.result ->> 'orderId')))
        as a (order_id)
      where a.order_id = n.order_id::text or (a.order_id is null
        and o.id > coalesce(n.after, 0) and (n.before is null or o.id < n.before))
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.reference = any(${returnReferences}::text[])
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.payload ->> 'shipmentId' = any(${shipmentIds.map(String)}::text[])
    )
    select o.id, o.kind, o.reference, o.status, o.written_at is not null as "mayBeCarriedOut"
    from fulfilment.outbox o
    where o.id in (select id from found)
    order by o.id
    for update`.execute(trx);
  return rows;
}

/** The text that replaces an error, which may repeat words of the payload or of the service. */
const erasedError = 'erased';
/** Payloads and results longer than this hold a document; nothing of them is kept. */
const maxLength = 100_000;

/**
 * Removes the personal data of rows: payload, result, errors and history. A dead row becomes
 * cancelled: what is left of its payload must never be sent.
 * @returns the number of rows that were changed, and of those that were cancelled
 */
export async function maskOutboxRows(
  trx: Transaction<DB>,
  by: string,
  ids: readonly number[],
): Promise<{ readonly rows: number; readonly cancelled: number }> {
  const { rows: read } = await sql<{
    id: number;
    status: string;
    payload: string;
    result: string | null;
  }>`
    select o.id, o.status, o.result::text as result,
      case when length(o.payload::text) <= ${maxLength} then o.payload::text
        else (o.payload - 'attachments' - 'content')::text end as payload
    from fulfilment.outbox o
    where o.id = any(${ids}::bigint[]) and o.erased_at is null
      and o.status in ('done', 'dead', 'cancelled')`.execute(trx);
  if (read.length === 0) return { rows: 0, cancelled: 0 };

  const masked = read.map(({ id, payload, result }) => ({
    id,
    payload: maskText(payload),
    result: result === null ? null : maskText(result),
  }));

  const dead = read.filter(({ status }) => status === 'dead').map(({ id }) => id);
  await sql`
    with changed as (
      update fulfilment.outbox o
      set payload = m.payload, result = m.result, refusal = null, erased_at = now(),
        last_error = case when o.last_error is not null then ${erasedError} end,
        status = case when o.status = 'dead' then 'cancelled' else o.status end
      from jsonb_to_recordset(${JSON.stringify(masked)}::jsonb)
        as m (id bigint, payload jsonb, result jsonb)
      where o.id = m.id
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became)
    select id, 'cancelled', ${by}, 'cancelled'
    from unnest(${dead}::bigint[]) as d (id)`.execute(trx);

  await sql`
    update sync.outbox_attempts a
    set error = ${erasedError}
    where a.outbox_id = any(${masked.map(({ id }) => id)}::bigint[])
      and a.error <> ${erasedError}`.execute(trx);

  return { rows: masked.length, cancelled: dead.length };
}

function maskText(text: string) {
  return text.length > maxLength ? {} : maskJson(parseExact(text));
}
