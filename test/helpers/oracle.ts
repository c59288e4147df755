/** Compares the tables with the sandbox: every row, and every column. */

import { isDeepStrictEqual } from 'node:util';
import { sql } from 'kysely';
import { z } from 'zod';
import type { Database } from '../../src/db/pool.ts';
import type { ChildDeclaration } from '../../src/pull/decode.ts';
import type { Stream } from '../../src/pull/stream.ts';
import { streams as allStreams } from '../../src/pull/streams/all-streams.ts';
import { type ResourceFields, toColumn } from '../../src/service/decoding/fields.ts';

/** Columns that we add to those of the service. */
const ourColumns = [
  'client',
  'read_no',
  'first_seen_at',
  'changed_at',
  'unlisted_since',
  'ordered_quantity',
];

/** A stored row, by column. Times are as Postgres writes them in JSON. */
interface StoredRow {
  readonly columns: Readonly<Record<string, unknown>>;
  /** True if the service no longer has the row. */
  readonly unlisted: boolean;
}

/** Reads all rows of one client in a table. */
async function readTable(db: Database, client: string, table: string): Promise<StoredRow[]> {
  const { rows } = await sql<StoredRow>`
    select to_jsonb(t) - ${ourColumns}::text[] as columns,
      to_jsonb(t) ->> 'unlisted_since' is not null as unlisted
    from ${sql.table(`fulfilment.${table}`)} t
    where client = ${client}`.execute(db);
  return rows;
}

/** The values that a row of a table must have, by column. */
type ExpectedRow = Readonly<Record<string, unknown>>;

/**
 * Returns the name of the sandbox's list of a stream: `returnItems` of the stream `return-items`.
 */
const toListName = ({ name }: Stream) =>
  name.replace(/-[a-z]/g, (letter) => letter.slice(1).toUpperCase());

/**
 * Makes the rows that the tables of a stream must hold from the sandbox's list of one client, by
 * table.
 */
function makeExpectedRows(
  stream: Stream,
  entries: readonly StateEntry[],
): ReadonlyMap<string, ExpectedRow[]> {
  const { table, fields, children, kept } = stream.resource;
  const visible = entries.filter((entry) => entry.visible);
  const rows = new Map<string, ExpectedRow[]>(
    [table, ...children.map((child) => child.table)].map((name) => [name, []]),
  );

  for (const { resource, instants, included, items } of visible) {
    const own = toRow(fields, resource, instants);
    const whole = kept && {
      [toColumn(kept)]: included.find(({ type }) => type === kept) ?? null,
    };
    rows.get(table)?.push({ ...own, ...whole });

    for (const child of children)
      for (const related of findChildren(child, resource, [...included, ...items]))
        rows.get(child.table)?.push({
          ...toRow(child.fields, related, {}),
          [child.parentColumn]: resource.id,
          ...(child.role && { role: child.role }),
        });
  }

  return rows;
}

/** Returns the included resources of a kind, and only the linked one if the parent links to one. */
function findChildren(
  { fields, listedIn }: ChildDeclaration,
  parent: StateResource,
  related: readonly StateResource[],
) {
  const link = listedIn === null ? null : readLink(parent, listedIn);
  return related.filter(({ type, id }) => type === fields.type && (link === null || id === link));
}

const readLink = ({ relationships }: StateResource, name: string): number | null => {
  const data = relationships?.[name]?.data ?? null;
  return data === null || Array.isArray(data) ? null : data.id;
};

function toRow(
  { columns }: ResourceFields,
  resource: StateResource,
  instants: StateEntry['instants'],
): ExpectedRow {
  const values = columns.map(({ from, member, column, field: { sql } }) => {
    if (from === 'relationships') return [column, readLink(resource, member)];

    const value = resource.attributes[member] ?? null;
    if (sql === 'timestamptz') return [column, toInstant(instants[member] ?? value)];
    return [column, toValue(sql, value)];
  });

  return { ...Object.fromEntries(values), id: resource.id, raw: resource };
}

/** Returns an instant as Postgres writes it in JSON: without zeros at the end of the fraction. */
function toInstant(text: unknown): string | null {
  if (typeof text !== 'string') return null;
  return text
    .replace(/(?<!0)0+Z$/, (zeros) => (text.includes('.') ? 'Z' : zeros))
    .replace(/\.?Z$/, '+00:00');
}

