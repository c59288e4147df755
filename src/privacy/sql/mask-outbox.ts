import { sql, type Transaction } from 'kysely';
import { parseExact } from '../../core/json.ts';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { withoutFile } from './mask-rows.ts';

/** The text that replaces an error, which may repeat words of the payload or of the service. */
const erasedError = 'erased';

const maskText = (text: string) => maskJson(parseExact(text));

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
  const { rows } = await sql<{
    id: number;
    status: string;
    payload: string;
    result: string | null;
  }>`
    select o.id, o.status, (${withoutFile(sql`o.result`)})::text as result,
      (${withoutFile(sql`o.payload - 'attachments' - 'content'`)})::text as payload
    from fulfilment.outbox o
    where o.id = any(${ids}::bigint[]) and o.erased_at is null
      and o.status in ('done', 'dead', 'cancelled')`.execute(trx);
  if (rows.length === 0) return { rows: 0, cancelled: 0 };

  const masked = rows.map(({ result, payload, ...row }) => ({
    ...row,
    payload: maskText(payload),
    result: result === null ? null : maskText(result),
  }));

  await sql`
    with m as materialized (
      select *
      from jsonb_to_recordset(${JSON.stringify(masked)}::jsonb)
        as m (id bigint, status text, payload jsonb, result jsonb)
    ), changed as (
      update fulfilment.outbox o
      set payload = m.payload, result = m.result, refusal = null, erased_at = now(),
        last_error = case when o.last_error is not null then ${erasedError} end,
        status = case when o.status = 'dead' then 'cancelled' else o.status end
      from m
      where o.id = m.id
    ), history as (
      update sync.outbox_attempts a
      set error = ${erasedError}
      from m
      where a.outbox_id = m.id and a.error <> ${erasedError}
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became)
    select m.id, 'cancelled', ${by}, 'cancelled'
    from m
    where m.status = 'dead'`.execute(trx);

  return {
    rows: rows.length,
    cancelled: rows.filter(({ status }) => status === 'dead').length,
  };
}
