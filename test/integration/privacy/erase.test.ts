import { expect, test } from 'vitest';
import type { Json } from '../../../src/core/json.ts';
import { commitReading } from '../../../src/pull/commit.ts';
import { decodePage } from '../../../src/pull/decode.ts';
import { refetch, replayQuarantine } from '../../../src/pull/refetch.ts';
import { drawReadNo } from '../../../src/pull/sql/stream-transaction.ts';
import { type MirroredResource, toPullContext } from '../../../src/pull/stream.ts';
import { authorizations, rereadAuthorizations } from '../../../src/pull/streams/authorizations.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { returnItems } from '../../../src/pull/streams/return-items.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { encodeQuery } from '../../../src/service/transport/query.ts';
import { numberFeed } from '../../helpers/feed.ts';
import { findTexts, type PlacedOrder, placeOrder } from '../../helpers/privacy/placed-order.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { dailyJobs, done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

const flows = usePushes();
const { database, sandbox, outbox, pull, work } = flows;
const erase = (...words: string[]) =>
  runCommand(['erase', ...words], { DATABASE_URL: database.url });

/** Every table that holds personal data of an order. */
const personalTables = [
  'fulfilment.documents',
  'fulfilment.order_addresses',
  'fulfilment.order_items',
  'fulfilment.orders',
  'fulfilment.outbox',
  'fulfilment.parcels',
  'fulfilment.return_items',
  'fulfilment.return_merchandise_authorization_items',
  'fulfilment.return_merchandise_authorizations',
  'fulfilment.shipment_items',
  'fulfilment.shipments',
  'fulfilment.track_trace_events',
  'fulfilment.track_traces',
  'sync.jobs',
  'sync.outbox_attempts',
  'sync.quarantine',
  'sync.runs',
];

/**
 * Makes the service add personal data to what it shows of the first order, and says it in members
 * nobody knows.
 */
async function addToAnswers({ texts }: PlacedOrder): Promise<void> {
  const set = (operation: string, ...paths: (string | number)[][]) =>
    sandbox.faults({
      operation,
      effect: { set: paths.map((path) => ({ path, value: texts.unknown })) },
    });
  await set(
    'v3.orders.list',
    ['data', 0, 'attributes', 'consignee'],
    ['data', 0, 'included', 0, 'attributes', 'giftText'],
  );
  await set(
    'v3.shipments.list',
    ['data', 0, 'attributes', 'consignee'],
    ['data', 0, 'attributes', 'returnLabel'],
    ['data', 0, 'included', 0, 'attributes', 'giftText'],
  );
  await set('v3.returnItems.list', ['data', 0, 'attributes', 'comment']);
  await set('v2.shipment.search', ['result', 0, 'consignee'], ['result', 0, 'trackAndTraceCode']);
  await set('v2.shipment.trackTrace', ['result', 0, 'consignee']);
}

/** Puts the first order of the list into quarantine. */
async function quarantineOrder(order: PlacedOrder): Promise<void> {
  await sandbox.clearFaults();
  await sandbox.faults({
    operation: 'v3.orders.list',
    effect: { set: [{ path: ['data', 0, 'attributes', 'onHold'], value: order.texts.quoted }] },
  });
  done(await pull('pull-orders'));
  await sandbox.clearFaults();
  await addToAnswers(order);
}

/**
 * Runs all jobs, as if each were due. The look-ups of packages concern one order, because faults
 * change all of them.
 */
async function runAllJobs({ shipmentId }: PlacedOrder): Promise<void> {
  await database.query('delete from sync.turns');
  for (const job of dailyJobs) {
    if (job === 'pull-parcels')
      await database.query(
        `insert into sync.waiting_reads as w (client, resource, id, reason, next_at)
         select client, 'parcels', id, 'shipped', case when id = ${shipmentId} then '-infinity'::timestamptz else 'infinity' end
         from fulfilment.shipments where status = 'SHIPPED'
         on conflict (client, resource, id) do update set next_at = excluded.next_at`,
      );
    done(await pull(job));
  }
}

