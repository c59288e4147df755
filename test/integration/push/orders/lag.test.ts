import { describe, expect, test } from 'vitest';
import { actOnOutbox } from '../../../../src/push/sql/operator-actions.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { lostAnswer, lostRequest, once, short, usePushes } from '../../../helpers/pusher.ts';
import type { FaultRule } from '../../../helpers/sandbox-control.ts';

const { database, sandbox, outbox, pull } = usePushes();

/** Every list lags longer than a test takes. */
const lag = { operation: 'v3.*', effect: { lagMs: 600_000 } } as const;

const countPosts = () => sandbox.count('v3.orders.create');
const sendOrder = async (number: string) => (await outbox.sendOrder(number, {}, short)).id;
/** Pushes an order whose answer, or whose request, is lost. */
const loseOrder = async (effect: FaultRule['effect'], ...others: FaultRule[]) => {
  await sandbox.faults(once('v3.orders.create', effect), ...others);
  return sendOrder('SO-1');
};
const undecided = { status: 'unknown', next_attempt_at: null };
const lookedFor = { status: 'unknown', next_attempt_at: expect.any(Date) };
/** Expects of a row that it was sent once, and that no look-up counts as an absence. */
const expectUnproven = async (id: number) =>
  await outbox.expectRow(id, { status: 'unknown', attempts: 1, absences: 0 });
/** Looks rows up as if their last attempts had been this many seconds ago. */
const lookUpAt = async (...ages: number[]) => {
  for (const seconds of ages) {
    await outbox.ageTo(seconds);
    await outbox.push(short);
  }
};

describe('an order whose answer is lost while the lists lag', () => {
  test('is not sent again, and is found when the lists show it', async () => {
    await sandbox.switches({ repeatedNumbers: true });
    const id = await loseOrder(lostAnswer, lag);
    await lookUpAt(91, 121, 200, 230);
    await expectUnproven(id);
    await sandbox.clearFaults();
    await lookUpAt(260);
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
    const lags = 'sync.list_lags where longest_ms between 260000 and 300000';
    expect(await database.count(lags)).toBe(1);
    expect(await countPosts()).toBe(1);
    expect(await sandbox.orderNumbers()).toEqual(['SO-1']);
  });

  test('is found when a poll has read it, even if it was about to be sent again', async () => {
    await sandbox.switches({ repeatedNumbers: true });
    const id = await loseOrder(lostAnswer, lag);
    await sandbox.clearFaults();
    await pull('pull-orders');
    await sandbox.faults(lag);
    await outbox.believeAbsent(id);
    await outbox.push(short);
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
    expect(await countPosts()).toBe(1);
  });
});

describe('an order that was not carried out', () => {
  test('is sent again soon if the list shows an order that was accepted later', async () => {
    const id = await loseOrder(lostRequest);
    await sendOrder('SO-2');
    const place = await sandbox.lastPlace();
    await lookUpAt(61, 91);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
    const asked = (await sandbox.requests(place)).filter(({ query }) =>
      query?.includes('externalOrderNumber'),
    );
    expect(asked.map(({ query }) => decodeURIComponent(query ?? '').includes('SO-1,SO-2'))).toEqual(
      [true, true],
    );
  });

  test('is sent again after five minutes if nothing shows how old the list is', async () => {
    await sendOrder('SO-0');
    const id = await loseOrder(lostRequest);
    await lookUpAt(61, 200, 299);
    await expectUnproven(id);
    await lookUpAt(300, 331);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
  });

  test.each([
    [
      'was renamed since',
      () => outbox.insert('order.rename', 'SO-2', { externalOrderNumber: 'SO-9' }),
    ],
    ['was marked as done by a person', markDone],
  ])('is not believed absent because of a later order that %s', async (_name, change) => {
    const id = await loseOrder(lostRequest);
    const later = await sendOrder('SO-2');
    await change(later);
    await outbox.push(short);
    await lookUpAt(61, 91);
    await expectUnproven(id);
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
  const id = await loseOrder(lostAnswer, lag);
  await outbox.believeAbsent(id);
  await outbox.push(short);
  expect(await countPosts()).toBe(2);
  return id;
}

/** Makes an order.replace whose new order was refused in the same way. */
async function makeTakenReplacement(): Promise<number> {
  await sendOrder('SO-1');
  await sandbox.faults(once('v3.orders.create', lostAnswer), lag);
  const payload = orderPayload('SO-1', { reference: 'new' });
  const { id } = await outbox.send('order.replace', 'SO-1', payload, short);
  await outbox.believeAbsent(id);
  await outbox.push(short);
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
  test.each([
    ['an order.create', makeTakenOrder],
    ['an order.replace', makeTakenReplacement],
  ])('as %s is never dead by itself, and done when the tables have it', async (_kind, make) => {
    const id = await make();
    await lookUpAt(100, 400, 4_000, 4_040, 4_080);
    await outbox.expectRow(id, { ...lookedFor, attempts: 2 });
    await outgrowMaxAge(id);
    await outbox.expectRow(id, undecided);
    await sandbox.clearFaults();
    await pull('pull-orders');
    await outbox.push(short);
    await outbox.expectRow(id, { status: 'done' });
  });

  test('is dead only if a newer list lacks it twice', async () => {
    const id = await loseOrder(lostRequest);
    await sandbox.faults({ operation: 'v3.orders.create', effect: { status: 422 } });
    await lookUpAt(300, 331);
    await outbox.push(short);
    await lookUpAt(400, 440, 4_000, 4_040);
    await outbox.expectRow(id, { ...lookedFor, attempts: 2, absences: 0 });
    await sandbox.clearFaults();
    await sendOrder('SO-2');
    await lookUpAt(5_000, 5_040);
    await outbox.expectRow(id, { status: 'dead', attempts: 2 });
  });

  test.each<[string, (id: number) => Promise<unknown>]>([
    ['retried', (id) => actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'anna' })],
    ['replaced', (id) => outbox.replace(id, orderPayload('SO-1'))],
  ])('loses what the refusal said when it is %s', async (_how, change) => {
    const id = await makeTakenOrder();
    await outbox.expectRow(id, { refused_as: 'perhaps taken' });
    await outbox.believeAbsent(id);
    await change(id);
    await outbox.expectRow(id, { status: 'pending', refused_as: null });
  });

  test('is still looked for if a person had it sent again', async () => {
    const id = await loseOrder(lostAnswer, lag);
    await outgrowMaxAge(id);
    await database.query('update fulfilment.outbox set next_attempt_at = null where id = $1', [id]);
    await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'anna' });
    await outbox.push(short);
    expect(await countPosts()).toBe(2);
    await lookUpAt(400, 440);
    await outbox.expectRow(id, lookedFor);
    await sandbox.clearFaults();
    await lookUpAt(500);
    await outbox.expectRow(id, { status: 'done' });
  });
});

