import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { short, usePusher } from '../../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';
import type { FaultRule } from '../../../helpers/sandbox-control.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const createOrder = async (number: string) => {
  await outbox.insert('order.create', number, orderPayload(number, { reference: 'old' }));
  await outbox.push();
};
const insertRename = (from: string, to: string) =>
  outbox.insert('order.rename', from, { externalOrderNumber: to });
const readNumbers = async () =>
  (
    await database.query('select external_order_number as n from fulfilment.orders order by id')
  ).map(({ n }) => n);
const countUpdates = () => sandbox.count('v3.orders.update');
/** Renames at the service, as somebody else does. */
const renameElsewhere = async (externalOrderNumber: string) => {
  const [order] = await database.query<{ id: number }>(
    'select id from fulfilment.orders order by id',
  );
  await sandbox.call('POST', '/_sandbox/rename', {
    client: 'default',
    orderId: order?.id,
    externalOrderNumber,
  });
};

test('a rename gives the order its new number and keeps everything else', async () => {
  await createOrder('SO-1');
  const id = await insertRename('SO-1', 'SO-2');
  await outbox.push();
  const [order] = await database.query(
    'select id, external_order_number, reference, email from fulfilment.orders',
  );
  expect(order).toMatchObject({
    external_order_number: 'SO-2',
    reference: 'old',
    email: 'anna@example.com',
  });
  expect(await outbox.row(id)).toMatchObject({
    status: 'done',
    attempts: 1,
    result: { orderId: order?.id, externalOrderNumber: 'SO-2' },
  });
});

test('a rename of an order that already has the new number is done without a request', async () => {
  await createOrder('SO-1');
  await renameElsewhere('SO-2');
  const id = await insertRename('SO-1', 'SO-2');
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({
    status: 'done',
    result: { externalOrderNumber: 'SO-2' },
  });
  // The tables have the new number now. The lane still tells which order it was.
  const again = await insertRename('SO-1', 'SO-2');
  await outbox.push();
  expect(await outbox.row(again)).toMatchObject({ status: 'done' });
  expect(await countUpdates()).toBe(0);
  expect(await readNumbers()).toEqual(['SO-2']);
});

describe('a rename whose outcome is unknown', () => {
  test.each<[string, FaultRule['effect']]>([
    ['no answer', { noAnswer: true, afterEffect: true }],
    [
      'an answer with the former number',
      { set: [{ path: ['data', 'attributes', 'externalOrderNumber'], value: 'SO-1' }] },
    ],
  ])('is done if the order, read by its id, has the new number: %s', async (_name, effect) => {
    await createOrder('SO-1');
    await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect });
    const id = await insertRename('SO-1', 'SO-2');
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      attempts: 1,
      written_at: expect.any(Date),
    });
    const place = await sandbox.lastPlace();
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
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
    await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect: { reset: true } });
    const id = await insertRename('SO-1', 'SO-2');
    await outbox.push(short);
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      {
        status: 'unknown',
        absences: 1,
        last_error: 'the order still has its former number; looked up again',
      },
    ]);
    expect(await countUpdates()).toBe(1);
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
    expect(await countUpdates()).toBe(2);
    expect(await readNumbers()).toEqual(['SO-2']);
  });

  test('is left to a person if the order has a third number', async () => {
    await createOrder('SO-1');
    await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect: { reset: true } });
    const id = await insertRename('SO-1', 'SO-2');
    await outbox.push(short);
    await renameElsewhere('SO-3');
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      next_attempt_at: null,
      last_error: expect.stringMatching(
        /^the order \d+ has the number SO-3, neither SO-1 nor SO-2\. /,
      ),
    });
  });
});

