import { beforeEach, expect, test } from 'vitest';
import { describeOperation, type Resource, readOne, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const list = async (query: string) => (await client.ask('v3.shipments.list', { query })).body.data;
const readStatuses = (shipments: Resource[]) => [
  ...new Set(shipments.map(({ attributes }) => attributes.status)),
];

beforeEach(() => sandbox.seed(30, { statuses: ['SHIPPED', 'READY_TO_PICK', 'ERROR'] }));

describeOperation('v3.shipments.list', () => {
  test('answers every field of the interface; times have fractions and no zone', async () => {
    const [shipment] = await list('include=shipmentItems');
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}$/);
    expect(shipment).toMatchObject({
      attributes: { status: 'SHIPPED', readyToPickOn: time, readyToShipOn: time, shippedOn: time },
      relationships: {
        order: { data: { type: 'order' } },
        orderType: { data: { type: 'orderType' } },
        shippingMethod: { data: { type: 'shippingMethod' } },
        shipmentItems: { data: expect.arrayContaining([expect.any(Object)]) },
      },
    });
    expect(shipment?.included?.[0]).toMatchObject({
      attributes: { sku: expect.any(String), serialNumbers: expect.any(Array) },
      relationships: {
        orderItem: { data: { type: 'orderItem' } },
        product: { data: { type: 'product' } },
      },
    });
  });

  test('filters by status, order, number, order type and reference, also combined', async () => {
    const all = await list('');
    expect(readStatuses(await list('filter[status][in]=ERROR,READY_TO_PICK'))).toEqual([
      'READY_TO_PICK',
      'ERROR',
    ]);
    const orderId = all[4]?.relationships.order?.data.id ?? 0;
    expect(await list(`filter[orderId][in]=${orderId}`)).toEqual([all[4]]);
    expect(await list(`filter[orderId]=${orderId},999999,${orderId}`)).toEqual([all[4]]);
    expect(await list(`filter[orderId]=${orderId}&filter[status][in]=SHIPPED`)).toEqual([]);
    const order = readOne(await client.ask('v3.orders.get', { path: { id: orderId } }));
    const number = order.attributes.externalOrderNumber;
    expect(await list(`filter[externalOrderNumber][in]=${number},none`)).toEqual([all[4]]);
    expect(await list(`filter[externalOrderNumber]=${number}`)).toEqual([all[4]]);
    const types = await list('filter[orderType][in]=32');
    expect(new Set(types.map(({ relationships }) => relationships.orderType?.data.id))).toEqual(
      new Set([32]),
    );
    const orders = (await client.ask('v3.orders.list')).body.data;
    const reference = orders.find(({ attributes }) => attributes.reference)?.attributes.reference;
    const same = orders.filter(({ attributes }) => attributes.reference === reference);
    const referred = await list(`filter[reference][in]=${encodeURIComponent(String(reference))}`);
    expect(new Set(referred.map(({ relationships }) => relationships.order?.data.id))).toEqual(
      new Set(same.map(({ id }) => id)),
    );
  });

  test('filters by exclusive days of shipping', async () => {
    const shipped = await list('filter[status][in]=SHIPPED');
    const days = shipped.map(({ attributes }) => String(attributes.shippedOn).slice(0, 10)).sort();
    const [first, last] = [days[0] ?? '', days.at(-1) ?? ''];
    const expected = days.filter((day) => day > first && day < last).length;
    expect(expected).toBeGreaterThan(0);
    expect(await list(`filter[shippedOn][gt]=${first}&filter[shippedOn][lt]=${last}`)).toHaveLength(
      expected,
    );
  });

  test.each([
    ['page[size]=101', 'page[size]'],
    ['page[size]=1&page[size]=2', 'page[size]'],
    ['filter[status][in]=SENT', 'filter[status][in]'],
    ['filter[shippedOn][gt]=yesterday', 'filter[shippedOn][gt]'],
    ['filter[nothing]=1', 'filter[nothing]'],
    ['__proto__=1', '__proto__'],
    ['include=%ff', '%ff'],
  ])('%s is refused, naming the parameter', async (query, parameter) => {
    const { status, body } = await client.ask('v3.shipments.list', { query });
    expect(status).toBe(400);
    expect(body.errors[0]?.source?.parameter).toBe(parameter);
  });
});

describeOperation('v3.shipments.get', () => {
  test('answers one shipment, with its items if they are asked for', async () => {
    const [listed] = await list('include=shipmentItems');
    const id = listed?.id ?? 0;
    const get = (of: number, query = '') =>
      client.ask('v3.shipments.get', { path: { id: of }, query });
    expect(readOne(await get(id, 'include=shipmentItems'))).toEqual(listed);
    expect(readOne(await get(id)).included).toBeUndefined();
    await sandbox.switches({ included: 'top' });
    const { body } = await get(id, 'include=shipmentItems');
    expect(body.included).toEqual(listed?.included);
    expect((await get(1)).status).toBe(404);
  });

  test('answers a shipment that is older than 90 days, which is not listed', async () => {
    const [oldest] = await list('');
    const id = oldest?.id ?? 0;
    await sandbox.advance(91 * 86_400);
    expect((await list('')).map((row) => row.id)).not.toContain(id);
    expect(await list(`filter[orderId]=${oldest?.relationships.order?.data.id}`)).toEqual([]);
    expect(readOne(await client.ask('v3.shipments.get', { path: { id } }))).toEqual(oldest);
  });
});
