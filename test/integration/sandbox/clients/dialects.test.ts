import { expect, test } from 'vitest';
import { orderBody, type Resource, readOne, useClient } from '../../../helpers/client.ts';
import { lively, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], lively);
const client = useClient(sandbox);

const listTypes = (resources: readonly Resource[] = []) =>
  [...new Set(resources.map(({ type }) => type))].sort();

test('the dialect rich has local ids of addresses, links, products and no null attributes', async () => {
  await sandbox.switches({ dialect: 'rich' });
  const order = readOne(await client.ask('v3.orders.create', { body: orderBody('A-1') }));
  const self = `/v3/orders/${order.id}`;
  const read = (query: string) => client.ask('v3.orders.get', { path: { id: order.id }, query });
  const alone = readOne(await read(''));
  expect(alone).toMatchObject({ id: order.id, included: [], links: { self } });
  expect(alone.attributes).not.toHaveProperty('reference');
  expect(alone.relationships).toMatchObject({
    deliveryAddress: {
      data: { id: 1, type: 'address' },
      links: { related: `${self}/deliveryAddress` },
    },
    billingAddress: { data: { id: 2, type: 'address' } },
  });
  expect(alone.relationships.pickUpPoint?.data ?? null).toBe(null);
  const { included } = readOne(await read('include=orderItems,billingAddress'));
  expect(listTypes(included)).toEqual(['address', 'orderItem', 'product']);
  const [item, product] = ['orderItem', 'product'].map((name) =>
    included?.find(({ type }) => type === name),
  );
  expect(product).toMatchObject({
    id: item?.relationships.product?.data.id,
    attributes: { sku: 'MUG-BLUE' },
  });
  expect(included?.find(({ type }) => type === 'address')?.id).toBe(2);
});