/** Returns a value as Postgres writes it in JSON. */
function toValue(sql: string | null, value: unknown): unknown {
  if (sql === 'numeric' && value !== null) return Number(value);
  return sql === 'text[]' ? (value ?? []) : value;
}

const linkage = z.looseObject({ id: z.number() });

/** A resource as the sandbox returns it. */
const resourceSchema = z.looseObject({
  id: z.number(),
  type: z.string(),
  attributes: z.record(z.string(), z.unknown()),
  relationships: z
    .record(
      z.string(),
      z.looseObject({ data: z.union([linkage, z.array(linkage), z.null()]) }).nullable(),
    )
    .optional(),
});
type StateResource = z.infer<typeof resourceSchema>;

/** An entry of a list: a resource, its included resources and its items. */
const entrySchema = z.object({
  resource: resourceSchema,
  included: z.array(resourceSchema).default([]),
  items: z.array(resourceSchema).default([]),
  /** False if no list shows it. */
  visible: z.boolean().default(true),
  /** The instants that timestamps without a zone mean. */
  instants: z.record(z.string(), z.string().nullable()).default({}),
});
type StateEntry = z.infer<typeof entrySchema>;

/**
 * The answer of `/_sandbox/state` (docs/sandbox.md, Controls): the entries of each client and
 * requested list.
 */
const stateSchema = z
  .object({ clients: z.array(z.object({ client: z.string() }).catchall(z.unknown())) })
  .transform(({ clients }) =>
    clients.map(({ client, ...lists }) => ({
      client,
      lists: z.record(z.string(), z.array(entrySchema)).parse(lists),
    })),
  );

/** The lists of one client. */
type ClientState = z.infer<typeof stateSchema>[number];

/** Describes the differences between the expected and the actual rows of one table. */
function compareRows(
  what: string,
  key: readonly string[],
  expected: readonly ExpectedRow[],
  actual: readonly StoredRow[],
): string[] {
  const formatKey = (row: Readonly<Record<string, unknown>>) =>
    key.map((column) => row[column]).join(' ');
  const stored = new Map(actual.map((row) => [formatKey(row.columns), row]));
  const differences: string[] = [];

  for (const row of expected) {
    const name = formatKey(row);
    const difference = describeDifference(row, stored.get(name));
    stored.delete(name);
    if (difference !== null) differences.push(`${what} ${name} ${difference}`);
  }

  const extra = [...stored].filter(([, { unlisted }]) => !unlisted);
  return [...differences, ...extra.map(([name]) => `${what} ${name} is not in the sandbox`)];
}

/** Describes how a stored row differs from the expected one. Returns null if it does not. */
function describeDifference(expected: ExpectedRow, stored: StoredRow | undefined): string | null {
  if (stored === undefined) return 'is missing';
  if (stored.unlisted) return 'is marked as unlisted';

  const wrong = Object.keys(stored.columns).filter(
    (column) => !isDeepStrictEqual(stored.columns[column], expected[column] ?? null),
  );
  return wrong.length === 0 ? null : `differs in ${wrong.join(', ')}`;
}

async function compareStream(db: Database, state: ClientState, stream: Stream): Promise<string[]> {
  const { parent, children } = stream.tables;
  const expected = makeExpectedRows(stream, state.lists[toListName(stream)] ?? []);
  const differences: string[][] = [];

  for (const table of [parent, ...children]) {
    const what = `${state.client}: ${table.name}`;
    const wanted = expected.get(table.name) ?? [];
    const stored = await readTable(db, state.client, table.name);
    differences.push(compareRows(what, table.key, wanted, stored));
  }

  return differences.flat();
}

/**
 * Compares the tables of some streams, or of all, with the state that the sandbox reports: every
 * row, and every column that comes from the service.
 */
export async function compareWithSandbox(
  db: Database,
  sandbox: URL,
  streams = allStreams.map(({ name }) => name),
): Promise<string[]> {
  const compared = allStreams.filter(({ name }) => streams.includes(name));
  const lists = new Set(compared.map(toListName));

  const answer = await fetch(new URL(`/_sandbox/state?lists=${[...lists].join(',')}`, sandbox));
  const clients = stateSchema.parse(await answer.json());

  const differences = clients.flatMap((state) =>
    compared.map((stream) => compareStream(db, state, stream)),
  );
  return (await Promise.all(differences)).flat();
}
