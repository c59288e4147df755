import { expect, test } from 'vitest';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const address = orderPayload('?').deliveryAddress;
const withAddress = (changes: Record<string, unknown>) => ({ deliveryAddress: { ...address, ...changes } });
const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Changes to a good payload of order.create, and what a person reads then. */
const orders: [string, Record<string, unknown>, string][] = [
  ['no order type', { orderType: undefined }, 'orderType: give either orderType (code) or orderTypeId'],
  ['two order types', { orderTypeId: 31 }, 'orderType: give either orderType (code) or orderTypeId'],
  ['unknown order type', { orderType: 'B2X' }, 'orderType: there is no B2X; known are B2B, B2C'],
  [
    'unknown method',
    { shippingMethod: 'DRONE' },
    'shippingMethod: there is no DRONE; known are LETTERBOX, PALLET, PARCEL',
  ],
  [
    'both codes unknown',
    { orderType: 'X', shippingMethod: 'Y' },
    'orderType: there is no X; known are B2B, B2C; shippingMethod: there is no Y; known are LETTERBOX, PALLET, PARCEL',
  ],
  [
    'two methods',
    { shippingMethod: 'PARCEL', shippingMethodId: 11 },
    'shippingMethod: give either shippingMethod (code) or shippingMethodId',
  ],
  ['a read-only member', { currency: 'EUR' }, 'currency: is read-only at the service and cannot be sent'],
  ['a member that is not known', { colour: 'red', size: 1 }, 'size: is not known here; colour: is not known here'],
  [
    'a member that is not known, inside',
    { items: [{ sku: 'A', quantity: 1, colour: 'red' }] },
    'items[0].colour: is not known here',
  ],
  ['no locale', { locale: undefined }, 'locale: is missing'],
  ['a wrong locale', { locale: 'dutch' }, 'locale: must be a language and a region, such as nl-NL'],
  ['no items', { items: [] }, 'items: must have at least one'],
  [
    'several at once',
    { orderType: 'X', locale: undefined, items: [{ sku: '', quantity: 1.5 }], ...withAddress({ postcode: null }) },
    'locale: is missing; items[0].sku: must not be empty; items[0].quantity: must be a whole number; orderType: there is no X; known are B2B, B2C; deliveryAddress.postcode: is required for NL',
  ],
  ['no pieces', { items: [{ sku: 'A', quantity: 0 }] }, 'items[0].quantity: must be at least 1'],
  [
    'a price that is none',
    { items: [{ sku: 'A', quantity: 1, price: '9,95' }] },
    'items[0].price: must be a number or a decimal text such as "9.95"',
  ],
  ['no address', { deliveryAddress: undefined }, 'deliveryAddress: is missing'],
  ['an address without street', withAddress({ street1: undefined }), 'deliveryAddress.street1: is missing'],
  [
    'no house number',
    withAddress({ houseNumber: undefined }),
    'deliveryAddress.houseNumber: is required for NL, unless street1 ends with it',
  ],
  ['no postcode', withAddress({ countryCode: 'BE', postcode: ' ' }), 'deliveryAddress.postcode: is required for BE'],
  [
    'a country that is none',
    withAddress({ countryCode: 'nl' }),
    'deliveryAddress.countryCode: must be a country code of two letters, such as NL',
  ],
  [
    'a date that is none',
    { preferredShippingDate: '2026-02-30' },
    'preferredShippingDate: must be a date in the form YYYY-MM-DD',
  ],
  ['another number', { externalOrderNumber: 'SO-2' }, 'externalOrderNumber: must be the reference of the row, SO-1'],
  ['metadata that is not known', { metadata: { extra6: 'x' } }, 'metadata.extra6: is not known here'],
  [
    'a document that is no pdf',
    { attachments: [{ filename: 'a.pdf', content: base64('hello') }] },
    'attachments[0].content: is no pdf document',
  ],
  [
    'a broken pdf',
    { attachments: [{ filename: 'a.pdf', content: base64('%PDF-1.7 hello') }] },
    'attachments[0].content: is a pdf document that cannot be read',
  ],
  [
    'a document that is no base64',
    { attachments: [{ filename: 'a.pdf', content: '***' }] },
    'attachments[0].content: must be base64',
  ],
];

