import { median } from './measure.ts';
import { collectOutput, type Stand } from './stand.ts';

/** Returns the median milliseconds of some work that is done several times. */
export async function measureMedian(times: number, work: () => Promise<unknown>): Promise<number> {
  const found: number[] = [];
  for (let turn = 0; turn < times; turn++) {
    const startedAtMs = performance.now();
    await work();
    found.push(performance.now() - startedAtMs);
  }
  return median(found);
}

/**
 * Returns the median milliseconds of the command `status`, with the start of its process.
 * @param program path of the bundle, which is what users run
 */
export const measureStatus = (
  stand: Stand,
  settings: Readonly<Record<string, string>>,
  program: string,
  times = 5,
): Promise<number> =>
  measureMedian(times, () =>
    collectOutput(stand.start([program, 'status', '--json'], settings), 'status'),
  );
