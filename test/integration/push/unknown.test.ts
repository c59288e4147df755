import { describe, expect, test } from 'vitest';
import { takeOverClaims } from '../../../src/erp/outbox/claims-held.ts';
import { actOnOutbox } from '../../../src/erp/outbox/operator-actions.ts';
import { followUpRules } from '../../../src/sync/push/kinds/registry.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import type { FaultRule } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);
/** So short that an exchange without an answer costs a test little. */
const short = { HTTP_TIMEOUT_MS: '300' };

const numbers = async () => {
  const state = await sandbox.call<{
    clients: { orders: { resource: { attributes: { externalOrderNumber: string } } }[] }[];
  }>('GET', '/_sandbox/state');
  return state.clients[0]?.orders.map(({ resource }) => resource.attributes.externalOrderNumber) ?? [];
};
const posts = async () => (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create').length;
/** Pushes and lets the time of look-ups go by, until nothing waits for time any more. */
async function pushOn(times = 6): Promise<void> {
  for (let round = 0; round < times; round++) {
    await outbox.push(short);
    await outbox.hurry();
  }
}

describe('an order whose outcome is not known', () => {
  test.each<[string, FaultRule['effect']]>([
    ['reset', { reset: true, afterEffect: true }],
    ['no answer', { noAnswer: true, afterEffect: true }],
    ['500', { status: 500, afterEffect: true }],
    ['503 without Retry-After', { status: 503, afterEffect: true }],
    ['408', { status: 408, afterEffect: true }],
    ['half an answer', { truncate: true }],
    ['a broken answer', { invalidJson: true }],
    ['an answer of another order', { set: [{ path: ['data', 'attributes', 'externalOrderNumber'], value: 'X' }] }],
  ])('is found after its effect and not sent again: %s', async (_name, effect) => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown', attempts: 1, written_at: expect.any(Date) });
    await pushOn(1);
    await pushOn(1);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      attempts: 1,
      last_error: null,
      result: { orderId: expect.any(Number) },
    });
    expect(await posts()).toBe(1);
    expect(await database.query('select external_order_number from fulfilment.orders')).toEqual([
      { external_order_number: 'SO-1' },
    ]);
  });

  test('is sent again once it was absent twice, and long enough after', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status: 500 } });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    // Looked up soon, when an absence says nothing yet.
    await database.query('update fulfilment.outbox set next_attempt_at = now()');
    await outbox.push(short);
    const [soon] = await outbox.rows();
    expect(soon).toMatchObject({ status: 'unknown', absences: 0, lookups: 1 });
    await outbox.hurry();
    await outbox.push(short);
    const [once] = await outbox.rows();
    expect(once).toMatchObject({ status: 'unknown', absences: 1 });
    // Again, but not yet half a minute later.
    await database.query(
      "update fulfilment.outbox set next_attempt_at = now(), absent_at = now() - interval '20 seconds'",
    );
    await outbox.push(short);
    expect((await outbox.rows())[0]).toMatchObject({ status: 'unknown', absences: 1 });
    expect(await posts()).toBe(1);
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
    expect(await numbers()).toEqual(['SO-1']);
  });

  test('is ours where the service refuses it because it is there already', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status: 500, afterEffect: true } });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    // As if two look-ups that lag far behind had not found it.
    await database.query("update fulfilment.outbox set status = 'pending', next_attempt_at = now(), absences = 2");
    await outbox.push(short);
    expect(await posts()).toBe(2);
    await pushOn(2);
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2, last_error: null });
    expect(await numbers()).toEqual(['SO-1']);
  });

  test('is no answer where the look-up fails, or brings a number that was not asked for', async () => {
    await sandbox.faults(
      { operation: 'v3.orders.create', count: 1, effect: { status: 500, afterEffect: true } },
      { operation: 'v3.orders.list', count: 1, effect: { status: 500 } },
      {
        operation: 'v3.orders.list',
        count: 1,
        effect: { set: [{ path: ['data', 0, 'attributes', 'externalOrderNumber'], value: 'so-1' }] },
      },
      { operation: 'v3.orders.list', count: 1, effect: { set: [{ path: ['data', 0, 'attributes'], value: 7 }] } },
    );
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push(short);
    const words: (string | null)[] = [];
    for (let round = 0; round < 3; round++) {
      await outbox.hurry();
      await outbox.push(short);
      const row = await outbox.row(id);
      words.push(row.last_error);
      expect(row).toMatchObject({ status: 'unknown', absences: 0 });
    }
    expect(words).toEqual([
      'v3.orders.list: answered 500: «A fault of the sandbox»; the look-up is tried again',
      'the look-up brought a number that was not asked for; it is tried again',
      expect.stringMatching(/^an order in the answer cannot be read: attributes: .*; the look-up is tried again$/),
    ]);
    await pushOn(2);
    expect(await outbox.row(id)).toMatchObject({ status: 'done' });
    expect(await posts()).toBe(1);
  });

  test('many are looked up with few requests, numbers with a comma alone', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { status: 500, afterEffect: true } });
    const names = [...Array.from({ length: 150 }, (_, index) => `SO-${index}`), 'A,B', 'Ä "x" #1'];
    for (const name of names) await outbox.insert('order.create', name, orderPayload(name));
    const left = "select from fulfilment.outbox where status <> 'done' limit 1";
    for (let round = 0; round < 30 && (await database.query(left)).length > 0; round++) {
      // So many failures in a row open the breaker; here they are meant.
      await database.query('delete from sync.push_holds');
      await outbox.push({ ...short, PUSH_CONCURRENCY: '16' });
      await outbox.hurry();
    }
    expect(await database.query(left)).toEqual([]);
    expect(await posts()).toBe(names.length);
    expect((await numbers()).toSorted()).toEqual(names.toSorted());
    const lookUps = (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.list');
    expect(lookUps.length).toBeLessThan(40);
    expect(lookUps.every(({ query }) => query.length < 6_000)).toBe(true);
    const withComma = lookUps.filter(({ query }) => query.includes('A%2CB'));
    expect(withComma.length).toBeGreaterThan(0);
    expect(withComma.every(({ query }) => query.endsWith('=A%2CB'))).toBe(true);
  });

  test('of somebody else with the same number is ours only where it holds the same lines', async () => {
    const own = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
    await outbox.push();
    await database.query("update fulfilment.outbox set status = 'cancelled', result = null where id in ($1, $2)", [
      own,
      other,
    ]);
    const same = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { reference: 'another' }));
    const different = await outbox.insert(
      'order.create',
      'SO-2',
      orderPayload('SO-2', { items: [{ sku: 'MUG-BLUE', quantity: 3 }] }),
    );
    await outbox.push();
    expect(await outbox.row(same)).toMatchObject({ status: 'done' });
    expect(await outbox.row(different)).toMatchObject({
      status: 'dead',
      last_error:
        'there is one already, and not by an attempt of this row: it holds 2 x MUG-BLUE where 3 x MUG-BLUE was asked for',
    });
  });

  test('whose payload was replaced since is for a person: what is there is the earlier version', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { status: 500, afterEffect: true } });
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
    expect(await posts()).toBe(1);
    expect(await outbox.row(id)).toMatchObject({
      status: 'dead',
      last_error: expect.stringMatching(/^an attempt from before its payload was replaced was carried out/),
    });
  });

  test('is settled whatever characters the service puts into its words', async () => {
    const broken = { path: ['errors', 0, 'title'], value: `${'x'.repeat(199)}\u{1F600}\0` };
    await sandbox.faults({ operation: 'v3.inboundPackingSlips.create', effect: { set: [broken] } });
    const slip = { expectedIn: 'ROT', expectedOn: '2026-05-11', items: [{ sku: 'A', quantity: 1 }] };
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.push(short);
    expect(await outbox.row(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining('xxx') });
  });

  test('is taken from an answer that comes after its worker was taken for lost', async () => {
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 1_500 } });
    const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    const pushing = outbox.push();
    await waitFor('the request', posts);
    await database.query("update fulfilment.outbox set lease_until = now() - interval '1 second'");
    await takeOverClaims(database.db, 'another', { 'order.create': 'look up' }, '?');
    expect(await outbox.row(id)).toMatchObject({ status: 'unknown' });
    await pushing;
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
    const history = await database.query('select step, became from sync.outbox_attempts order by id');
    expect(history).toEqual([
      { step: 'taken over', became: 'unknown' },
      { step: 'sent', became: 'done' },
    ]);
  });
});