/** An order with everything that the service and the ERP say of it, and another order beside it. */
async function prepareOrders(): Promise<{ order: PlacedOrder; other: PlacedOrder }> {
  const order = await placeOrder(flows, 'SO-ERASED', 'qz-erased');
  await addToAnswers(order);
  const { authorizationId } = order;
  await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
  await runAllJobs(order);
  done(await work('refetch', rereadAuthorizations));
  const other = await placeOrder(flows, 'SO-OTHER', 'qz-other');
  await runAllJobs(order);
  await quarantineOrder(order);
  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, error, warnings)
    values ('default', 'a', 'manual', 'w', 1, 'failed', now(), now(), 'refused: «${order.texts.quoted}»',
      '{"other «${order.texts.quoted.slice(0, 9)}"}')`);
  await database.query(
    `update sync.jobs set last_error = 'refused: «${order.texts.quoted}»', last_code = 'nok' where job = 'prune'`,
  );
  return { order, other };
}

/** Reads everything again in every way, while the service still has all data. */
async function readAgain(order: PlacedOrder): Promise<void> {
  await quarantineOrder(order);
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(
    await database.query('select resource_id::int as id, document from sync.quarantine'),
  ).toEqual([{ id: order.id, document: '{"erased":true}' }]);
  done(
    await work(
      'replay',
      async (context) => void (await replayQuarantine(toPullContext(context, orders))),
    ),
  );
  done(await work('refetch', rereadAuthorizations));
  await work('refetch', async (context) => {
    await refetch(toPullContext(context, orders), order.id);
    await refetch(toPullContext(context, shipments), order.shipmentId);
    await refetch(toPullContext(context, authorizations), order.authorizationId);
  }).then(done);
  done(await pull('backfill'));
  // Nothing is left to cancel, but the answer shows the order with all data.
  const cancel = await outbox.insert('order.cancel', order.number);
  await outbox.push();
  expect((await outbox.row(cancel)).status).toBe('done');
  await runAllJobs(order);
}

/** Reads all rows of another order, as text. */
async function readRows({ id, shipmentId, number }: PlacedOrder): Promise<string[]> {
  const tables = await database.query<{ name: string; columns: string[] }>(`
    select format('%I.%I', table_schema, table_name) as name, array_agg(column_name::text) as columns
    from information_schema.columns c
    join information_schema.tables t using (table_schema, table_name)
    where table_schema in ('fulfilment', 'sync') and t.table_type = 'BASE TABLE' and table_name not in ('changes')
    group by 1 order by 1`);
  const rows: string[] = [];
  for (const { name, columns } of tables) {
    const conditions = [
      columns.includes('order_id') && `order_id = ${id}`,
      columns.includes('shipment_id') && `shipment_id = ${shipmentId}`,
      name === 'fulfilment.orders' && `id = ${id}`,
      name === 'fulfilment.shipments' && `id = ${shipmentId}`,
      name === 'fulfilment.outbox' && `reference in ('${number}', 'R-${number}')`,
    ].filter((condition) => condition !== false);
    if (conditions.length === 0) continue;
    const read = await database.query<{ row: string }>(
      `select t::text as row from ${name} t where ${conditions.join(' or ')} order by 1`,
    );
    rows.push(...read.map(({ row }) => `${name}: ${row}`));
  }
  return rows;
}

const readAudit = () =>
  database.query<{ by: string; detail: string }>(
    `select by, detail from sync.audit where action = 'erased' order by id`,
  );
const readChanges = async (after: number) => {
  await numberFeed(database.db);
  return database.query<{ entity: string }>(
    `select entity from fulfilment.changes where seq > ${after} and entity in ('orders', 'order_items', 'order_addresses',
       'return_items', 'return_merchandise_authorizations', 'return_merchandise_authorization_items')`,
  );
};
const readLastSeq = () => database.count('fulfilment.changes');

test('erase leaves no text of the person, and no later reading brings one back', {
  timeout: 180_000,
}, async () => {
  const { order, other } = await prepareOrders();
  const found = await findTexts(database, order.searched);
  expect([...new Set(found.map((one) => one.split(':')[0]))].sort()).toEqual(personalTables);
  const before = await readRows(other);

  const trial = await erase('SO-ERASED', '--dry-run');
  expect(trial).toMatchObject({ code: 0, output: expect.stringContaining('would erase') });
  expect(await findTexts(database, order.searched)).toEqual(found);
  expect(await readAudit()).toEqual([]);

  const seq = await readLastSeq();
  const erased = await erase('SO-ERASED', '--json');
  expect(erased.code).toBe(0);
  expect(JSON.parse(erased.output)).toMatchObject({
    id: order.id,
    cancelled: 1,
    tables: { orders: 1, order_addresses: 2 },
  });
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await readRows(other)).toEqual(before);
  expect((await readChanges(seq)).length).toBeGreaterThan(6);
  const [audit, ...others] = await readAudit();
  expect(audit).toMatchObject({
    by: expect.stringContaining('(erase)'),
    detail: expect.stringContaining('order SO-ERASED'),
  });
  expect(others).toEqual([]);

  await runAllJobs(order);
  expect(await findTexts(database, order.searched)).toEqual([]);
  const settled = await readLastSeq();
  await runAllJobs(order);
  expect(await readChanges(settled)).toEqual([]);
  await readAgain(order);
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await findTexts(database, other.searched)).not.toEqual([]);
});

test('an order with open rows, an unknown order and an ambiguous number are refused', async () => {
  const order = await placeOrder(flows, 'SO-ERASED', 'qz-erased');
  await database.query(`update fulfilment.outbox set status = 'cancelled' where status = 'dead'`);
  const open = await outbox.insert('order.cancel', 'SO-ERASED');
  const before = await findTexts(database, order.searched);
  const refused = await erase('SO-ERASED');
  expect(refused).toMatchObject({
    code: 1,
    output: expect.stringContaining(`${open} (order.cancel, pending)`),
  });
  expect(await findTexts(database, order.searched)).toEqual(before);
  expect(await erase('SO-NONE')).toMatchObject({
    code: 1,
    output: expect.stringContaining('nothing was erased'),
  });
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, raw, read_no)
    values ('default', 77, 'SO-ERASED', '{}', 1), ('other', 78, 'SO-ERASED', '{}', 1)`);
  expect(await erase('SO-ERASED')).toMatchObject({
    code: 2,
    output: expect.stringContaining('--client'),
  });
  expect(await erase('SO-ERASED', '--client', 'default')).toMatchObject({
    code: 2,
    output: expect.stringContaining('erase --id'),
  });
  await outbox.push();
  expect((await erase(String(order.id), '--id')).code).toBe(0);
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await erase(String(order.id), '--id')).toMatchObject({
    code: 0,
    output: expect.stringContaining('Nothing is left'),
  });
});

