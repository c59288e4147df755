import { describe, expect, test } from 'vitest';
import { actOnOutbox } from '../../../../src/push/sql/operator-actions.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { usePuller } from '../../../helpers/puller.ts';
import { short, usePusher } from '../../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);

const lostAnswer = {
  operation: 'v3.orders.create',
  count: 1,
  effect: { noAnswer: true, afterEffect: true },
} as const;
const lostRequest = { operation: 'v3.orders.create', count: 1, effect: { reset: true } } as const;
/** Every list lags longer than a test takes. */
const lag = { operation: 'v3.*', effect: { lagMs: 600_000 } } as const;

const countPosts = () => sandbox.count('v3.orders.create');
const insertOrder = (number: string) => outbox.insert('order.create', number, orderPayload(number));
/** Looks rows up as if their last attempts had been this many seconds ago. */
const lookUpAt = async (...ages: number[]) => {
  for (const seconds of ages) {
    await outbox.ageTo(seconds);
    await outbox.push(short);
  }
};
const readLags = () =>
  database.query<{ ms: number }>('select longest_ms as ms from sync.list_lags');

describe('an order whose answer is lost while the lists lag', () => {
  test('is not sent again, and is found when the lists show it', async () => {
    await sandbox.switches({ repeatedNumbers: true });
    await sandbox.faults(lostAnswer, lag);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    await lookUpAt(91, 121, 200, 230);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      { status: 'unknown', attempts: 1, absences: 0 },
    ]);
    await sandbox.clearFaults();
    await lookUpAt(260);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
    expect(await countPosts()).toBe(1);
    expect(await sandbox.orderNumbers()).toEqual(['SO-1']);
  });

  test('is found when a poll has read it, even if it was about to be sent again', async () => {
    await sandbox.switches({ repeatedNumbers: true });
    await sandbox.faults(lostAnswer, lag);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    await sandbox.clearFaults();
    await pull('pull-orders');
    await sandbox.faults(lag);
    await database.query(
      "update fulfilment.outbox set status = 'pending', next_attempt_at = now(), absences = 2",
    );
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
    expect(await countPosts()).toBe(1);
  });

  test('shows how long the lists lagged', async () => {
    await sandbox.faults(lostAnswer, lag);
    await insertOrder('SO-1');
    await outbox.push(short);
    await lookUpAt(100);
    await sandbox.clearFaults();
    await lookUpAt(200);
    const [measured] = await readLags();
    expect(measured?.ms).toBeGreaterThanOrEqual(200_000);
    expect(measured?.ms).toBeLessThan(240_000);
  });
});

test('an order that is found at the first look-up shows no lag', async () => {
  await sandbox.faults(lostAnswer);
  await insertOrder('SO-1');
  await outbox.push(short);
  await lookUpAt(100);
  expect((await outbox.rows()).map(({ status }) => status)).toEqual(['done']);
  expect(await readLags()).toEqual([]);
});

describe('an order that was not carried out', () => {
  test('is sent again soon if the list shows an order that was accepted later', async () => {
    await sandbox.faults(lostRequest);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    await insertOrder('SO-2');
    await outbox.push(short);
    const place = await sandbox.lastPlace();
    await lookUpAt(61, 91);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
    const asked = (await sandbox.requests(place)).filter(({ query }) =>
      query?.includes('externalOrderNumber'),
    );
    expect(asked.map(({ query }) => decodeURIComponent(query ?? '').includes('SO-1,SO-2'))).toEqual(
      [true, true],
    );
  });

  test('is sent again after five minutes if nothing shows how old the list is', async () => {
    await insertOrder('SO-0');
    await outbox.push(short);
    await sandbox.faults(lostRequest);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    await lookUpAt(61, 200, 299);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      { status: 'unknown', attempts: 1, absences: 0 },
    ]);
    await lookUpAt(300, 331);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
  });

  test.each([
    [
      'was renamed since',
      () => outbox.insert('order.rename', 'SO-2', { externalOrderNumber: 'SO-9' }),
    ],
    ['was marked as done by a person', markDone],
  ])('is not believed absent because of a later order that %s', async (_name, change) => {
    await sandbox.faults(lostRequest);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    const later = await insertOrder('SO-2');
    await outbox.push(short);
    await change(later);
    await outbox.push(short);
    await lookUpAt(61, 91);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      { status: 'unknown', attempts: 1, absences: 0 },
    ]);
  });
});

/** Leaves a row as it is after a person marked it as done: no attempt of it was successful. */
async function markDone(id: number): Promise<void> {
  await database.query("delete from sync.outbox_attempts where outbox_id = $1 and step = 'sent'", [
    id,
  ]);
}

/**
 * Makes an order whose answer was lost, and that was refused as taken when it was sent again; the
 * lists lag.
 */
async function makeTakenOrder(): Promise<number> {
  await sandbox.faults(lostAnswer, lag);
  const id = await insertOrder('SO-1');
  await outbox.push(short);
  await database.query(
    "update fulfilment.outbox set status = 'pending', next_attempt_at = now(), absences = 2",
  );
  await outbox.push(short);
  expect(await countPosts()).toBe(2);
  return id;
}

