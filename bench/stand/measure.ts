import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

export type Figures = Readonly<Record<string, readonly number[]>>;

export const printLine = (text: string) => void process.stdout.write(`${text}\n`);

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return ((low ?? Number.NaN) + (high ?? Number.NaN)) / 2;
}

/** Returns the value below which this share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Rounds a figure to three significant digits. */
export const round = (value: number) =>
  Number.isFinite(value) ? Number(value.toPrecision(3)) : value;

/**
 * Measures subjects by turns, so that other load on the machine affects all of them. Each round
 * measures each subject once, and begins with another one.
 * @param prepare prepares a round; not measured
 * @returns the values of each subject by its name, one per round
 */
export async function measureByTurns(
  rounds: number,
  subjects: Readonly<Record<string, (round: number) => Promise<number>>>,
  prepare: (round: number) => Promise<void> = async () => undefined,
): Promise<Figures> {
  const names = Object.keys(subjects);
  const figures: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
  for (let turn = 0; turn < rounds; turn++) {
    await prepare(turn);
    for (let index = 0; index < names.length; index++) {
      const name = names[(index + turn) % names.length] as string;
      const value = await subjects[name]?.(turn);
      figures[name]?.push(value ?? Number.NaN);
      process.stderr.write(
        `  round ${turn + 1} of ${rounds}: ${name} ${round(value ?? Number.NaN)}\n`,
      );
    }
  }
  return figures;
}

/** Returns the median of the ratios within each round. */
export function medianRatio(figures: Figures, of: string, to: string): number {
  return median(
    (figures[of] ?? []).map((value, turn) => value / (figures[to]?.[turn] ?? Number.NaN)),
  );
}

/** Writes the results of a benchmark to bench/results, with the commit and the machine. */
export function saveResults(name: string, results: object): void {
  const folder = fileURLToPath(new URL('../results/', import.meta.url));
  mkdirSync(folder, { recursive: true });
  const git = (...args: string[]) =>
    spawnSync('git', args, { cwd: folder, encoding: 'utf8' }).stdout.trim();
  // Ignores changes in the results folder: every benchmark changes it, and it is not part of the
  // program.
  const changed = git('status', '--porcelain', '--', ':/', ':!.') !== '';
  const commit = git('rev-parse', '--short', 'HEAD') + (changed ? ', changed' : '');
  const document = {
    benchmark: name,
    at: new Date().toISOString().slice(0, 16),
    commit,
    machine: describeMachine(),
    ...results,
  };
  writeFileSync(`${folder}${name}.json`, `${JSON.stringify(document, null, 2)}\n`);
  printLine(`Kept in bench/results/${name}.json`);
}

/** Describes the machine in words. */
function describeMachine(): string {
  const memory = Math.round(totalmem() / 1_024 ** 3);
  return `${cpus().length} cores of ${cpus()[0]?.model ?? 'an unknown make'}, ${memory} GB, Node ${process.versions.node}`;
}

/** Returns the resident memory of a process in MB; 0 if this is not Linux. */
export function readResidentMb(pid: number | undefined): number {
  if (process.platform !== 'linux') return 0;
  return (
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024
  );
}

/**
 * Returns the user and system time of a process in ms, in steps of 10 ms; 0 if this is not Linux.
 */
export function readCpuMs(pid: number | undefined): number {
  if (process.platform !== 'linux') return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
