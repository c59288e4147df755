import { PageSizes, PDFDocument } from '@cantoo/pdf-lib';
import { beforeEach, expect, test } from 'vitest';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { address, describeOperation, line, one, orderBody, titles, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
let id = 0;

const day = 86_400;
const dateIn = async (days: number) => {
  const { date } = await client.ask('common.status.get');
  return new Date(Date.parse(date) + days * day * 1_000).toISOString().slice(0, 10);
};
const order = async () => one(await client.ask('v3.orders.get', { path: { id }, query: 'include=orderItems' }));
const quantities = async () => (await order()).included?.map(({ attributes }) => attributes.quantity);
beforeEach(async () => {
  const body = orderBody('A-1', {
    attributes: {
      reference: 'PO 7',
      consumerReference: 'C 1',
      promotionCode: 'P',
      phoneNumber: '+31 20',
      vatNumber: 'NL1',
      fulfillFrom: 'AMS',
      preferredShippingDate: '2040-01-01',
      allowPartialDelivery: true,
      metadata: { extra1: 'a', extra2: 'b' },
    },
    included: [line('MUG-BLUE', 4), line('TEA-500', 3), address('d'), address('b')],
  });
  id = one(await client.ask('v3.orders.create', { body })).id;
});

/** Lets the mugs and two of the teas leave, and nothing else. */
async function shipPartly() {
  for (const [warehouse, quantity] of [
    ['AMS', 2],
    ['EIN', 0],
  ])
    await sandbox.call('POST', '/_sandbox/stock', { client: 'default', sku: 'TEA-500', warehouse, quantity });
  await update({ allowPartialDelivery: true });
  await sandbox.advance(2 * day);
}

const update = (attributes: Record<string, unknown>, more: Record<string, unknown> = {}) =>
  client.ask('v3.orders.update', { path: { id }, body: { data: { id, type: 'order', attributes, ...more } } });

describeOperation('v3.orders.update', () => {
  test('erases what is omitted, but for what cannot be null; defaults for e-mail and partial delivery', async () => {
    const changed = one(await update({ consumerReference: 'C 2', metadata: { extra2: 'z' } }));
    expect(changed.attributes).toMatchObject({
      externalOrderNumber: 'A-1',
      reference: null,
      consumerReference: 'C 2',
      promotionCode: null,
      locale: 'nl-NL',
      email: 'no-reply@fulfilment.example',
      phoneNumber: null,
      vatNumber: null,
      fulfillFrom: null,
      preferredShippingDate: null,
      allowPartialDelivery: false,
      onHold: false,
      metadata: { extra2: 'z' },
    });
    expect(changed.included?.map(({ type }) => type)).toEqual(['orderItem', 'orderItem', 'address', 'address']);
    expect((await order()).attributes).toEqual(changed.attributes);
  });

  test.each(['reference', 'consumerReference', 'promotionCode'])('an empty %s erases it', async (member) => {
    expect(one(await update({ [member]: '' })).attributes[member]).toBeNull();
  });

  test.each(['externalOrderNumber', 'locale', 'onHold'])('%s must not be null', async (member) => {
    const answer = await update({ [member]: null });
    expect([answer.status, answer.body.errors[0]?.source?.pointer]).toEqual([400, `/data/attributes/${member}`]);
  });

  test('null takes back e-mail and partial delivery to their defaults', async () => {
    const { attributes } = one(await update({ email: null, allowPartialDelivery: null }));
    expect(attributes).toMatchObject({ email: 'no-reply@fulfilment.example', allowPartialDelivery: false });
  });

  test('currency, channelIdentifier and orderedOn never change', async () => {
    const before = (await order()).attributes;
    const sent = { currency: 'USD', channelIdentifier: 'x', orderedOn: '2020-01-01' };
    const after = one(await update(sent)).attributes;
    for (const member of Object.keys(sent)) expect(after[member]).toBe(before[member]);
  });

  test('a number that another order has is refused, its own is not', async () => {
    await client.ask('v3.orders.create', { body: orderBody('A-2') });
    const taken = await update({ externalOrderNumber: 'A-2' });
    expect([taken.status, titles(taken)]).toEqual([422, expect.stringContaining('A-2 already')]);
    expect((await update({ externalOrderNumber: 'A-1' })).status).toBe(200);
    expect(one(await update({ externalOrderNumber: 'A-3' })).attributes.externalOrderNumber).toBe('A-3');
    const found = await client.ask('v3.orders.list', { query: 'filter[externalOrderNumber][in]=A-3,A-1' });
    expect(found.body.data.map((row) => row.id)).toEqual([id]);
  });

  test('preferredShippingDate is today or later', async () => {
    const past = await update({ preferredShippingDate: await dateIn(-2) });
    expect([past.status, titles(past)]).toEqual([422, expect.stringContaining('today or later')]);
    expect((await update({ preferredShippingDate: await dateIn(1) })).status).toBe(200);
  });

  test('a warehouse must belong to the fulfilment strategy', async () => {
    expect((await update({ fulfillFrom: 'ROT' })).body.errors[0]?.source?.pointer).toBe('/data/attributes/fulfillFrom');
  });

  test('items, addresses, method and type may be sent back as they are, and not otherwise', async () => {
    const { relationships } = await order();
    expect((await update({}, { relationships })).status).toBe(200);
    const other = { ...relationships, orderType: { data: { id: 32, type: 'orderType' } } };
    expect(titles(await update({}, { relationships: other }))).toContain('orderType cannot be changed');
    expect((await update({}, { included: [line('MUG-RED')] })).status).toBe(400);
  });

  test('no more once the order is completely fulfilled', async () => {
    await update({ allowPartialDelivery: true });
    await sandbox.advance(2 * day);
    const answer = await update({ reference: 'late' });
    expect([answer.status, titles(answer)]).toEqual([422, expect.stringContaining('completely fulfilled')]);
  });

  test('path and body must name the same order', async () => {
    const body = { data: { id: id + 1, type: 'order', attributes: {} } };
    expect((await client.ask('v3.orders.update', { path: { id }, body })).status).toBe(422);
  });
});

describeOperation('v3.orders.cancel', () => {
  const cancel = (query = '') => client.ask('v3.orders.cancel', { path: { id }, query });

  test('open: every quantity becomes 0', async () => {
    const answer = await cancel('include=orderItems');
    const items = one(answer).included ?? [];
    expect(answer.body.meta).toEqual({
      modified: true,
      modifiedItems: { data: items.map((item) => ({ id: item.id, type: 'orderItem' })) },
    });
    expect(items.map(({ attributes }) => attributes.quantity)).toEqual([0, 0]);
    await sandbox.advance(2 * day);
    expect((await client.ask('v3.shipments.list')).body.data).toEqual([]);
  });

  test('partly fulfilled: what was shipped stays, only what changed is named', async () => {
    await shipPartly();
    const answer = await cancel();
    expect(await quantities()).toEqual([4, 2]);
    const [, tea] = (await order()).included ?? [];
    expect(answer.body.meta).toEqual({
      modified: true,
      modifiedItems: { data: [{ id: tea?.id, type: 'orderItem' }] },
    });
    expect(one(answer).included).toBeUndefined();
  });

  test('completely fulfilled: 200, and nothing is modified', async () => {
    await update({ allowPartialDelivery: true });
    await sandbox.advance(2 * day);
    const answer = await cancel();
    expect([answer.status, answer.body.meta]).toEqual([200, { modified: false, modifiedItems: { data: [] } }]);
    expect(await quantities()).toEqual([4, 3]);
  });
});

describeOperation('v3.orderItems.get', () => {
  test('one item, without anything included', async () => {
    const [item] = (await order()).included ?? [];
    expect(one(await client.ask('v3.orderItems.get', { path: { id: item?.id ?? 0 } }))).toEqual(item);
    const query = 'include=order';
    expect((await client.ask('v3.orderItems.get', { path: { id: item?.id ?? 0 }, query })).status).toBe(400);
    expect((await client.ask('v3.orderItems.get', { path: { id } })).status).toBe(404);
  });
});

describeOperation('v3.orderItems.cancel', () => {
  const cancelItem = async (index: number, attributes: Record<string, unknown> = { quantity: 0 }) => {
    const item = (await order()).included?.[index]?.id ?? 0;
    const body = { data: { id: item, type: 'orderItem', attributes } };
    return client.ask('v3.orderItems.cancel', { path: { id: item }, body });
  };

  test('open: quantity 0; the other item stays', async () => {
    const answer = await cancelItem(1);
    expect([answer.body.meta, one(answer).attributes.quantity]).toEqual([{ modified: true }, 0]);
    expect(await quantities()).toEqual([4, 0]);
  });

  test('partly and completely fulfilled', async () => {
    await shipPartly();
    const partly = await cancelItem(1);
    expect([partly.body.meta, one(partly).attributes.quantity]).toEqual([{ modified: true }, 2]);
    const fulfilled = await cancelItem(0);
    expect([fulfilled.status, fulfilled.body.meta]).toEqual([200, { modified: false }]);
  });

  test('a quantity other than 0 is refused', async () => {
    const answer = await cancelItem(0, { quantity: 1 });
    expect([answer.status, titles(answer)]).toEqual([400, expect.stringContaining('cancelled, not changed')]);
    expect(await quantities()).toEqual([4, 3]);
  });
});

describeOperation('v3.orderAttachments.create', () => {
  const attach = (attributes: Record<string, unknown>, relationships?: unknown) =>
    client.ask('v3.orderAttachments.create', {
      body: {
        data: {
          type: 'orderAttachment',
          attributes: {
            filename: 'note.pdf',
            contentType: 'application/pdf',
            printStrategy: 'REQUIRED',
            ...attributes,
          },
          ...(relationships === undefined ? {} : { relationships }),
        },
      },
    });
  const pdfOf = async (...sizes: [number, number][]) => {
    const document = await PDFDocument.create();
    for (const size of sizes) document.addPage(size);
    return Buffer.from(await document.save()).toString('base64');
  };

  test('by number or by relationship; the content is left out of the answer', async () => {
    const content = (await writePage(['Thank you'])).toString('base64');
    const made = one(await attach({ externalOrderNumber: 'A-1', content }));
    expect(made).toEqual({
      id: expect.any(Number),
      type: 'orderAttachment',
      attributes: {
        externalOrderNumber: 'A-1',
        filename: 'note.pdf',
        contentType: 'application/pdf',
        printStrategy: 'REQUIRED',
      },
      relationships: { order: { data: { id, type: 'order' } } },
    });
    expect((await attach({ content }, { order: { data: { id, type: 'order' } } })).status).toBe(200);
  });

  test('pages of one format, A4 or A5, upright or lying', async () => {
    const lying: [number, number] = [PageSizes.A4[1], PageSizes.A4[0]];
    const good = await attach({ externalOrderNumber: 'A-1', content: await pdfOf(PageSizes.A4, lying) });
    expect(good.status).toBe(200);
    const mixed = await attach({ externalOrderNumber: 'A-1', content: await pdfOf(PageSizes.A4, PageSizes.A5) });
    expect([mixed.status, titles(mixed)]).toEqual([422, expect.stringContaining('mixed')]);
    const letter = await attach({ externalOrderNumber: 'A-1', content: await pdfOf(PageSizes.Letter) });
    expect(titles(letter)).toContain('A4 or A5');
  });

  test.each([
    ['text', Buffer.from('hello').toString('base64'), 422],
    ['a header alone', Buffer.from('%PDF-1.7 and nothing').toString('base64'), 422],
    ['no base64', '***', 400],
  ])('%s is not accepted', async (_, content, status) => {
    expect((await attach({ externalOrderNumber: 'A-1', content })).status).toBe(status);
  });

  test('an order that does not exist, or two different ones', async () => {
    const content = await pdfOf(PageSizes.A5);
    expect(titles(await attach({ externalOrderNumber: 'none', content }))).toContain('no order');
    const second = one(await client.ask('v3.orders.create', { body: orderBody('A-2') })).id;
    const both = await attach(
      { externalOrderNumber: 'A-1', content },
      { order: { data: { id: second, type: 'order' } } },
    );
    expect(titles(both)).toContain('different orders');
  });

  test('not after the order is fully fulfilled', async () => {
    await update({ allowPartialDelivery: true });
    await sandbox.advance(2 * day);
    const late = await attach({ externalOrderNumber: 'A-1', content: await pdfOf(PageSizes.A5) });
    expect([late.status, titles(late)]).toEqual([422, expect.stringContaining('completely fulfilled')]);
  });
});
