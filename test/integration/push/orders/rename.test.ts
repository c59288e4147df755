import { describe, expect, test } from 'vitest';
import { takeOverClaims } from '../../../../src/push/sql/lost-rows.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { lostAnswer, lostRequest, once, short, usePushes } from '../../../helpers/pusher.ts';
import type { FaultRule } from '../../../helpers/sandbox-control.ts';
import { waitFor } from '../../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();

const createOrder = (number: string) => outbox.sendOrder(number, { reference: 'old' });
const insertRename = (from: string, to: string) =>
  outbox.insert('order.rename', from, { externalOrderNumber: to });
const sendRename = (from: string, to: string) =>
  outbox.send('order.rename', from, { externalOrderNumber: to }, short);
const readOrders = () =>
  database.query<{ id: number; number: string; raw: unknown }>(
    'select id, external_order_number as number, reference, raw from fulfilment.orders order by id',
  );
const readNumbers = async () => (await readOrders()).map(({ number }) => number);
const countUpdates = () => sandbox.count('v3.orders.update');
const failUpdate = (effect: FaultRule['effect']) =>
  sandbox.faults(once('v3.orders.update', effect));
/** Makes the list of orders show only this one. */
const listOnly = (raw: unknown) => ({
  operation: 'v3.orders.list',
  effect: { set: [{ path: ['data'], value: [raw] }] },
});
const pushLater = async () => {
  await outbox.hurry();
  await outbox.push(short);
};
/** Renames at the service, as somebody else does. */
const renameElsewhere = async (externalOrderNumber: string) => {
  const [order] = await readOrders();
  await sandbox.rename(order?.id, externalOrderNumber);
};

test('a rename of an order that already has the new number is done without a request', async () => {
  await createOrder('SO-1');
  await renameElsewhere('SO-2');
  expect(await sendRename('SO-1', 'SO-2')).toMatchObject({ status: 'done' });
  // The tables have the new number now. The lane still tells which order it was.
  expect(await sendRename('SO-1', 'SO-2')).toMatchObject({ status: 'done' });
  expect(await countUpdates()).toBe(0);
  expect(await readNumbers()).toEqual(['SO-2']);
});

test('a rename that needs no request is settled by a worker that was taken for lost', async () => {
  await createOrder('SO-1');
  await renameElsewhere('SO-2');
  const readings = await sandbox.count('v3.orders.get');
  await sandbox.faults({ operation: 'v3.orders.get', effect: { delayMs: 1_500 } });
  const id = await insertRename('SO-1', 'SO-2');
  const pushing = outbox.push();
  await waitFor('the reading', async () => (await sandbox.count('v3.orders.get')) > readings);
  await database.query("update fulfilment.outbox set lease_until = now() where status = 'sending'");
  await takeOverClaims(database.db, 'another', { 'order.rename': 'look up' });
  await database.query(
    "update fulfilment.outbox set next_attempt_at = now() + interval '1 hour' where id = $1",
    [id],
  );
  await pushing;
  await outbox.expectRow(id, { status: 'done', attempts: 0 });
});

describe('a rename whose outcome is unknown', () => {
  test.each<[string, FaultRule['effect']]>([
    ['no answer', lostAnswer],
    [
      'an answer with the former number',
      { set: [{ path: ['data', 'attributes', 'externalOrderNumber'], value: 'SO-1' }] },
    ],
  ])('is done if the order, read by its id, has the new number: %s', async (_name, effect) => {
    await createOrder('SO-1');
    await failUpdate(effect);
    const { id, status } = await sendRename('SO-1', 'SO-2');
    expect(status).toBe('unknown');
    const place = await sandbox.lastPlace();
    await pushLater();
    await outbox.expectRow(id, {
      status: 'done',
      attempts: 1,
      result: { orderId: expect.any(Number), externalOrderNumber: 'SO-2' },
    });
    const asked = (await sandbox.requests(place)).map(({ operation }) => operation);
    expect(asked.filter((name) => name?.startsWith('v3.'))).toEqual(['v3.orders.get']);
    expect(await readNumbers()).toEqual(['SO-2']);
  });

  test('is sent again after the order, read by its id, had the former number twice', async () => {
    await createOrder('SO-1');
    await failUpdate(lostRequest);
    const { id } = await sendRename('SO-1', 'SO-2');
    await pushLater();
    await outbox.expectRow(id, { status: 'unknown', absences: 1 });
    expect(await countUpdates()).toBe(1);
    await pushLater();
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
    expect(await readNumbers()).toEqual(['SO-2']);
  });

  test('is left to a person if a restored database knows only an order with the new number', async () => {
    await createOrder('SO-1');
    await database.query("update fulfilment.outbox set result = '{}'");
    const id = await insertRename('SO-1', 'SO-2');
    await database.query(
      "update fulfilment.outbox set status = 'unknown', written_at = now(), claim_no = 1 where id = $1",
      [id],
    );
    await renameElsewhere('SO-2');
    await database.query('truncate fulfilment.orders cascade');
    await outbox.push();
    await outbox.expectRow(id, {
      status: 'unknown',
      next_attempt_at: null,
      last_error: expect.stringContaining('it is not known whether it was SO-1'),
    });
  });
});