describe('a kind that cannot be looked up', () => {
  test('waits for a person, who is told both choices, and is never sent twice by itself', async () => {
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
    await pushOn(4);
    const row = await outbox.row(id);
    expect(row).toMatchObject({ status: 'unknown', attempts: 1, next_attempt_at: null });
    expect(row.last_error).toBe(
      'v3.returnMerchandiseAuthorizations.create: the connection broke before the answer was complete. It may have been carried out,' +
        ' and the service cannot be asked: see there, then `outbox done` if it was, or `outbox retry` to send it again',
    );
    const sent = (await sandbox.requests()).filter(
      ({ operation }) => operation === 'v3.returnMerchandiseAuthorizations.create',
    );
    expect(sent).toHaveLength(1);
  });

  test('is tried again where it certainly was not carried out', async () => {
    await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { onHold: true }));
    await outbox.push();
    const { writePage } = await import('../../../src/sandbox/rules/pdf.ts');
    const content = (await writePage(['x'])).toString('base64');
    await sandbox.faults({
      operation: 'v3.orderAttachments.create',
      count: 1,
      effect: { status: 429, retryAfter: '1' },
    });
    const id = await outbox.insert('order_attachment.create', 'SO-1', { filename: 'a.pdf', content });
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({ status: 'pending', attempts: 0, written_at: null });
    await database.query('delete from sync.push_holds');
    await database.query('delete from sync.push_rates');
    await outbox.hurry();
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 1 });
  });
});

describe('an inbound packing slip whose outcome is not known', () => {
  const slip = { expectedIn: 'AMS', expectedOn: '2026-05-11', items: [{ sku: 'MUG-BLUE', quantity: 40 }] };
  const cut = { operation: 'v3.inboundPackingSlips.create', count: 1 };

  test('is found among the open ones by reference and warehouse', async () => {
    await sandbox.faults({ ...cut, effect: { reset: true, afterEffect: true } });
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await pushOn(2);
    expect(await outbox.row(id)).toMatchObject({
      status: 'done',
      attempts: 1,
      result: { inboundPackingSlipId: expect.any(Number) },
    });
  });

  test('is not taken for one that was there before, and is sent again once a person says so', async () => {
    await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await outbox.push();
    await sandbox.faults({ ...cut, effect: { status: 500 } });
    const id = await outbox.insert('inbound_packing_slip.create', 'PO-1', slip);
    await pushOn(5);
    expect(await outbox.row(id)).toMatchObject({
      status: 'unknown',
      attempts: 1,
      next_attempt_at: null,
      last_error: expect.stringMatching(/^not found at the service, looked up twice\. It may have been carried out/),
    });
    expect(await actOnOutbox(database.db, 'retry', { ids: [id] }, { by: 'test', followUps: followUpRules })).toEqual([
      id,
    ]);
    await outbox.push();
    expect(await outbox.row(id)).toMatchObject({ status: 'done', attempts: 2 });
  });
});
