import { beforeEach, describe, expect, test } from 'vitest';
import { orderBody } from '../../../helpers/client.ts';
import { createCurl } from '../../../helpers/processes/curl.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

/** Requests of the shapes that programs in PHP, Python and Odoo send to such services. */
const lenientSandbox = useSandbox(['default'], { ...quiet, strict: false });
const lenient = createCurl(lenientSandbox);
const strict = createCurl(useSandbox(['default'], quiet));
beforeEach(() => {
  lenient.logOut();
  strict.logOut();
});

type Curl = typeof lenient;
type Resource = { id: number; attributes: Record<string, unknown>; included: Resource[] };

/** Returns the order that an answer names by its number, with its items and delivery address. */
async function readOrder(curl: Curl, number: unknown, comma = ',') {
  const { body } = await curl.get(`/v3/orders/${number}?include=orderItems${comma}deliveryAddress`);
  const { attributes, included = [] } = body.data as Resource;
  return { ...attributes, included: included.map((resource) => resource.attributes) };
}

async function createOrders(curl: Curl, ...numbers: string[]): Promise<number[]> {
  const answers = [];
  for (const number of numbers) answers.push(await curl.json('/v3/orders', orderBody(number)));
  return answers.map(({ body }) => (body.data as Resource).id);
}

const phpForm = [
  'externalOrderNumber=P-1',
  'PreferredShippingDate=2026-05-06 00:00:00',
  'languageId=51',
  'orderTypeId=31',
  'paymentMethodId=1',
  'shippingMethodId=',
  'billingAddressLastName=de Vries',
  'billingAddressPostalCode=1015CJ',
  'billingAddressStreet=Keizersgracht',
  'billingAddressHouseNumber=12',
  'billingAddressCountryIso=NL',
  'orderItems[0][sku]=MUG-BLUE',
  'orderItems[0][quantity]=2',
  'orderItems[0][price]=9.95',
  'orderItems[0][gtin]=8712345678906',
  'orderItems[1].Sku=TEA-500',
  'orderItems[1].quantity=1',
];
const v2Form = [
  'ExternalOrderNumber=F-1',
  'LanguageId=51',
  'OrderTypeId=31',
  'PaymentMethodId=1',
  'ShippingMethodId=',
  'PartialDelivery=1',
  'OnHold=False',
  'DeliveryAddressLastName=de Vries',
  'DeliveryAddressPostalCode=1015CJ',
  'DeliveryAddressStreet=Keizersgracht',
  'DeliveryAddressHouseNumber=12',
  'DeliveryAddressCountryIso=NL',
  'OrderItems[0][Sku]=MUG-BLUE',
  'OrderItems[0][Quantity]=2',
];