describe('rows around a rename', () => {
  test('a row under the former number does not rename the order back if the list is behind', async () => {
    await createOrder('SO-1');
    const [former] = await readOrders();
    await sendRename('SO-1', 'SO-2');
    await sandbox.faults(listOnly(former?.raw));
    expect(await outbox.send('order.update', 'SO-1', { reference: 'new' })).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining(
        'SO-1 was renamed to SO-2; cancel this row and insert it with the reference SO-2',
      ),
    });
    expect(await countUpdates()).toBe(1);
  });

  test.each([
    [500, 'unknown'],
    [422, 'dead'],
  ])(
    'an order.create answered %i does not take a renamed order for its own',
    async (status, becomes) => {
      await createOrder('SO-1');
      await sendRename('SO-1', 'SO-2');
      await sandbox.faults(once('v3.orders.create', { status }));
      const { id } = await outbox.sendOrder('SO-2');
      if (becomes === 'unknown') await outbox.hurry();
      await outbox.push();
      await outbox.expectRow(id, {
        status: becomes,
        last_error: expect.stringContaining(
          'the number SO-2 belongs to another order, which order.rename gave it',
        ),
      });
    },
  );

  test.each(['former', 'new'])(
    'an order.create refused because of a former number is dead if the list finds the order by its %s number',
    async (listed) => {
      await createOrder('SO-1');
      const [former] = await readOrders();
      await sendRename('SO-1', 'SO-2');
      const [renamed] = await readOrders();
      await sandbox.faults(
        { operation: 'v3.orders.create', effect: { status: 422 } },
        listOnly((listed === 'former' ? former : renamed)?.raw),
      );
      expect(await createOrder('SO-1')).toMatchObject({
        status: 'dead',
        last_error: 'v3.orders.create: answered 422: «A fault of the sandbox»',
      });
    },
  );

  test('rows under the new number wait until the order has it, and use up no attempt', async () => {
    await createOrder('SO-1');
    const dead = await outbox.insert('order.update', 'SO-1', { nonsense: 1 });
    const rename = await insertRename('SO-1', 'SO-2');
    const { id, ...update } = await outbox.send('order.update', 'SO-2', { reference: 'new' });
    const waiting = `row ${rename} (order.rename of SO-1) gives the order the number SO-2 and is pending; this row waits for it`;
    expect(update).toMatchObject({ status: 'pending', attempts: 0, last_error: waiting });
    expect(await outbox.readBecause(id)).toBe(waiting);
    await outbox.cancel(dead);
    await outbox.push();
    await pushLater();
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
    expect(await readOrders()).toMatchObject([{ number: 'SO-2', reference: 'new' }]);
  });
});

describe('rows that are inserted together and name the same numbers', () => {
  /** Inserts a row; a rename names its new number, too. */
  const insert = (kind: string, reference: string, to = '') => {
    if (kind === 'order.rename') return insertRename(reference, to);
    const change = { reference: 'new' };
    const isUpdate = kind === 'order.update';
    return outbox.insert(kind, reference, isUpdate ? change : orderPayload(reference, change));
  };

  test.each([
    [
      'a rename, and an order with the former number',
      [
        ['order.rename', 'SO-1', 'SO-2'],
        ['order.create', 'SO-1'],
      ],
    ],
    [
      'a replacement, and a rename there and back',
      [
        ['order.replace', 'SO-1'],
        ['order.rename', 'SO-1', 'SO-2'],
        ['order.rename', 'SO-2', 'SO-1'],
      ],
    ],
    [
      'two renames, and an order with the number between them',
      [
        ['order.rename', 'SO-1', 'SO-2'],
        ['order.rename', 'SO-2', 'SO-3'],
        ['order.create', 'SO-2'],
      ],
    ],
    [
      'a new order, its rename, and a rename to its former number',
      [
        ['order.create', 'SO-2'],
        ['order.rename', 'SO-2', 'SO-3'],
        ['order.rename', 'SO-1', 'SO-2'],
      ],
    ],
    [
      'a rename, a replacement, another rename and an update',
      [
        ['order.rename', 'SO-1', 'SO-2'],
        ['order.replace', 'SO-2'],
        ['order.rename', 'SO-2', 'SO-3'],
        ['order.update', 'SO-3'],
      ],
    ],
  ] as const)('work in their order: %s', async (_name, rows) => {
    await createOrder('SO-1');
    for (const [kind, reference, to] of rows) await insert(kind, reference, to);
    const isOpen = async () => (await outbox.statuses()).some((status) => status !== 'done');
    for (let round = 0; round < 6 && (await isOpen()); round++) await pushLater();
    expect(new Set(await outbox.statuses())).toEqual(new Set(['done']));
  });

  test('a rename to the number of an earlier order.create is dead, and names that row', async () => {
    await createOrder('SO-1');
    const { id } = await outbox.send('order.create', 'SO-2', { nonsense: 1 });
    expect(await sendRename('SO-1', 'SO-2')).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining(
        `SO-2 is the number of row ${id} (order.create), which is dead; choose`,
      ),
    });
  });
});
