import { randomUUID } from 'node:crypto';
import type pg from 'pg';

/** Maximum number of statements that a process prepares. A session keeps a plan for each of them. */
const maxStatements = 300;

/** Makes names unique for this process: a pooler may give the session of a former process to this one. */
const processName = randomUUID().slice(0, 8);
const names = new Map<string, string>();

/**
 * Returns the name under which sessions prepare a statement, so that Postgres parses and plans it once and not at each
 * execution. Returns undefined if too many statements have a name already: then it is planned at each execution.
 */
function findStatementName(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= maxStatements) return known;
  const name = `${processName}-${names.size}`;
  names.set(text, name);
  return name;
}

/**
 * Settings of sessions that prepare their statements. A prepared plan may be made while the tables are still empty, and
 * is used when they are large. Therefore each row is found by an index, one after the other: that is right for the few
 * hundred rows of any statement, and needs no statistics.
 */
export const keyedPlanSettings = ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin'].map(
  (name) => `-c ${name}=off`,
);

/** Makes a connection prepare each statement with values under a name. */
export function prepareStatements(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...given: unknown[]) => unknown;
  const prepared = (...given: unknown[]) => {
    const [text, values, ...rest] = given;
    const name =
      typeof text === 'string' && Array.isArray(values) && values.length > 0 ? findStatementName(text) : undefined;
    return name === undefined ? query(...given) : query({ name, text, values }, ...rest);
  };
  client.query = prepared as typeof client.query;
}
