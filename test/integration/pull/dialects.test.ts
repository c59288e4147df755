import { expect, test } from 'vitest';
import type { JobName } from '../../../config/jobs.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { dialects } from '../../../src/sandbox/options.ts';
import { useClient } from '../../helpers/client.ts';
import { type TestDatabase, useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const databases = { plain: useDatabase(), rich: useDatabase() };
const sandbox = useSandbox(['default'], { ...lively, ordersPerDay: 8 });
const client = useClient(sandbox);
const pulls = {
  plain: usePuller(databases.plain, sandbox),
  rich: usePuller(databases.rich, sandbox),
};
const pushers = {
  plain: usePusher(databases.plain, sandbox),
  rich: usePusher(databases.rich, sandbox),
};
const jobs: readonly JobName[] = [
  'pull-shipments',
  'pull-orders',
  'pull-return-items',
  'pull-inbounds',
  'pull-inbound-packing-slips',
];

/**
 * Returns all rows of all tables of the mirror, without `raw`, ids of addresses and times of our
 * own.
 */
async function readTables({
  query,
}: TestDatabase): Promise<Map<string, Record<string, unknown>[]>> {
  const tables = await query<{ name: string }>(`
    select table_name as name from information_schema.columns join information_schema.tables t using (table_schema, table_name)
    where t.table_type = 'BASE TABLE' and table_schema = 'fulfilment' and column_name = 'raw' order by 1`);
  const omitted = [
    'raw',
    'read_no',
    'first_seen_at',
    'changed_at',
    'delivery_address_id',
    'billing_address_id',
  ];
  const rows = tables.map(async ({ name }): Promise<[string, Record<string, unknown>[]]> => {
    const columns = name === 'order_addresses' ? [...omitted, 'id'] : omitted;
    const found = await query<{ row: Record<string, unknown> }>(
      `select (to_jsonb(t) #- '{pick_up_point,links}') - $1::text[] as row from fulfilment.${name} t order by 1`,
      [columns],
    );
    return [name, found.map(({ row }) => row)];
  });
  return new Map(await Promise.all(rows));
}

/** Compares the tables of both databases. Returns the names of those that are not empty. */
async function expectSameTables(): Promise<string[]> {
  const [plain, rich] = [await readTables(databases.plain), await readTables(databases.rich)];
  for (const [name, rows] of plain) expect(rich.get(name), name).toEqual(rows);
  return [...plain].filter(([, rows]) => rows.length > 0).map(([name]) => name);
}

test('both dialects of the service fill all tables with the same values', async () => {
  const slip = { expectedIn: 'EIN', expectedOn: '2026-05-10', reference: 'PO-1' };
  await client.ask('v3.inboundPackingSlips.create', {
    body: {
      data: { type: 'inboundPackingSlip', attributes: slip },
      included: [{ type: 'inboundPackingSlipItem', attributes: { sku: 'TEA-500', quantity: 10 } }],
    },
  });
  for (const days of [14, 4]) {
    await sandbox.advance(days * 86_400);
    for (const dialect of dialects) {
      await sandbox.switches({ dialect });
      for (const job of jobs) done(await pulls[dialect](job));
    }
  }
  for (const dialect of dialects) {
    await sandbox.switches({ dialect });
    expect(done(await pulls[dialect]('reconcile'))).toMatchObject({ quarantined: 0 });
    expect(await compareWithSandbox(databases[dialect].db, sandbox.url)).toEqual([]);
  }
  const pulled = streams
    .flatMap(({ tables }) => [tables.parent, ...tables.children])
    .map(({ name }) => name);
  expect((await expectSameTables()).sort()).toEqual(pulled.sort());
  const orders = await databases.rich.query(
    'select distinct delivery_address_id, billing_address_id from fulfilment.orders',
  );
  expect(orders).toEqual([{ delivery_address_id: 1, billing_address_id: 2 }]);
});

test('pushes in both dialects have the same results and leave the same tables', async () => {
  const results: unknown[] = [];
  for (const dialect of dialects) {
    // The same world again, so that all ids are the same.
    await sandbox.call('POST', '/_sandbox/reset', {});
    await sandbox.seed(1);
    await sandbox.switches({ dialect });
    const { insert, push, rows } = pushers[dialect];
    const { query } = databases[dialect];
    done(await pulls[dialect]('pull-shipments'));
    const [line] = await query('select id, shipment_id from fulfilment.shipment_items order by id');
    const items = [{ shipmentItemId: line?.id, quantity: 1, reason: 'DAMAGED' }];
    const announced = { shipmentId: line?.shipment_id, items };
    const changes = { metadata: { extra1: 'a' }, pickUpPoint: { code: 'PUP-7' } };
    await insert('order.create', 'SO-1', orderPayload('SO-1', changes));
    await insert('order.update', 'SO-1', { reference: 'new', metadata: { extra2: 'b' } });
    await insert('order_item.cancel', 'SO-1', { sku: 'MUG-BLUE' });
    await insert('order.cancel', 'SO-1');
    // One lane at a time, so that the service gives out its ids in the same order.
    await push();
    await insert('return.create', 'RET-1', announced);
    await insert('return.replace', 'RET-1', { ...announced, comments: 'again' });
    await push();
    await insert('inbound_packing_slip.create', 'PO-1', {
      ...{ expectedIn: 'EIN', expectedOn: '2026-05-04' },
      items: [{ sku: 'TEA-500', quantity: 10 }],
    });
    await push();
    const pushed = await rows();
    expect(new Set(pushed.map(({ status }) => status))).toEqual(new Set(['done']));
    results.push(pushed.map(({ kind, result }) => ({ kind, result })));
  }
  expect(results[1]).toEqual(results[0]);
  await expectSameTables();
});
