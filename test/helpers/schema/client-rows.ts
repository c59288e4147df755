import type { TestDatabase } from '../database.ts';

/** A column of a table or view of schema fulfilment. */
interface Column {
  readonly relation: string;
  readonly relationComment: string | null;
  readonly isTable: boolean;
  readonly column: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly keyPlace: number | null;
  readonly comment: string | null;
}

/** Tables that the feed never names. */
const outsideFeed: ReadonlySet<string> = new Set(['changes', 'consumers', 'stock_watch', 'track_trace_events']);

/** TypeScript types of columns. A cast makes the value independent of the type parsers of a connection. */
const types: Readonly<Record<string, readonly [type: string, cast: string]>> = {
  bigint: ['number', 'float8'],
  boolean: ['boolean', ''],
  date: ['string', 'text'],
  integer: ['number', ''],
  'integer[]': ['(number | null)[]', ''],
  jsonb: ['Json', ''],
  numeric: ['string', 'text'],
  text: ['string', ''],
  'text[]': ['string[]', ''],
  'timestamp with time zone': ['Date', ''],
};

/**
 * Returns the text of src/client/generated/rows.ts, made from the migrated database: a type for the rows of each table
 * and view, and what a select needs to return them.
 */
export async function renderClientRows(database: TestDatabase): Promise<string> {
  const columns = await database.query<Column & Record<string, unknown>>(`
    select c.relname as relation, obj_description(c.oid) as "relationComment", c.relkind = 'r' as "isTable",
      a.attname as "column", format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable,
      array_position(i.indkey, a.attnum)::int as "keyPlace", col_description(c.oid, a.attnum) as comment
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where n.nspname = 'fulfilment' and c.relkind in ('r', 'v')
    order by c.relname, a.attnum`);
  const relations = [...Map.groupBy(columns, ({ relation }) => relation)];
  const inFeed = relations.filter(([name, [first]]) => first?.isTable === true && !outsideFeed.has(name));
  return `${[
    '/** Made by `npm run golden` from the migrated database. Do not edit it. */',
    '',
    'export type Json = string | number | boolean | null | Json[] | { [member: string]: Json };',
    '',
    ...relations.map(([name, found]) => renderInterface(name, found)),
    '/** The row types of all tables and views of schema fulfilment. */',
    'export interface Rows {',
    ...relations.map(([name]) => `  ${name}: ${toTypeName(name)};`),
    '}',
    '',
    '/** Tables whose rows the feed names. */',
    `export type TableName =\n${inFeed.map(([name]) => `  | '${name}'`).join('\n')};`,
    '',
    '/** The primary key of each table, and the columns of each table and view with the cast that they need. */',
    'export const relations: Readonly<',
    '  Record<keyof Rows, { readonly key: readonly string[]; readonly columns: Readonly<Record<string, string>> }>',
    '> = {',
    ...relations.map(([name, found]) => renderRelation(name, found)),
    '};',
  ].join('\n')}\n`;
}

const toTypeName = (relation: string) =>
  `${relation.replaceAll(/(?:^|_)([a-z])/g, (_found, letter: string) => letter.toUpperCase())}Row`;

function findType({ relation, column, type }: Column): readonly [type: string, cast: string] {
  const found = types[type];
  if (found === undefined) throw new Error(`${relation}.${column} has the type ${type}: add it to client-rows.ts`);
  return found;
}

function renderInterface(name: string, columns: readonly Column[]): string {
  const lines = columns.flatMap((column) => [
    ...(column.comment === null ? [] : [`  /** ${column.comment} */`]),
    `  readonly ${column.column}: ${findType(column)[0]}${column.nullable ? ' | null' : ''};`,
  ]);
  return [`/** ${columns[0]?.relationComment} */`, `export interface ${toTypeName(name)} {`, ...lines, '}', ''].join(
    '\n',
  );
}

function renderRelation(name: string, columns: readonly Column[]): string {
  const key = columns
    .filter(({ keyPlace }) => keyPlace !== null)
    .sort((one, other) => Number(one.keyPlace) - Number(other.keyPlace));
  return [
    `  ${name}: {`,
    `    key: [${key.map(({ column }) => `'${column}'`).join(', ')}],`,
    '    columns: {',
    ...columns.map((column) => `      ${column.column}: '${findType(column)[1]}',`),
    '    },',
    '  },',
  ].join('\n');
}
