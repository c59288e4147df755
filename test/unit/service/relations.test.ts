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
  const problems: readonly [Record<string, unknown>, string][] = [
    [{ id: 0 }, 'id'],
    [{ type: 'shipment' }, 'type'],
    [{ attributes: null }, 'attributes'],
    [{ attributes: { reference: 'x', onHold: 'secret' } }, 'attributes.onHold'],
    [{ attributes: { orderedOn: '2026-02-30' } }, 'attributes.orderedOn'],
    [{ attributes: { metadata: ['secret'] } }, 'attributes.metadata'],
    [links({ data: item }), 'relationships.orderItems.data'],
    [links({ data: [item, { type: 'x' }] }), 'relationships.orderItems.data.1.id'],
    [links({ data: [{ id: 7 }] }), 'relationships.orderItems.data.0.type'],
  ];
  for (const [members, path] of problems) {
    const decoded = order(members);
    expect(decoded).toMatchObject({ problem: { path, reason: expect.stringMatching(/./) } });
    expect(JSON.stringify(decoded)).not.toContain('secret');
  }
});
