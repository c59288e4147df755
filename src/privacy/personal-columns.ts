/** Which columns of tables and views hold personal data. */

import { streamColumns } from '../db/generated/stream-columns.ts';
import { personalColumns } from '../pull/sql/erasures.ts';

const tables: Readonly<Record<string, object>> = personalColumns;

/**
 * The columns of views and of the outbox with personal data: those of their tables, and those that
 * are made from personal values, such as a tracking address with a code and a postcode. Words of
 * others may quote personal data.
 */
const derivedColumns: Readonly<Record<string, readonly string[]>> = {
  order_lines: ['name', 'metadata'],
  order_overview: ['email', 'problem'],
  outbox: ['payload', 'result', 'last_error', 'refusal'],
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
  shipment_overview: Object.keys(streamColumns.shipments),
};

/**
 * Returns the columns of a table or view of schema `fulfilment` that hold personal data. This list
 * decides what is erased, and what programs, events and people without that right do not see.
 */
export const findPersonalColumns = (relation: string): readonly string[] =>
  derivedColumns[relation] ?? Object.keys(tables[relation] ?? {});
