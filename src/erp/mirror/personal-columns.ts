import type { Json } from '../../core/json.ts';
import { maskJson, toPostcodeArea } from '../../core/personal-data.ts';
import { streamColumns } from '../generated/stream-columns.ts';
import type { Family, MirrorRow } from './mirror-tables.ts';

/** The effect of erasing on a column: it becomes null, or JSON is masked, or only the area of a postcode stays. */
type Effect = 'null' | 'mask' | 'area';

/**
 * The columns with personal data of each table that holds resources of an order. Other columns are not changed. Those
 * of the tables of streams follow from the streams.
 */
export const personalColumns = {
  ...streamColumns,
  parcels: {
    track_and_trace_code: 'null',
    track_and_trace_bar_code: 'null',
    tracking_number: 'null',
    raw: 'mask',
  },
  track_traces: { raw: 'mask' },
  track_trace_events: { raw: 'mask' },
  documents: { file_name: 'null', result: 'mask' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Effect>>>>;

export type PersonalTable = keyof typeof personalColumns;

/** Types of the columns with personal data that are not text. */
const otherTypes: Readonly<Record<string, string>> = {
  metadata: 'jsonb',
  pick_up_point: 'jsonb',
  pick_up_point_id: 'bigint',
  raw: 'jsonb',
  result: 'jsonb',
};

/** Returns the SQL type of a column with personal data. */
export const findColumnType = (column: string): string => otherTypes[column] ?? 'text';

/** Returns the columns of a table that hold personal data, with the effect of erasing; none for other tables. */
function findEffects(table: string): readonly (readonly [string, Effect])[] {
  const tables: Readonly<Record<string, Readonly<Record<string, Effect>>>> = personalColumns;
  return Object.entries(tables[table] ?? {});
}

const change = (effect: Effect, value: unknown) => {
  if (effect === 'null' || value === null || value === undefined) return null;
  return effect === 'area' ? toPostcodeArea(value) : maskJson(value as Json);
};

/** Returns a row of a table without personal data. */
export function maskRow<Row extends { readonly [column: string]: unknown }>(table: string, row: Row): Row {
  const masked = findEffects(table).map(([column, effect]) => [column, change(effect, row[column])]);
  return { ...row, ...Object.fromEntries(masked) };
}

/** Returns a family without personal data. */
export function maskFamily(parentTable: string, { parent, children }: Family): Family {
  return {
    parent: maskRow(parentTable, parent),
    children: children.map((set) => ({
      ...set,
      rows: set.rows.map((row): MirrorRow => maskRow(set.table, row)),
    })),
  };
}
