import { expect, test } from 'vitest';
import { order as orderFields } from '../../../src/pull/streams/orders.ts';
import { decodeRow } from '../../../src/service/decoding/fields.ts';
import type { Resource } from '../../../src/service/decoding/jsonapi.ts';

const order = (more: Record<string, unknown>) =>
  decodeRow(orderFields, {
    type: 'order',
    id: '1',
    attributes: { externalOrderNumber: 'SO-1' },
    ...more,
  } as Resource);

test('relationships that are null count as absent, because services send null for none', () => {
  const absent = order({});
  const none = { id: 1, order_type_id: null, order_items_ids: null, pick_up_point_id: null };
  expect(absent).toMatchObject({ row: none });
  expect(order({ relationships: null })).toMatchObject({ row: none });
  expect(order({ relationships: {} })).toMatchObject({ row: none });
});

test('relationships of another type are a problem', () => {
  expect(order({ relationships: 'x' })).toMatchObject({ problem: { path: 'relationships' } });
});

test('a member that does not fit is named with its path and the reason, never with its value', () => {
  const attributes = { externalOrderNumber: 'SO-1' };
  const links = (relationship: unknown) => ({
    attributes,
    relationships: { orderItems: relationship },
  });
  const item = { id: 7, type: 'orderItem' };
  const problems: readonly [Record<string, unknown>, string, string][] = [
    [{ id: 0 }, 'id', 'must be an id: a whole number from 1 to 9007199254740991'],
    [{ type: 'shipment' }, 'type', 'must be order'],
    [{ attributes: null }, 'attributes', 'must be an object, not no value'],
    [{ attributes: { reference: 7 } }, 'attributes.reference', 'must be a text, not a number'],
    [{ attributes: { orderedOn: '2026-02-30' } }, 'attributes.orderedOn', ''],
    [{ attributes: { onHold: 'yes' } }, 'attributes.onHold', 'must be true or false, not a text'],
    [{ attributes: { metadata: [] } }, 'attributes.metadata', 'must be an object, not a list'],
    [links({ data: item }), 'relationships.orderItems.data', 'must be a list, not an object'],
    [links({ data: [item, { type: 'x' }] }), 'relationships.orderItems.data.1.id', 'must be an id'],
    [
      links({ data: [{ id: 7 }] }),
      'relationships.orderItems.data.0.type',
      'must be a text, not no value',
    ],
  ];
  for (const [members, path, reason] of problems)
    expect(order(members)).toMatchObject({
      problem: { path, reason: expect.stringContaining(reason) },
    });
});
