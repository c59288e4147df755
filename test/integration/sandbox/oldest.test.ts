import { expect, test } from 'vitest';
import { describeOperation, readOne, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const notFound = { messageCode: 'NOK', message: expect.stringMatching(/not found/i), result: null };
const mug = { Sku: 'MUG-XL', Name: 'Mug, XL', Description: 'Large' };
const add = (changes = {}) => client.ask('oldest.product.add', { body: { ...mug, ...changes } });
const search = (body: object) => client.ask('oldest.product.search', { body });

describeOperation('oldest.product.search', () => {
  test('finds a product by sku or barcode; an unknown product is NOK', async () => {
    const { body } = await search({ Sku: 'MUG-BLUE', Barcode: null });
    expect(body).toMatchObject({
      messageCode: 'OK',
      result: { sku: 'MUG-BLUE', name: 'Mug, blue', weight: 0.35 },
    });
    const { barcode } = body.result as { barcode: string };
    expect((await search({ Barcode: barcode })).body.result).toEqual(body.result);
    expect((await search({ Sku: 'none', Barcode: null })).body).toEqual(notFound);
  });
});

describeOperation('oldest.product.add', () => {
  test('adds a product; adding it again is NOK, and the message names edit', async () => {
    expect((await add()).body).toMatchObject({ messageCode: 'OK', result: expect.any(Number) });
    expect((await search({ Sku: 'MUG-XL' })).body.result).toMatchObject({
      name: 'Mug, XL',
      description: 'Large',
    });
    expect((await add()).body).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('edit'),
    });
  });
});

describeOperation('oldest.product.edit', () => {
  const edit = (body: object) => client.ask('oldest.product.edit', { body });

  test('changes a product; for an unknown product the message names add', async () => {
    await add();
    expect((await edit({ ...mug, Name: 'Mug, XXL' })).body.messageCode).toBe('OK');
    expect((await search({ Sku: 'MUG-XL' })).body.result).toMatchObject({ name: 'Mug, XXL' });
    expect((await edit({ ...mug, Sku: 'none' })).body).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('add'),
    });
  });
});

describeOperation('oldest.stock.get', () => {
  const stock = async (sku: string) =>
    (await client.ask('oldest.stock.get', { path: { sku } })).body;

  test('answers an integer over all warehouses, which falls when goods are shipped', async () => {
    const before = (await stock('MUG-BLUE')).result as number;
    expect(before).toBe(800);
    await add();
    expect((await stock('MUG-XL')).result).toBe(0);
    expect(await stock('none')).toEqual(notFound);
    await addOrder({ OrderItems: [{ Sku: 'MUG-BLUE', Quantity: 3 }] });
    await sandbox.advance(86_400);
    expect((await stock('MUG-BLUE')).result).toBe(before - 3);
  });
});

const order = {
  ...{ ExternalOrderNumber: 'O-1', Email: 'anna@example.com', LanguageId: 51, OrderTypeId: 31 },
  ...{ PaymentMethodId: 1, ShippingMethodId: 112 },
  OrderItems: [{ Sku: 'MUG-BLUE', Name: 'Mug', Price: '9.95', Quantity: 2, Vat: 0.21 }],
  ...{ BillingAddressLastName: 'de Vries', BillingAddressPostalCode: '1015CJ' },
  ...{ BillingAddressStreet: 'Keizersgracht', BillingAddressHouseNumber: '12' },
  BillingAddressCountryIso: 'NL',
};
const addOrder = (changes: object = {}) =>
  client.ask('oldest.order.add', { body: { ...order, ...changes } });

describeOperation('oldest.order.search', () => {
  test('answers the numbers of an order; an unknown order is NOK with result null', async () => {
    const find = (number: string) =>
      client.ask('oldest.order.search', { body: { ExternalOrderNumber: number } });
    expect((await find('O-1')).body).toEqual(notFound);
    const { result } = (await addOrder()).body;
    expect((await find('O-1')).body).toMatchObject({
      messageCode: 'OK',
      result: { orderNumber: result, externalOrderNumber: 'O-1' },
    });
  });
});

describeOperation('oldest.order.add', () => {
  test('answers the order number; v3 answers the same order by that id', async () => {
    const { body } = await addOrder();
    expect(body).toMatchObject({ messageCode: 'OK', result: expect.any(Number) });
    const query = 'include=orderItems,deliveryAddress';
    const made = readOne(
      await client.ask('v3.orders.get', { path: { id: Number(body.result) }, query }),
    );
    expect(made.attributes).toMatchObject({ locale: 'nl-NL', email: 'anna@example.com' });
    expect(made.relationships.preferredShippingMethod?.data.id).toBe(11);
    const [item, delivery] = made.included ?? [];
    expect(item?.attributes).toMatchObject({ sku: 'MUG-BLUE', price: 9.95, vat: 0.21 });
    expect(delivery?.attributes).toMatchObject({ street1: 'Keizersgracht', countryCode: 'NL' });
  });

  test('accepts a form, and a country by its id in the settings', async () => {
    const { OrderItems: _, ...flat } = order;
    const fields = Object.fromEntries(
      Object.entries(flat).map(([name, value]) => [name, String(value)]),
    );
    const items = { 'OrderItems[0].Sku': 'MUG-RED', 'OrderItems[0].Quantity': '1' };
    const form = { ...fields, ...items, BillingAddressCountryIso: '62' };
    const { body } = await client.ask('oldest.order.add', { form });
    const query = 'include=orderItems,billingAddress';
    const made = readOne(
      await client.ask('v3.orders.get', { path: { id: Number(body.result) }, query }),
    );
    expect(
      made.included?.map(({ attributes }) => attributes.sku ?? attributes.countryCode),
    ).toEqual(['MUG-RED', 'DE']);
  });
});

test.each([
  ['Sku=1&Sku=2', 'given twice'],
  ['Sku=1&Sku[b]=2', 'holds members'],
])('the form %s is refused: %s', async (form, words) => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const answer = await client.fetch('POST', '/product/search', { body: form, headers });
  expect(answer.body).toMatchObject({
    messageCode: 'NOK',
    message: expect.stringContaining(words),
  });
});
