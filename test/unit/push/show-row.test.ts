import { expect, test } from 'vitest';
import { adviseOperator } from '../../../src/push/show-row.ts';
import type { OutboxDetail } from '../../../src/push/sql/read-outbox.ts';

const pending: OutboxDetail = {
  id: 2,
  client: 'default',
  kind: 'order.update',
  reference: 'SO-1',
  status: 'pending',
  attempts: 1,
  nextAttemptAt: new Date(),
  notBefore: null,
  createdAt: new Date(),
  finishedAt: null,
  because: 'the service answered 500',
  payload: '{}',
  result: null,
  lastError: 'the service answered 502',
  mayBeCarriedOut: false,
  waitsFor: null,
  rowsBehind: [],
  history: [],
};

test('a row that waits for no other one is sent by itself, whatever its last error was', () => {
  expect(adviseOperator(pending)).toContain('sent by itself as soon as the reason is gone');
});

test('a row that waits for another one says so, even in the words of its last error', () => {
  const blocked = { ...pending, waitsFor: 1, lastError: pending.because };
  expect(adviseOperator(blocked)).toContain('It waits: the service answered 500. The row is sent');
});

test.each([
  [true, 'Nothing needs to be done'],
  [false, 'The service cancelled nothing'],
])('a cancellation that is done says if it cancelled nothing (modified: %s)', (modified, words) => {
  const done = { ...pending, status: 'done', because: null, result: { orderId: 7, modified } };
  expect(adviseOperator(done)).toContain(words);
});
