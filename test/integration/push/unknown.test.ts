import { describe, expect, test } from 'vitest';
import { takeOverClaims } from '../../../src/push/sql/lost-rows.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { lostAnswer, once, short, usePushes } from '../../helpers/pusher.ts';
import type { FaultRule } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox, shipOrders } = usePushes();

const countPosts = () => sandbox.count('v3.orders.create');

describe('an order whose outcome is unknown', () => {
  test.each<[string, FaultRule['effect']]>([
    ['no answer', { noAnswer: true, afterEffect: true }],
    [
      'an answer with another order',
      { set: [{ path: ['data', 'attributes', 'externalOrderNumber'], value: 'X' }] },
    ],
  ])('is found by a look-up and not sent again: %s', async (_name, effect) => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect });
    const { id } = await outbox.sendOrder('SO-1', {}, short);
    await outbox.expectRow(id, { status: 'unknown', attempts: 1 });
    await outbox.pushRounds(2);
    await outbox.expectRow(id, { status: 'done', attempts: 1, last_error: null });
    expect(await countPosts()).toBe(1);
    expect(await database.count("fulfilment.orders where external_order_number = 'SO-1'")).toBe(1);
  });

  test('stays unknown if the look-up fails or returns a number that was not asked for', async () => {
    await sandbox.faults(
      once('v3.orders.create', { status: 500, afterEffect: true }),
      once('v3.orders.list', { status: 500 }),
      once('v3.orders.list', {
        set: [{ path: ['data', 0, 'attributes', 'externalOrderNumber'], value: 'so-1' }],
      }),
      once('v3.orders.list', { set: [{ path: ['data', 0, 'attributes'], value: 7 }] }),
    );
    const { id } = await outbox.sendOrder('SO-1', {}, short);
    for (const error of ['answered 500', 'has another order number', 'cannot be read']) {
      await outbox.hurry();
      await outbox.push(short);
      await outbox.expectRow(id, {
        status: 'unknown',
        absences: 0,
        last_error: expect.stringContaining(error),
      });
    }
    await outbox.pushRounds(2);
    await outbox.expectRow(id, { status: 'done' });
    expect(await countPosts()).toBe(1);
  });

  test('is left to a person if its payload was replaced after the attempt', async () => {
    await sandbox.faults(once('v3.orders.create', { status: 500, afterEffect: true }));
    const { id } = await outbox.sendOrder('SO-1', {}, short);
    await database.query(
      "update fulfilment.outbox set status = 'dead', next_attempt_at = null, finished_at = now(), last_error = 'given up'",
    );
    await outbox.replace(id, orderPayload('SO-1', { reference: 'corrected' }));
    await outbox.push(short);
    expect(await countPosts()).toBe(1);
    await outbox.expectRow(id, {
      status: 'dead',
      last_error: expect.stringMatching(
        /^the service carried out an earlier attempt, with the payload from before it was replaced/,
      ),
    });
  });

  test('is settled by an answer that comes after its worker was taken for lost', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 1_500 } });
    const id = await outbox.insertOrder('SO-1');
    const pushing = outbox.push();
    await waitFor('the request', countPosts);
    await database.query("update fulfilment.outbox set lease_until = now() - interval '1 second'");
    await takeOverClaims(database.db, 'another', { 'order.create': 'look up' });
    await outbox.expectRow(id, { status: 'unknown' });
    await pushing;
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
    const history = await database.query(
      'select step, became from sync.outbox_attempts order by id',
    );
    expect(history).toEqual([
      { step: 'taken over', became: 'unknown' },
      { step: 'sent', became: 'done' },
    ]);
  });
});

describe('a kind that cannot be looked up', () => {
  test('waits for a person, names both choices, and is never sent twice by itself', async () => {
    await outbox.sendOrder('SO-1');
    const payload = await shipOrders();
    const operation = 'v3.returnMerchandiseAuthorizations.create';
    await sandbox.faults({ operation, effect: lostAnswer });
    const id = await outbox.insert('return.create', 'RET-1', payload);
    await outbox.pushRounds(4);
    await outbox.expectRow(id, {
      status: 'unknown',
      attempts: 1,
      next_attempt_at: null,
      last_error: expect.stringContaining(
        'It may have been carried out, and the service cannot be asked. Check there, then mark it as done if it was carried out, or retry it',
      ),
    });
    expect(await sandbox.count(operation)).toBe(1);
  });

  test('is requested again if WAREHOUSE_OPERATIONS_FILE says that it is repeatable', async () => {
    await outbox.sendOrder('SO-1');
    const { shipmentId } = await shipOrders();
    const switches = { 'v2.returnLabel.get': { repeatable: true } };
    const env = { ...short, WAREHOUSE_OPERATIONS_FILE: writeSwitches(switches) };
    await sandbox.faults(once('v2.returnLabel.get', lostAnswer));
    const { id, ...row } = await outbox.send('return_label.create', 'SO-1', { shipmentId }, env);
    expect(row).toMatchObject({ status: 'pending', attempts: 1, written_at: expect.any(Date) });
    await outbox.hurry();
    await outbox.push(env);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
  });
});

describe('an inbound packing slip whose outcome is unknown', () => {
  const slip = {
    expectedIn: 'AMS',
    expectedOn: '2026-05-11',
    items: [{ sku: 'MUG-BLUE', quantity: 40 }],
  };
  const operation = 'v3.inboundPackingSlips.create';

  test('is not taken for an earlier slip, and is sent again if a person retries it', async () => {
    await outbox.send('inbound_packing_slip.create', 'PO-1', slip);
    await sandbox.faults(once(operation, { status: 500 }));
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.pushRounds(5);
    await outbox.expectRow(id, {
      status: 'unknown',
      attempts: 1,
      next_attempt_at: null,
      last_error: expect.stringMatching(
        /^not found at the service, looked up twice\. It may have been carried out/,
      ),
    });
    expect(await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'test' })).toEqual([id]);
    await outbox.push();
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
  });
});
