import { PDFDocument } from '@cantoo/pdf-lib';
import { beforeEach, expect, test } from 'vitest';
import {
  address,
  describeOperation,
  line,
  orderBody,
  type Resource,
  readOne,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
type Row = Record<string, unknown> & { id: number; externalOrderNumber: string; orderType: number };
const readRows = (answer: { body: { result: unknown } }) => answer.body.result as Row[];

beforeEach(() => sandbox.seed(30, { statuses: ['SHIPPED', 'READY_TO_PICK', 'ERROR'] }));

/**
 * Creates an order of one tea and two phones, and advances the time until its shipment is shipped.
 */
async function shipOrder() {
  const included = [
    line('TEA-500', 1, { metadata: { extra6: 'six' } }),
    line('PHONE-128', 2),
    address('d'),
    address('b'),
  ];
  const body = orderBody('T-1', { attributes: { metadata: { extra2: 'two' } }, included });
  await client.ask('v3.orders.create', { body });
  const query = 'filter[externalOrderNumber]=T-1&include=shipmentItems';
  const find = async () => (await client.ask('v3.shipments.list', { query })).body.data[0];
  await sandbox.advanceUntil(async () => (await find())?.attributes.status === 'SHIPPED');
  return (await find()) as Resource;
}

describeOperation('v2.shipment.trackTrace', () => {
  const list = async () => readRows(await client.ask('v2.shipment.trackTrace'));

  test('lists shipments that are with a carrier until they are delivered', async () => {
    expect(await list()).toEqual([]);
    const { id } = await shipOrder();
    const seen = new Set<unknown>();
    await sandbox.advanceUntil(async () => {
      const rows = await list();
      for (const row of rows)
        expect(row).toMatchObject({ shipmentId: id, externalOrderNumber: 'T-1' });
      for (const { currentTrackTraceStatus } of rows) seen.add(Number(currentTrackTraceStatus));
      return rows.length === 0;
    });
    expect(seen.size).toBeGreaterThan(1);
    // Delivered packages are not listed.
    expect([...seen].filter((status) => [40, 50, 60].includes(Number(status)))).toEqual([]);
  });
});

describeOperation('v2.shipment.list', () => {
  test('answers the shipments that v3 lists, with lots, serial numbers and packages', async () => {
    const { id, included, attributes, relationships } = await shipOrder();
    const all = readRows(await client.ask('v2.shipment.list'));
    const v3 = (await client.ask('v3.shipments.list')).body.data;
    expect(all.map((row) => row.id)).toEqual(v3.map((row) => row.id));
    const lot = included?.find((item) => item.attributes.sku === 'TEA-500')?.attributes;
    const serials = included?.find((item) => item.attributes.sku === 'PHONE-128')?.attributes
      .serialNumbers;
    expect(all.find((row) => row.id === id)).toMatchObject({
      orderNumber: relationships.order?.data.id,
      ...{ orderType: 31, externalOrderNumber: 'T-1', shippingDate: attributes.shippedOn },
      totalNumberOfProducts: 3,
      mainShippingMethodId: 11,
      shippingMethodId: attributes.warehouseCode === 'AMS' ? 111 : 112,
      shippedColli: expect.arrayContaining([{ colloNr: '1', packageNumber: expect.any(String) }]),
      shippedProducts: [
        {
          ...{ sku: 'TEA-500', weight: 0.52, extra6: 'six' },
          ...{ tht: lot?.expirationDate, lotNumber: lot?.lotNumber },
        },
        { sku: 'PHONE-128', serialNrs: serials, tht: null },
      ],
      ...{ extra1: null, extra2: 'two', warehouseAbbrevation: attributes.warehouseCode },
      currentTrackTraceStatus: '10',
    });
  });
});

const toIds = (list: Row[]) => list.map(({ id }) => id);
const listV3Ids = async (query: string) =>
  (await client.ask('v3.shipments.list', { query })).body.data.map(({ id }) => id);

describeOperation('v2.shipment.listByStatus', () => {
  test('answers the shipments in one status; an unknown status is NOK', async () => {
    const listed = readRows(
      await client.ask('v2.shipment.listByStatus', { path: { status: 'ERROR' } }),
    );
    expect(toIds(listed)).toEqual(await listV3Ids('filter[status][in]=ERROR'));
    expect(listed).toHaveLength(10);
    const unknown = await client.ask('v2.shipment.listByStatus', { path: { status: 'SENT' } });
    expect(unknown.body).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining('SENT'),
    });
  });
});

