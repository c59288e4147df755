import { expect, test } from 'vitest';
import type { Json } from '../../../src/core/json.ts';
import { decodePage } from '../../../src/pull/decode.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';

const item = (id: number, characters: number): Json => ({
  id,
  type: 'shipmentItem',
  attributes: { sku: 'MUG', quantity: 1, note: 'x'.repeat(characters) },
});
const shipment = (id: number, status: Json): Json => ({
  id,
  type: 'shipment',
  attributes: { status },
  relationships: { shipmentItems: { data: [{ id: 1, type: 'shipmentItem' }] } },
});
const decode = (data: Json[], included: Json[], size = 11_000_000) =>
  decodePage({ data, included, escaped: false, size }, shipments.decoder('Europe/Amsterdam'));
const broken = { is: 'no status' };

test('an included resource is not kept once for each broken resource that links to it', async () => {
  const data = Array.from({ length: 300 }, (_, index) => shipment(index + 1, broken));
  const { quarantined } = await decode(data, [item(1, 400_000)]);
  expect(quarantined).toHaveLength(300);
  const kept = quarantined.map(({ document }) => document.length);
  expect(kept[0]).toBeGreaterThan(400_000);
  expect(kept.reduce((sum, length) => sum + length)).toBeLessThan(9_000_000);
  const [, , , , last] = quarantined.slice(-5);
  expect(JSON.parse(last?.document ?? '')).toEqual({
    id: 300,
    type: 'shipment',
    tooLargeToKeep: expect.stringMatching(/^400\d+ characters; the first 2000 are kept$/),
    begins: expect.stringContaining('no status'),
  });
});

test('a broken resource that is too large is kept as its id, its size and its beginning', async () => {
  const { quarantined } = await decode([shipment(7, broken)], [item(1, 10_000_000)]);
  expect(quarantined[0]?.document.length).toBeLessThan(5_000);
  expect(quarantined[0]).toMatchObject({ resourceId: 7, memberPath: 'attributes.status' });
  // A replay must refuse it again, and must not take it for a resource without lines.
  const again = await decode([JSON.parse(quarantined[0]?.document ?? '')], [], 1_000);
  expect(again).toMatchObject({ resources: [], quarantined: [{ resourceId: 7 }] });
});

test('a valid resource that is too large for its page goes to quarantine; the others are written', async () => {
  const { resources, quarantined } = await decode(
    [shipment(1, 'SHIPPED'), { ...(shipment(2, 'SHIPPED') as object), relationships: {} }],
    [item(1, 5_000_000)],
  );
  expect(resources.map(({ parent }) => parent.id)).toEqual([2]);
  expect(quarantined).toMatchObject([
    { resourceId: 1, reason: expect.stringContaining('the maximum is 4000000') },
  ]);
});

test('an answer below 1 MB is bounded if many resources link to one included resource', async () => {
  const data = Array.from({ length: 4_000 }, (_, index) => shipment(index + 1, 'SHIPPED'));
  const page = { data, included: [item(1, 400_000)], escaped: false, size: 900_000 };
  const { resources, quarantined } = await decodePage(page, shipments.decoder('Europe/Amsterdam'));
  expect(resources.length + quarantined.length).toBe(4_000);
  expect(resources.length).toBeLessThan(200);
});

test('beside a page of orders, two different addresses with one id belong to no order', async () => {
  const address = (id: number, lastName: string): Json => ({
    id,
    type: 'address',
    attributes: { lastName },
  });
  const order = (id: number): Json => ({
    id,
    type: 'order',
    attributes: { externalOrderNumber: `SO-${id}` },
    relationships: {
      orderItems: { data: [] },
      deliveryAddress: { data: { id: 1, type: 'address' } },
      billingAddress: { data: { id: 2, type: 'address' } },
    },
  });
  const included = [
    address(1, 'de Vries'),
    address(2, 'Bank'),
    address(1, 'Jansen'),
    address(2, 'Bank'),
  ];
  const page = { data: [order(7), order(8)], included, escaped: false, readNo: 5 };
  const { resources } = await decodePage(page, orders.decoder('Europe/Amsterdam'));
  const stored = resources.map(({ children }) =>
    children.flatMap(({ rows }) => rows.map((row) => [row.role, row.last_name])),
  );
  expect(stored).toEqual([[['billing', 'Bank']], [['billing', 'Bank']]]);
  const warning = 'an order came without all of its items, addresses and pick-up point';
  const read = { warning, parent: { read_no: 5 } };
  expect(resources).toMatchObject([read, read]);
});

test('a whole number that is written with a decimal point is stored, and raw keeps how it was written', async () => {
  const decimal = {
    id: 1,
    type: 'shipmentItem',
    attributes: { sku: 'MUG', quantity: JSON.rawJSON('2.0') },
  };
  const { resources } = await decode([shipment(1, 'SHIPPED')], [decimal as unknown as Json], 1_000);
  const row = resources[0]?.children[0]?.rows[0];
  expect([row?.quantity, JSON.stringify(row?.raw)]).toEqual([
    2,
    expect.stringContaining('"quantity":2.0'),
  ]);
});
