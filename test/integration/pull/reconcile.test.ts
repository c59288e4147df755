import { describe, expect, test } from 'vitest';
import { StoppedError } from '../../../src/core/errors.ts';
import { reconcileStream } from '../../../src/pull/rescan.ts';
import { findBackgroundBackfills, openRescan } from '../../../src/pull/sql/rescans.ts';
import { toRescanContext } from '../../../src/pull/stream.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import type { RunReport } from '../../../src/schedule/run.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList, lively } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, work, reconcile, findDifferences } = usePulls({
  ...lively,
  ordersPerDay: 30,
});

const day = 86_400;
const differences = () => findDifferences();
const names = streams.map(({ name }) => name);

async function pollAll(): Promise<void> {
  for (const name of names) done(await pull(`pull-${name}` as Parameters<typeof pull>[0]));
}

const reconcileEach = async () => {
  const found: Record<string, string> = {};
  for (const name of names) {
    const { report, rescan } = await reconcile(name);
    done(report);
    found[name] = `${rescan?.missing}/${rescan?.stale}/${rescan?.extra}`;
  }
  return found;
};
const noFindings = Object.fromEntries(names.map((name) => [name, '0/0/0']));
const reconcileJob = (env?: Record<string, string>) =>
  pull('reconcile', env === undefined ? {} : { env });
const errorCode = (report: RunReport) =>
  'error' in report ? (report.error as { code?: string }).code : report.status;

describe('the turn of a rescan', () => {
  const findStream = (name: string) => {
    const stream = streams.find((known) => known.name === name);
    if (stream === undefined) throw new Error(`no stream ${name}`);
    return stream;
  };
  /** Reconciles a stream in a run whose turn is over after each page. */
  const reconcileOneTurn = (name: string) =>
    work('reconcile', async (context) => {
      const endTurn = () => {
        throw new StoppedError();
      };
      await reconcileStream(toRescanContext({ ...context, endTurn }, findStream(name)), 'worker');
    });

  test('ends after a page; the next run continues there', async () => {
    await sandbox.seed(250);
    done(await pull('pull-shipments'));
    const before = await sandbox.count('v3.shipments.list');
    const statuses: string[] = [];
    while (statuses.at(-1) !== 'done' && statuses.length < 9)
      statuses.push((await reconcileOneTurn('shipments')).status);

    expect(statuses.slice(-3)).toEqual(['stopped', 'stopped', 'done']);
    // Each turn reads the page of its place again, the next one, and what it has read ahead.
    expect((await sandbox.count('v3.shipments.list')) - before).toBeLessThanOrEqual(9);
    expect(
      await database.query(`
        select missing, stale, extra, error, finished_at is not null as finished
        from sync.rescans
        where stream = 'shipments'`),
    ).toEqual([{ missing: 0, stale: 0, extra: 0, error: null, finished: true }]);
  });

  test('does not end while two complete lists must prove an absence', async () => {
    await sandbox.advance(10 * day);
    done(await pull('pull-inbound-packing-slips'));
    expect(await reconcileOneTurn('inbound-packing-slips')).toMatchObject({ status: 'done' });
  });
});

/** Damage to one stream: its statements, and what a reconciliation must find. */
interface Damage {
  readonly stream: string;
  readonly sql: readonly string[];
  readonly found: string;
  /**
   * Findings of the next reconciliation. An added row is marked after two walks if it cannot be
   * read by id.
   */
  readonly foundNext?: string;
}

const selectParentId = (table: string, nth: number) =>
  `(select id from fulfilment.${table} order by id offset ${nth} limit 1)`;
/**
 * Returns a statement that copies the last row of a table under an id that the service does not
 * have.
 * @param changes further members of the copy, as SQL arguments
 */
const copyLastRow = (table: string, changes = '') =>
  `insert into fulfilment.${table} select (jsonb_populate_record(t, jsonb_build_object('id', 99999999${changes}))).*
   from fulfilment.${table} t order by t.id desc limit 1`;

