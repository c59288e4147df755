/** Which columns of tables and views hold personal data. */

import type { MirrorTable, PersonalColumns } from '../pull/sql/mirror-tables.ts';
import { packages, trackTraces } from '../pull/sql/parcel-rows.ts';
import { streams } from '../pull/streams/all-streams.ts';
import { authorizations } from '../pull/streams/authorizations.ts';

const makeTable = (name: string, personal: PersonalColumns): MirrorTable => ({
  ...{ name, key: ['id'], columns: { id: 'bigint' }, since: null, personal },
});

const tables: readonly MirrorTable[] = [
  ...[...streams, authorizations].flatMap(({ tables: { parent, children } }) => [
    parent,
    ...children,
  ]),
  packages,
  trackTraces,
  makeTable('track_trace_events', { raw: 'mask' }),
  makeTable('documents', { file_name: 'null', result: 'file' }),
  makeTable('outbox', { payload: 'file', result: 'file', last_error: 'word', refusal: 'null' }),
];

const tablesByName = new Map(tables.map((table) => [table.name, table]));

/** Returns the table with this name, of which personal columns are masked. */
export function findPersonalTable(name: string): MirrorTable {
  const table = tablesByName.get(name);
  if (table === undefined) throw new TypeError(`${name} has no personal columns`);
  return table;
}

/**
 * The columns of views with personal data: those of their tables, and those that are made from
 * personal values, such as a tracking address with a code and a postcode. Words of others may quote
 * personal data.
 */
const derivedColumns: Readonly<Record<string, readonly string[]>> = {
  order_lines: ['name', 'metadata'],
  order_overview: ['email', 'problem'],
  outbox_open: ['because'],
  parcel_overview: [
    'track_and_trace_code',
    'track_and_trace_bar_code',
    'tracking_number',
    'tracking_url',
  ],
  return_overview: ['comment'],
  returns_to_restock: ['comment'],
  shipment_lines: ['track_and_trace_codes', 'tracking_url', 'tracking_urls'],
  shipment_overview: ['return_label', 'raw'],
};

/**
 * Returns the columns of a table or view of schema `fulfilment` that hold personal data. This list
 * decides what is erased, and what programs, events and people without that right do not see.
 */
export const findPersonalColumns = (relation: string): readonly string[] =>
  derivedColumns[relation] ?? Object.keys(tablesByName.get(relation)?.personal ?? {});
