import { beforeEach, describe, expect, test } from 'vitest';
import { operations } from '../../../../src/sandbox/operations/all.ts';
import { type Answer, describeOperation, readOne, useClient } from '../../../helpers/client.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

/**
 * Tests of the operations that docs/interface.md does not name, but clients of similar services
 * use.
 */
const sandbox = useSandbox(['default', 'other'], { ...quiet, strict: false });
const client = useClient(sandbox);
const strictSandbox = useSandbox(['default'], quiet);
const strictClient = useClient(strictSandbox);
type Row = Record<string, unknown> & { id: number; externalOrderNumber: string };
const readRows = (answer: { body: { result: unknown } }) => answer.body.result as Row[];
const toIds = (rows: readonly { id: number }[]) => rows.map(({ id }) => id);

describeOperation('oldest.stock.bulk', () => {
  type Article = { sku: string; name: string; stock: number; physicalStock: number };
  const ask = async (all: string) => {
    const { body } = await client.ask('oldest.stock.bulk', { path: { all } });
    return body.result as Article[];
  };

  test('answers the stock of all articles; physical stock has what is still to be shipped', async () => {
    expect((await ask('true'))[0]).toEqual({
      ...{ sku: 'MUG-BLUE', name: 'Mug, blue', stock: 800, physicalStock: 800 },
    });
    await sandbox.seed(1, { statuses: ['READY_TO_PICK'] });
    const [shipment] = readRows(await client.ask('v2.shipment.list'));
    const [picked] = (shipment as Row).shippedProducts as { sku: string; quantity: number }[];
    const article = (await ask('true')).find(({ sku }) => sku === picked?.sku);
    expect((article?.physicalStock ?? 0) - (article?.stock ?? 0)).toBe(picked?.quantity);
    const { body } = await client.ask('oldest.stock.get', { path: { sku: picked?.sku ?? '' } });
    expect(body.result).toBe(article?.stock);
  });

  test('answers with false what has changed since the last call of this client', async () => {
    expect((await ask('false')).length).toBe((await ask('true')).length);
    expect(await ask('false')).toEqual([]);
    await sandbox.call('POST', '/_sandbox/stock', {
      client: 'default',
      sku: 'MUG-RED',
      warehouse: 'AMS',
      quantity: 7,
    });
    await client.ask('oldest.product.add', { body: { Sku: 'NEW', Name: 'New' } });
    expect(await ask('false')).toEqual([
      { sku: 'MUG-RED', name: 'Mug, red', stock: 407, physicalStock: 407 },
      { sku: 'NEW', name: 'New', stock: 0, physicalStock: 0 },
    ]);
    expect(await ask('false')).toEqual([]);
  });
});

const seedShipments = () => sandbox.seed(6, { statuses: ['SHIPPED', 'READY_TO_PICK'] });
const listIds = async () => toIds(readRows(await client.ask('v2.shipment.list')));

describeOperation('oldest.shipment.search', () => {
  beforeEach(seedShipments);

  test('finds what the v2 search finds, by JSON or a form', async () => {
    const [first] = readRows(await client.ask('v2.shipment.list'));
    const { id, externalOrderNumber } = first as Row;
    const expected = (await client.ask('v2.shipment.search', { body: { id } })).body.result;
    const find = async (parts: object) =>
      (await client.ask('oldest.shipment.search', parts)).body.result;
    expect(expected).toMatchObject([{ id }]);
    expect(await find({ body: { Id: id } })).toEqual(expected);
    expect(await find({ form: { Id: String(id) } })).toEqual(expected);
    expect(await find({ form: { ExternalOrderNumber: externalOrderNumber } })).toEqual(expected);
    expect(await find({ body: { Id: 1 } })).toEqual([]);
  });
});

describeOperation('v2.shipment.get', () => {
  beforeEach(seedShipments);

  test('answers one shipment in the form of the lists, or all of them', async () => {
    const listed = readRows(await client.ask('v2.shipment.list'));
    expect(readRows(await client.ask('v2.shipment.get'))).toEqual(listed);
    expect(readRows(await client.ask('v2.shipment.get', { query: `id=${listed[2]?.id}` }))).toEqual(
      [listed[2]],
    );
    expect(readRows(await client.ask('v2.shipment.get', { query: 'id=1' }))).toEqual([]);
  });
});

describeOperation('v2.shipment.byOrderType', () => {
  beforeEach(seedShipments);

  test('answers what the v2 list by order types answers', async () => {
    for (const body of [{ orderTypes: [32] }, {}])
      expect(readRows(await client.ask('v2.shipment.byOrderType', { body }))).toEqual(
        readRows(await client.ask('v2.shipment.listByOrderTypes', { body })),
      );
  });
});

