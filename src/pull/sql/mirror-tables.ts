import { sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import { anyClient } from '../../db/values.ts';
import { changedColumnsOrNew } from './feed.ts';

/**
 * A row, by column. Times are ISO text with an offset. `id` is null only if it is no part of the
 * key.
 */
export type MirrorRow = {
  readonly id: number | null;
  readonly raw: Json;
  readonly [column: string]: unknown;
};
/**
 * A row of a resource, with its id. It has `read_no` if the rows of several readings are written at
 * once.
 */
type ParentRow = MirrorRow & { readonly id: number; readonly read_no?: number };

/** A table that mirrors one kind of resource. */
export interface MirrorTable {
  readonly name: string;
  /** Columns that come from the resource, with their SQL types. */
  readonly columns: Readonly<Record<string, string>>;
  /**
   * Columns that are filled from included resources. If a reading brings no value for one, its
   * stored value stays, unless the column that it depends on (`dependsOn`) changes.
   */
  readonly derived?: Readonly<
    Record<string, { readonly type: string; readonly dependsOn: string }>
  >;
}

/** A table of child rows. `parentColumn` holds the id of the parent. */
export interface ChildTable extends MirrorTable {
  readonly parentColumn: string;
  /**
   * Key columns beside the client; default: `id`. If set, the feed names rows by these values,
   * joined by colons.
   */
  readonly key?: readonly string[];
}

/** The tables of a family: the parent's table and the tables of its child rows. */
export interface MirrorTables {
  readonly parent: MirrorTable;
  readonly children: readonly ChildTable[];
}

/** The child rows of one parent in one table. */
interface ChildRows {
  /** Name of their table. */
  readonly table: string;
  readonly rows: readonly MirrorRow[];
  /** True if these are all child rows of the parent. Other stored ones are then removed. */
  readonly complete: boolean;
}

/** A parent with its child rows, read at one moment. */
export interface Family {
  readonly parent: ParentRow;
  readonly children: readonly ChildRows[];
}

/**
 * The parts of a stored row that are compared with a reading. `raw` finds every change at the
 * service; `columns` finds damage in our tables too.
 */
export type Comparison = 'raw' | 'columns';

export const tableRef = (name: string) => sql.table(`fulfilment.${name}`);

export const columnRefs = (columns: readonly string[], prefix?: string) =>
  sql.join(columns.map((column) => sql.ref(prefix === undefined ? column : `${prefix}.${column}`)));

/** Returns the key columns of a table, without the client. */
export const keyColumns = (table: MirrorTable | ChildTable): readonly string[] =>
  ('key' in table ? table.key : null) ?? ['id'];

/** Returns every column that a reading fills, `id` and `raw` included, with its type. */
export function columnTypes(table: MirrorTable): Readonly<Record<string, string>> {
  const derived = Object.entries(table.derived ?? {}).map(
    ([column, { type }]) => [column, type] as const,
  );
  return { id: 'bigint', ...table.columns, ...Object.fromEntries(derived), raw: 'jsonb' };
}

/**
 * Returns SQL: the stored rows whose `column` has one of these values, named t, to be joined with a
 * reading. They are looked up once for the whole page. The OFFSET keeps the planner from merging
 * this subquery with the join. Merged, it would search for each row of the reading or, without
 * statistics, read all rows of the client.
 */
export const rowsWhere = (
  table: MirrorTable | ChildTable,
  client: string,
  column: string,
  values: readonly unknown[],
) => sql`(
      select *
      from ${tableRef(table.name)}
      where client = ${anyClient(client)} and ${sql.ref(column)} = any(${values}::bigint[])
      offset 0) t`;

/**
 * Returns SQL: whether the stored row t and the reading i, both of one client, have the same key.
 */
export const hasSameKey = (table: MirrorTable | ChildTable) =>
  sql.join(
    keyColumns(table).map((column) => sql`${sql.ref(`t.${column}`)} = ${sql.ref(`i.${column}`)}`),
    sql` and `,
  );

/** Returns SQL: whether the stored row t differs from the reading `from`. */
export function differs(
  table: MirrorTable | ChildTable,
  compare: Comparison,
  from: 'i' | 'excluded',
) {
  const parent = 'parentColumn' in table ? [table.parentColumn] : [];
  const whole = [
    ...(keyColumns(table).includes('id') ? [] : ['id']),
    ...Object.keys(table.columns),
    'raw',
  ];
  const columns = compare === 'columns' ? whole : [...parent, 'raw'];
  const derived = Object.keys(table.derived ?? {}).map((column) => {
    const [stored, read] = [sql.ref(`t.${column}`), sql.ref(`${from}.${column}`)];
    return sql` or (${read} is not null and ${stored} is distinct from ${read})`;
  });
  // An unlisted child row that the reading brings counts as different, so that it is listed again.
  const unlisted =
    'parentColumn' in table && keyColumns(table).includes('id')
      ? sql` or t.unlisted_since is not null`
      : sql``;
  return sql`(
    (${columnRefs(columns, 't')}) is distinct from (${columnRefs(columns, from)})
    ${sql.join(derived, sql``)}${unlisted})`;
}

/** A row that was written, with the id and key that the feed uses. */
export interface WrittenRow {
  readonly id: number | null;
  readonly key: string | null;
  /** The names of the columns whose values differ from those before; null if the row is new. */
  readonly changedColumns: readonly string[] | null;
}

/**
 * Returns SQL: the id and the key of a row t in the feed. The key is null if the id identifies the
 * row.
 */
export const feedNames = (table: MirrorTable | ChildTable) =>
  'key' in table && table.key !== undefined
    ? sql`t.id, ${sql.join(
        table.key.map((column) => sql`t.${sql.ref(column)}`),
        sql` || ':' || `,
      )} as key`
    : sql`t.id, null as key`;

/** Returns SQL for the RETURNING of an upsert: `changedColumns` of the written row t. */
export function changedColumns(table: MirrorTable | ChildTable) {
  const key = keyColumns(table);
  const read = Object.keys(columnTypes(table)).filter((column) => !key.includes(column));
  return changedColumnsOrNew(
    tableRef(table.name),
    key,
    key.includes('id') ? [...read, 'unlisted_since'] : read,
  );
}

/** Returns what identifies a row in the feed: its key as text if the table has one, else its id. */
export const toFeedKey = (table: ChildTable, row: MirrorRow) =>
  table.key === undefined ? row.id : table.key.map((column) => String(row[column])).join(':');

/**
 * Returns the columns that a comparison needs, with their types. Comparing by `raw` needs few,
 * which saves work.
 */
export function comparedTypes(
  table: MirrorTable | ChildTable,
  compare: Comparison,
): Readonly<Record<string, string>> {
  const types = columnTypes(table);
  if (compare === 'columns') return types;
  const needed = new Set([...keyColumns(table), 'id', 'raw', ...Object.keys(table.derived ?? {})]);
  if ('parentColumn' in table) needed.add(table.parentColumn);
  return Object.fromEntries(Object.entries(types).filter(([column]) => needed.has(column)));
}

/** Returns the key columns of a table of child rows, with their types. */
export const keyTypes = (table: ChildTable): Readonly<Record<string, string>> => {
  const key = keyColumns(table);
  return Object.fromEntries(
    Object.entries(columnTypes(table)).filter(([column]) => key.includes(column)),
  );
};

/** Types whose values Postgres reads from the text of a JavaScript value, without quotes. */
const plainTypes = new Set(['bigint', 'boolean', 'date', 'integer', 'numeric', 'timestamptz']);

/**
 * Returns SQL: rows as a set with typed columns, named i. Columns that a row lacks are null.
 *
 * Each column is one array, which Postgres reads in two thirds of the time that the same rows take
 * as JSON. `raw` is one text with a line per row: JSON text has no line breaks, and an array would
 * need a backslash before each quote.
 */
export function rowSet(types: Readonly<Record<string, string>>, rows: readonly object[]) {
  const values = rows as readonly Readonly<Record<string, unknown>>[];
  const columns = Object.entries(types);
  const sources = columns.map(([column, type]) => {
    if (column === 'raw') {
      const lines = values.map(({ raw }) => JSON.stringify(raw));
      return sql`string_to_array(${lines.join('\n')}, chr(10))`;
    }
    const literal = toArrayLiteral(values, column, type);
    return sql`${literal}::${sql.raw(isUnnested(type) ? type : 'text')}[]`;
  });
  const typed = columns.map(([column, type]) => {
    const ref = sql.ref(`u.${column}`);
    return isUnnested(type) ? ref : sql`${ref}::${sql.raw(type)} as ${sql.ref(column)}`;
  });
  return sql`(
      select ${sql.join(typed)}
      from unnest(${sql.join(sources)}) as u (${columnRefs(columns.map(([column]) => column))})) i`;
}

/**
 * Returns whether an array can have elements of this type. An array of arrays would have to be
 * rectangular.
 */
const isUnnested = (type: string) => plainTypes.has(type) || type === 'text';

/** Writes the values of a column as the text of a Postgres array. */
function toArrayLiteral(
  rows: readonly Readonly<Record<string, unknown>>[],
  column: string,
  type: string,
): string {
  const write = plainTypes.has(type) ? writePlain : (writers[type] ?? writeText);
  let literal = '{';
  for (const [index, row] of rows.entries()) {
    const value = row[column];
    if (index > 0) literal += ',';
    literal += value === null || value === undefined ? 'null' : write(value);
  }
  return `${literal}}`;
}

/** Writes a number, a boolean, or the text of a time or a numeric. */
function writePlain(value: unknown): string {
  if (typeof value === 'string') return writeText(value);
  return JSON.isRawJSON(value) ? value.rawJSON : String(value);
}

const mustEscape = /["\\]/;

function writeText(value: unknown): string {
  const text = String(value);
  return mustEscape.test(text) ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : `"${text}"`;
}

const writeJson = (value: unknown) => writeText(JSON.stringify(value));

const writeTexts = (value: unknown) =>
  writeText(`{${(value as readonly string[]).map(writeText).join(',')}}`);

const writers: Readonly<Record<string, (value: unknown) => string>> = {
  jsonb: writeJson,
  'text[]': writeTexts,
};