test('a reading that began before the erasure cannot bring anything back', async () => {
  const order = await placeOrder(flows, 'SO-ERASED', 'qz-erased');
  await work('refetch', async (context) => {
    const readNo = await drawReadNo(context.db);
    const query = encodeQuery({ include: orders.include });
    const { signal } = context;
    const answer = await context.warehouse.get('v3.orders.get', order.id, query, { signal });
    if (answer === null) throw new Error('no order');
    const decoded = await decodePage(answer, orders.decoder(context.zone));
    expect((await erase('SO-ERASED')).code).toBe(0);
    const reading = { readNo, pages: 0, received: 1, decoded };
    await commitReading(toPullContext(context, orders), reading);
  });
  expect(await findTexts(database, order.searched)).toEqual([]);
});

const returnLinks = ['order', 'orderItem', 'shipmentItem', 'returnMerchandiseAuthorizationItem'];

test.each(returnLinks.slice(1))(
  'a return item that names only its %s is erased with the order, and stays so',
  async (link) => {
    const order = await placeOrder(flows, 'SO-ERASED', 'qz-erased');
    done(await pull('pull-orders'));
    const { authorizationId } = order;
    await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
    const others = returnLinks.filter((name) => name !== link);
    const show = (comment: string) =>
      sandbox.faults({
        operation: 'v3.returnItems.list',
        effect: {
          set: [
            ...others.map((name) => ({ path: ['data', 0, 'relationships', name], value: null })),
            { path: ['data', 0, 'attributes', 'externalOrderNumber'], value: null },
            { path: ['data', 0, 'attributes', 'comment'], value: comment },
          ],
        },
      });
    await show(order.texts.unknown);
    done(await pull('pull-return-items'));
    expect(await findTexts(database, [order.texts.unknown])).toHaveLength(1);

    expect((await erase('SO-ERASED')).code).toBe(0);
    expect(await findTexts(database, order.searched)).toEqual([]);

    await show(order.texts.quoted);
    done(await pull('pull-return-items'));
    expect(await findTexts(database, order.searched)).toEqual([]);
  },
);

