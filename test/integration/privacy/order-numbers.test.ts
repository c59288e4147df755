import { expect, test } from 'vitest';
import { refetch } from '../../../src/pull/refetch.ts';
import { toPullContext } from '../../../src/pull/stream.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { findTexts } from '../../helpers/privacy/placed-order.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, sandbox, outbox, pull, work } = usePushes();
const run = (...words: string[]) => runCommand(words, { DATABASE_URL: database.url });
const searched = ['qz-lost@example.test', 'Keizersgracht'];
const lost = { email: 'qz-lost@example.test' };
const readErasures = () =>
  database.query<{ entity: string; number: string }>(
    'select entity, external_order_number as number from sync.erasures order by entity',
  );

const refetchOrder = async (id = 0) =>
  done(
    await work('refetch', async (context) => {
      await refetch(toPullContext(context, orders), id);
    }),
  );

/** Sends an order whose answer is lost, and cancels its row before its outcome is known. */
async function loseOrder(effect: { status: number; afterEffect?: boolean }): Promise<void> {
  await sandbox.faults(
    { operation: 'v3.orders.create', effect },
    { operation: 'v3.orders.list', effect: { status: 500 } },
  );
  const { id } = await outbox.sendOrder('SO-LOST', lost);
  expect(await run('outbox', 'retry', String(id), '--yes')).toMatchObject({ code: 0 });
  expect(await run('outbox', 'cancel', String(id), '--yes')).toMatchObject({ code: 0 });
  expect(await outbox.row(id)).toMatchObject({ status: 'cancelled', written_at: expect.any(Date) });
  await sandbox.clearFaults();
  await database.query('delete from sync.turns');
  await database.query('delete from sync.service_health');
}

test('an order whose answer was lost stays erased when it is read', async () => {
  await loseOrder({ status: 500, afterEffect: true });
  expect(await run('erase', 'SO-LOST')).toMatchObject({ code: 0 });
  expect(await findTexts(database, searched)).toEqual([]);
  expect(await readErasures()).toEqual([{ entity: 'outbox', number: 'SO-LOST' }]);
  await sandbox.faults({
    operation: 'v3.orders.list',
    count: 1,
    effect: { set: [{ path: ['data', 0, 'attributes', 'onHold'], value: 'x' }] },
  });
  done(await pull('pull-orders'));
  const [held] = await database.query<{ id: number; orderId: number; document: string }>(
    'select resource_id::int as id, order_id::int as "orderId", document from sync.quarantine',
  );
  expect(held).toMatchObject({ orderId: held?.id, document: '{"erased":true}' });
  await refetchOrder(held?.id);
  expect(await readErasures()).toEqual([{ entity: 'orders', number: 'SO-LOST' }]);
  await sandbox.call('POST', '/_sandbox/ship', {
    client: 'default',
    externalOrderNumber: 'SO-LOST',
  });
  done(await pull('pull-shipments'));
  expect(await database.query('select external_order_number from fulfilment.orders')).toHaveLength(
    1,
  );
  expect(await findTexts(database, searched)).toEqual([]);
});

test('a number whose erased order the service never had can be used again', async () => {
  await loseOrder({ status: 500 });
  expect(await run('erase', 'SO-LOST')).toMatchObject({ code: 0 });
  const again = await outbox.sendOrder('SO-LOST', { email: 'qz-again@example.test' });
  expect(again).toMatchObject({ status: 'done' });
  await database.query('delete from sync.turns');
  done(await pull('pull-orders'));
  expect(await findTexts(database, ['qz-again@example.test'])).toContain(
    'fulfilment.orders: qz-again@example.test',
  );
  expect(await readErasures()).toEqual([]);
});

test.each(['number', 'id'])(
  'an order that only the quarantine knows is erased by its %s',
  async (by) => {
    await outbox.sendOrder('SO-LOST', lost);
    await database.query(
      'truncate fulfilment.orders, fulfilment.outbox, sync.outbox_targets cascade',
    );
    const onHold = { path: ['data', 0, 'attributes', 'onHold'], value: 'x' };
    await sandbox.faults({ operation: 'v3.orders.list', effect: { set: [onHold] } });
    done(await pull('pull-orders'));
    const [held] = await database.query<{ id: number }>(
      'select resource_id::int as id from sync.quarantine',
    );
    const name = by === 'id' ? [String(held?.id), '--id'] : ['SO-LOST'];
    const erased = await run('erase', ...name, '--json');
    expect(JSON.parse(erased.output)).toMatchObject({
      id: held?.id,
      number: 'SO-LOST',
      isStored: false,
    });
    expect(await findTexts(database, searched)).toEqual([]);
    await sandbox.clearFaults();
    await refetchOrder(held?.id);
    expect(await database.query('select id from fulfilment.orders')).toHaveLength(1);
    expect(await findTexts(database, searched)).toEqual([]);
  },
);