describe('a rename of a restored database that does not know the order', () => {
  /**
   * Makes a rename as `database accept --as restored` leaves it, in a database that never stored
   * the order.
   */
  async function insertDoubtedRename(): Promise<number> {
    await createOrder('SO-1');
    await database.query('delete from fulfilment.order_items');
    await database.query('delete from fulfilment.order_addresses');
    await database.query("update fulfilment.outbox set result = '{}'");
    const id = await insertRename('SO-1', 'SO-2');
    await database.query(
      "update fulfilment.outbox set status = 'unknown', written_at = now(), claim_no = 1 where id = $1",
      [id],
    );
    return id;
  }

  test('is left to a person if only the new number is there', async () => {
    const id = await insertDoubtedRename();
    await renameElsewhere('SO-2');
    await database.query('delete from fulfilment.orders');
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      next_attempt_at: null,
      last_error: expect.stringMatching(
        /^an order has the number SO-2, but it is not known whether it was SO-1\. /,
      ),
    });
  });
});

describe('rows around a rename', () => {
  test('a row behind it under the former number waits, and is then dead with the new number', async () => {
    await createOrder('SO-1');
    await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect: { status: 425 } });
    const rename = await insertRename('SO-1', 'SO-2');
    const behind = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
    await outbox.push();
    expect(await outbox.row(rename)).toMatchObject({ status: 'pending' });
    expect(await outbox.row(behind)).toMatchObject({ status: 'pending', attempts: 0 });
    await outbox.hurry();
    await outbox.push();
    expect(await outbox.row(behind)).toMatchObject({
      status: 'dead',
      last_error:
        'the order SO-1 was renamed to SO-2; cancel this row and insert it with the reference SO-2',
    });
  });

  test('a row under the former number does not rename the order back if the list is behind', async () => {
    await createOrder('SO-1');
    const [former] = await database.query('select raw from fulfilment.orders');
    await insertRename('SO-1', 'SO-2');
    await outbox.push();
    const behind = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
    const effect = { set: [{ path: ['data'], value: [former?.raw] }] };
    await sandbox.faults({ operation: 'v3.orders.list', effect });
    await outbox.push();
    expect(await outbox.row(behind)).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining('SO-1 was renamed to SO-2'),
    });
    expect(await countUpdates()).toBe(1);
  });

  test.each([
    [500, 'unknown', /^the number SO-2 belongs to another order, which order\.rename gave it\. /],
    [
      422,
      'dead',
      /^v3\.orders\.create: answered 422.*; the number SO-2 belongs to another order, which order\.rename/,
    ],
  ])(
    'an order.create answered %i does not take a renamed order for its own',
    async (status, becomes, error) => {
      await createOrder('SO-1');
      await insertRename('SO-1', 'SO-2');
      await outbox.push();
      await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status } });
      const create = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
      await outbox.push();
      if (becomes === 'unknown') await outbox.hurry();
      await outbox.push();
      expect(await outbox.row(create)).toMatchObject({
        status: becomes,
        last_error: expect.stringMatching(error),
      });
    },
  );

  test.each(['former', 'new'])(
    'an order.create refused because of a former number is dead if the list finds the order by its %s number',
    async (listed) => {
      await createOrder('SO-1');
      const [former] = await database.query('select raw from fulfilment.orders');
      await insertRename('SO-1', 'SO-2');
      await outbox.push();
      const [renamed] = await database.query('select raw from fulfilment.orders');
      const data = [(listed === 'former' ? former : renamed)?.raw];
      await sandbox.faults(
        { operation: 'v3.orders.create', effect: { status: 422 } },
        { operation: 'v3.orders.list', effect: { set: [{ path: ['data'], value: data }] } },
      );
      const create = await outbox.insert(
        'order.create',
        'SO-1',
        orderPayload('SO-1', { reference: 'old' }),
      );
      await outbox.push();
      expect(await outbox.row(create)).toMatchObject({
        status: 'dead',
        last_error: 'v3.orders.create: answered 422: «A fault of the sandbox»',
      });
    },
  );

  test('rows under the new number wait until the order has it, and use up no attempt', async () => {
    await createOrder('SO-1');
    const dead = await outbox.insert('order.update', 'SO-1', { nonsense: 1 });
    const rename = await insertRename('SO-1', 'SO-2');
    const update = await outbox.insert('order.update', 'SO-2', { reference: 'new' });
    await outbox.push();
    const waiting = `row ${rename} (order.rename of SO-1) gives the order the number SO-2 and is pending; this row waits for it`;
    expect(await outbox.row(update)).toMatchObject({
      status: 'pending',
      attempts: 0,
      last_error: waiting,
    });
    const [row] = await database.query(
      "select next_attempt_at - now() < interval '16 seconds' as soon from fulfilment.outbox where id = $1",
      [update],
    );
    expect(row).toEqual({ soon: true });
    const [open] = await database.query(
      'select because from fulfilment.outbox_open where id = $1',
      [update],
    );
    expect(open).toEqual({ because: waiting });
    await database.query('select fulfilment.outbox_cancel($1)', [dead]);
    await outbox.push();
    await outbox.hurry();
    await outbox.push();
    expect(await outbox.row(update)).toMatchObject({ status: 'done', attempts: 1 });
    expect(
      await database.query('select external_order_number, reference from fulfilment.orders'),
    ).toEqual([{ external_order_number: 'SO-2', reference: 'new' }]);
  });

  test('a rename waits for an earlier rename that frees its new number', async () => {
    await createOrder('SO-1');
    await createOrder('SO-2');
    const blocker = await outbox.insert('order.update', 'SO-2', { nonsense: 1 });
    await insertRename('SO-2', 'SO-3');
    await insertRename('SO-1', 'SO-2');
    await outbox.push();
    await database.query('select fulfilment.outbox_cancel($1)', [blocker]);
    await outbox.push();
    await outbox.hurry();
    await outbox.push();
    expect((await outbox.rows()).map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      'order.create done',
      'order.create done',
      'order.update cancelled',
      'order.rename done',
      'order.rename done',
    ]);
    expect(await readNumbers()).toEqual(['SO-2', 'SO-3']);
  });
});