describeOperation('v2.shipment.listByOrderTypes', () => {
  test('answers the shipments of certain order types, or all', async () => {
    const by = (orderTypes?: number[]) =>
      client.ask(
        'v2.shipment.listByOrderTypes',
        orderTypes === undefined ? {} : { body: { orderTypes } },
      );
    const business = toIds(readRows(await by([32])));
    expect(business).toEqual(await listV3Ids('filter[orderType][in]=32'));
    expect(business.length).toBeGreaterThan(0);
    expect(readRows(await by([31, 32]))).toHaveLength(30);
    expect(readRows(await by())).toHaveLength(30);
  });
});

describeOperation('v2.shipment.listByOrderTypesAndStatus', () => {
  test('answers the shipments of certain order types in one status', async () => {
    const parts = { path: { status: 'SHIPPED' }, body: { orderTypes: [31] } };
    const listed = toIds(
      readRows(await client.ask('v2.shipment.listByOrderTypesAndStatus', parts)),
    );
    expect(listed).toEqual(await listV3Ids('filter[orderType][in]=31&filter[status][in]=SHIPPED'));
    expect(listed.length).toBeGreaterThan(0);
  });
});

describeOperation('v2.shipment.search', () => {
  const search = async (body: object) => readRows(await client.ask('v2.shipment.search', { body }));

  test('finds shipments by id, number and shipping day, also combined; by id at any age', async () => {
    const { id, included, attributes } = await shipOrder();
    const [row, ...others] = await search({ id });
    expect(others).toEqual([]);
    expect(row).toMatchObject({
      ...{ id, externalOrderNumber: 'T-1', shippingDate: attributes.shippedOn },
      shipmentItems: included?.map((item) => ({
        shipmentItemId: item.id,
        lotNumber: item.attributes.lotNumber,
      })),
    });
    expect(await search({ externalOrderNumber: 'T-1' })).toEqual([row]);
    const shippingDate = String(attributes.shippedOn).slice(0, 10);
    expect(await search({ shippingDate })).toContainEqual(row);
    expect(
      await search({ externalOrderNumber: 'T-1', shippingDate: '2020-01-01T00:00:00' }),
    ).toEqual([]);
    expect(await search({})).toHaveLength(31);
    await sandbox.advance(95 * 86_400);
    expect([await search({}), toIds(await search({ id }))]).toEqual([[], [id]]);
  });
});

describeOperation('v2.returnLabel.get', () => {
  const label = async (shipmentId: number, query = '') =>
    (await client.ask('v2.returnLabel.get', { path: { shipmentId }, query })).body;

  test('answers the same PDF of one page each time; the shipment shows its number', async () => {
    const { id } = await shipOrder();
    const first = await label(id);
    expect(first.result).toMatchObject({
      mimeType: 'application/pdf',
      shippingMethodId: '21',
      isPaperlessReturnShippingMethod: false,
    });
    const { content, packageNumber } = first.result as { content: string; packageNumber: string };
    expect((await PDFDocument.load(Buffer.from(content, 'base64'))).getPageCount()).toBe(1);
    expect(await label(id)).toEqual(first);
    expect(
      readOne(await client.ask('v3.shipments.get', { path: { id } })).attributes.returnLabel,
    ).toBe(packageNumber);
  });
});

describeOperation('v2.rma.add', () => {
  const add = async (changes: object = {}, items: object = {}) => {
    const [shipment] = (await client.ask('v3.shipments.list', { query: 'include=shipmentItems' }))
      .body.data;
    const rmaItems = {
      shipmentItemId: shipment?.included?.[0]?.id,
      quantity: 1,
      returnReasonId: 42,
      ...items,
    };
    const body = {
      shipmentId: shipment?.id,
      remark: 'broken',
      externalReference: 'R-1',
      rmaItems,
      ...changes,
    };
    return (await client.ask('v2.rma.add', { body })).body;
  };

  test('answers the id of the authorization; rmaItems is a single object', async () => {
    const made = await add();
    const read = await client.ask('v3.returnMerchandiseAuthorizations.get', {
      path: { id: Number(made.result) },
      query: 'include=returnMerchandiseAuthorizationItems',
    });
    expect(readOne(read)).toMatchObject({
      attributes: { externalReference: 'R-1', comments: 'broken', status: 'PENDING' },
      included: [{ attributes: { reasonCode: 'DAMAGED', quantity: 1 } }],
    });
  });

  test.each<[object, object, string]>([
    [{ shipmentId: 999_999 }, {}, 'no shipment'],
    [{}, { returnReasonId: 49 }, 'not available'],
    [{}, { quantity: 99 }, 'not 99 left'],
  ])('%j %j is NOK, and the message says why', async (changes, items, words) => {
    expect(await add(changes, items)).toMatchObject({
      messageCode: 'NOK',
      message: expect.stringContaining(words),
    });
  });
});
