import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { limitConcurrency } from '../../../src/core/limit-concurrency.ts';

test('at most two pieces of work run at a time, in their order, and a failing one frees its place', async () => {
  const limited = limitConcurrency(2);
  const events: string[] = [];
  let running = 0;
  let mostRunning = 0;
  const work = (name: string, turns: number) =>
    limited(async () => {
      mostRunning = Math.max(mostRunning, ++running);
      events.push(name);
      for (let count = 0; count < turns; count++) await turn();
      running--;
      if (name === 'b') throw new Error('failed');
      return name;
    });

  const results = await Promise.allSettled([
    work('a', 9),
    work('b', 2),
    work('c', 1),
    work('d', 1),
  ]);

  expect(results.map((result) => (result.status === 'fulfilled' ? result.value : null))).toEqual([
    ...['a', null, 'c', 'd'],
  ]);
  expect(events).toEqual(['a', 'b', 'c', 'd']);
  expect(mostRunning).toBe(2);
});
