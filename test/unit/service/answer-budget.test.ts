import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { AnswerBudget } from '../../../src/service/transport/answer-budget.ts';

const { signal } = new AbortController();

test('an answer waits until others have given back what it needs, in the order of the requests', async () => {
  const budget = new AnswerBudget(100);
  const first = await budget.reserve(70, signal);
  const granted: string[] = [];
  const large = budget.reserve(60, signal).then((part) => {
    granted.push('large');
    return part;
  });
  const small = budget.reserve(10, signal).then(() => granted.push('small'));
  await turn();
  expect(granted).toEqual([]);
  first.shrink(30);
  await Promise.all([large, small]);
  expect(granted).toEqual(['large', 'small']);
});

test('an answer larger than the budget waits until it is alone, and gives back what it took', async () => {
  const budget = new AnswerBudget(100);
  const first = await budget.reserve(1, signal);
  let isGranted = false;
  const huge = budget.reserve(Number.POSITIVE_INFINITY, signal).then((part) => {
    isGranted = true;
    return part;
  });
  await turn();
  expect(isGranted).toBe(false);
  first.release();
  first.release();
  const part = await huge;
  part.release();
  await budget.reserve(100, signal);
});

test('a request that is stopped while it waits takes nothing, and holds nobody up', async () => {
  const budget = new AnswerBudget(100);
  const first = await budget.reserve(60, signal);
  const abort = new AbortController();
  const stopped = budget.reserve(100, abort.signal);
  const next = budget.reserve(40, signal);
  abort.abort();
  await expect(stopped).rejects.toMatchObject({ code: 'stopped' });
  await next;
  first.release();
  await budget.reserve(60, signal);
});