const damages: readonly Damage[] = [
  {
    stream: 'shipments',
    sql: [
      `delete from fulfilment.shipment_items where shipment_id = ${selectParentId('shipments', 5)}`,
      `delete from fulfilment.shipments where id = ${selectParentId('shipments', 5)}`,
      `delete from fulfilment.shipment_items where shipment_id = ${selectParentId('shipments', 8)}`,
      `update fulfilment.shipments set warehouse_code = 'XXX' where id = ${selectParentId('shipments', 10)}`,
      `update fulfilment.shipments set shipped_on = shipped_on - interval '1 microsecond' where id = ${selectParentId('shipments', 11)}`,
      `update fulfilment.shipment_items set quantity = quantity + 1 where shipment_id = ${selectParentId('shipments', 13)}`,
      `update fulfilment.shipments set raw = raw || '{"mine": 1}' where id = ${selectParentId('shipments', 14)}`,
      copyLastRow('shipments'),
    ],
    found: '1/5/1',
  },
  {
    stream: 'orders',
    sql: [
      `delete from fulfilment.order_items where order_id = ${selectParentId('orders', 3)}`,
      `delete from fulfilment.order_addresses where order_id = ${selectParentId('orders', 3)}`,
      `delete from fulfilment.orders where id = ${selectParentId('orders', 3)}`,
      `update fulfilment.order_items set price = price + 0.0001 where order_id = ${selectParentId('orders', 4)}`,
      `update fulfilment.order_addresses set city = null, id = 7 where order_id = ${selectParentId('orders', 5)} and role = 'billing'`,
      `update fulfilment.orders set pick_up_point = '{"a": 1}' where pick_up_point is not null and id = (select max(id) from fulfilment.orders where pick_up_point is not null)`,
      copyLastRow('orders'),
      copyLastRow('order_items', `, 'order_id', ${selectParentId('orders', 9)}`),
    ],
    found: '1/4/1',
  },
  {
    stream: 'return-items',
    sql: [
      `delete from fulfilment.return_items where id = ${selectParentId('return_items', 1)}`,
      `update fulfilment.return_items set redeliver = not redeliver where id = ${selectParentId('return_items', 2)}`,
      copyLastRow('return_items'),
    ],
    found: '1/1/0',
    foundNext: '0/0/1',
  },
  {
    stream: 'inbound-packing-slips',
    sql: [
      `delete from fulfilment.inbound_packing_slip_items where inbound_packing_slip_id = ${selectParentId('inbound_packing_slips', 1)}`,
      `delete from fulfilment.inbound_packing_slips where id = ${selectParentId('inbound_packing_slips', 1)}`,
      `update fulfilment.inbound_packing_slip_items set received = received + 1 where inbound_packing_slip_id = ${selectParentId('inbound_packing_slips', 2)}`,
      `insert into fulfilment.inbound_packing_slip_items select (jsonb_populate_record(t, '{"id": 88888888}')).*
       from fulfilment.inbound_packing_slip_items t order by id desc limit 1`,
      copyLastRow('inbound_packing_slips'),
    ],
    found: '1/2/0',
    foundNext: '0/0/1',
  },
  {
    stream: 'inbounds',
    sql: [
      `delete from fulfilment.inbound_items where inbound_id = ${selectParentId('inbounds', 1)}`,
      `delete from fulfilment.inbounds where id = ${selectParentId('inbounds', 1)}`,
      `update fulfilment.inbounds set created_on = created_on + interval '1 s' where id = ${selectParentId('inbounds', 2)}`,
      copyLastRow('inbounds'),
      copyLastRow('inbound_items'),
    ],
    found: '1/1/2',
  },
];