/** Returns resources that cannot be decoded, each with another form of the link to the order. */
async function makeUndecodable({
  id,
  texts,
}: PlacedOrder): Promise<readonly (readonly [MirroredResource, Json])[]> {
  const [line = {}] = await database.query<Record<string, number>>(`
    select l.order_item_id::int as "orderItem", l.id::int as "shipmentItem", n.id::int as announced
    from fulfilment.shipment_items l
    join fulfilment.shipments s on s.client = l.client and s.id = l.shipment_id
    join fulfilment.return_merchandise_authorization_items n on n.shipment_item_id = l.id
    where s.order_id = ${id}`);
  const byLine = (type: string) => ({ [type]: { data: { type, id: line[type] ?? null } } });
  const announced = { type: 'returnMerchandiseAuthorizationItem', id: line.announced ?? null };
  const order = { data: { type: 'orders', id: String(id) } };
  const links = { self: { href: '/a', meta: { title: 'x' } }, related: '/b' };
  const make = (
    ownId: number,
    relationships: Json,
    attributes: Record<string, Json> = {},
  ): Json => ({
    type: 'x',
    id: ownId,
    attributes: { consignee: texts.unknown, ...attributes },
    relationships,
  });
  const wrong = { status: { a: 1 }, comment: { a: 1 } };
  return [
    [returnItems, make(901, { order: { links, ...order } }, wrong)],
    [returnItems, make(902, { order: { data: { meta: { a: { b: 1 } }, ...order.data } } }, wrong)],
    [shipments, make(903, { order }, { ...wrong, note: 'x'.repeat(1_100_000) })],
    [
      authorizations,
      make(
        904,
        { shipment: { links, data: { type: 'shipments', id: 903 } } },
        { externalReference: {} },
      ),
    ],
    [returnItems, make(905, { order: [] }, { ...wrong, externalOrderNumber: 'SO-ERASED' })],
    [returnItems, make(906, byLine('orderItem'), wrong)],
    [returnItems, make(907, byLine('shipmentItem'), wrong)],
    [returnItems, make(908, { returnMerchandiseAuthorizationItem: { data: announced } }, wrong)],
  ];
}

test('erase finds a resource in quarantine by whatever form its link to the order has', async () => {
  const order = await placeOrder(flows, 'SO-ERASED', 'qz-erased');
  done(await pull('pull-orders'));
  for (const [stream, data] of await makeUndecodable(order))
    await work('refetch', async (context) => {
      const decoded = await decodePage(
        { data: [data], included: [], escaped: false, size: 2_000_000 },
        stream.decoder(context.zone),
      );
      await commitReading(toPullContext(context, stream), {
        readNo: await drawReadNo(context.db),
        pages: 0,
        received: 1,
        decoded,
      });
    });
  await sandbox.faults({
    operation: 'v2.shipment.trackTrace',
    effect: {
      set: [
        { path: ['result', 0, 'consignee'], value: order.texts.unknown },
        { path: ['result', 0, 'packageNumber'], value: { a: 1 } },
      ],
    },
  });
  done(await pull('track-trace'));
  expect(await database.count('sync.quarantine')).toBe(9);
  const erased = await erase('SO-ERASED', '--json');
  expect(JSON.parse(erased.output)).toMatchObject({ tables: { 'sync.quarantine': 9 } });
  expect(await findTexts(database, order.searched)).toEqual([]);
});
