import { describe, expect, test } from 'vitest';
import type { RunReport } from '../../../src/schedule/run.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, findDifferences } = usePulls();
const services = useServices();

const list = 'v3.shipments.list';
const count = () => database.count('fulfilment.shipments');
const cursor = async () =>
  (await database.query<{ query: string }>(`select query from sync.cursors where pass = 'new'`))[0]
    ?.query;
const differences = () => findDifferences(['orders', 'shipments']);
const code = (report: RunReport) =>
  'error' in report ? (report.error as { code?: string }).code : report.status;

/** Removes all faults, polls, and expects the tables to equal the sandbox. */
async function expectRecovery() {
  await sandbox.clearFaults();
  done(await pull('pull-shipments'));
  done(await pull('pull-orders'));
  expect(await differences()).toEqual([]);
}

describe('a run that meets', () => {
  test('a next link to another host fails, sends nothing to it, and keeps the pages read', async () => {
    const thief = await services.start((_request, response) => response.end());
    await sandbox.seed(250);
    await sandbox.faults({
      operation: list,
      after: 1,
      count: 1,
      effect: { nextOrigin: `http://localhost:${thief.url.port}` },
    });
    const report = await pull('pull-shipments');
    expect(code(report)).toBe('link_elsewhere');
    expect(await database.query('select error from sync.runs')).toEqual([
      { error: expect.stringContaining('http://localhost') },
    ]);
    expect(thief.requests).toEqual([]);
    expect(await count()).toBe(200);
    await expectRecovery();
  });

  test.each([
    ['a body cut short', { truncate: true }, 'connection_lost'],
    ['a list without data', { set: [{ path: ['data'], value: 'none' }] }, 'undecodable'],
  ])('%s again and again fails, and keeps cursor and rows', async (_what, effect, expected) => {
    await sandbox.seed(350);
    await sandbox.faults({ operation: list, after: 2, effect });
    expect(code(await pull('pull-shipments'))).toBe(expected);
    expect(await count()).toBe(200);
    expect(await cursor()).toMatch(/cursor/);
    await expectRecovery();
  });

  test('an error text that Postgres cannot store is still recorded as failed', async () => {
    await sandbox.seed(1);
    const title = { path: ['errors', 0, 'title'], value: 'bad value \0 \ud800' };
    await sandbox.faults({ operation: list, effect: { status: 400, set: [title] } });
    expect(code(await pull('pull-shipments'))).toBe('http_status');
    expect(await database.query('select status from sync.runs')).toEqual([{ status: 'failed' }]);
  });
});

describe('reads by id', () => {
  const openRows = () => database.ids(`fulfilment.shipments where status <> 'SHIPPED'`);
  /**
   * Makes shipments that only a read by id can settle, because the list is empty. Returns their
   * ids.
   */
  async function makeShipmentsOutOfLists(shipments: number): Promise<number[]> {
    await sandbox.seed(shipments, { statuses: ['READY_TO_PICK'], spreadDays: 0 });
    done(await pull('pull-shipments'));
    const ids = await openRows();
    await sandbox.setStatus(ids, 'SHIPPED');
    await sandbox.faults({ operation: list, effect: emptyList });
    return ids;
  }

  test.each([
    ['is answered by a proxy', { status: 404, html: true }],
    ['is broken', { invalidJson: true }],
  ])('one that %s is postponed, and the others are read', async (_what, effect) => {
    const [first] = await makeShipmentsOutOfLists(5);
    await sandbox.faults({ operation: 'v3.shipments.get', count: 1, effect });
    expect(done(await pull('pull-shipments')).warnings).toHaveLength(1);
    expect(await openRows()).toEqual([first]);
    expect(
      await database.query("select id, tries from sync.waiting_reads where resource = 'shipments'"),
    ).toEqual([{ id: first, tries: 1 }]);
    await database.query('update sync.waiting_reads set next_at = now()');
    done(await pull('pull-shipments'));
    expect(await openRows()).toEqual([]);
  });

  test('that fail in a row count as an outage: the run fails, and what was read is kept', async () => {
    const ids = await makeShipmentsOutOfLists(8);
    await sandbox.faults({
      operation: 'v3.shipments.get',
      after: 2,
      effect: { invalidJson: true },
    });
    expect(code(await pull('pull-shipments'))).toBe('undecodable');
    expect(await openRows()).toEqual(ids.slice(2));
  });
});