test('tables damaged by hand: exactly the damage is found and healed', async () => {
  await sandbox.advance(30 * day);
  await pollAll();
  expect(await differences()).toEqual([]);
  for (const { sql } of damages) for (const statement of sql) await database.query(statement);
  const expected = Object.fromEntries(damages.map(({ stream, found }) => [stream, found]));
  expect(await reconcileEach()).toEqual(expected);
  const next = Object.fromEntries(
    damages.map(({ stream, foundNext = '0/0/0' }) => [stream, foundNext]),
  );
  expect(await reconcileEach()).toEqual(next);
  expect(await differences()).toEqual([]);
  expect(await reconcileEach()).toEqual(noFindings);
  const findings = await database.query<{ stream: string; found: string }>(`
    select stream, concat_ws('/', count(*) filter (where finding = 'missing'), count(*) filter (where finding = 'stale'),
      count(*) filter (where finding = 'extra')) as found
    from sync.findings group by stream`);
  const sums = damages.map(({ stream, found, foundNext = '0/0/0' }) => {
    const [first, second] = [found, foundNext].map((counts) => counts.split('/').map(Number));
    return [stream, first?.map((count, index) => count + (second?.[index] ?? 0)).join('/')];
  });
  expect(Object.fromEntries(findings.map(({ stream, found }) => [stream, found]))).toEqual(
    Object.fromEntries(sums),
  );
  // How late a row was found is counted from its newest date, by the service's clock.
  const late = `sync.findings where late_seconds between 1 and ${31 * day}`;
  expect(await database.count(late)).toBeGreaterThan(0);
});

test('a service that suddenly lists nothing: nothing is changed, and each stream fails', async () => {
  await sandbox.advance(30 * day);
  await pollAll();
  const before = await database.query('select seq from fulfilment.changes');
  await sandbox.faults(...streams.map(({ list }) => ({ operation: list, effect: emptyList })));
  expect(errorCode(await reconcileJob())).toBe('too_many_extras');
  expect(await database.query('select seq from fulfilment.changes')).toEqual(before);
  const failed = await database.query<{ stream: string; error: string }>(
    `select stream, error from sync.rescans where outcome = 'failed'`,
  );
  expect(failed.map(({ stream }) => stream).sort()).toEqual([...names].sort());
  for (const { error } of failed) expect(error).toContain('lacks');
  await sandbox.clearFaults();
  expect(await reconcileEach()).toEqual(noFindings);
});

test('many rows that the list lacks do not fail the run if they can be read by id', async () => {
  await sandbox.seed(200);
  done(await pull('pull-shipments'));
  // The second page is empty: the service knows a hundred rows that its list lacks.
  await sandbox.faults({ operation: 'v3.shipments.list', after: 1, count: 1, effect: emptyList });
  const report = await reconcileJob();
  expect(report.status).toBe('done');
  expect(
    await database.query('select 1 from fulfilment.shipments where unlisted_since is not null'),
  ).toEqual([]);
});

test('workers run a backfill that was requested in the background', async () => {
  await sandbox.advance(30 * day);
  await pollAll();
  await database.query('delete from fulfilment.return_items');
  const request = {
    client: 'default',
    stream: 'return-items',
    kind: 'backfill',
    from: null,
    to: null,
  } as const;
  const { id } = await openRescan(database.db, { ...request, background: true });
  expect((await openRescan(database.db, { ...request, background: true })).id).toBe(id);
  expect(await findBackgroundBackfills(database.db, 'default')).toMatchObject([{ id }]);
  done(await pull('backfill'));
  expect(await findBackgroundBackfills(database.db, 'default')).toEqual([]);
  expect(await findDifferences(['return-items'])).toEqual([]);
  expect(
    await database.query('select next_at::text from sync.jobs where job = $1', ['backfill']),
  ).toEqual([{ next_at: 'infinity' }]);
});

test('the daily job makes reads due that a clock that jumped ahead and back had postponed', async () => {
  await database.query(`
    insert into sync.waiting_reads (client, resource, id, tries, next_at, reason)
    select 'default', resource, id, 1, sync.clock() + days * interval '1 day', reason
    from (values ('shipments', 1, 0.9, 'read_failed'), ('shipments', 2, 5, 'read_failed'),
      ('parcels', 3, 30, 'aging'), ('parcels', 4, 36, 'aging')) w (resource, id, days, reason)`);

  done(await reconcileJob());

  expect(
    await database.query(
      'select id from sync.waiting_reads where next_at <= sync.clock() order by id',
    ),
  ).toEqual([{ id: 2 }, { id: 4 }]);
});
