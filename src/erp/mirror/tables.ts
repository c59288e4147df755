import { sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import { anyClient } from '../connection/any-client.ts';
import { mirrorColumns } from '../generated/mirror-columns.ts';

/** Values of one row by column; times as ISO text with an offset. `id` is null only where it is no part of the key. */
export type MirrorRow = { readonly id: number | null; readonly raw: Json; readonly [column: string]: unknown };
/** The row of a resource that has an id of its own; with the number of its own reading where several are written at once. */
type ParentRow = MirrorRow & { readonly id: number; readonly read_no?: number };

/** A table that mirrors one kind of resource. */
export interface MirrorTable {
  readonly name: string;
  /** Columns that come from the resource, with their SQL types. */
  readonly columns: Readonly<Record<string, string>>;
  /** Columns filled from elsewhere. Where a reading brings no value they stay, as long as the column they hang on does. */
  readonly derived?: Readonly<Record<string, { readonly type: string; readonly hangsOn: string }>>;
}

/** Values of a column by its SQL type; times as ISO text with an offset. */
interface ColumnValues {
  readonly bigint: number;
  readonly boolean: boolean;
  readonly date: string;
  readonly integer: number;
  readonly jsonb: unknown;
  readonly numeric: string | number;
  readonly text: string;
  readonly 'text[]': readonly string[];
  readonly timestamptz: string;
}

type TableName = keyof typeof mirrorColumns;
type ColumnName<Name extends TableName> = keyof (typeof mirrorColumns)[Name] & string;

/**
 * A row of a mirror table, with every column that a reading fills: one that is forgotten is a compile error.
 * `Derived`: columns that are filled from elsewhere.
 */
export type TableRow<Name extends TableName, Derived extends string = never> = {
  readonly [Column in Exclude<keyof (typeof mirrorColumns)[Name], Derived>]:
    | ((typeof mirrorColumns)[Name][Column] extends keyof ColumnValues
        ? ColumnValues[(typeof mirrorColumns)[Name][Column]]
        : never)
    | null;
} & { readonly id: number; readonly raw: Json };

/**
 * Declares a mirror table. Its columns are those of the schema.
 * @param hangsOn columns that are filled from elsewhere, each with the column that it depends on
 */
export function mirrorTable<Name extends TableName>(
  name: Name,
  hangsOn?: { readonly [Column in ColumnName<Name>]?: ColumnName<Name> },
): MirrorTable {
  const others = (hangsOn ?? {}) as Readonly<Record<string, string>>;
  const all: Readonly<Record<string, string>> = mirrorColumns[name];
  const columns = Object.fromEntries(Object.entries(all).filter(([column]) => others[column] === undefined));
  const derived = Object.fromEntries(
    Object.entries(others).map(([column, other]) => [column, { type: all[column] ?? '', hangsOn: other }]),
  );
  return Object.keys(derived).length === 0 ? { name, columns } : { name, columns, derived };
}

/** Declares a table of lines. */
export const childTable = <Name extends TableName>(
  name: Name,
  parentColumn: ColumnName<Name>,
  key?: readonly ColumnName<Name>[],
): ChildTable => ({
  ...mirrorTable(name),
  parentColumn,
  ...(key === undefined ? {} : { key }),
});

/** A table of lines. `parentColumn` names the parent's id. */
export interface ChildTable extends MirrorTable {
  readonly parentColumn: string;
  /** Columns of its key beside the client; its rows have feed keys, in this order and joined by colons. Default: `id`. */
  readonly key?: readonly string[];
}

/** A mirrored kind with its lines. */
export interface MirrorTables {
  readonly parent: MirrorTable;
  readonly children: readonly ChildTable[];
}

/** Lines of one kind that belong to one resource. */
interface ChildRows {
  /** Name of their table. */
  readonly table: string;
  readonly rows: readonly MirrorRow[];
  /** True where these are all there are, so that others stored for this parent are gone. */
  readonly complete: boolean;
}

/** A parent with its children, read at one moment. */
export interface Family {
  readonly parent: ParentRow;
  readonly children: readonly ChildRows[];
}

/** What of a stored row is held against a reading: `raw` finds every change of the service, `columns` damage here too. */
export type Comparison = 'raw' | 'columns';

export const tableRef = (name: string) => sql.table(`fulfilment.${name}`);

export const columnRefs = (columns: readonly string[], prefix?: string) =>
  sql.join(columns.map((column) => sql.ref(prefix === undefined ? column : `${prefix}.${column}`)));

/** Columns that make a row of the table its own, beside the client. */
export const keyOf = (table: MirrorTable | ChildTable): readonly string[] =>
  ('key' in table ? table.key : null) ?? ['id'];

/** Every column a reading fills, `raw` and the key included, with its type. */
export function typesOf(table: MirrorTable): Readonly<Record<string, string>> {
  const derived = Object.entries(table.derived ?? {}).map(([column, { type }]) => [column, type] as const);
  return { id: 'bigint', ...table.columns, ...Object.fromEntries(derived), raw: 'jsonb' };
}

/** Rows as a set with typed columns, named i; JSON keeps every digit of raw. A row may lack columns: they are null. */
export function rowSet(types: Readonly<Record<string, string>>, rows: readonly object[]) {
  const definition = Object.entries(types).map(([column, type]) => sql`${sql.ref(column)} ${sql.raw(type)}`);
  return sql`jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as i (${sql.join(definition)})`;
}

/**
 * SQL: the stored rows with these ids, named t, to be joined with a reading. They are looked up once, by their ids. The OFFSET
 * keeps the planner from mixing that with the join: it would then search the list of ids for each row of the reading, or,
 * without statistics, read all rows of the client.
 */
export const rowsByIds = (table: MirrorTable | ChildTable, client: string, ids: readonly unknown[]) => sql`(
      select * from ${tableRef(table.name)}
      where client = ${anyClient(client)} and id = any(${ids}::bigint[]) offset 0) t`;

/** Whether the stored row t and the reading i are of one key. */
export function sameKey(table: MirrorTable | ChildTable, client: string) {
  const pairs = keyOf(table).map((column) => sql`${sql.ref(`t.${column}`)} = ${sql.ref(`i.${column}`)}`);
  return sql`t.client = ${anyClient(client)} and ${sql.join(pairs, sql` and `)}`;
}

/** Whether the stored row t differs from the reading `from`. */
export function differs(table: MirrorTable | ChildTable, compare: Comparison, from: 'i' | 'excluded') {
  const parent = 'parentColumn' in table ? [table.parentColumn] : [];
  const whole = [...(keyOf(table).includes('id') ? [] : ['id']), ...Object.keys(table.columns), 'raw'];
  const columns = compare === 'columns' ? whole : [...parent, 'raw'];
  const derived = Object.keys(table.derived ?? {}).map((column) => {
    const [stored, read] = [sql.ref(`t.${column}`), sql.ref(`${from}.${column}`)];
    return sql` or (${read} is not null and ${stored} is distinct from ${read})`;
  });
  // A line that was taken for gone and is met again differs, whatever it holds.
  const unlisted =
    'parentColumn' in table && keyOf(table).includes('id') ? sql` or t.unlisted_since is not null` : sql``;
  return sql`(
    (${columnRefs(columns, 't')}) is distinct from (${columnRefs(columns, from)})
    ${sql.join(derived, sql``)}${unlisted})`;
}

/** A row that was written, as the feed names it. */
export interface Written {
  readonly id: number | null;
  readonly key: string | null;
  readonly created: boolean;
  readonly changed: boolean;
}

/** What the feed calls a row: its id, and a key where the id is not what tells it from others. */
export const feedNames = (table: MirrorTable | ChildTable) =>
  'key' in table && table.key !== undefined
    ? sql`t.id, ${sql.join(
        table.key.map((column) => sql`t.${sql.ref(column)}`),
        sql` || ':' || `,
      )} as key`
    : sql`t.id, null as key`;

/** Comparing by raw needs no more than raw, which spares the database most of the reading. */
export function comparedTypes(table: MirrorTable | ChildTable, compare: Comparison): Readonly<Record<string, string>> {
  const types = typesOf(table);
  if (compare === 'columns') return types;
  const needed = new Set([...keyOf(table), 'id', 'raw', ...Object.keys(table.derived ?? {})]);
  if ('parentColumn' in table) needed.add(table.parentColumn);
  return Object.fromEntries(Object.entries(types).filter(([column]) => needed.has(column)));
}

/** What tells where a line belongs. */
export function placeTypes(table: ChildTable): Readonly<Record<string, string>> {
  const needed = [...keyOf(table), table.parentColumn];
  return Object.fromEntries(Object.entries(typesOf(table)).filter(([column]) => needed.includes(column)));
}

/** A row without the columns that are not asked for. */
export const only = (types: Readonly<Record<string, string>>, row: MirrorRow) =>
  Object.fromEntries(Object.keys(types).map((column) => [column, row[column]]));
