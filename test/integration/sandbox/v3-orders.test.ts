import { describe, expect, test } from 'vitest';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import {
  address,
  describeOperation,
  line,
  orderBody,
  type Resource,
  readOne,
  titles,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const create = (number: string, parts = {}) =>
  client.ask('v3.orders.create', { body: orderBody(number, parts) });
const get = (id: number, query = '') => client.ask('v3.orders.get', { path: { id }, query });
const everything = 'include=orderItems,deliveryAddress,billingAddress,pickUpPoint';

const nested = (levels: number): object => (levels === 0 ? {} : { in: nested(levels - 1) });

describeOperation('v3.orders.create', () => {
  test('answers the complete order, as a read with every include does', async () => {
    const made = await create('A-1', {
      attributes: { reference: 'PO 7', metadata: { extra1: 'x' }, fulfillFrom: 'EIN' },
      relationships: { preferredShippingMethod: { data: { id: 12, type: 'shippingMethod' } } },
      included: [
        line('MUG-BLUE', 2, { price: 9.95, channelIdentifier: 'C7' }),
        line('SHIPPING', 1, { price: '-4.95', vat: '0.09' }),
        address('d'),
        address('b', { lastName: 'Becker', countryCode: 'DE' }),
        { type: 'pickUpPoint', attributes: { code: 'PP-1', anything: [1] } },
      ],
    });
    const order = readOne(made);
    expect(order.attributes).toMatchObject({
      ...{ externalOrderNumber: 'A-1', reference: 'PO 7', consumerReference: null },
      ...{ currency: 'EUR', fulfillFrom: 'EIN', onHold: false, metadata: { extra1: 'x' } },
    });
    const [mug, shipping, , billing, point] = order.included ?? [];
    expect(mug?.attributes).toMatchObject({ sku: 'MUG-BLUE', channelIdentifier: 'C7' });
    expect(shipping?.attributes).toMatchObject({ price: -4.95, vat: '0.09' });
    expect(billing?.attributes).toMatchObject({ lastName: 'Becker', houseNumber: '12' });
    expect(point?.attributes).toEqual({ code: 'PP-1', anything: [1] });
    expect(readOne(await get(order.id, everything))).toEqual(order);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['a warehouse outside the strategy', { attributes: { fulfillFrom: 'ROT' } }, 'Warehouse ROT'],
    [
      'an unknown order type',
      { relationships: { orderType: { data: { id: 99, type: 'orderType' } } } },
      'no order type 99',
    ],
    [
      'an address that is not there',
      { included: [line('MUG-RED'), address('b')] },
      'deliveryAddress: No included address',
    ],
    [
      'members nested too deep',
      { included: [{ type: 'pickUpPoint', attributes: nested(30) }, address('d'), address('b')] },
      'data.included.0.attributes',
    ],
  ])('refuses %s', async (_, parts, words) => {
    const answer = await create('A-1', parts);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(titles(answer)).toContain(words);
    expect((await client.ask('v3.orders.list')).body.data).toEqual([]);
  });

  test('refuses a number that exists, unless the switch repeatedNumbers is on', async () => {
    await create('A-1');
    const again = await create('A-1');
    expect([again.status, titles(again)]).toEqual([
      422,
      expect.stringContaining('(A-1) already exists'),
    ]);
    expect((await client.ask('v3.orders.list')).body.data).toHaveLength(1);
    await sandbox.switches({ repeatedNumbers: true });
    expect((await create('A-1')).status).toBeLessThan(300);
  });

  test('accepts one attachment, which must be a PDF and whose content is never shown', async () => {
    const attachment = (content: string) => ({
      type: 'orderAttachment',
      attributes: { filename: 'a.pdf', contentType: 'application/pdf', content },
    });
    const attach = (number: string, ...contents: string[]) =>
      create(number, {
        included: [line('MUG-RED'), address('d'), address('b'), ...contents.map(attachment)],
      });
    const pdf = (await writePage(['Thank you'])).toString('base64');
    const made = await attach('A-1', pdf);
    expect([made.status, JSON.stringify(made.body).includes(pdf)]).toEqual([200, false]);
    const text = await attach('A-2', Buffer.from('hello').toString('base64'));
    expect([text.status, titles(text)]).toEqual([422, 'The content is no pdf document']);
    expect(titles(await attach('A-2', pdf, pdf))).toContain('One orderAttachment');
  });

  test('refuses unknown products by name until they are added; then the order waits for stock', async () => {
    const included = [line('MUG-RED'), line('NEW-1', 3), line('NEW-2'), address('d'), address('b')];
    const refused = await create('A-1', { included });
    expect([refused.status, titles(refused)]).toEqual([
      422,
      'There is no product with the sku NEW-1, NEW-2: add it first (POST /product/add)',
    ]);
    for (const Sku of ['NEW-1', 'NEW-2'])
      await client.ask('oldest.product.add', { body: { Sku, Name: 'New' } });
    const { id } = readOne(await create('A-1', { included }));
    const listSkus = async () => {
      const query = `include=shipmentItems&filter[orderId]=${id}`;
      const shipments = (await client.ask('v3.shipments.list', { query })).body.data;
      return shipments
        .flatMap((row) => row.included?.map(({ attributes }) => attributes.sku))
        .toSorted();
    };
    await sandbox.advance(86_400);
    expect(await listSkus()).toEqual([]);
    for (const sku of ['NEW-1', 'NEW-2'])
      await sandbox.call('POST', '/_sandbox/stock', {
        client: 'default',
        sku,
        warehouse: 'AMS',
        quantity: 5,
      });
    await sandbox.advance(86_400);
    expect(await listSkus()).toEqual(['MUG-RED', 'NEW-1', 'NEW-2']);
  });
});

describeOperation('v3.orders.get', () => {
  test('answers the order with the parts that are asked for inside it', async () => {
    const { id } = readOne(await create('A-1'));
    expect(readOne(await get(id)).included).toBeUndefined();
    expect(
      readOne(await get(id, 'include=billingAddress')).included?.map(({ type }) => type),
    ).toEqual(['address']);
    expect((await get(id, 'include=product')).body.errors[0]?.source?.parameter).toBe('include');
    expect((await get(id, 'page[size]=1')).body.errors[0]?.source?.parameter).toBe('page[size]');
  });
});

describeOperation('v3.orders.list', () => {
  test('lists pages by ascending id, with the parts that are asked for inside each order', async () => {
    await sandbox.seed(30);
    const first = await client.ask('v3.orders.list', { query: `page[size]=20&${everything}` });
    expect(new Set(first.body.data[0]?.included?.map(({ type }) => type))).toEqual(
      new Set(['orderItem', 'address']),
    );
    const next = new URL(first.body.links.next?.href ?? '').search.slice(1);
    const rest = await client.ask('v3.orders.list', { query: next });
    const ids = [...first.body.data, ...rest.body.data].map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)].sort((left, right) => left - right));
    expect([ids.length, rest.body.links.next]).toEqual([30, null]);
  });

  test('filters by number, reference and day, also combined', async () => {
    await sandbox.seed(30);
    const { data } = (await client.ask('v3.orders.list')).body;
    const find = async (query: string) => (await client.ask('v3.orders.list', { query })).body.data;
    const { externalOrderNumber, orderedOn } = data[3]?.attributes ?? {};
    const reference = data.find(({ attributes }) => attributes.reference)?.attributes.reference;
    const number = `filter[externalOrderNumber][in]=${externalOrderNumber}`;
    expect(await find(`${number},none`)).toEqual([data[3]]);
    expect(await find(`${number}&filter[reference][in]=none`)).toEqual([]);
    expect(await find(`filter[reference][in]=${encodeURIComponent(String(reference))}`)).toEqual(
      data.filter(({ attributes }) => attributes.reference === reference),
    );

    const readDay = (row?: Resource) => String(row?.attributes.orderedOn);
    const after = data.filter((row) => readDay(row) > String(orderedOn));
    expect(await find(`filter[orderedOn][gt]=${orderedOn}`)).toEqual(after);
    const last = readDay(data.at(-1));
    expect(await find(`filter[orderedOn][gt]=${orderedOn}&filter[orderedOn][lt]=${last}`)).toEqual(
      after.filter((row) => readDay(row) < last),
    );
    const long = await client.ask('v3.orders.list', {
      query: `filter[externalOrderNumber][in]=${'x'.repeat(51)}`,
    });
    expect(titles(long)).toContain('50 characters');
  });
});

