import pg from 'pg';
import { vi } from 'vitest';
import type { ColumnKind, SqlTemplate } from './templates.ts';

const { builtins } = pg.types;
/**
 * Types of result columns in TypeScript, by their Postgres types. src/db/pool.ts sets the parsers.
 */
const kinds: Readonly<Record<number, ColumnKind>> = {
  [builtins.INT2]: 'number',
  [builtins.INT4]: 'number',
  [builtins.INT8]: 'number',
  [builtins.FLOAT4]: 'number',
  [builtins.FLOAT8]: 'number',
  [builtins.NUMERIC]: 'string',
  [builtins.BOOL]: 'boolean',
  [builtins.TEXT]: 'string',
  [builtins.VARCHAR]: 'string',
  [builtins.DATE]: 'string',
  [builtins.TIMESTAMPTZ]: 'date',
  // bytea, name, text[] and bigint[]
  17: 'object',
  19: 'string',
  1009: 'array',
  1016: 'array',
};
const json: readonly number[] = [builtins.JSON, builtins.JSONB];

/** Results of watching, by the places of the templates. */
export interface WatchedTemplates {
  /** Places of templates that were executed. */
  readonly executed: ReadonlySet<string>;
  /** Differences between the type of a result and what Postgres returned, in words. */
  readonly problems: ReadonlySet<string>;
  readonly end: () => void;
}

const escapeText = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');

/**
 * Compares each statement that this process executes from now on with the template that it was made
 * from.
 */
export function watchTemplates(templates: readonly SqlTemplate[]): WatchedTemplates {
  const [executed, problems] = [new Set<string>(), new Set<string>()];
  const known = templates
    .map((template) => ({
      ...template,
      form: new RegExp(`^${template.parts.map(escapeText).join('[\\s\\S]*?')}$`),
      length: template.parts.join('').length,
    }))
    .toSorted((one, other) => other.length - one.length);
  const query = pg.Client.prototype.query as (...given: unknown[]) => unknown;
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...given: unknown[]
  ) {
    const result = Reflect.apply(query, this, given);
    const [statement] = given;
    const text =
      typeof statement === 'object'
        ? String((statement as pg.QueryConfig).text)
        : String(statement);
    if (!(result instanceof Promise)) return result;
    return result.then((answer: pg.QueryResult) => {
      const fitting = known.filter(({ form }) => form.test(text));
      // Templates may have the same text: in two functions, or with parts that fit both.
      const [first] = fitting;
      for (const template of fitting.filter(({ length }) => length === first?.length)) {
        executed.add(template.place);
        for (const problem of compareColumns(template, answer.fields))
          problems.add(`${template.place}: ${problem}`);
      }
      return answer;
    });
  } as typeof pg.Client.prototype.query);
  return { executed, problems, end: () => spy.mockRestore() };
}

/**
 * Asks Postgres for the columns of each template, with null for each of its values.
 * @returns the places of the templates whose columns fit. Others are made of more than values.
 */
export async function findFittingTemplates(
  templates: readonly SqlTemplate[],
  url: string,
): Promise<string[]> {
  const fitting: string[] = [];
  const client = new pg.Client(url);
  let fields: readonly pg.FieldDef[] | null = null;
  client.connection.on('rowDescription', (message: { fields: readonly pg.FieldDef[] }) => {
    fields = message.fields;
  });
  await client.connect();

  for (const template of templates) {
    const [first = '', ...rest] = template.parts;
    const text = first + rest.map((part, index) => `$${index + 1}${part}`).join('');
    await client.query('begin');
    fields = null;
    // An insertion may fail, because null is refused, but its columns are known by then.
    await client.query(text, Array(rest.length).fill(null)).catch(() => undefined);
    if (fields !== null && compareColumns(template, fields).length === 0)
      fitting.push(template.place);
    await client.query('rollback');
  }

  await client.end();
  return fitting;
}

function compareColumns({ columns }: SqlTemplate, fields: readonly pg.FieldDef[]): string[] {
  const returned = new Map(fields.map(({ name, dataTypeID }) => [name, dataTypeID]));
  const missing = [...columns.keys()]
    .filter((name) => !returned.has(name))
    .map((name) => `${name} is not returned`);
  const others = [...returned].flatMap(([name, type]) => {
    const expected = columns.get(name);
    if (expected === undefined) return [`${name} is returned, but the type lacks it`];
    if (json.includes(type)) return [];
    const kind = kinds[type];
    if (kind === undefined)
      return [`${name} has the Postgres type ${type}, which this test does not know`];
    return expected.has(kind)
      ? []
      : [`${name} is ${kind}, but the type says ${[...expected].join(' or ')}`];
  });
  return [...missing, ...others];
}
