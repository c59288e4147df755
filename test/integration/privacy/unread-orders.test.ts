import { expect, test } from 'vitest';
import { refetch } from '../../../src/pull/rescan.ts';
import { toPullContext } from '../../../src/pull/stream.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { findTexts } from '../../helpers/privacy/placed-order.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { done, usePuller, useWork } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const work = useWork(database, sandbox);
const outbox = usePusher(database, sandbox);
const run = (...words: string[]) => runCommand(words, { DATABASE_URL: database.url });
const searched = ['qz-lost@example.test', 'Keizersgracht'];
const payload = orderPayload('SO-LOST', { email: 'qz-lost@example.test' });
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
  const id = await outbox.insert('order.create', 'SO-LOST', payload);
  await outbox.push();
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
  const [held] = await database.query<{ id: number; document: string }>(
    'select resource_id::int as id, document from sync.quarantine',
  );
  expect(held?.document).toBe('{"erased":true}');
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
  const again = await outbox.insert('order.create', 'SO-LOST', {
    ...payload,
    email: 'qz-again@example.test',
  });
  await outbox.push();
  expect((await outbox.row(again)).status).toBe('done');
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
    await outbox.insert('order.create', 'SO-LOST', payload);
    await outbox.push();
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
  const create = await outbox.insert('order.create', 'SO-LOST', payload);
  await outbox.insert('order.rename', 'SO-LOST', { externalOrderNumber: 'SO-NEW' });
  await outbox.push();
  await database.query('truncate fulfilment.orders cascade');
  const id = (await outbox.row(create)).result?.orderId;
  const erased = await run('erase', String(id), '--id', '--json');
  expect(JSON.parse(erased.output)).toMatchObject({ id, number: 'SO-NEW', isStored: false });
  expect(await findTexts(database, searched)).toEqual([]);
});
