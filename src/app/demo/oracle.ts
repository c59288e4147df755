/**
 * The demo, and the oracle: a comparison of the tables with the sandbox. It covers every row and every column.
 */

import { isDeepStrictEqual } from 'node:util';
import { streams as allStreams } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { keyColumns } from '../../erp/mirror/mirror-tables.ts';
import { readTable, type StoredRow } from '../../erp/reports/stored-rows.ts';
import type { Stream } from '../../sync/reading/stream.ts';
import { type ExpectedRow, makeExpectedRows, toListName } from './expected-rows.ts';
import { type ClientState, stateSchema } from './sandbox-state.ts';

/**
 * Describes the differences between the expected and the actual rows of one table. Names rows and columns, no values.
 */
function compareRows(
  what: string,
  key: readonly string[],
  expected: readonly ExpectedRow[],
  actual: readonly StoredRow[],
): string[] {
  const formatKey = (row: Readonly<Record<string, unknown>>) => key.map((column) => row[column]).join(' ');
  const stored = new Map(actual.map((row) => [formatKey(row.columns), row]));
  const differences: string[] = [];
  for (const row of expected) {
    const name = formatKey(row);
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

async function compareStream(db: Database, state: ClientState, stream: Stream): Promise<string[]> {
  const { parent, children } = stream.tables;
  const expected = makeExpectedRows(stream, state.lists[toListName(stream)] ?? []);
  const differences: string[] = [];
  for (const table of [parent, ...children]) {
    const stored = await readTable(db, state.client, table.name);
    const what = `${state.client}: ${table.name}`;
    differences.push(...compareRows(what, keyColumns(table), expected.get(table.name) ?? [], stored));
  }
  return differences;
}

/**
 * Compares the tables of some streams, or of all, with the state that the sandbox reports: every row, and every column
 * that comes from the service.
 * @returns a text for each difference; empty if there is none
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
  const differences = clients.flatMap((state) => compared.map((stream) => compareStream(db, state, stream)));
  return (await Promise.all(differences)).flat();
}
