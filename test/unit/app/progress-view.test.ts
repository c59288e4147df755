import { describe, expect, test } from 'vitest';
import { ProgressView } from '../../../src/app/commands/rescan.ts';
import type { Rescan } from '../../../src/erp/rescan/rescans.ts';

describe('progress', () => {
  const makeRescan = (fetched: number, expected: number | null) =>
    ({ fetched, expected, pages: fetched / 100, missing: 2, stale: 1 }) as Rescan;

  test('draws and removes a bar on a terminal; elsewhere quick work writes nothing', async () => {
    const written: string[] = [];
    const write = (text: string) => written.push(text);
    const quick = new ProgressView('x', { write });
    quick.update(makeRescan(100, 1_000));
    quick.end();
    expect(written).toEqual([]);
    const bar = new ProgressView('x', { isTTY: true, write });
    const deadlineMs = performance.now() + 120_000;
    while (written.length === 0 && performance.now() < deadlineMs) {
      bar.update(makeRescan(100, 1_000));
      await new Promise(setImmediate);
    }
    bar.end();
    expect(written).toEqual([expect.stringMatching(/^\r.*\[###/s), '\r\u001b[K']);
  });
});