describeOperation('v2.shipment.sync', () => {
  beforeEach(seedShipments);

  const sync = async (...ids: number[]) =>
    (await client.ask('v2.shipment.sync', { body: { ids } })).body;

  test('takes shipments out of the v2 lists, and out of nothing else', async () => {
    const [first = 0, second = 0, ...rest] = await listIds();
    expect(await sync(first, second)).toMatchObject({ messageCode: 'OK', result: null });
    expect(await sync(first)).toMatchObject({ messageCode: 'OK', result: null });
    expect(await listIds()).toEqual(rest);
    expect(toIds(readRows(await client.ask('v2.shipment.get')))).toEqual(rest);
    expect(toIds(readRows(await client.ask('v2.shipment.get', { query: `id=${first}` })))).toEqual([
      first,
    ]);
    expect((await client.ask('v3.shipments.list')).body.data).toHaveLength(rest.length + 2);
  });

  test('acknowledges nothing if a shipment does not exist', async () => {
    const before = await listIds();
    const answer = await sync(before[0] ?? 0, 1);
    expect(answer).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('1'),
      result: null,
    });
    expect(await listIds()).toEqual(before);
  });
});

describeOperation('v2.product.search', () => {
  test('answers what the oldest search answers; an unknown product is NOK', async () => {
    const find = async (sku: string) =>
      (await client.ask('v2.product.search', { query: `sku=${sku}` })).body;
    const { result } = (await client.ask('oldest.product.search', { body: { Sku: 'MUG-BLUE' } }))
      .body;
    expect(await find('MUG-BLUE')).toMatchObject({ messageCode: 'OK', result });
    expect(await find('none')).toMatchObject({ messageCode: 'NOK', result: null });
  });
});

describeOperation('v3.products.list', () => {
  test('answers pages of products by ascending id', async () => {
    const all = (await client.ask('v3.products.list')).body;
    expect(all.links.next).toBeNull();
    expect(all.data[0]).toEqual({
      id: expect.any(Number),
      type: 'product',
      attributes: { sku: 'MUG-BLUE', name: 'Mug, blue' },
    });
    const paged: number[] = [];
    let query: string | null = 'page[size]=3';
    while (query !== null) {
      const { body }: Answer = await client.ask('v3.products.list', { query });
      paged.push(...toIds(body.data));
      query = body.links.next?.href.split('?')[1] ?? null;
    }
    expect(paged).toEqual(toIds(all.data));
    expect((await client.ask('v3.products.list', { query: 'page[size]=101' })).status).toBe(400);
  });
});

describe('members of the oldest order add', () => {
  const order = {
    ExternalOrderNumber: 'P-1',
    LanguageId: 51,
    OrderTypeId: 31,
    OrderItems: [{ Sku: 'MUG-BLUE', Quantity: 1 }],
    DeliveryAddressStreet: 'Keizersgracht 12',
    DeliveryAddressCountryIso: 'NL',
    DeliveryAddressExtraName: 'Reception',
    PickUpPointId: '8004-NL-101',
    PickUpPointName: 'Bookshop',
    PickUpPointHouseNumber: 3,
  };

  test('the pick-up point is stored as that of a v2 order; extra names are accepted', async () => {
    const { body } = await client.ask('oldest.order.add', { body: order });
    const query = 'include=pickUpPoint';
    const made = readOne(
      await client.ask('v3.orders.get', { path: { id: Number(body.result) }, query }),
    );
    expect(made.included?.map(({ attributes }) => attributes)).toEqual([
      { id: '8004-NL-101', name: 'Bookshop', houseNumber: 3 },
    ]);
  });

  test('a strict sandbox refuses them by name', async () => {
    const { body } = await strictClient.ask('oldest.order.add', { body: order });
    expect(body).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('PickUpPointId'),
    });
  });
});

test('only a lenient sandbox answers where a package can be followed', async () => {
  const readAddresses = async (asker: typeof client, control: typeof sandbox) => {
    await control.seed(1);
    const [listed] = readRows(await asker.ask('v2.shipment.list'));
    const [collo] = (listed as Row).shippedColli as { trackTraceUrl?: string }[];
    const [resource] = (await asker.ask('v3.shipments.list')).body.data;
    return [collo?.trackTraceUrl, resource?.attributes.tracking];
  };
  const url = expect.stringMatching(/^https:\/\/carrier\.example\/track\/./);
  expect(await readAddresses(client, sandbox)).toEqual([url, { url }]);
  expect(await readAddresses(strictClient, strictSandbox)).toEqual([undefined, undefined]);
});

test('a product is found by the barcode that it was added or changed with', async () => {
  const mug = { Sku: 'MUG-XL', Name: 'Mug, XL' };
  const find = async (Barcode: string) =>
    (await client.ask('oldest.product.search', { body: { Barcode } })).body.result;
  await client.ask('oldest.product.add', { body: { ...mug, Barcode: '8712345678906' } });
  expect(await find('8712345678906')).toMatchObject({ sku: 'MUG-XL', barcode: '8712345678906' });
  await client.ask('oldest.product.edit', { body: { ...mug, Barcode: '4006381333931' } });
  await client.ask('oldest.product.edit', { body: mug });
  expect([await find('8712345678906'), await find('4006381333931')]).toMatchObject([
    null,
    { sku: 'MUG-XL' },
  ]);
});

test('a strict sandbox has no operations that the interface does not name', async () => {
  for (const { name, method, path } of operations.filter(({ described }) => !described)) {
    const place = await strictSandbox.lastPlace();
    const { status } = await strictClient.fetch(method, path.replace(':all', 'true'));
    expect([name, status]).toEqual([name, 404]);
    expect((await strictSandbox.requests(place)).map(({ operation }) => operation)).toEqual([null]);
  }
});
