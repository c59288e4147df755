import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A figure that `bench:quick` guards. */
export interface Figure {
  readonly name: string;
  /** Null if it could not be measured. */
  readonly value: number | null;
  /** Whether a larger or a smaller value is better. */
  readonly better: 'more' | 'less';
}

/** Accepted values by the names of their figures, and where they were measured. */
export interface Accepted {
  readonly at: string;
  readonly machine: string;
  readonly values: Readonly<Record<string, number>>;
}

/** A figure is worse if it keeps less than this share of its accepted value. */
const keptShare = 0.8;
const file = fileURLToPath(new URL('../results/accepted.json', import.meta.url));

/** Reads the accepted values; null if none were ever accepted. */
export function readAccepted(): Accepted | null {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Accepted) : null;
}

/** Writes the accepted values. A figure that could not be measured keeps its former value. */
export function writeAccepted(
  figures: readonly Figure[],
  former: Accepted | null,
  where: Omit<Accepted, 'values'>,
): void {
  const measured = figures.flatMap(({ name, value }) => (value === null ? [] : [[name, value] as const]));
  const values = { ...former?.values, ...Object.fromEntries(measured) };
  writeFileSync(file, `${JSON.stringify({ ...where, values }, null, 2)}\n`);
}

/** Returns true if a figure is worse than its accepted value allows. What has no accepted value is not worse. */
export function isWorse({ value, better }: Figure, accepted: number | undefined): boolean {
  if (value === null || accepted === undefined) return false;
  return better === 'more' ? value < accepted * keptShare : value > accepted / keptShare;
}

/** Formats the figures as a table, each beside its accepted value. */
export function formatFigures(figures: readonly Figure[], accepted: Accepted | null): string[] {
  const width = Math.max(...figures.map(({ name }) => name.length));
  return figures.map((figure) => {
    const former = accepted?.values[figure.name];
    const words = figure.value === null ? 'not measured' : String(figure.value);
    const end = isWorse(figure, former) ? 'WORSE' : '';
    return `${figure.name.padEnd(width)}  ${words.padStart(12)}  accepted ${String(former ?? 'none').padStart(8)}  ${end}`.trimEnd();
  });
}