describe('rows that are inserted together and name the same numbers', () => {
  /** Inserts rows of these kinds, each with its reference; a rename names its new number, too. */
  const insertAll = async (
    rows: readonly (readonly [kind: string, reference: string, to?: string])[],
  ) => {
    for (const [kind, reference, to] of rows) {
      if (kind === 'order.rename') await insertRename(reference, to ?? '');
      else if (['order.create', 'order.replace'].includes(kind))
        await outbox.insert(kind, reference, orderPayload(reference, { reference: 'new' }));
      else
        await outbox.insert(
          kind,
          reference,
          kind === 'order.update' ? { reference: 'changed' } : {},
        );
    }
  };
  const settle = async () => {
    for (let round = 0; round < 6; round++) {
      await outbox.push();
      await outbox.hurry();
    }
  };
  const readStates = async () =>
    (await outbox.rows()).map(({ kind, status }) => `${kind} ${status}`);

  test.each([
    [
      'a rename, and an order with the former number',
      [
        ['order.rename', 'SO-1', 'SO-2'],
        ['order.create', 'SO-1'],
      ],
    ],
    [
      'a replacement, and a rename',
      [
        ['order.replace', 'SO-1'],
        ['order.rename', 'SO-1', 'SO-2'],
      ],
    ],
    [
      'a rename there and back',
      [
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
    await insertAll(rows);
    await settle();
    expect(await readStates()).toEqual([
      'order.create done',
      ...rows.map(([kind]) => `${kind} done`),
    ]);
  });

  test.each(['order.create', 'order.replace'])(
    'a rename to the number of an earlier %s is dead, and names that row',
    async (kind) => {
      await createOrder('SO-1');
      const user = await outbox.insert(kind, 'SO-2', { nonsense: 1 });
      await outbox.push();
      const rename = await insertRename('SO-1', 'SO-2');
      await outbox.push();
      expect(await outbox.row(rename)).toMatchObject({
        status: 'dead',
        last_error: expect.stringContaining(
          `SO-2 is the number of row ${user} (${kind}), which is dead; choose`,
        ),
      });
    },
  );
});
