import { expect, test } from 'vitest';
import { decodeWith, type Resource } from '../../../src/warehouse/decoding/jsonapi.ts';
import { orderSchema } from '../../../src/warehouse/decoding/v3-orders.ts';

const order = (more: Record<string, unknown>) =>
  decodeWith(orderSchema, { type: 'order', id: '1', attributes: { externalOrderNumber: 'SO-1' }, ...more } as Resource);

test('relationships that are null, as services send it for none, are the same as absent ones', () => {
  const absent = order({});
  expect(absent).toMatchObject({ value: { id: 1 } });
  expect(order({ relationships: null })).toEqual(absent);
  expect(order({ relationships: {} })).toEqual(absent);
});

test('relationships that are something else cannot be read', () => {
  expect(order({ relationships: 'x' })).toMatchObject({ problem: { path: 'relationships' } });
});
