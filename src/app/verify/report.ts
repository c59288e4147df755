import { readFileSync, writeFileSync } from 'node:fs';
import { styleText } from 'node:util';
import type { Operation, OperationName } from '../../../config/operations.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { UsageError } from '../cli/command-line.ts';
import type { Judgement, Verdict } from './check.ts';
import type { Service } from './service.ts';

/** Everything that `service verify` found. */
export interface Report {
  readonly judgements: readonly Judgement[];
  /** Environment variables to set. */
  readonly variables: Readonly<Record<string, string>>;
  /** Entries of WAREHOUSE_OPERATIONS_FILE to set. */
  readonly operations: Entries;
  /** What remains at the service, in words. */
  readonly left: readonly string[];
}

const looks = { holds: 'green', differs: 'red', 'cannot tell': 'yellow' } as const;
const order: readonly Verdict[] = ['differs', 'cannot tell', 'holds'];

/** Formats a report: what differs first, then what is unknown, then what holds, then the settings. */
export function formatReport({ judgements, variables, operations, left }: Report): string {
  const several = new Set(judgements.map(({ client }) => client)).size > 1;
  const sorted = order.flatMap((verdict) => judgements.filter((one) => one.verdict === verdict));
  const count = (verdict: Verdict) => judgements.filter((one) => one.verdict === verdict).length;
  return [
    ...sorted.flatMap((judgement) => formatJudgement(judgement, several)),
    ...Object.entries(variables).flatMap(([name, value]) => ['', `Set ${name}: ${value}`]),
    ...(Object.keys(operations).length === 0
      ? []
      : ['', 'Set in WAREHOUSE_OPERATIONS_FILE:', JSON.stringify(operations, null, 2)]),
    ...(left.length === 0 ? [] : ['', 'Left at the service:', ...left.map((words) => `  ${words}`)]),
    '',
    `holds: ${count('holds')}, differs: ${count('differs')}, cannot tell: ${count('cannot tell')}`,
  ].join('\n');
}

function formatJudgement(
  { client, verdict, id, section, assumption, evidence }: Judgement,
  several: boolean,
): string[] {
  const name = several ? `${client}: ${id}` : id;
  const head = `${styleText(looks[verdict], verdict.padEnd(11))}  ${name} (${section}): ${evidence}`;
  return verdict !== 'differs' ? [head] : [head, `${' '.repeat(13)}assumed: ${assumption}`];
}

/** Entries of WAREHOUSE_OPERATIONS_FILE by operation. */
type Entries = Readonly<Record<string, object>>;

/**
 * Returns the entries that checks found, with the method and path that each needs.
 * @param services the services of all clients, which share one file
 */
export function collectEntries(services: readonly Service[]): Entries {
  const found = new Map<OperationName, Partial<Operation>>();
  for (const service of services)
    for (const [name, entry] of service.learned) {
      const { method, path } = service.operation(name);
      found.set(name, { method, path, ...found.get(name), ...entry });
    }
  return Object.fromEntries(found) as Entries;
}

/** Returns the environment variables that checks found. */
export function collectVariables(judgements: readonly Judgement[]): Readonly<Record<string, string>> {
  const settings = judgements.flatMap((judgement) => judgement.settings);
  return Object.fromEntries(settings.flatMap((one) => (one.kind === 'variable' ? [[one.name, one.value]] : [])));
}

/**
 * Writes a file for WAREHOUSE_OPERATIONS_FILE: the entries of the file in use, with those that checks found.
 * @param inUse path of the file in use; undefined if there is none
 * @throws UsageError if the file cannot be written
 */
export function writeEntries(file: string, inUse: string | undefined, found: Entries): void {
  const kept: Json = inUse === undefined ? {} : parseExact(readFileSync(inUse, 'utf8'));
  const before = (isObject(kept) ? kept : {}) as Entries;
  const merged = Object.entries(found).map(([name, entry]) => [name, { ...before[name], ...entry }]);
  try {
    writeFileSync(file, `${JSON.stringify({ ...before, ...Object.fromEntries(merged) }, null, 2)}\n`);
  } catch (cause) {
    throw new UsageError(`${file} cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}
