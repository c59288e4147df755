import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

export type Figures = Readonly<Record<string, readonly number[]>>;

export const say = (text: string) => void process.stdout.write(`${text}\n`);

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return ((low ?? Number.NaN) + (high ?? Number.NaN)) / 2;
}

/** The value below which this share of them lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Figures with three digits that matter. */
export const round = (value: number) => (Number.isFinite(value) ? Number(value.toPrecision(3)) : value);

/**
 * Measures things by turns, so that whatever else the machine does meets them all: each round measures each of them
 * once, and begins with another one.
 * @param prepare what a round needs, not measured
 * @returns what each brought, by its name, a value a round
 */
export async function byTurns(
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
      process.stderr.write(`  round ${turn + 1} of ${rounds}: ${name} ${round(value ?? Number.NaN)}\n`);
    }
  }
  return figures;
}

/** The median of the ratios within each round. */
export function ratio(figures: Figures, of: string, to: string): number {
  return median((figures[of] ?? []).map((value, turn) => value / (figures[to]?.[turn] ?? Number.NaN)));
}

/** Keeps what a benchmark found in bench/results, with the machine it ran on. */
export function keep(name: string, results: object): void {
  const folder = fileURLToPath(new URL('../results/', import.meta.url));
  mkdirSync(folder, { recursive: true });
  const git = (...args: string[]) => spawnSync('git', args, { cwd: folder, encoding: 'utf8' }).stdout.trim();
  // What stands in this folder changes with every benchmark, and is none of what was measured.
  const changed = git('status', '--porcelain', '--', ':/', ':!.') !== '';
  const commit = git('rev-parse', '--short', 'HEAD') + (changed ? ', changed' : '');
  const document = {
    benchmark: name,
    at: new Date().toISOString().slice(0, 16),
    commit,
    machine: machine(),
    ...results,
  };
  writeFileSync(`${folder}${name}.json`, `${JSON.stringify(document, null, 2)}\n`);
  say(`Kept in bench/results/${name}.json`);
}

function machine(): string {
  const memory = Math.round(totalmem() / 1_024 ** 3);
  return `${cpus().length} cores of ${cpus()[0]?.model ?? 'an unknown make'}, ${memory} GB, Node ${process.versions.node}`;
}

/** Resident memory of a process in MB, as Linux counts it; 0 elsewhere. */
export function residentMb(pid: number | undefined): number {
  if (process.platform !== 'linux') return 0;
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
}

/** User and system time of a process, in hundredths of a second where Linux counts them; 0 elsewhere. */
export function cpuMsOf(pid: number | undefined): number {
  if (process.platform !== 'linux') return 0;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