describe('other kinds while the lists lag', () => {
  test('an order.rename that waits for a person is done when the tables show its new number', async () => {
    await sendOrder('SO-1');
    await sandbox.faults(once('v3.orders.update', lostRequest));
    const payload = { externalOrderNumber: 'SO-2' };
    const { id } = await outbox.send('order.rename', 'SO-1', payload, short);
    const renameElsewhere = async (externalOrderNumber: string) => {
      const [order] = await database.query<{ id: number }>('select id from fulfilment.orders');
      await sandbox.rename(order?.id, externalOrderNumber);
    };
    await renameElsewhere('SO-3');
    await lookUpAt(100);
    await outbox.expectRow(id, {
      ...undecided,
      last_error: expect.stringContaining('has the number SO-3, neither SO-1 nor SO-2'),
    });
    await renameElsewhere('SO-2');
    await pull('pull-orders');
    await outbox.push(short);
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
  });

  test('an inbound_packing_slip.create is undecided after five minutes, and is done when the tables have the slip', async () => {
    const payload = {
      expectedIn: 'AMS',
      expectedOn: '2026-05-11',
      items: [{ sku: 'MUG-BLUE', quantity: 40 }],
    };
    await sandbox.faults(once('v3.inboundPackingSlips.create', lostAnswer), lag);
    const { id } = await outbox.send('inbound_packing_slip.create', 'PO-1', payload, short);
    await lookUpAt(91, 121, 299);
    await outbox.expectRow(id, { ...lookedFor, absences: 0 });
    await lookUpAt(300, 331);
    await outbox.expectRow(id, undecided);
    await sandbox.clearFaults();
    await pull('pull-inbound-packing-slips');
    await outbox.push(short);
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
  });
});

describe('changes of an order that the tables lack while the list is behind', () => {
  /** Makes an order that the tables lack. */
  const makeUnknownOrder = async () => {
    const { result } = await outbox.sendOrder('SO-1', { phoneNumber: '222' }, short);
    for (const table of ['order_line_events', 'order_items', 'order_addresses', 'orders'])
      await database.query(`delete from fulfilment.${table}`);
    return result?.orderId;
  };
  /** Lets the list show another value than the service has. */
  const showFormer = (path: (string | number)[], value: unknown) =>
    sandbox.faults({ operation: 'v3.orders.list', effect: { set: [{ path, value }] } });

  test('an order.update keeps the members as they are now', async () => {
    await makeUnknownOrder();
    await showFormer(['data', 0, 'attributes', 'phoneNumber'], '111');
    const row = await outbox.send('order.update', 'SO-1', { reference: 'new' }, short);
    expect(row).toMatchObject({ status: 'done' });
    const orders = await database.query('select phone_number, reference from fulfilment.orders');
    expect(orders).toEqual([{ phone_number: '222', reference: 'new' }]);
  });

  test('an order.cancel waits if the listed order has another number now', async () => {
    const orderId = await makeUnknownOrder();
    const attributes = { externalOrderNumber: 'SO-1' };
    await showFormer(['data'], [{ id: orderId, type: 'order', attributes }]);
    await sandbox.rename(orderId, 'SO-1-OLD');
    const row = await outbox.send('order.cancel', 'SO-1', {}, short);
    expect(row).toMatchObject({
      status: 'pending',
      last_error: expect.stringContaining('the list of orders is behind'),
    });
    expect(await sandbox.count('v3.orders.cancel')).toBe(0);
  });
});
