/** The one walk that masks personal columns. Each erasure chooses its rows by places. */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import { isObject, type Json, parseExact } from '../../core/json.ts';
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

/** Columns with the time of the change, if it is not `changed_at`; null: a table has none. */
const otherStamps: { readonly [Table in PersonalTable]?: string | null } = {
  documents: 'erased_at',
  track_trace_events: null,
};

/** Documents with more characters than this hold a file. */
const maxDocumentLength = 100_000;

/** SQL: a document; an empty one instead of a file, of which nothing is kept. */
export const withoutFile = (document: RawBuilder<unknown>) => sql`case
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
  const key = otherKeys[table] ?? ['id'];
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