test('a payload that cannot be sent is dead at once, with every problem in words, and nothing is sent', async () => {
  // One lane each: the reference is the number, and the first problem must not hide the others.
  const ids = new Map<string, number>();
  for (const [name, changes] of orders) {
    await database.query(
      "update fulfilment.outbox set status = 'cancelled', next_attempt_at = null, finished_at = now() where status = 'pending'",
    );
    ids.set(name, await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', changes)));
    await outbox.push();
    await database.query("update fulfilment.outbox set status = 'cancelled' where status = 'dead'");
  }
  const rows = await outbox.rows();
  expect(rows.map(({ last_error }) => last_error)).toEqual(
    orders.map(([, , words]) => `the payload cannot be sent: ${words}`),
  );
  expect(rows.map(({ attempts }) => attempts)).toEqual(orders.map(() => 0));
  expect(await sandbox.requestsTo('/v3/orders')).toEqual([]);
  // Settings were asked for once, however many codes were not known.
  expect(await sandbox.requestsTo('/settings/get')).toHaveLength(1);
});

test('addresses that the service can make something of are let through', async () => {
  const good = [
    withAddress({ houseNumber: undefined, street1: 'Keizersgracht 12-a' }),
    withAddress({ houseNumber: undefined, street1: 'Hauptstr. 5/7' }),
    withAddress({ countryCode: 'FR', houseNumber: undefined, postcode: undefined }),
    { orderType: undefined, orderTypeId: 32, shippingMethodId: 12 },
  ];
  for (const [index, changes] of good.entries())
    await outbox.insert('order.create', `SO-${index}`, orderPayload(`SO-${index}`, changes));
  await outbox.push();
  expect((await outbox.rows()).map(({ status, last_error }) => [status, last_error])).toEqual(
    good.map(() => ['done', null]),
  );
});

/** Of the other kinds: what is refused here, and what the service refuses. */
const others: [string, string, unknown, string][] = [
  [
    'order.update',
    'SO-1',
    { externalOrderNumber: 'SO-9' },
    'the payload cannot be sent: externalOrderNumber: is the reference of the row, by which its rows are kept in order; it cannot be changed here',
  ],
  [
    'order.update',
    'SO-1',
    { items: [], orderType: 'B2B' },
    'the payload cannot be sent: items: the service does not change it by an update; cancel the order and create another; orderType: the service does not change it by an update; cancel the order and create another',
  ],
  ['order.update', 'SO-1', {}, 'the payload cannot be sent: payload: names nothing to change'],
  ['order.update', 'SO-1', { locale: null }, 'the payload cannot be sent: locale: must be a string'],
  [
    'order.update',
    'SO-1',
    { fulfillFrom: 'ROT' },
    'v3.orders.update: answered 422: «Warehouse ROT does not belong to the fulfilment strategy (AMS, EIN)»',
  ],
  [
    'order.update',
    'SO-404',
    { reference: 'x' },
    'the service has no order with the number SO-404; once it has, retry this row',
  ],
  ['order.cancel', 'SO-404', {}, 'the service has no order with the number SO-404; once it has, retry this row'],
  ['order.cancel', 'SO-1', { reason: 'x' }, 'the payload cannot be sent: reason: is not known here'],
  ['order.release', 'SO-404', {}, 'the service has no order with the number SO-404; once it has, retry this row'],
  ['order.release', 'x'.repeat(51), {}, 'the payload cannot be sent: reference: must have 1 to 50 characters'],
  ['order_item.cancel', 'SO-1', {}, 'the payload cannot be sent: payload: give either orderItemId or sku'],
  [
    'order_attachment.create',
    'SO-1',
    { filename: 'a', content: base64('x') },
    'the payload cannot be sent: content: is no pdf document',
  ],
  [
    'order.create',
    'SO-1',
    orderPayload('SO-1', { fulfillFrom: 'ROT' }),
    'there is one already, and not by an attempt of this row: it holds 2 x MUG-BLUE where 3 x MUG-RED was asked for',
  ],
  [
    'return.create',
    'RET-1',
    { shipmentId: 999_999, items: [{ shipmentItemId: 1, quantity: 1, reason: 'DAMAGED' }] },
    'the service has no shipment 999999',
  ],
  [
    'return.create',
    'RET-2',
    { shipmentId: 1, items: [{ shipmentItemId: 1, quantity: 1, reason: 'UGLY' }] },
    'the payload cannot be sent: items[0].reason: there is no UGLY; known are DAMAGED, REGRET, TOO_SMALL',
  ],
  [
    'return.delete',
    'RET-404',
    {},
    'no announced return with the reference RET-404 is known here; name it by returnMerchandiseAuthorizationId',
  ],
  [
    'inbound_packing_slip.create',
    'PO-1',
    { expectedIn: 'ROT', expectedOn: '2026-05-11', items: [{ sku: 'A', quantity: 1 }] },
    'v3.inboundPackingSlips.create: answered 422: «Warehouse ROT does not belong to the fulfilment strategy (AMS, EIN)»',
  ],
  [
    'inbound_packing_slip.create',
    'PO-1',
    { expectedIn: 'AMS', items: [] },
    'the payload cannot be sent: expectedOn: is missing; items: must have at least one',
  ],
  [
    'product.save',
    'VASE',
    { weight: 'heavy' },
    'the payload cannot be sent: name: is missing; weight: must be a number or a decimal text such as "9.95"',
  ],
  ['return_label.create', 'SO-1', { shipmentId: 999_999 }, 'v2.returnLabel.get: NOK: «Shipment not found»'],
  [
    'order.crate',
    'SO-1',
    {},
    'there is no kind order.crate; known are order.create, order.update, order.cancel, order.release, order_item.cancel, order_attachment.create, return.create, return.replace, return.delete, inbound_packing_slip.create, product.save, return_label.create',
  ],
];

test('what the service refuses is dead in its words', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  const words: (string | null)[] = [];
  for (const [kind, reference, payload] of others) {
    const changed =
      kind === 'order.create'
        ? { ...(payload as object), items: [{ sku: 'MUG-RED', quantity: 3 }], fulfillFrom: undefined }
        : payload;
    const id = await outbox.insert(kind, reference, changed);
    await outbox.push();
    const row = await outbox.row(id);
    expect([kind, row.status]).toEqual([kind, 'dead']);
    words.push(row.last_error);
    await database.query("update fulfilment.outbox set status = 'cancelled' where status = 'dead'");
  }
  expect(words).toEqual(others.map(([, , , text]) => text));
});

