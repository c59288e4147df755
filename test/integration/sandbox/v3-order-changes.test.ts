import { PageSizes, PDFDocument } from '@cantoo/pdf-lib';
import { beforeEach, expect, test } from 'vitest';
import {
  address,
  describeOperation,
  line,
  orderBody,
  readOne,
  titles,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
let id = 0;

const day = 86_400;
const readOrder = async () =>
  readOne(await client.ask('v3.orders.get', { path: { id }, query: 'include=orderItems' }));
const readQuantities = async () =>
  (await readOrder()).included?.map(({ attributes }) => attributes.quantity);
beforeEach(async () => {
  const body = orderBody('A-1', {
    attributes: {
      ...{ reference: 'PO 7', consumerReference: 'C 1', phoneNumber: '+31 20' },
      ...{ fulfillFrom: 'AMS', preferredShippingDate: '2040-01-01', allowPartialDelivery: true },
      metadata: { extra1: 'a', extra2: 'b' },
    },
    included: [line('MUG-BLUE', 4), line('TEA-500', 3), address('d'), address('b')],
  });
  id = readOne(await client.ask('v3.orders.create', { body })).id;
});

/** Ships the mugs and two of the teas, and nothing else. */
async function shipPartly() {
  for (const [warehouse, quantity] of [
    ['AMS', 2],
    ['EIN', 0],
  ])
    await sandbox.call('POST', '/_sandbox/stock', {
      client: 'default',
      sku: 'TEA-500',
      warehouse,
      quantity,
    });
  await update({ allowPartialDelivery: true });
  await sandbox.advance(2 * day);
}

const update = (attributes: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  client.ask('v3.orders.update', {
    path: { id },
    body: { data: { id, type: 'order', attributes, ...more } },
  });

describeOperation('v3.orders.update', () => {
  test('erases omitted members, except those that cannot be null or that have a default', async () => {
    const changed = readOne(await update({ consumerReference: 'C 2', metadata: { extra2: 'z' } }));
    expect(changed.attributes).toMatchObject({
      ...{ externalOrderNumber: 'A-1', locale: 'nl-NL', consumerReference: 'C 2' },
      ...{ reference: null, phoneNumber: null, fulfillFrom: null, preferredShippingDate: null },
      ...{ email: 'no-reply@fulfilment.example', allowPartialDelivery: false },
      metadata: { extra2: 'z' },
    });
    expect(changed.included).toHaveLength(4);
    expect((await readOrder()).attributes).toEqual(changed.attributes);
    expect((await update({ locale: null })).status).toBe(400);
  });

  test('accepts unchanged items, addresses, method and type, and refuses changed ones', async () => {
    const { relationships } = await readOrder();
    expect((await update({}, { relationships })).status).toBe(200);
    const other = { ...relationships, orderType: { data: { id: 32, type: 'orderType' } } };
    expect(titles(await update({}, { relationships: other }))).toContain(
      'orderType cannot be changed',
    );
    expect((await update({}, { included: [line('MUG-RED')] })).status).toBe(400);
  });
});

describeOperation('v3.orders.cancel', () => {
  const cancel = (query = '') => client.ask('v3.orders.cancel', { path: { id }, query });

  test('partly fulfilled order: shipped quantities stay, only changed items are named', async () => {
    await shipPartly();
    const answer = await cancel();
    expect(await readQuantities()).toEqual([4, 2]);
    const [, tea] = (await readOrder()).included ?? [];
    expect(answer.body.meta).toEqual({
      modified: true,
      modifiedItems: { data: [{ id: tea?.id, type: 'orderItem' }] },
    });
    expect(readOne(answer).included).toBeUndefined();
    expect((await cancel()).body.meta).toEqual({ modified: false, modifiedItems: { data: [] } });
  });
});

describeOperation('v3.orderItems.get', () => {
  test('answers one item; nothing can be included', async () => {
    const [item] = (await readOrder()).included ?? [];
    const get = (of = 0, query = '') =>
      client.ask('v3.orderItems.get', { path: { id: of }, query });
    expect(readOne(await get(item?.id))).toEqual(item);
    expect((await get(item?.id, 'include=order')).status).toBe(400);
    expect((await get(id)).status).toBe(404);
  });
});

describeOperation('v3.orderItems.cancel', () => {
  const cancelItem = async (
    index: number,
    attributes: Record<string, unknown> = { quantity: 0 },
  ) => {
    const item = (await readOrder()).included?.[index]?.id ?? 0;
    const body = { data: { id: item, type: 'orderItem', attributes } };
    return client.ask('v3.orderItems.cancel', { path: { id: item }, body });
  };

  test('partly fulfilled item: its shipped quantity stays; fulfilled item: nothing is modified', async () => {
    await shipPartly();
    const partly = await cancelItem(1);
    expect([partly.body.meta, readOne(partly).attributes.quantity]).toEqual([
      { modified: true },
      2,
    ]);
    const fulfilled = await cancelItem(0);
    expect([fulfilled.status, fulfilled.body.meta]).toEqual([200, { modified: false }]);
  });
});

describeOperation('v3.orderAttachments.create', () => {
  /** Attaches a document to the order that `to` names, by its number or by a relationship. */
  const attach = (content: string, to: { number: string } | { relationships: object }) => {
    const number = 'number' in to ? { externalOrderNumber: to.number } : {};
    const attributes = { filename: 'note.pdf', printStrategy: 'REQUIRED', content, ...number };
    const relationships = 'relationships' in to ? { relationships: to.relationships } : {};
    const data = { type: 'orderAttachment', attributes, ...relationships };
    return client.ask('v3.orderAttachments.create', { body: { data } });
  };
  const makePdf = async (...sizes: [number, number][]) => {
    const document = await PDFDocument.create();
    for (const size of sizes) document.addPage(size);
    return Buffer.from(await document.save()).toString('base64');
  };

  test('accepts pages of one format, A4 or A5, portrait or landscape', async () => {
    const attachPages = async (...sizes: [number, number][]) =>
      attach(await makePdf(...sizes), { number: 'A-1' });
    const { A4, A5, Letter } = PageSizes;
    expect((await attachPages(A4, [A4[1], A4[0]])).status).toBe(200);
    expect(titles(await attachPages(A4, A5))).toContain('mixed');
    expect(titles(await attachPages(Letter))).toContain('A4 or A5');
  });
});