/** Lets a row grow older than PUSH_MAX_AGE, and looks it up. */
async function outgrowMaxAge(id: number): Promise<void> {
  await database.query(
    "update fulfilment.outbox set limits_from = now() - interval '4 days' where id = $1",
    [id],
  );
  await lookUpAt(400_000);
}

describe('an order that is refused as taken after a lost answer', () => {
  test('is looked for until it is too old, and is then undecided', async () => {
    const id = await makeTakenOrder();
    await lookUpAt(100, 400, 4_000, 4_040, 4_080);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      {
        status: 'unknown',
        attempts: 2,
        next_attempt_at: expect.any(Date),
        refused_as: 'perhaps taken',
      },
    ]);
    await outgrowMaxAge(id);
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown', next_attempt_at: null });
  });

  test('is done when a list shows it', async () => {
    const id = await makeTakenOrder();
    await sandbox.clearFaults();
    await lookUpAt(100);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2, last_error: null });
  });

  test('is done when the tables have it, even if it was undecided', async () => {
    const id = await makeTakenOrder();
    await outgrowMaxAge(id);
    await sandbox.clearFaults();
    await pull('pull-orders');
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      result: { orderId: expect.any(Number) },
    });
  });

  test.each([
    ['whatever the reason is', 422, 'dead'],
    ['but never after a 409', 409, 'unknown'],
  ])('is dead only if a newer list lacks it twice, %s', async (_name, status, end) => {
    await sandbox.faults(lostRequest);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    const refuse = { operation: 'v3.orders.create', effect: { status } } as const;
    await sandbox.faults(refuse);
    await lookUpAt(300, 331);
    await outbox.push(short);
    await lookUpAt(400, 440, 4_000, 4_040);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      { status: 'unknown', attempts: 2, absences: 0 },
    ]);
    await sandbox.clearFaults();
    await insertOrder('SO-2');
    await outbox.push(short);
    await lookUpAt(5_000, 5_040);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([{ status: end, attempts: 2 }]);
  });

  test('is still looked for if a person had it sent again', async () => {
    await sandbox.faults(lostAnswer, lag);
    const id = await insertOrder('SO-1');
    await outbox.push(short);
    await outgrowMaxAge(id);
    await database.query('update fulfilment.outbox set next_attempt_at = null where id = $1', [id]);
    await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'anna' });
    await outbox.push(short);
    expect(await countPosts()).toBe(2);
    await lookUpAt(400, 440);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      next_attempt_at: expect.any(Date),
    });
    await sandbox.clearFaults();
    await lookUpAt(500);
    expect(await outbox.row(id)).toMatchObject({ status: 'done' });
  });
});

describe('other kinds while the lists lag', () => {
  test('an order.replace that is refused as taken is never dead, and is done when the tables have the order', async () => {
    await insertOrder('SO-1');
    await outbox.push(short);
    await sandbox.faults({ ...lostAnswer, after: 0 }, lag);
    const id = await outbox.insert(
      'order.replace',
      'SO-1',
      orderPayload('SO-1', { reference: 'new' }),
    );
    await outbox.push(short);
    await database.query(
      "update fulfilment.outbox set status = 'pending', next_attempt_at = now(), absences = 2 where id = $1",
      [id],
    );
    await outbox.push(short);
    await lookUpAt(100, 400, 4_000, 4_040, 4_080);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      attempts: 2,
      next_attempt_at: expect.any(Date),
    });
    await outgrowMaxAge(id);
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown', next_attempt_at: null });
    await sandbox.clearFaults();
    await pull('pull-orders');
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      result: { replacedOrderId: expect.any(Number) },
    });
  });

  test('an order.rename that waits for a person is done when the tables show its new number', async () => {
    await insertOrder('SO-1');
    await outbox.push(short);
    await sandbox.faults({ operation: 'v3.orders.update', count: 1, effect: { reset: true } });
    const id = await outbox.insert('order.rename', 'SO-1', { externalOrderNumber: 'SO-2' });
    await outbox.push(short);
    const renameElsewhere = async (externalOrderNumber: string) => {
      const [order] = await database.query<{ id: number }>('select id from fulfilment.orders');
      await sandbox.call('POST', '/_sandbox/rename', {
        client: 'default',
        orderId: order?.id,
        externalOrderNumber,
      });
    };
    await renameElsewhere('SO-3');
    await lookUpAt(100);
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown', next_attempt_at: null });
    await renameElsewhere('SO-2');
    await pull('pull-orders');
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
  });

  test('an inbound_packing_slip.create is undecided after five minutes, and is done when the tables have the slip', async () => {
    const payload = {
      expectedIn: 'AMS',
      expectedOn: '2026-05-11',
      items: [{ sku: 'MUG-BLUE', quantity: 40 }],
    };
    const operation = 'v3.inboundPackingSlips.create';
    await sandbox.faults(
      { operation, count: 1, effect: { noAnswer: true, afterEffect: true } },
      lag,
    );
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', payload);
    await outbox.push(short);
    await lookUpAt(91, 121, 299);
    expect(await outbox.rows('id = $1', [id])).toMatchObject([
      { status: 'unknown', absences: 0, next_attempt_at: expect.any(Date) },
    ]);
    await lookUpAt(300, 331);
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown', next_attempt_at: null });
    await sandbox.clearFaults();
    await pull('pull-inbound-packing-slips');
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
  });
});
