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

  test('refuses the number of another order, and accepts the present one', async () => {
    await client.ask('v3.orders.create', { body: orderBody('A-2') });
    const taken = await update({ externalOrderNumber: 'A-2' });
    expect([taken.status, titles(taken)]).toEqual([
      422,
      expect.stringContaining('(A-2) already exists'),
    ]);
    for (const number of ['A-1', 'A-3'])
      expect((await update({ externalOrderNumber: number })).status).toBe(200);
    const query = 'filter[externalOrderNumber][in]=A-3,A-1';
    const found = await client.ask('v3.orders.list', { query });
    expect(found.body.data.map((row) => [row.id, row.attributes.externalOrderNumber])).toEqual([
      [id, 'A-3'],
    ]);
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

  test('refuses changes after the order is completely fulfilled', async () => {
    await update({ allowPartialDelivery: true });
    await sandbox.advance(2 * day);
    const answer = await update({ reference: 'late' });
    expect([answer.status, titles(answer)]).toEqual([
      422,
      expect.stringContaining('completely fulfilled'),
    ]);
  });
});

describeOperation('v3.orders.cancel', () => {
  const cancel = (query = '') => client.ask('v3.orders.cancel', { path: { id }, query });

  test('open order: every quantity becomes 0', async () => {
    const answer = await cancel('include=orderItems');
    const items = readOne(answer).included ?? [];
    expect(answer.body.meta).toEqual({
      modified: true,
      modifiedItems: { data: items.map((item) => ({ id: item.id, type: 'orderItem' })) },
    });
    expect(items.map(({ attributes }) => attributes.quantity)).toEqual([0, 0]);
    await sandbox.advance(2 * day);
    expect((await client.ask('v3.shipments.list')).body.data).toEqual([]);
  });

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

  test('open item: its quantity becomes 0, and the other item stays', async () => {
    const answer = await cancelItem(1);
    expect([answer.body.meta, readOne(answer).attributes.quantity]).toEqual([
      { modified: true },
      0,
    ]);
    expect(await readQuantities()).toEqual([4, 0]);
    expect(titles(await cancelItem(0, { quantity: 1 }))).toContain('cancelled, not changed');
  });

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

  test('accepts an order by number or by relationship; the answer omits the content', async () => {
    const content = await makePdf(PageSizes.A4);
    const relationships = { order: { data: { id, type: 'order' } } };
    const answer = await attach(content, { number: 'A-1' });
    expect(readOne(answer)).toMatchObject({
      attributes: { externalOrderNumber: 'A-1', filename: 'note.pdf', printStrategy: 'REQUIRED' },
      relationships,
    });
    expect(JSON.stringify(answer.body)).not.toContain(content);
    expect((await attach(content, { relationships })).status).toBe(200);
    expect(titles(await attach(content, { number: 'none' }))).toContain('no order');
  });

  test('accepts pages of one format, A4 or A5, portrait or landscape', async () => {
    const attachPages = async (...sizes: [number, number][]) =>
      attach(await makePdf(...sizes), { number: 'A-1' });
    const { A4, A5, Letter } = PageSizes;
    expect((await attachPages(A4, [A4[1], A4[0]])).status).toBe(200);
    expect(titles(await attachPages(A4, A5))).toContain('mixed');
    expect(titles(await attachPages(Letter))).toContain('A4 or A5');
  });
});
