import { expect, test } from 'vitest';
import { problemsOfOutbox } from '../../../src/app/health/problems-of-outbox.ts';
import type { StoredHealth } from '../../../src/erp/outbox/holds.ts';
import type { OutboxStatus } from '../../../src/erp/reports/outbox-status.ts';
import type { KnownClient } from '../../../src/erp/runs/clients.ts';

const now = new Date('2026-05-04T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000);
const health: StoredHealth = {
  client: 'shop',
  kind: 'order.update',
  code: 'kind_failing',
  reason: 'v3.orders.update: answered 500',
  failures: 7,
  sendWindow: 1,
  since: ago(600),
  untilInMs: 30_000,
  probe: false,
};
const rows: OutboxStatus = {
  client: 'shop',
  pending: 3,
  sending: 0,
  unknown: 1,
  toDecide: 1,
  dead: 0,
  doneLastDay: 0,
  oldestSeconds: 60,
  oldestMovingSeconds: 60,
};
const client = (servedAt: Date | null) => ({ client: 'shop', servedAt }) as KnownClient;
const say = (snapshot: Partial<Parameters<typeof problemsOfOutbox>[0]>) =>
  problemsOfOutbox({ outbox: [], holds: [], rates: [], clients: [], database: null, ...snapshot }, now).map(
    ({ severity, subject, text, remedy }) => `${severity} ${subject}: ${text}; ${remedy}`,
  );

test.each<[Partial<StoredHealth>, string]>([
  [
    {},
    'bad shop: no order.update is sent for 10m: v3.orders.update: answered 500; tried again in 30s; other kinds go on',
  ],
  [
    { untilInMs: -1 },
    'bad shop: order.update is sent one row at a time, after a hold that began 10m ago: v3.orders.update: answered 500; other kinds go on; more with each row that gets through',
  ],
  [
    { untilInMs: -1, sendWindow: 5 },
    'note shop: order.update is sent 5 rows at a time, after a hold that began 10m ago: v3.orders.update: answered 500; other kinds go on; more with each row that gets through',
  ],
  [
    { kind: '', code: 'breaker_open', probe: true, untilInMs: -1, reason: 'common.status.get: answered 502' },
    'bad shop: nothing is sent for 10m: common.status.get: answered 502; being tried again; pulls and other clients go on',
  ],
])('a hold says what waits, since when, why, and what goes on: %j', (changes, expected) => {
  expect(say({ holds: [{ ...health, ...changes }] })).toEqual([expected]);
});

test('a rate that had to be lowered is no fault, and says what is sent', () => {
  expect(say({ rates: [{ client: 'shop', perSecond: 12.34, since: ago(120), refused: 9 }] })).toEqual([
    'note shop: the service refuses rows that come too fast (429, 9 times for 2m): 12.3 a second are sent; it grows by itself; no attempt is burnt',
  ]);
});

test('a known client that no worker serves is named where its rows wait', () => {
  const decide =
    'bad shop: 1 row waits for a person to say what became of it; see: fulfilment-sync outbox list --status unknown';
  const unserved = (last: string) =>
    `bad shop: 3 rows wait, and no worker pushes for this client: ${last}; start a worker that is set up with it`;
  expect(say({ outbox: [rows], clients: [client(ago(60))] })).toEqual([decide]);
  expect(say({ outbox: [rows], clients: [client(ago(300))] })).toEqual([
    unserved('the last one was there 5m ago'),
    decide,
  ]);
  expect(say({ outbox: [rows], clients: [client(null)] })).toEqual([unserved('none ever did'), decide]);
  // Nobody knows it: its rows are ended by themselves.
  expect(say({ outbox: [{ ...rows, unknown: 0, toDecide: 0 }] })).toEqual([]);
  expect(say({ outbox: [{ ...rows, pending: 0 }], clients: [client(null)] })).toEqual([decide]);
});
