import { expect, test } from 'vitest';
import { type Answer, orderBody, type Resource, readOne, useClient } from '../../../helpers/client.ts';
import { lively, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], lively);
const client = useClient(sandbox);

// ServiceClient checks each answer against the schema of its operation in the chosen dialect.

const today = '2026-05-04';
const slipBody = {
  data: { type: 'inboundPackingSlip', attributes: { expectedIn: 'EIN', expectedOn: today, reference: 'PO 1' } },
  included: [{ type: 'inboundPackingSlipItem', attributes: { sku: 'TEA-500', quantity: 10 } }],
};
const listTypes = (resources: readonly Resource[] = []) => [...new Set(resources.map(({ type }) => type))].sort();
const hasNull = ({ body }: Answer) => body.data.some(({ attributes }) => Object.values(attributes).includes(null));

test('the dialect rich has local ids of addresses, links, products and no null attributes', async () => {
  await sandbox.switches({ dialect: 'rich' });
  const order = readOne(await client.ask('v3.orders.create', { body: orderBody('A-1') }));
  const self = `/v3/orders/${order.id}`;
  const read = (query: string) => client.ask('v3.orders.get', { path: { id: order.id }, query });
  const alone = readOne(await read(''));
  expect(alone).toMatchObject({ id: order.id, included: [], links: { self } });
  expect(alone.attributes).not.toHaveProperty('reference');
  expect(alone.relationships).toMatchObject({
    deliveryAddress: { data: { id: 1, type: 'address' }, links: { related: `${self}/deliveryAddress` } },
    billingAddress: { data: { id: 2, type: 'address' } },
  });
  expect(alone.relationships.pickUpPoint?.data ?? null).toBe(null);
  const { included } = readOne(await read('include=orderItems,billingAddress'));
  expect(listTypes(included)).toEqual(['address', 'orderItem', 'product']);
  const [item, product] = ['orderItem', 'product'].map((name) => included?.find(({ type }) => type === name));
  expect(product).toMatchObject({ id: item?.relationships.product?.data.id, attributes: { sku: 'MUG-BLUE' } });
  expect(included?.find(({ type }) => type === 'address')?.id).toBe(2);
});

test('the dialect rich has the shapes of its schemas in every list', async () => {
  await client.ask('v3.inboundPackingSlips.create', { body: slipBody });
  await sandbox.advance(12 * 86_400);
  const lists = {
    'v3.orders.list': 'include=orderItems,deliveryAddress,billingAddress,pickUpPoint',
    'v3.shipments.list': 'include=shipmentItems',
    'v3.inbounds.list': 'include=inboundItems',
    'v3.inboundPackingSlips.list': 'include=inboundPackingSlipItems',
    'v3.returnItems.list': '',
  };
  const count = Object.keys(lists).length;
  const askAll = () => Promise.all(Object.entries(lists).map(([name, query]) => client.ask(name, { query })));
  const plain = await askAll();
  await sandbox.switches({ dialect: 'rich' });
  const inside = await askAll();
  await sandbox.switches({ dialect: 'rich', included: 'top' });
  const top = await askAll();
  const ids = (answers: Answer[]) => answers.map(({ body }) => body.data.map(({ id }) => id));
  expect(ids(inside)).toEqual(ids(plain));
  expect([plain, inside].map((answers) => answers.filter(hasNull).length)).toEqual([count, 0]);
  const [withProduct, without] = [expect.arrayContaining(['product']), []];
  expect(inside.map(({ body }) => listTypes(body.data.flatMap(({ included = [] }) => included)))).toEqual([
    ...Array.from({ length: count - 1 }, () => withProduct),
    without,
  ]);
  expect(top.map(({ body }) => listTypes(body.included))).toEqual([
    without,
    ...Array.from({ length: count - 2 }, () => withProduct),
    without,
  ]);
});

test('an update in the dialect rich may send the relationships of the answer back', async () => {
  await sandbox.switches({ dialect: 'rich' });
  const { id, attributes, relationships } = readOne(await client.ask('v3.orders.create', { body: orderBody('A-1') }));
  const update = (given: object) =>
    client.ask('v3.orders.update', {
      path: { id },
      body: { data: { id, type: 'order', attributes, relationships: given } },
    });
  expect((await update(relationships)).status).toBe(200);
  const other = { data: { id: 2, type: 'address' } };
  expect((await update({ ...relationships, deliveryAddress: other })).status).toBe(422);
});
