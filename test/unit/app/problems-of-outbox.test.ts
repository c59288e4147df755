import { expect, test } from 'vitest';
import { findOutboxProblems } from '../../../src/app/health/problems.ts';
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
const describeProblems = (snapshot: Partial<Parameters<typeof findOutboxProblems>[0]>) =>
  findOutboxProblems({ outbox: [], holds: [], clients: [], database: null, ...snapshot }, now).map(
    ({ severity, subject, text, remedy }) => `${severity} ${subject}: ${text}; ${remedy}`,
  );

test.each<[Partial<StoredHealth>, string]>([
  [
    {},
    'bad shop: no order.update is sent for 10m: v3.orders.update: answered 500; next try in 30s; other kinds continue',
  ],
  [
    { untilInMs: -1 },
    'bad shop: order.update is sent one row at a time since a hold that began 10m ago: v3.orders.update: answered 500; other kinds continue; the number grows with each row that is done',
  ],
  [
    { untilInMs: -1, sendWindow: 5 },
    'note shop: order.update is sent 5 rows at a time since a hold that began 10m ago: v3.orders.update: answered 500; other kinds continue; the number grows with each row that is done',
  ],
  [
    { kind: '', code: 'breaker_open', sendWindow: null, untilInMs: -1, reason: 'common.status.get: answered 502' },
    'bad shop: no row is sent for 10m: common.status.get: answered 502; a try is under way; pulls and other clients continue',
  ],
])('a hold is shown with what waits, since when, why, and what continues: %j', (changes, expected) => {
  expect(describeProblems({ holds: [{ ...health, ...changes }] })).toEqual([expected]);
});

test('a known client that no worker serves is a problem if its rows wait', () => {
  const stuck =
    'bad shop: 1 row is stuck: it is unknown whether the service carried it out; check at the service, then mark as done or retry; list them with: fulfilment-sync outbox list --status unknown';
  const unserved = (last: string) =>
    `bad shop: 3 rows wait, and no worker pushes for this client: ${last}; start a worker that has this client in its configuration`;
  expect(describeProblems({ outbox: [rows], clients: [client(ago(60))] })).toEqual([stuck]);
  expect(describeProblems({ outbox: [rows], clients: [client(ago(300))] })).toEqual([
    unserved('a worker last did 5m ago'),
    stuck,
  ]);
  expect(describeProblems({ outbox: [rows], clients: [client(null)] })).toEqual([
    unserved('no worker ever did'),
    stuck,
  ]);
  // An unknown client is no problem: the workers mark its rows as dead.
  expect(describeProblems({ outbox: [{ ...rows, unknown: 0, toDecide: 0 }] })).toEqual([]);
  expect(describeProblems({ outbox: [{ ...rows, pending: 0 }], clients: [client(null)] })).toEqual([stuck]);
});

test('stuck rows of all clients that are not known are one problem', () => {
  const invented = Array.from({ length: 600 }, (_, index) => ({
    ...rows,
    client: `no-${index}`,
    toDecide: 0,
    dead: 1,
  }));
  expect(
    describeProblems({ outbox: [...invented, { ...rows, dead: 1, toDecide: 0 }], clients: [client(now)] }),
  ).toEqual([
    'bad shop: 1 row is dead and blocks its lane; retry, mark as done, replace or cancel; list them with: fulfilment-sync outbox list --status dead',
    'bad every client: 600 rows are dead or stuck and name 600 clients that are not known here; add the clients to a worker, or cancel the rows: fulfilment-sync outbox list --status dead',
  ]);
});
