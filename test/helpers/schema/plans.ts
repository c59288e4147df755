import { EventEmitter } from 'node:events';
import pg from 'pg';
import { vi } from 'vitest';
import type { TestDatabase } from '../database.ts';
import { isServerOlder } from './server-version.ts';

/** A statement that the server has executed. */
export interface ExecutedStatement {
  readonly statement: string;
  /** Number of rows that the nodes of its plan returned or removed. */
  readonly touched: number;
}

interface PlanNode {
  readonly 'Actual Rows'?: number;
  readonly 'Actual Loops'?: number;
  readonly Plans?: readonly PlanNode[];
  readonly [member: string]: unknown;
}

const removedRows = [
  'Rows Removed by Filter',
  'Rows Removed by Join Filter',
  'Rows Removed by Index Recheck',
];

function countTouchedRows(node: PlanNode): number {
  const loops = node['Actual Loops'] ?? 1;
  const each =
    (node['Actual Rows'] ?? 0) +
    removedRows.reduce((sum, name) => sum + Number(node[name] ?? 0), 0);
  return each * loops + (node.Plans ?? []).reduce((sum, child) => sum + countTouchedRows(child), 0);
}

/** The first version that expects a look-up of several hundred ids in an index to be cheap. */
const firstWithCheapLookUps = 17;

/**
 * Makes the server report the plan of each statement after its execution, for every connection that
 * this process opens from now on. Statements inside functions are included. It uses auto_explain of
 * Postgres.
 *
 * An older Postgres rightly reads a table of a test as a whole to find hundreds of ids: the table
 * is small. There, whole tables are read only if no index serves the statement.
 */
export async function watchPlans(
  database: TestDatabase,
): Promise<{ executed: ExecutedStatement[]; end: () => void }> {
  const name = new URL(database.url).pathname.slice(1);
  for (const setting of [
    "session_preload_libraries = 'auto_explain'",
    'auto_explain.log_min_duration = 0',
    'auto_explain.log_analyze = on',
    'auto_explain.log_timing = off',
    'auto_explain.log_nested_statements = on',
    'auto_explain.log_format = json',
    'auto_explain.log_level = notice',
    ...((await isServerOlder(database, firstWithCheapLookUps)) ? ['enable_seqscan = off'] : []),
  ])
    await database.query(`alter database ${name} set ${setting}`);
  await database.endRuns();
  const executed: ExecutedStatement[] = [];
  const emit = vi.spyOn(pg.Client.prototype, 'emit').mockImplementation(function (
    this: pg.Client,
    ...given
  ) {
    const [event, notice] = given as [string, { message?: string } | undefined];
    if (event === 'notice') executed.push(...parsePlan(notice?.message ?? ''));
    return Reflect.apply(EventEmitter.prototype.emit, this, given);
  });
  return { executed, end: () => emit.mockRestore() };
}

function parsePlan(message: string): ExecutedStatement[] {
  if (!/^duration: .* plan:/.test(message)) return [];
  const report = JSON.parse(message.slice(message.indexOf('{'))) as {
    'Query Text': string;
    Plan: PlanNode;
  };
  return [
    {
      statement: report['Query Text'].replaceAll(/\s+/g, ' ').trim(),
      touched: countTouchedRows(report.Plan),
    },
  ];
}