describe('a lenient sandbox takes', () => {
  test('an oldest order by form, with names in any case, brackets or dots, and a spaced date', async () => {
    const { body } = await lenient.form('/order/add', phpForm);
    expect(body).toMatchObject({ messageCode: 'OK', result: expect.any(Number) });
    expect(await readOrder(lenient, body.result)).toMatchObject({
      externalOrderNumber: 'P-1',
      preferredShippingDate: '2026-05-06',
      included: [
        { sku: 'MUG-BLUE', quantity: 2, price: 9.95 },
        { sku: 'TEA-500' },
        { houseNumber: '12' },
      ],
    });
    const found = await lenient.form('/order/search', ['externalORDERNumber=P-1']);
    expect(found.body).toMatchObject({ messageCode: 'OK', result: { orderNumber: body.result } });
  });

  test('oldest products in JSON, with names in any case, and numbers where texts are meant', async () => {
    const product = { sku: 4711, name: 'Mug', weight: '0.5', encodedImage: null, GTIN: '8' };
    expect((await lenient.json('/product/add', product)).body).toMatchObject({ messageCode: 'OK' });
    const found = await lenient.json('/product/search', { sku: 4711, barcode: null });
    expect(found.body.result).toMatchObject({ sku: '4711', name: 'Mug', weight: 0.5 });
  });

  test('oldest calls as Odoo sends them: false for what is absent, and members of its own', async () => {
    const product = { Name: 'Mug', Sku: 'OD-1', Barcode: false, CostPrice: 1.5 };
    expect((await lenient.json('/product/add', product)).body).toMatchObject({ messageCode: 'OK' });
    const { body } = await lenient.json('/order/add', {
      ...{ ExternalOrderNumber: 'OD-1', Email: '', PhoneNumber: false, ClientReference: '' },
      ...{ PaymentMethodId: 1, LanguageId: 51, OrderTypeId: 31 },
      OrderItems: [{ Sku: 'OD-1', Quantity: 2, Name: 'Mug', Price: 9.95, VAT: 21 }],
      ...{ DeliveryAddressStreet: 'Keizersgracht ', DeliveryAddressHouseNumber: '12' },
      ...{ DeliveryAddressCountryIso: 'NL', BillingAddressCountryIso: '' },
    });
    expect(await readOrder(lenient, body.result)).toMatchObject({
      phoneNumber: null,
      included: [{ sku: 'OD-1', vat: 21 }, { houseNumber: '12' }],
    });
  });

  test('a v2 order by form, with booleans and empty fields as PHP and Python write them', async () => {
    const { body } = await lenient.form('/v2/order/add', v2Form);
    expect(body).toMatchObject({ messageCode: 'OK', result: expect.any(Number) });
    expect(await readOrder(lenient, body.result)).toMatchObject({
      externalOrderNumber: 'F-1',
      allowPartialDelivery: true,
      onHold: false,
      included: [{ sku: 'MUG-BLUE', quantity: 2 }, { houseNumber: '12' }],
    });
    const found = await lenient.get('/v2/order/search?ExternalOrderNumber=F-1&shop=1');
    expect(found.body).toMatchObject({ messageCode: 'OK', result: { orderNumber: body.result } });
  });
});

describe('a lenient sandbox refuses', () => {
  test.each([
    ['/v2/order/add', { externalOrderNumber: 'X', orderTypeId: 'B2C' }, 'orderTypeId'],
    ['/product/add', { name: 'Mug' }, 'Sku'],
    ['/order/search', [1], 'expected object'],
    ['/product/add', { sku: 'A', name: 'Mug', weight: { kg: 1 } }, 'Weight'],
  ])('%s %j, and the message names %s', async (path, request, words) => {
    const { body } = await lenient.json(path, request);
    expect(body).toMatchObject({ messageCode: 'NOK', message: expect.stringContaining(words) });
  });

  test('a v3 member of another type, and a v3 form', async () => {
    const order = orderBody('T-1', { attributes: { onHold: 'true' } });
    expect((await lenient.json('/v3/orders', order)).status).toBe(400);
    expect((await lenient.form('/v3/orders', ['data[type]=order'])).status).toBe(415);
  });
});

test.each([
  ['an oldest form with names in another case', () => strict.form('/order/add', phpForm)],
  ['an oldest member in another case', () => strict.json('/product/search', { sku: 'MUG-BLUE' })],
  ['a v2 order by form', () => strict.form('/v2/order/add', v2Form)],
  ['a v2 parameter in another case', () => strict.get('/v2/order/search?ExternalOrderNumber=A')],
  ['an unknown v2 parameter', () => strict.get('/v2/order/search?externalOrderNumber=A&shop=1')],
])('a strict sandbox refuses %s', async (_, ask) => {
  expect((await ask()).body.messageCode).toBe('NOK');
});

describe.each([
  ['lenient', lenient],
  ['strict', strict],
])('a %s sandbox', (_, curl) => {
  test('takes an encoded comma as a separator in include, status filters and lists of ids', async () => {
    const [first, second] = await createOrders(curl, 'C-1', 'C-2');
    expect(await readOrder(curl, first)).toEqual(await readOrder(curl, first, '%2C'));
    for (const query of [
      `filter%5BorderId%5D%5Bin%5D=${first}%2C${second}`,
      'filter[status][in]=READY_TO_PICK%2cSHIPPED',
      'filter%5BorderType%5D%5Bin%5D=31%2C32',
    ])
      expect((await curl.get(`/v3/shipments?${query}`)).status).toBe(200);
  });
});
