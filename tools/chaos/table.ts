import type { Outcome } from './campaign.ts';
import { faults } from './faults.ts';

/** An outcome as it is kept: without what the workers wrote. */
export type Figures = Omit<Outcome, 'output'>;

/** Reads a file of results: a line of JSON for each campaign. */
export const readOutcomes = (text: string): Figures[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Figures);

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function spread(times: readonly (number | null)[]): string {
  const known = times.filter((time) => time !== null).sort((a, b) => a - b);
  const seconds = (ms: number | undefined) => ((ms ?? 0) / 1_000).toFixed(1);
  const never = times.length - known.length;
  const told = `${seconds(known[Math.floor(known.length / 2)])} (${seconds(known.at(-1))})`;
  return never === 0 ? told : `${told}, ${never} never`;
}

function line(name: string, about: string, of: readonly Figures[]): string {
  const cells = [
    name,
    about,
    of.length,
    sum(of.map(({ strikes }) => strikes)),
    sum(of.map(({ orders }) => orders)),
    sum(of.map(({ runs }) => runs)),
    sum(of.map(({ lost }) => lost)),
    sum(of.map(({ doubled }) => doubled)),
    of.filter(({ problems }) => problems.length > 0).length,
    spread(of.map(({ recoveredMs }) => recoveredMs)),
    spread(of.map(({ settledMs }) => settledMs)),
  ];
  return `| ${cells.join(' | ')} |`;
}

/** What came of campaigns, fault by fault, as a table of Markdown. Times are seconds: the median, and the longest. */
export function tableOf(outcomes: readonly Figures[]): string {
  const head = [
    '| fault | what it is | campaigns | strikes | orders | runs | lost | doubled | failed | recovered, s (longest) | settled, s (longest) |',
    '| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |',
  ];
  const lines = faults.flatMap(({ name, about }) => {
    const of = outcomes.filter(({ fault }) => fault === name);
    return of.length === 0 ? [] : [line(name, about, of)];
  });
  return [...head, ...lines, line('**all**', '', outcomes)].join('\n');
}
