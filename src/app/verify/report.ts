import { styleText } from 'node:util';
import type { Judgement, Verdict } from './finding.ts';
import type { Entries } from './settings-file.ts';

/** Everything that `sandbox verify` found. */
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
