import { describe, expect, test } from 'vitest';
import { takeOverClaims } from '../../../src/push/sql/lost-rows.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePuller } from '../../helpers/puller.ts';
import { short, usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import type { FaultRule } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);

const countPosts = () => sandbox.count('v3.orders.create');

describe('an order whose outcome is unknown', () => {
  test.each<[string, FaultRule['effect']]>([
    ['no answer', { noAnswer: true, afterEffect: true }],
    ['a truncated answer', { truncate: true }],
    [
      'an answer with another order',
      { set: [{ path: ['data', 'attributes', 'externalOrderNumber'], value: 'X' }] },
    ],
  ])('is found by a look-up and not sent again: %s', async (_name, effect) => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      attempts: 1,
      written_at: expect.any(Date),
    });
    await outbox.pushRounds(1);
    await outbox.pushRounds(1);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      attempts: 1,
      last_error: null,
      result: { orderId: expect.any(Number) },
    });
    expect(await countPosts()).toBe(1);
    expect(await database.query('select external_order_number from fulfilment.orders')).toEqual([
      { external_order_number: 'SO-1' },
    ]);
  });

  test('stays unknown if the look-up fails or returns a number that was not asked for', async () => {
    await sandbox.faults(
      { operation: 'v3.orders.create', count: 1, effect: { status: 500, afterEffect: true } },
      { operation: 'v3.orders.list', count: 1, effect: { status: 500 } },
      {
        operation: 'v3.orders.list',
        count: 1,
        effect: {
          set: [{ path: ['data', 0, 'attributes', 'externalOrderNumber'], value: 'so-1' }],
        },
      },
      {
        operation: 'v3.orders.list',
        count: 1,
        effect: { set: [{ path: ['data', 0, 'attributes'], value: 7 }] },
      },
    );
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    const errors: (string | null)[] = [];
    for (let round = 0; round < 3; round++) {
      await outbox.hurry();
      await outbox.push(short);
      const row = await outbox.row(id);
      errors.push(row.last_error);
      expect(row).toMatchObject({ status: 'unknown', absences: 0 });
    }
    expect(errors).toEqual([
      'v3.orders.list: answered 500: «A fault of the sandbox»; the look-up is tried again',
      'the answer to the look-up has another order number; the look-up is tried again',
      expect.stringMatching(
        /^an order in the answer cannot be read: attributes: .*; the look-up is tried again$/,
      ),
    ]);
    await outbox.pushRounds(2);
    expect(await outbox.row(id)).toMatchObject({ status: 'done' });
    expect(await countPosts()).toBe(1);
  });

  test('is left to a person if its payload was replaced after the attempt', async () => {
    await sandbox.faults({
      operation: 'v3.orders.create',
      count: 1,
      effect: { status: 500, afterEffect: true },
    });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    await database.query(
      "update fulfilment.outbox set status = 'dead', next_attempt_at = null, finished_at = now(), last_error = 'given up'",
    );
    await database.query('select fulfilment.outbox_replace($1, $2)', [
      id,
      JSON.stringify(orderPayload('SO-1', { reference: 'corrected' })),
    ]);
    await outbox.push(short);
    expect(await countPosts()).toBe(1);
    expect(await outbox.row(id)).toMatchObject({
      status: 'dead',
      last_error: expect.stringMatching(
        /^the service carried out an earlier attempt, with the payload from before it was replaced/,
      ),
    });
  });

  test('is settled by an answer that comes after its worker was taken for lost', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 1_500 } });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    const pushing = outbox.push();
    await waitFor('the request', countPosts);
    await database.query("update fulfilment.outbox set lease_until = now() - interval '1 second'");
    await takeOverClaims(database.db, 'another', { 'order.create': 'look up' });
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown' });
    await pushing;
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
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
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push();
    await sandbox.advance(2 * 86_400);
    await pull('pull-shipments');
    const [line] = await database.query('select id, shipment_id from fulfilment.shipment_items');
    await sandbox.faults({
      operation: 'v3.returnMerchandiseAuthorizations.create',
      effect: { reset: true, afterEffect: true },
    });
    const payload = {
      shipmentId: line?.shipment_id,
      items: [{ shipmentItemId: line?.id, quantity: 1, reason: 'DAMAGED' }],
    };
    const id = await outbox.insert('return.create', 'RET-1', payload);
    await outbox.pushRounds(4);
    const row = await outbox.row(id);
    expect(row).toMatchObject({ status: 'unknown', attempts: 1, next_attempt_at: null });
    expect(row.last_error).toBe(
      'v3.returnMerchandiseAuthorizations.create: the connection broke before the answer was complete. It may have been carried out,' +
        ' and the service cannot be asked. Check there, then mark it as done if it was carried out, or retry it to send it again',
    );
    const sent = (await sandbox.requests()).filter(
      ({ operation }) => operation === 'v3.returnMerchandiseAuthorizations.create',
    );
    expect(sent).toHaveLength(1);
  });

  describe('a return label', () => {
    const labelFault = {
      operation: 'v2.returnLabel.get',
      count: 1,
      effect: { reset: true, afterEffect: true },
    };
    const countLabels = () => sandbox.count('v2.returnLabel.get');
    const insertLabel = async () => {
      await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
      await outbox.push();
      await sandbox.advance(2 * 86_400);
      await pull('pull-shipments');
      const [shipment] = await database.query('select id from fulfilment.shipments');
      return outbox.insert('return_label.create', 'SO-1', { shipmentId: shipment?.id });
    };

    test('waits for a person if its worker was lost while sending', async () => {
      const id = await insertLabel();
      await sandbox.faults({ operation: 'v2.returnLabel.get', effect: { delayMs: 1_500 } });
      const pushing = outbox.push();
      await waitFor('the request', countLabels);
      await database.query(
        "update fulfilment.outbox set lease_until = now() - interval '1 second' where id = $1",
        [id],
      );
      await outbox.push();
      expect(await outbox.row(id)).toMatchObject({ status: 'unknown', next_attempt_at: null });
      await pushing;
      expect(await countLabels()).toBe(1);
    });

    test('is requested again if WAREHOUSE_OPERATIONS_FILE says that it is repeatable', async () => {
      const file = writeSwitches({ 'v2.returnLabel.get': { repeatable: true } });
      const id = await insertLabel();
      await sandbox.faults(labelFault);
      await outbox.push({ ...short, WAREHOUSE_OPERATIONS_FILE: file });
      expect(await outbox.row(id)).toMatchObject({
        status: 'pending',
        attempts: 1,
        written_at: expect.any(Date),
      });
      await outbox.hurry();
      await outbox.push({ ...short, WAREHOUSE_OPERATIONS_FILE: file });
      expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
    });
  });
});

describe('an inbound packing slip whose outcome is unknown', () => {
  const slip = {
    expectedIn: 'AMS',
    expectedOn: '2026-05-11',
    items: [{ sku: 'MUG-BLUE', quantity: 40 }],
  };
  const createFault = { operation: 'v3.inboundPackingSlips.create', count: 1 };

  test('is found among the open slips by reference and warehouse', async () => {
    await sandbox.faults({ ...createFault, effect: { reset: true, afterEffect: true } });
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.pushRounds(2);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      attempts: 1,
      result: { inboundPackingSlipId: expect.any(Number) },
    });
  });

  test('is not taken for an earlier slip, and is sent again if a person retries it', async () => {
    await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.push();
    await sandbox.faults({ ...createFault, effect: { status: 500 } });
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.pushRounds(5);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      attempts: 1,
      next_attempt_at: null,
      last_error: expect.stringMatching(
        /^not found at the service, looked up twice\. It may have been carried out/,
      ),
    });
    expect(await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'test' })).toEqual([id]);
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
  });
});