describe('a missing house number', () => {
  const withAddress = (changes: Record<string, unknown>) => ({
    included: [line('MUG-RED'), address('d', changes), address('b')],
  });
  const countShipments = async (number: string) => {
    await sandbox.advance(3 * 86_400);
    const query = `filter[externalOrderNumber]=${number}`;
    return (await client.ask('v3.shipments.list', { query })).body.data.length;
  };

  test.each([
    ['Keizersgracht 12 b', '12', 'b'],
    ['Plein 1940 7', '7', null],
  ])('is taken from the street %s', async (street1, houseNumber, houseNumberExtension) => {
    const made = await create('A-1', withAddress({ street1, houseNumber: '' }));
    const delivery = readOne(made).included?.find(({ type }) => type === 'address');
    expect(delivery?.attributes).toMatchObject({ street1, houseNumber, houseNumberExtension });
    expect(await countShipments('A-1')).toBe(1);
  });

  test.each(['NL', 'BE', 'DE'])(
    'keeps an order to %s from being shipped until it is set',
    async (countryCode) => {
      await create('A-1', withAddress({ houseNumber: null, countryCode }));
      expect(await countShipments('A-1')).toBe(0);
      const body = { client: 'default', externalOrderNumber: 'A-1', houseNumber: '5' };
      expect(await sandbox.call('POST', '/_sandbox/house-number', body)).toMatchObject({
        notValid: false,
      });
      expect(await countShipments('A-1')).toBe(1);
    },
  );
});
