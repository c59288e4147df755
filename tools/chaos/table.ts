import type { CampaignResult } from './campaign.ts';
import { faults } from './faults.ts';

/** A campaign result as it is stored: without the output of the workers. */
type ResultFigures = Omit<CampaignResult, 'output'>;

/** Reads the text of a results file: one line of JSON per campaign. */
export const readResults = (text: string): ResultFigures[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ResultFigures);

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function formatTimes(times: readonly (number | null)[]): string {
  const known = times.filter((time) => time !== null).sort((a, b) => a - b);
  const seconds = (ms: number | undefined) => ((ms ?? 0) / 1_000).toFixed(1);
  const never = times.length - known.length;
  const told = `${seconds(known[Math.floor(known.length / 2)])} (${seconds(known.at(-1))})`;
  return never === 0 ? told : `${told}, ${never} never`;
}

function formatLine(name: string, about: string, of: readonly ResultFigures[]): string {
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
    formatTimes(of.map(({ recoveredMs }) => recoveredMs)),
    formatTimes(of.map(({ settledMs }) => settledMs)),
  ];
  return `| ${cells.join(' | ')} |`;
}

/**
 * Formats campaign results as a Markdown table, one line per fault. Times are in seconds: the
 * median and the longest.
 */
export function formatResultTable(results: readonly ResultFigures[]): string {
  const head = [
    '| fault | what it is | campaigns | strikes | orders | runs | lost | doubled | failed | recovered, s (longest) | settled, s (longest) |',
    '| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |',
  ];
  const lines = faults.flatMap(({ name, about }) => {
    const of = results.filter(({ fault }) => fault === name);
    return of.length === 0 ? [] : [formatLine(name, about, of)];
  });
  return [...head, ...lines, formatLine('**all**', '', results)].join('\n');
}
