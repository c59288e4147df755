/**
 * The tables of an order, and the one walk that masks their personal columns. Each erasure chooses
 * its rows by places.
 */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { maskRow, type PersonalTable, personalColumns } from '../../pull/sql/erasures.ts';
import type { Change } from '../../pull/sql/feed.ts';
import { columnRefs, tableRef } from '../../pull/sql/mirror-tables.ts';

/** Rows to mask: a table, and SQL that is true for its rows t. */
export type Place = readonly [PersonalTable, RawBuilder<unknown>];

/** SQL: true for the rows t with one of these ids in a column. */
export const isAny = (column: string, ids: readonly number[]) =>
  sql`${sql.ref(`t.${column}`)} = any(${ids}::bigint[])`;

/** Columns of keys beside the client. They also name a row in the feed. */
const otherKeys: { readonly [Table in PersonalTable]?: readonly string[] } = {
  order_addresses: ['order_id', 'role'],
  parcels: ['shipment_id', 'package_number'],
  track_traces: ['shipment_id', 'package_number'],
};

const findKey = (table: PersonalTable) => otherKeys[table] ?? ['id'];

/** SQL: the id and the key by which the feed names a row t. */
export function selectFeedName(table: PersonalTable): RawBuilder<unknown> {
  const key = findKey(table).map((column) => sql.ref(`t.${column}`));
  const joined = sql.join(key, sql` || ':' || `);
  return key.length === 1
    ? sql`t.id, null::text as key`
    : sql`null::bigint as id, ${joined} as key`;
}

/** Lists where each mirrored table has rows of these orders, parents before their children. */
export function listOrderTables(client: string, orderIds: readonly number[]): readonly Place[] {
  const ofOrder = isAny('order_id', orderIds);
  /** SQL: ids of rows i of a table that belong to shipments s of the orders. */
  const selectOfShipments = (table: string, shipmentId = 'i.shipment_id') => sql`
    select i.id
    from fulfilment.shipments s
    join ${tableRef(table)} i on i.client = s.client and ${sql.ref(shipmentId)} = s.id
    where s.client = ${anyClient(client)} and s.order_id = any(${orderIds}::bigint[])`;

  const ofShipment = sql`t.shipment_id in (${selectOfShipments('shipments', 'i.id')})`;
  const ofReturn = sql`t.return_merchandise_authorization_id in (
    ${selectOfShipments('return_merchandise_authorizations')})`;
  const ofLine = sql`t.order_id is null and (
    t.order_item_id in (
      select i.id
      from fulfilment.order_items i
      where i.client = ${anyClient(client)} and i.order_id = any(${orderIds}::bigint[]))
    or t.shipment_item_id in (${selectOfShipments('shipment_items')})
    or t.return_merchandise_authorization_item_id in (
      select n.id
      from fulfilment.return_merchandise_authorization_items n
      where n.client = ${anyClient(client)} and (
        n.return_merchandise_authorization_id in (
          ${selectOfShipments('return_merchandise_authorizations')})
        or n.shipment_item_id in (${selectOfShipments('shipment_items')}))))`;

  return [
    ['orders', isAny('id', orderIds)],
    ['order_addresses', ofOrder],
    ['order_items', ofOrder],
    ['shipments', ofOrder],
    ['shipment_items', ofShipment],
    ['track_traces', ofShipment],
    ['parcels', ofShipment],
    ['return_items', ofOrder],
    ['return_items', ofLine],
    ['return_merchandise_authorizations', ofShipment],
    ['return_merchandise_authorization_items', ofReturn],
  ];
}

/** Columns with the time of the change, if it is not `changed_at`; null: a table has none. */
const otherStamps: { readonly [Table in PersonalTable]?: string | null } = {
  documents: 'erased_at',
  track_trace_events: null,
};

/** Documents with more characters than this hold a file. */
const maxDocumentLength = 100_000;

/** SQL: a document; an empty one instead of a file, of which nothing is kept. */
const withoutFile = (document: RawBuilder<unknown>) => sql`case
  when length((${document})::text) > ${maxDocumentLength} then '{}'::jsonb else ${document} end`;

/**
 * Masks the personal columns of rows. Rows that hold no personal data are not written.
 * @returns the number of masked rows by table, and their entries for the feed
 */
export async function maskRows(trx: Transaction<DB>, client: string, places: readonly Place[]) {
  const counts: Record<string, number> = {};
  const changes: Change[] = [];

  for (const [table, where] of places) {
    const masked = await maskPlace(trx, client, table, where);
    if (masked.length > 0) counts[table] = (counts[table] ?? 0) + masked.length;
    // The feed does not name events of packages.
    if (table !== 'track_trace_events') for (const change of masked) changes.push(change);
  }

  return { counts, changes };
}

type StoredRow = Readonly<Record<string, Json>>;

async function maskPlace(
  trx: Transaction<DB>,
  client: string,
  table: PersonalTable,
  where: RawBuilder<unknown>,
): Promise<Change[]> {
  const key = findKey(table);
  const columns = Object.keys(personalColumns[table]);
  const stamp = otherStamps[table] === undefined ? 'changed_at' : otherStamps[table];
  const written: object[] = [];
  const changes: Change[] = [];

  for (const row of await lockRows(trx, client, table, where)) {
    const masked = maskRow(table, row);
    const isChanged = (column: string) =>
      JSON.stringify(row[column]) !== JSON.stringify(masked[column]);
    const changedColumns = columns.filter(isChanged);
    if (stamp === 'erased_at' && row[stamp] === null) changedColumns.push(stamp);
    if (changedColumns.length === 0) continue;

    written.push(Object.fromEntries([...key, ...columns].map((name) => [name, masked[name]])));
    changes.push({
      entity: table,
      id: typeof row.id === 'number' ? row.id : null,
      key: key.length === 1 ? null : key.map((column) => String(row[column])).join(':'),
      operation: 'updated',
      changedColumns,
    });
  }

  if (written.length === 0) return changes;
  const assignments = columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`i.${column}`)}`);
  if (stamp !== null) assignments.push(sql`${sql.ref(stamp)} = now()`);
  await sql`
    update ${tableRef(table)} t
    set ${sql.join(assignments)}
    from jsonb_populate_recordset(null::${tableRef(table)}, ${JSON.stringify(written)}::jsonb) i
    where t.client = ${anyClient(client)}
      and (${columnRefs(key, 't')}) = (${columnRefs(key, 'i')})`.execute(trx);
  return changes;
}

/** Reads rows without writing them, and locks them until the transaction ends. */
async function lockRows(
  trx: Transaction<DB>,
  client: string,
  table: PersonalTable,
  where: RawBuilder<unknown>,
): Promise<StoredRow[]> {
  const row =
    table === 'documents'
      ? sql`to_jsonb(t) || jsonb_build_object('result', ${withoutFile(sql`t.result`)})`
      : sql`to_jsonb(t)`;

  const { rows } = await sql<{ row: string }>`
    select (${row})::text as row
    from ${tableRef(table)} t
    where t.client = ${anyClient(client)} and ${where}
    for update`.execute(trx);
  return rows.map(({ row }) => parseExact(row)).filter(isObject);
}

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