describe('a resource that cannot be decoded', () => {
  const quantity = (value: unknown) => [
    { path: ['data', 1, 'included', 0, 'attributes', 'quantity'], value },
  ];

  test('is quarantined whole with its reason; a later good version releases it', async () => {
    await sandbox.seed(150);
    await sandbox.faults({ operation: list, count: 1, effect: { set: quantity('three') } });
    expect(done(await pull('pull-shipments'))).toMatchObject({ quarantined: 1 });
    expect(await count()).toBe(149);
    const [row] = await database.query<{ resource_id: number }>('select * from sync.quarantine');
    const id = row?.resource_id ?? 0;
    expect(row).toMatchObject({
      reason: expect.stringContaining('number'),
      member_path: expect.stringMatching(/^included\.shipmentItem\.\d+\.attributes\.quantity$/),
      document: expect.stringContaining('"quantity":"three"'),
    });
    // None of its items was stored either.
    expect(await database.count(`fulfilment.shipment_items where shipment_id = ${id}`)).toBe(0);

    await sandbox.setStatus([id], 'READY_TO_SHIP');
    await expectRecovery();
    expect(await database.count('sync.quarantine')).toBe(0);
  });

  test('is reread by id after growing pauses, even if many are; each is released when it can be decoded', async () => {
    await sandbox.seed(300);
    const bad = (...place: (string | number)[]) => ({ path: ['data', ...place], value: 'parcel' });
    const rows = Array.from({ length: 15 }, (_, index) => bad(index, 'type'));
    await sandbox.faults(
      { operation: list, count: 2, effect: { set: rows } },
      { operation: 'v3.shipments.get', effect: { set: [bad('type')] } },
    );
    expect(done(await pull('pull-shipments'))).toMatchObject({ quarantined: 30 });
    await database.query(`update sync.waiting_reads set next_at = next_at - interval '1 minute'`);
    for (let polls = 0; polls < 2; polls++) done(await pull('pull-shipments'));
    expect(
      await database.query(
        'select count(*)::int as n, min(tries) as least, max(tries) as most from sync.waiting_reads where tries > 0',
      ),
    ).toEqual([{ n: 30, least: 1, most: 1 }]);
    await database.query('update sync.waiting_reads set next_at = now()');
    await expectRecovery();
    expect(await database.count('sync.quarantine')).toBe(0);
    expect(await database.count(`sync.waiting_reads where resource = 'shipments'`)).toBe(0);
  });

  test('too many of them fail the run, keep the cursor and do not fill the quarantine', async () => {
    await sandbox.seed(100);
    const set = Array.from({ length: 30 }, (_, row) => ({ path: ['data', row, 'id'], value: 'x' }));
    await sandbox.faults({ operation: list, effect: { set } });
    expect(code(await pull('pull-shipments'))).toBe('quarantine_share');
    expect(await database.count('sync.quarantine')).toBe(0);
    expect(await cursor()).toBeUndefined();
    await expectRecovery();
  });

  test('a shipment that comes without some items keeps its stored ones, and the run warns', async () => {
    await sandbox.seed(3, { statuses: ['READY_TO_PICK'] });
    done(await pull('pull-shipments'));
    const before = await database.ids('fulfilment.shipment_items');
    const set = [{ path: ['data', 0, 'included'], value: [] }];
    await sandbox.faults({ operation: list, effect: { set } });
    const { warnings } = done(await pull('pull-shipments'));
    expect(warnings).toContain('a shipment came without all of its items');
    expect(await database.ids('fulfilment.shipment_items')).toEqual(before);
  });
});

test('a shipment without an order is not marked as unlisted after a 404', async () => {
  await sandbox.seed(2);
  done(await pull('pull-shipments'));
  await database.query(`update fulfilment.shipments set order_id = null, status = 'ERROR'`);
  await sandbox.faults({ operation: 'v3.shipments.get', effect: { status: 404 } });
  done(await pull('pull-shipments'));
  expect(await database.count('fulfilment.shipments where unlisted_since is not null')).toBe(0);
  expect(await database.query('select reason from sync.waiting_reads')).toContainEqual({
    reason: 'not_found',
  });
});