test('an order that only the outbox knows is erased by its id', async () => {
  const create = await outbox.insertOrder('SO-LOST', lost);
  await outbox.insert('order.rename', 'SO-LOST', { externalOrderNumber: 'SO-NEW' });
  await outbox.push();
  await database.query('truncate fulfilment.orders cascade');
  const id = (await outbox.row(create)).result?.orderId;
  const erased = await run('erase', String(id), '--id', '--json');
  expect(JSON.parse(erased.output)).toMatchObject({ id, number: 'SO-NEW', isStored: false });
  expect(await findTexts(database, searched)).toEqual([]);
});

const create = (number: string, email: string, more: object = {}) =>
  outbox.insertOrder(number, { email, ...more });
const rename = (from: string, to: string) =>
  outbox.insert('order.rename', from, { externalOrderNumber: to });

test('a renamed order is erased under both numbers, and recorded by the present one', async () => {
  const id = await create('SO-OLD', 'qz-old@example.test');
  await rename('SO-OLD', 'SO-NEW');
  await outbox.push();
  await outbox.insert('order.update', 'SO-NEW', { email: 'qz-new@example.test' });
  await outbox.insert('order.update', 'SO-OLD', { email: 'qz-late@example.test' });
  await outbox.push();
  expect((await outbox.row(id)).status).toBe('done');
  expect((await outbox.rows(`status = 'dead'`)).map(({ reference }) => reference)).toEqual([
    'SO-OLD',
  ]);
  await database.query(`
    insert into fulfilment.return_items (client, id, external_order_number, comment, raw, read_no)
    values ('default', 900, 'SO-NEW', 'qz-comment', '{}', 1), ('default', 901, 'SO-OLD', 'qz-comment', '{}', 1)`);
  expect((await run('erase', 'SO-OLD')).code).toBe(0);
  const texts = [
    'qz-old@example.test',
    'qz-new@example.test',
    'qz-late@example.test',
    'qz-comment',
    'Keizersgracht',
  ];
  expect(await findTexts(database, texts)).toEqual([]);
  expect(
    await database.query('select external_order_number as number from fulfilment.erased_orders'),
  ).toEqual([{ number: 'SO-NEW' }]);
});

test('an order that took a former number keeps its data, and has its own erasure', async () => {
  await create('SO-1', 'qz-a@example.test');
  await rename('SO-1', 'SO-2');
  await outbox.push();
  const other = await create('SO-1', 'qz-b@example.test', { wrong: 'x' });
  await outbox.push();
  await database.query(`
    insert into fulfilment.return_items (client, id, external_order_number, comment, raw, read_no)
    values ('default', 901, 'SO-1', 'qz-b-comment', '{}', 1)`);
  expect((await run('erase', 'SO-2')).code).toBe(0);
  expect((await outbox.row(other)).status).toBe('dead');
  expect(await findTexts(database, ['qz-a@example.test'])).toEqual([]);
  expect(await findTexts(database, ['qz-b@example.test', 'qz-b-comment'])).toHaveLength(2);
  expect(await run('erase', 'SO-1')).toMatchObject({
    code: 0,
    output: expect.stringContaining('of order SO-1 of client'),
  });
  expect((await outbox.row(other)).status).toBe('cancelled');
  expect(await findTexts(database, ['qz-b@example.test'])).toEqual([]);
});

test('a former number means the order that took it, also if no order is stored any more', async () => {
  await create('SO-1', 'qz-a@example.test');
  await rename('SO-1', 'SO-2');
  await outbox.push();
  const other = await create('SO-1', 'qz-b@example.test');
  await outbox.push();
  const id = (await outbox.row(other)).result?.orderId;
  await database.query('truncate fulfilment.orders cascade');
  const erased = await run('erase', 'SO-1', '--json');
  expect(JSON.parse(erased.output)).toMatchObject({ id, number: 'SO-1', isStored: false });
  expect(await findTexts(database, ['qz-a@example.test'])).not.toEqual([]);
  expect(await findTexts(database, ['qz-b@example.test'])).toEqual([]);
});

test('rows of the order that had the number before are left alone', async () => {
  await create('SO-2', 'qz-b@example.test');
  await rename('SO-2', 'SO-3');
  await outbox.push();
  const late = await outbox.insert('order.update', 'SO-2', { email: 'qz-b-late@example.test' });
  await outbox.push();
  expect((await outbox.row(late)).status).toBe('dead');
  await database.query(`update fulfilment.outbox set status = 'cancelled' where id = ${late}`);
  await create('SO-1', 'qz-a@example.test');
  await outbox.push();
  await rename('SO-1', 'SO-2');
  await outbox.push();
  await create('SO-1', 'qz-c@example.test');
  await outbox.push();
  await outbox.insert('order.update', 'SO-2', { unknownMember: 'qz-a-dead' });
  await outbox.push();
  expect((await run('erase', 'SO-2')).code).toBe(0);
  expect(await findTexts(database, ['qz-a@example.test', 'qz-a-dead'])).toEqual([]);
  expect(await findTexts(database, ['qz-b-late@example.test'])).toHaveLength(1);
  expect((await run('erase', 'SO-1')).code).toBe(0);
  expect(await findTexts(database, ['qz-c@example.test'])).toEqual([]);
  expect(await findTexts(database, ['qz-b-late@example.test'])).toHaveLength(1);
});
