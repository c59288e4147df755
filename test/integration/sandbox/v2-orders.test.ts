import { expect, test } from 'vitest';
import { describeOperation, readOne, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const order = {
  externalOrderNumber: 'V-1',
  extraReference: 'ref',
  clientReference: 'mine',
  actionCode: 'promo',
  partialDelivery: true,
  onHold: false,
  email: 'anna@example.com',
  paymentMethodId: 1,
  shippingMethodId: 121,
  deliveryAddressLastName: 'de Vries',
  deliveryAddressPostalCode: '1015CJ',
  deliveryAddressStreet: 'Keizersgracht',
  deliveryAddressHouseNumber: 12,
  DeliveryAddressCityName: 'Amsterdam',
  deliveryAddressCountryIso: 'NL',
  extra1: 'x',
  extra5: 'y',
  languageId: 52,
  orderTypeId: 32,
  pickUpPointId: 'PP',
  pickUpPointHouseNumber: 3,
  orderItems: [
    { sku: 'MUG-BLUE', quantity: 2, name: 'Mug', price: 9.95, vat: 0.21, extra6: 'six' },
  ],
};
const add = (changes: object = {}) =>
  client.ask('v2.order.add', { body: { ...order, ...changes } });
const read = async (id: unknown) => {
  const query = 'include=orderItems,deliveryAddress,billingAddress,pickUpPoint';
  return readOne(await client.ask('v3.orders.get', { path: { id: Number(id) }, query }));
};

describeOperation('v2.order.add', () => {
  test('answers the order number and stores every field', async () => {
    const { body } = await add();
    expect(body).toMatchObject({ messageCode: 'OK', result: expect.any(Number) });
    const made = await read(body.result);
    expect(made.attributes).toMatchObject({
      ...{ externalOrderNumber: 'V-1', reference: 'ref', consumerReference: 'mine' },
      ...{ promotionCode: 'promo', locale: 'de-DE', allowPartialDelivery: true },
      metadata: { extra1: 'x', extra5: 'y' },
    });
    expect(made.relationships.preferredShippingMethod?.data.id).toBe(12);
    const [item, delivery, billing, point] = made.included ?? [];
    expect(item?.attributes).toMatchObject({ price: 9.95, metadata: { extra6: 'six' } });
    expect(delivery?.attributes).toMatchObject({ city: 'Amsterdam', houseNumber: '12' });
    expect(billing?.attributes).toEqual(delivery?.attributes);
    expect(point?.attributes).toEqual({ id: 'PP', houseNumber: 3 });
  });

  test('says Not Valid if the house number is missing, in its field and in the street', async () => {
    const street = { deliveryAddressHouseNumber: null, deliveryAddressStreet: 'Keizersgracht 12' };
    expect((await add(street)).body.message).not.toContain('Not Valid');
    const none = (await add({ externalOrderNumber: 'V-2', deliveryAddressHouseNumber: null })).body;
    expect(none).toMatchObject({
      messageCode: 'OK',
      message: expect.stringContaining('Not Valid'),
    });
  });

  test.each<[object, string]>([
    [{ warehouseId: 9 }, 'There is no warehouse 9'],
    [{ paymentMethodId: 2 }, 'paymentMethodId: must be 1'],
    [{ deliveryAddressPostalCode: null }, 'deliveryAddressPostalCode'],
    [{ deliveryAddressHouseNumber: '12' }, 'deliveryAddressHouseNumber: must be a whole number'],
    [{ shippingMethodId: 11 }, 'shipping method 11'],
    [{ billingAddressCityName: 'Köln', billingAddressCountryIso: 'XX1' }, 'country XX1'],
  ])('%j is NOK, and the message says why', async (changes, words) => {
    const { status, body } = await add(changes);
    expect([status, body.messageCode, body.result]).toEqual([200, 'NOK', null]);
    expect(body.message).toContain(words);
    expect((await client.ask('v3.orders.list')).body.data).toEqual([]);
  });
});

const searches: Readonly<Record<string, (number: string) => object>> = {
  'v2.order.search': (number) => ({ query: `externalOrderNumber=${number}` }),
  'v2.order.searchByBody': (number) => ({ body: { externalOrderNumber: number } }),
};

for (const [name, makeParts] of Object.entries(searches))
  describeOperation(name, () => {
    test('finds an order by its number', async () => {
      const find = async (parts: object) => (await client.ask(name, parts)).body;
      const { result } = (await add()).body;
      expect(await find(makeParts('V-1'))).toMatchObject({
        messageCode: 'OK',
        result: { orderNumber: result, externalOrderNumber: 'V-1', extra1: 'x', extra2: null },
      });
      expect(await find(makeParts('V-2'))).toMatchObject({ messageCode: 'NOK', result: null });
    });
  });

describeOperation('v2.order.release', () => {
  const release = (externalOrderNumber: string) =>
    client.ask('v2.order.release', { body: { externalOrderNumber } });

  test('releases an order that was created with onHold true', async () => {
    const { result } = (await add({ onHold: true })).body;
    await sandbox.advance(2 * 86_400);
    expect((await client.ask('v3.shipments.list')).body.data).toEqual([]);
    expect((await release('V-1')).body).toEqual({
      messageCode: 'OK',
      message: expect.any(String),
      result: null,
    });
    expect((await read(result)).attributes.onHold).toBe(false);
    await sandbox.advance(2 * 86_400);
    expect((await client.ask('v3.shipments.list')).body.data).toHaveLength(1);
    expect((await release('V-1')).body).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('hold'),
    });
    expect((await release('V-2')).body.messageCode).toBe('NOK');
  });
});
