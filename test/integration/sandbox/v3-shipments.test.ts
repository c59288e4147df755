import { beforeEach, expect, test } from 'vitest';
import {
  type Body,
  describeOperation,
  type Resource,
  readOne,
  useClient,
} from '../../helpers/client.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], lively);
const client = useClient(sandbox);
const list = async (query: string) => (await client.ask('v3.shipments.list', { query })).body.data;
const readStatuses = (shipments: Resource[]) => [
  ...new Set(shipments.map(({ attributes }) => attributes.status)),
];

beforeEach(() => sandbox.seed(30, { statuses: ['SHIPPED', 'READY_TO_PICK', 'ERROR'] }));

describeOperation('v3.shipments.list', () => {
  test('answers every field of the interface; times have fractions and no zone', async () => {
    const [shipment] = await list('include=shipmentItems');
    expect(shipment).toEqual({
      id: expect.any(Number),
      type: 'shipment',
      attributes: {
        status: 'SHIPPED',
        readyToPickOn: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}$/),
        readyToShipOn: expect.stringMatching(/\.\d{7}$/),
        shippedOn: expect.stringMatching(/\.\d{7}$/),
        warehouseCode: expect.any(String),
        returnLabel: null,
      },
      relationships: {
        order: { data: { id: expect.any(Number), type: 'order' } },
        orderType: { data: { id: expect.any(Number), type: 'orderType' } },
        shippingMethod: { data: { id: expect.any(Number), type: 'shippingMethod' } },
        shipmentItems: {
          data: expect.arrayContaining([{ id: expect.any(Number), type: 'shipmentItem' }]),
        },
      },
      included: expect.any(Array),
    });
    expect(shipment?.included?.[0]).toMatchObject({
      type: 'shipmentItem',
      attributes: {
        sku: expect.any(String),
        quantity: expect.any(Number),
        serialNumbers: expect.any(Array),
      },
      relationships: {
        orderItem: { data: { type: 'orderItem' } },
        product: { data: { type: 'product' } },
      },
    });
  });

  test.each(['id', 'offset', 'opaque'] as const)(
    'lists several statuses as one list, with cursors of kind %s',
    async (cursor) => {
      await sandbox.seed(250, { statuses: ['READY_TO_SORT', 'SHIPPED', 'READY_TO_SHIP'] });
      await sandbox.switches({ cursor, links: 'relative' });
      const filter = 'filter[status][in]=READY_TO_SORT,ERROR,READY_TO_SHIP';
      const walked: number[] = [];
      let query: string | undefined = `${filter}&page[size]=30`;
      while (query !== undefined) {
        const { data, links }: Body = (await client.ask('v3.shipments.list', { query })).body;
        walked.push(...data.map(({ id }) => id));
        query = (links.next as unknown as string | undefined)?.split('?')[1];
      }
      await sandbox.switches({});
      const { clients } = await sandbox.call<{
        clients: { shipments: { resource: Resource }[] }[];
      }>('GET', '/_sandbox/state');
      const expected = clients[0]?.shipments.filter(({ resource }) =>
        ['READY_TO_SORT', 'ERROR', 'READY_TO_SHIP'].includes(String(resource.attributes.status)),
      );
      expect(walked).toEqual(expected?.map(({ resource }) => resource.id));
      expect(walked.length).toBeGreaterThan(150);
    },
  );

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
    expect(types.length).toBeGreaterThan(0);
    expect(types.every(({ relationships }) => relationships.orderType?.data.id === 32)).toBe(true);
    const orders = (await client.ask('v3.orders.list')).body.data.filter(
      ({ attributes }) => attributes.reference,
    );
    const reference = String(orders[0]?.attributes.reference);
    const same = new Set(
      orders.filter(({ attributes }) => attributes.reference === reference).map(({ id }) => id),
    );
    const referred = all.filter(({ relationships }) => same.has(relationships.order?.data.id ?? 0));
    expect(await list(`filter[reference][in]=${encodeURIComponent(reference)}`)).toEqual(referred);
  });

  test('filters by exclusive days of shipping', async () => {
    const shipped = await list('filter[status][in]=SHIPPED');
    const days = shipped.map(({ attributes }) => String(attributes.shippedOn).slice(0, 10)).sort();
    const [first, last] = [days[0] ?? '', days.at(-1) ?? ''];
    const between = await list(`filter[shippedOn][gt]=${first}&filter[shippedOn][lt]=${last}`);
    expect(between.length).toBe(days.filter((day) => day > first && day < last).length);
    expect(between.length).toBeGreaterThan(0);
    expect(between.length).toBeLessThan(shipped.length);
  });

  test.each([
    ['page[size]=101', 'page[size]'],
    ['page[size]=1&page[size]=2', 'page[size]'],
    ['include=product', 'include'],
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
    expect(
      readOne(
        await client.ask('v3.shipments.get', { path: { id }, query: 'include=shipmentItems' }),
      ),
    ).toEqual(listed);
    expect(
      readOne(await client.ask('v3.shipments.get', { path: { id } })).included,
    ).toBeUndefined();
    await sandbox.switches({ included: 'top' });
    const { body } = await client.ask('v3.shipments.get', {
      path: { id },
      query: 'include=shipmentItems',
    });
    expect(body.included).toEqual(listed?.included);
    expect((await client.ask('v3.shipments.get', { path: { id: 1 } })).status).toBe(404);
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
