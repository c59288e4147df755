/**
 * The tables of an order, and the one walk that masks their personal columns. Each erasure chooses
 * its rows by places.
 */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import { erasedError, maskRow } from '../../pull/sql/erasures.ts';
import type { Change } from '../../pull/sql/feed.ts';
import { columnRefs, tableRef } from '../../pull/sql/mirror-tables.ts';
import { findPersonalTable } from '../personal-columns.ts';

/** Rows to mask: the name of a table, and SQL that is true for its rows t. */
export type Place = readonly [string, RawBuilder<unknown>];

/** SQL: true for the rows t with one of these ids in a column. */
export const isAny = (column: string, ids: readonly number[]) =>
  sql`${sql.ref(`t.${column}`)} = any(${ids}::bigint[])`;

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
const otherStamps: Readonly<Record<string, string | null>> = {
  documents: 'erased_at',
  outbox: 'erased_at',
  track_trace_events: null,
};
/** Tables whose rows are not named in the feed when they are masked. */
const unnamedTables = ['outbox', 'track_trace_events'];

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
    if (!unnamedTables.includes(table)) for (const change of masked) changes.push(change);
  }

  return { counts, changes };
}

async function maskPlace(
  trx: Transaction<DB>,
  client: string,
  name: string,
  where: RawBuilder<unknown>,
): Promise<Change[]> {
  const table = findPersonalTable(name);
  const { key } = table;
  const columns = Object.keys(table.personal ?? {});
  const { [name]: stamp = 'changed_at' } = otherStamps;
  const written: object[] = [];
  const changes: Change[] = [];

  for (const row of await lockRows(trx, client, name, where)) {
    const masked = maskRow(table, row);
    const isChanged = (column: string) =>
      JSON.stringify(row[column]) !== JSON.stringify(masked[column]);
    const changedColumns = columns.filter(isChanged);
    if (stamp === 'erased_at' && row[stamp] === null) changedColumns.push(stamp);
    if (changedColumns.length === 0) continue;

    written.push(
      Object.fromEntries([...key, ...columns].map((column) => [column, masked[column]])),
    );
    changes.push({
      entity: name,
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
    update ${tableRef(name)} t
    set ${sql.join(assignments)}
    from jsonb_populate_recordset(null::${tableRef(name)}, ${JSON.stringify(written)}::jsonb) i
    where t.client = ${anyClient(client)}
      and (${columnRefs(key, 't')}) = (${columnRefs(key, 'i')})`.execute(trx);
  return changes;
}

/** Documents with more characters than this, beside their files, are emptied. */
const maxDocumentLength = 100_000;

/** SQL: a document without its files; an empty one if it is still long, or no object. */
const withoutFile = (column: string) => {
  const document = sql.ref(`t.${column}`);
  const rest = sql`(${document} - 'attachments' - 'content')`;
  return sql`case
    when jsonb_typeof(${document}) <> 'object' then '{}'::jsonb
    when length(${rest}::text) > ${maxDocumentLength} then '{}'::jsonb
    else ${rest} end`;
};

/** Reads rows without writing them, and locks them until the transaction ends. */
async function lockRows(
  trx: Transaction<DB>,
  client: string,
  name: string,
  where: RawBuilder<unknown>,
): Promise<Readonly<Record<string, Json>>[]> {
  const effects = Object.entries(findPersonalTable(name).personal ?? {});
  const documents = effects.flatMap(([column, effect]) =>
    effect === 'file' ? [sql`${column}::text, ${withoutFile(column)}`] : [],
  );

  const { rows } = await sql<{ row: string }>`
    select (to_jsonb(t) || jsonb_build_object(${sql.join(documents)}))::text as row
    from ${tableRef(name)} t
    where t.client = ${anyClient(client)} and ${where}
    for update`.execute(trx);
  return rows.map(({ row }) => parseExact(row)).filter(isObject);
}

/**
 * Removes the personal data of outbox rows: payload, result, errors and history. A dead row becomes
 * cancelled: what is left of its payload must never be sent.
 * @param by the name for the record: a worker or a person
 * @returns the number of rows that were changed, and of those that were cancelled
 */
export async function maskOutboxRows(
  trx: Transaction<DB>,
  { client, by }: { readonly client: string; readonly by: string },
  ids: readonly number[],
): Promise<{ readonly rows: number; readonly cancelled: number }> {
  const { rows: cancelled } = await sql<{ id: number }>`
    with cancelled as (
      update fulfilment.outbox
      set status = 'cancelled'
      where id = ${anyId(ids)} and status = 'dead'
      returning id
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became)
    select id, 'cancelled', ${by}, 'cancelled'
    from cancelled
    returning outbox_id as id`.execute(trx);

  const { counts } = await maskRows(trx, client, [
    ['outbox', sql`t.id = ${anyId(ids)} and t.status in ('done', 'cancelled')`],
  ]);
  await trx
    .updateTable('sync.outbox_attempts')
    .set({ error: erasedError })
    .where('outbox_id', '=', anyId(ids))
    .where('error', '<>', erasedError)
    .execute();

  return { rows: counts.outbox ?? 0, cancelled: cancelled.length };
}
