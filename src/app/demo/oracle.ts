/**
 * The demo, and the comparison of the tables with the sandbox. The comparison covers every row and every column.
 */

import { isDeepStrictEqual } from 'node:util';
import { streams as allStreams } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { keyOf } from '../../erp/mirror/tables.ts';
import { readTable, type StoredRow } from '../../erp/reports/snapshot.ts';
import type { Stream } from '../../sync/reading/stream.ts';
import { type ExpectedRow, expectedRows } from './expected-rows.ts';
import { type ClientState, stateSchema } from './sandbox-state.ts';

/** Differences of the rows of one table, in words that name the columns. */
function compareRows(
  what: string,
  key: readonly string[],
  expected: readonly ExpectedRow[],
  actual: readonly StoredRow[],
): string[] {
  const nameOf = (row: Readonly<Record<string, unknown>>) => key.map((column) => row[column]).join(' ');
  const stored = new Map(actual.map((row) => [nameOf(row.columns), row]));
  const differences: string[] = [];
  for (const row of expected) {
    const name = nameOf(row);
    const found = stored.get(name);
    stored.delete(name);
    if (found === undefined) differences.push(`${what} ${name} is missing`);
    else if (found.unlisted) differences.push(`${what} ${name} is marked as unlisted`);
    else {
      const columns = Object.keys(found.columns);
      const wrong = columns.filter((column) => !isDeepStrictEqual(found.columns[column], row[column] ?? null));
      if (wrong.length > 0) differences.push(`${what} ${name} differs in ${wrong.join(', ')}`);
    }
  }
  const extra = [...stored].filter(([, { unlisted }]) => !unlisted);
  return [...differences, ...extra.map(([name]) => `${what} ${name} is not in the sandbox`)];
}

async function compareStream(db: Database, state: ClientState, { tables }: Stream): Promise<string[]> {
  const differences: string[] = [];
  for (const table of [tables.parent, ...tables.children]) {
    const { lists, rows } = expectedRows[table.name] ?? { lists: [], rows: () => [] };
    const expected = rows(...lists.map((list) => state.lists[list] ?? []));
    const stored = await readTable(db, state.client, table.name);
    differences.push(...compareRows(`${state.client}: ${table.name}`, keyOf(table), expected, stored));
  }
  return differences;
}

/** Lists of the sandbox that the rows of a stream are made from. */
const listsFor = ({ tables: { parent, children } }: Stream) =>
  [parent, ...children].flatMap(({ name }) => expectedRows[name]?.lists ?? []);

/**
 * Compares the tables of some streams, or of all, with what the sandbox holds by its own account, row by row, all columns
 * that come from it. Returns what differs, in words; empty where nothing does.
 */
export async function compareWithSandbox(
  db: Database,
  sandbox: URL,
  streams = allStreams.map(({ name }) => name),
): Promise<string[]> {
  const compared = allStreams.filter(({ name }) => streams.includes(name));
  const lists = new Set(compared.flatMap(listsFor));
  const answer = await fetch(new URL(`/_sandbox/state?lists=${[...lists].join(',')}`, sandbox));
  const clients = stateSchema.parse(await answer.json());
  const differences = clients.flatMap((state) => compared.map((stream) => compareStream(db, state, stream)));
  return (await Promise.all(differences)).flat();
}