test('an item that an order has twice has to be named by its id', async () => {
  const items = [
    { sku: 'MUG-BLUE', quantity: 1 },
    { sku: 'MUG-BLUE', quantity: 2 },
  ];
  const create = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { items }));
  await outbox.push();
  const [first] = ((await outbox.row(create)).result?.orderItems ?? []) as { id: number }[];
  const bySku = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'MUG-BLUE' });
  await outbox.push();
  expect((await outbox.row(bySku)).last_error).toMatch(
    /^order SO-1 has several items MUG-BLUE; name one by orderItemId: \d+ \(MUG-BLUE\), \d+ \(MUG-BLUE\)$/,
  );
  await database.query('select fulfilment.outbox_replace($1, $2)', [bySku, JSON.stringify({ orderItemId: first?.id })]);
  await outbox.push();
  expect(await outbox.row(bySku)).toMatchObject({ status: 'done', result: { orderItemId: first?.id, quantity: 0 } });
});

test('every digit of a price reaches the service', async () => {
  const payload = JSON.stringify(orderPayload('SO-1')).replace('"9.95"', '1234567890.12345');
  await outbox.insert('order.create', 'SO-1', payload);
  await outbox.push();
  expect(await database.query('select price from fulfilment.order_items')).toEqual([{ price: '1234567890.12345' }]);
});

test('pages of two formats are not accepted in one document', async () => {
  const { PDFDocument } = await import('@cantoo/pdf-lib');
  const document = await PDFDocument.load(await writePage(['A5']));
  document.addPage([595.28, 841.89]);
  const content = Buffer.from(await document.save()).toString('base64');
  const id = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { attachments: [{ filename: 'a.pdf', content }] }),
  );
  await outbox.push();
  expect((await outbox.row(id)).last_error).toBe(
    'the payload cannot be sent: attachments[0].content: mixes pages of A4 and A5',
  );
});
