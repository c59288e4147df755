import { expect, test } from 'vitest';
import { requestMissingOrders } from '../../../src/pull/sql/waiting-reads.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList } from '../../helpers/sandbox.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';

const { database, sandbox, pull, findDifferences } = usePulls();
const service = useEditedService(sandbox);

const differences = () => findDifferences(['orders', 'shipments']);
const numbers = () =>
  database.query<{ missing: number; filled: number }>(`
    select count(*) filter (where external_order_number is null)::int as missing, count(external_order_number)::int as filled
    from fulfilment.shipment_overview`);

// The robot has made one order before the clock stopped. That order has no shipment yet.
test('shipments show the number of their order once both are stored, whichever came first', async () => {
  await sandbox.seed(120);
  done(await pull('pull-shipments'));
  expect(await numbers()).toEqual([{ missing: 120, filled: 0 }]);
  expect(done(await pull('pull-orders'))).toMatchObject({ fetched: 121, updated: 0 });
  expect(await numbers()).toEqual([{ missing: 0, filled: 120 }]);

  await sandbox.seed(30, { spreadDays: 0 });
  done(await pull('pull-orders'));
  done(await pull('pull-shipments'));
  expect(await numbers()).toEqual([{ missing: 0, filled: 150 }]);
  expect(await differences()).toEqual([]);
});

test('the second poll asks from the watermark less the lookback and one day', async () => {
  await sandbox.seed(250, { spreadDays: 60 });
  done(await pull('pull-orders'));
  const [{ watermark } = { watermark: '' }] = await database.query<{ watermark: string }>(
    `select watermark from sync.cursors where stream = 'orders'`,
  );
  const [{ newest } = { newest: '' }] = await database.query<{ newest: string }>(
    'select max(ordered_on) as newest from fulfilment.orders',
  );
  expect(watermark).toBe(newest);
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-orders', { env: { LOOKBACK_DAYS: '3' } }))).toMatchObject({
    created: 0,
    updated: 0,
  });
  // The date of the filter is exclusive.
  const from = new Date(Date.parse(watermark) - 4 * 86_400_000).toISOString().slice(0, 10);
  const [asked] = await sandbox.requestsTo('/v3/orders', place);
  expect(asked?.query).toContain(`filter%5BorderedOn%5D%5Bgt%5D=${from}`);
});

test('a long first load is read in parts, several at a time, and continues after an error', async () => {
  await sandbox.seed(2_400, { spreadDays: 380 });
  const start = await sandbox.lastPlace();
  await sandbox.faults({ operation: 'v3.orders.list', after: 24, effect: { status: 500 } });
  expect((await pull('pull-orders')).status).toBe('failed');
  await sandbox.clearFaults();
  // The parts have another upper date each. Read one after the other, they would take turns only
  // once each.
  const sent = (await sandbox.requestsTo('/v3/orders', start)).map(
    ({ query }) => /lt%5D=([^&]*)/.exec(query ?? '')?.[1],
  );
  const changes = sent.filter((upper, index) => index > 0 && upper !== sent[index - 1]).length;
  expect(changes).toBeGreaterThan(new Set(sent).size - 1);
  const cursors = () =>
    database.query<{ pass: string; complete: boolean }>(
      `select pass, completed_at is not null as complete from sync.cursors where stream = 'orders' order by pass`,
    );
  const parts = await cursors();
  expect(parts).toHaveLength(17);
  const complete = parts.filter((part) => part.complete).map(({ pass }) => pass);
  const place = await sandbox.lastPlace();
  done(await pull('pull-orders'));
  expect(await cursors()).toEqual([{ pass: 'placed', complete: true }]);
  const requests = await sandbox.requestsTo('/v3/orders', place);
  const readAgain = complete.filter((pass) =>
    requests.some(({ query }) => query?.includes(`=${pass.split(' ')[1]}`)),
  );
  expect(readAgain).toEqual([]);
  expect(
    await database.query(
      'select watermark = (select max(ordered_on) from fulfilment.orders) as newest from sync.cursors',
    ),
  ).toEqual([{ newest: true }]);
  expect(await findDifferences(['orders'])).toEqual([]);
});

test('a part of a first load whose pages cannot be read does not stop the other parts', async () => {
  await sandbox.seed(2_400, { spreadDays: 380 });
  let broken: string | undefined;
  service.edit((request, answer) => {
    const upper = /\[lt\]=([^&]*)/.exec(request)?.[1];
    broken ??= upper;
    if (upper !== undefined && upper === broken) answer.body = 'no JSON';
  });

  const report = await pull('pull-orders', { env: service.env() });

  expect(report).toMatchObject({ status: 'failed', error: { code: 'undecodable' } });
  const complete = `sync.cursors where pass like 'placed %' and completed_at is not null`;
  expect(await database.count(complete)).toBe(15);
});

test('an order date far in the future does not move the watermark there', async () => {
  await sandbox.seed(10);
  await sandbox.faults({
    operation: 'v3.orders.list',
    count: 1,
    effect: { set: [{ path: ['data', 0, 'attributes', 'orderedOn'], value: '2999-01-01' }] },
  });
  done(await pull('pull-orders'));
  const [row] = await database.query<{ soon: boolean }>(
    `select watermark < current_date + 3 as soon from sync.cursors where stream = 'orders'`,
  );
  expect(row).toEqual({ soon: true });
});

test.each([404, 403])(
  'an order outside the date window is read by id; one that answers %i is postponed',
  async (status) => {
    await sandbox.seed(2, { statuses: ['READY_TO_PICK'] });
    await sandbox.faults(
      { operation: 'v3.orders.list', effect: emptyList },
      { operation: 'v3.orders.get', count: 1, effect: { status } },
    );
    done(await pull('pull-shipments'));
    done(await pull('pull-orders'));
    expect(await numbers()).toEqual([{ missing: 1, filled: 1 }]);
    expect(
      await database.query(
        `select tries, reason from sync.waiting_reads where resource = 'orders'`,
      ),
    ).toEqual([{ tries: 1, reason: 'named_by_shipment' }]);
    const place = await sandbox.lastPlace();
    done(await pull('pull-orders'));
    expect(await sandbox.count('v3.orders.get', place)).toBe(0);
    await database.query('update sync.waiting_reads set next_at = now()');
    await sandbox.clearFaults();
    done(await pull('pull-orders'));
    expect(await differences()).toEqual([]);
  },
);

test('an order that a shipment names is asked for until it is found, whatever asked before', async () => {
  await database.query(`
    insert into fulfilment.shipments (client, id, order_id, raw, read_no)
    values ('default', 1, 5, '{}', 1), ('default', 2, 6, '{}', 1);
    insert into sync.waiting_reads (client, resource, id, tries, next_at, reason)
    values ('default', 'orders', 5, 0, now(), 'pushed')`);
  await database.db
    .transaction()
    .execute((trx) => requestMissingOrders({ trx, client: 'default' }, null));
  expect(
    await database.query('select id::int, reason from sync.waiting_reads order by id'),
  ).toEqual([
    { id: 5, reason: 'named_by_shipment' },
    { id: 6, reason: 'named_by_shipment' },
  ]);
});
