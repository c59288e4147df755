import { sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import { anyClient } from '../../db/values.ts';
import { selectBefore } from './feed.ts';

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

/** SQL types by column. */
export type ColumnTypes = Readonly<Record<string, string>>;

/**
 * The columns of a table with personal data, each with the effect of erasing: it becomes null, JSON
 * is masked, only the area of a postcode stays, a document that may hold a file is masked or
 * emptied, or a text becomes one word.
 */
export type PersonalColumns = Readonly<Record<string, 'null' | 'mask' | 'area' | 'file' | 'word'>>;

/** A table that mirrors one kind of resource. */
export interface MirrorTable {
  readonly name: string;
  /**
   * Key columns beside the client. If they are more than the id, the feed names rows by their
   * values, joined by colons.
   */
  readonly key: readonly string[];
  /** Every column that a reading fills, `raw` and the key included. */
  readonly columns: ColumnTypes;
  /**
   * Column with the time since which the service no longer has the row; null if there is none. A
   * row that is read again clears it.
   */
  readonly since: 'unlisted_since' | 'removed_at' | null;
  /** What an erasure masks; absent: nothing. */
  readonly personal?: PersonalColumns;
  /**
   * Column that keeps an included resource, the column with its id, and the relationship to it. If a
   * reading links to it without its value, the stored value stays while the id stays. It also stays
   * if the reading lacks the relationship.
   */
  readonly kept?: { readonly column: string; readonly id: string; readonly relationship: string };
}

/** A table of child rows. `parentColumn` holds the id of the parent. */
export interface ChildTable extends MirrorTable {
  readonly parentColumn: string;
}

/** The table of a resource, and the tables of its child rows. */
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
export interface ResourceRows {
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

const listOthers = ({ columns, key }: MirrorTable) =>
  Object.keys(columns).filter((column) => !key.includes(column));

/** Returns the SQL types of some columns of a table. */
export const pickTypes = ({ columns }: MirrorTable, names: readonly string[]): ColumnTypes =>
  Object.fromEntries(Object.entries(columns).filter(([column]) => names.includes(column)));

/** Columns that differ after any change at the service. */
const listTelling = (table: MirrorTable | ChildTable) =>
  'parentColumn' in table ? [table.parentColumn, 'raw'] : ['raw'];

/** Returns the columns that a comparison needs, with their types: few, if `raw` tells all. */
export const comparedTypes = (table: MirrorTable, compare: Comparison): ColumnTypes =>
  compare === 'columns'
    ? table.columns
    : pickTypes(table, [...table.key, ...listTelling(table), table.kept?.column ?? 'id']);

/**
 * Returns SQL: the stored rows whose `column` has one of these values, named t, to be joined with a
 * reading. They are looked up once for the whole page. The OFFSET keeps the planner from merging
 * this subquery with the join. Merged, it would search for each row of the reading or, without
 * statistics, read all rows of the client.
 */
export const rowsWhere = (
  table: MirrorTable,
  client: string,
  column: string,
  values: readonly unknown[],
) => sql`(
      select *
      from ${tableRef(table.name)}
      where client = ${anyClient(client)} and ${sql.ref(column)} = any(${values}::bigint[])
      offset 0) t`;

/** Returns SQL: whether the row t and `other`, by default the reading i, have the same key. */
export const hasSameKey = ({ key }: Pick<MirrorTable, 'key'>, other = 'i') =>
  sql.join(
    key.map((column) => sql`${sql.ref(`t.${column}`)} = ${sql.ref(`${other}.${column}`)}`),
    sql` and `,
  );

/**
 * Returns SQL: whether the stored row t differs from the reading `from`. A row that was marked as
 * unlisted differs, so that it is listed again.
 */
export function differs(table: MirrorTable, compare: Comparison, from: 'i' | 'excluded') {
  const { since, kept } = table;
  const compared = (compare === 'columns' ? listOthers(table) : listTelling(table)).filter(
    (column) => column !== kept?.column,
  );
  const reasons = [
    sql`(${columnRefs(compared, 't')}) is distinct from (${columnRefs(compared, from)})`,
  ];

  if (kept !== undefined) {
    const [stored, read] = [sql.ref(`t.${kept.column}`), sql.ref(`${from}.${kept.column}`)];
    reasons.push(sql`${read} is not null and ${stored} is distinct from ${read}`);
  }
  if (since !== null) reasons.push(sql`${sql.ref(`t.${since}`)} is not null`);

  return sql`(${sql.join(reasons, sql` or `)})`;
}

/** Returns SQL for an upsert: every column but the key takes the value of the reading. */
export function overwriteColumns(table: MirrorTable) {
  const { since, kept } = table;
  const assignments = listOthers(table).map((column) => {
    const [target, read] = [sql.ref(column), sql.ref(`excluded.${column}`)];
    if (column !== kept?.column) return sql`${target} = ${read}`;

    const link = sql`excluded.raw #> ${['relationships', kept.relationship, 'data']}::text[]`;
    const same = sql`t.${sql.ref(kept.id)} is not distinct from excluded.${sql.ref(kept.id)}
      and jsonb_typeof(${link}) = 'object'`;
    return sql`${target} = coalesce(${read},
      case when ${link} is null or ${same} then t.${target} end)`;
  });
  if (since !== null) assignments.push(sql`${sql.ref(since)} = null`);

  return sql.join(assignments);
}

const hasIdKey = ({ key }: MirrorTable) => key.length === 1 && key[0] === 'id';

/**
 * Returns SQL: the id and the key of a row t in the feed. The key is null if the id identifies the
 * row.
 */
export function feedNames(table: MirrorTable) {
  const key = sql.join(
    table.key.map((column) => sql`t.${sql.ref(column)}`),
    sql` || ':' || `,
  );
  const id = 'id' in table.columns ? sql`t.id` : sql`null::bigint as id`;
  return hasIdKey(table) ? sql`${id}, null as key` : sql`${id}, ${key} as key`;
}

/** Returns what identifies a row in the feed: its key as text, or else its id. */
export const toFeedKey = (table: MirrorTable, row: { readonly [column: string]: unknown }) =>
  hasIdKey(table) ? row.id : table.key.map((column) => String(row[column])).join(':');

/**
 * Returns SQL for the RETURNING of an upsert: what the feed says of the written row t. The changed
 * columns are null for a new row, which costs nothing.
 */
export function returnedNames(table: MirrorTable) {
  const columns = [...listOthers(table), ...(table.since === null ? [] : [table.since])];
  const names = columns.map((column) => {
    const [before, after] = [sql.ref(`f.${column}`), sql.ref(`t.${column}`)];
    return sql`case when ${before} is distinct from ${after} then ${sql.lit(column)} end`;
  });
  const changed = selectBefore(
    tableRef(table.name),
    table.key,
    sql`array_remove(array[${sql.join(names)}], null)`,
  );

  return sql`${feedNames(table)},
      case when xmax <> 0 then coalesce(${changed}, '{}') end as "changedColumns"`;
}

/** Types whose values Postgres reads from the text of a JavaScript value, without quotes. */
const plainTypes = new Set(['bigint', 'boolean', 'date', 'integer', 'numeric', 'timestamptz']);

/**
 * Returns SQL: rows as a set with typed columns, named i. Columns that a row lacks are null.
 *
 * Each column is one array, which Postgres reads in two thirds of the time that the same rows take
 * as JSON. `raw` is one text with a line per row: JSON text has no line breaks, and an array would
 * need a backslash before each quote.
 */
export function rowSet(types: ColumnTypes, rows: readonly object[]) {
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
      from unnest(${sql.join(sources)}) as u (${columnRefs(Object.keys(types))})) i`;
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

const writers: Readonly<Record<string, (value: unknown) => string>> = {
  jsonb: (value) => writeText(JSON.stringify(value)),
  'text[]': (value) => writeText(`{${(value as readonly string[]).map(writeText).join(',')}}`),
};
