import { EventEmitter } from 'node:events';
import pg from 'pg';
import { vi } from 'vitest';
import type { TestDatabase } from './database.ts';

/** One statement as it was carried out. */
export interface Carried {
  readonly statement: string;
  /** Rows that its plan met: those that each of its nodes gave, and those that one threw away. */
  readonly touched: number;
}

interface PlanNode {
  readonly 'Actual Rows'?: number;
  readonly 'Actual Loops'?: number;
  readonly Plans?: readonly PlanNode[];
  readonly [member: string]: unknown;
}

const thrownAway = ['Rows Removed by Filter', 'Rows Removed by Join Filter', 'Rows Removed by Index Recheck'];

function touchedBy(node: PlanNode): number {
  const loops = node['Actual Loops'] ?? 1;
  const each = (node['Actual Rows'] ?? 0) + thrownAway.reduce((sum, name) => sum + Number(node[name] ?? 0), 0);
  return each * loops + (node.Plans ?? []).reduce((sum, child) => sum + touchedBy(child), 0);
}

/**
 * Has the server tell, for every connection that this process opens from now on, the plan of each statement after it was
 * carried out: by Postgres' own auto_explain, statements inside functions included.
 */
export async function watchPlans(database: TestDatabase): Promise<{ carried: Carried[]; end: () => void }> {
  const name = new URL(database.url).pathname.slice(1);
  for (const setting of [
    "session_preload_libraries = 'auto_explain'",
    'auto_explain.log_min_duration = 0',
    'auto_explain.log_analyze = on',
    'auto_explain.log_timing = off',
    'auto_explain.log_nested_statements = on',
    'auto_explain.log_format = json',
    'auto_explain.log_level = notice',
  ])
    await database.query(`alter database ${name} set ${setting}`);
  await database.endRuns();
  const carried: Carried[] = [];
  const emit = vi.spyOn(pg.Client.prototype, 'emit').mockImplementation(function (this: pg.Client, ...given) {
    const [event, notice] = given as [string, { message?: string } | undefined];
    if (event === 'notice') carried.push(...planIn(notice?.message ?? ''));
    return Reflect.apply(EventEmitter.prototype.emit, this, given);
  });
  return { carried, end: () => emit.mockRestore() };
}

function planIn(message: string): Carried[] {
  if (!/^duration: .* plan:/.test(message)) return [];
  const told = JSON.parse(message.slice(message.indexOf('{'))) as { 'Query Text': string; Plan: PlanNode };
  return [{ statement: told['Query Text'].replaceAll(/\s+/g, ' ').trim(), touched: touchedBy(told.Plan) }];
}
