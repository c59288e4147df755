import { expect, test } from 'vitest';
import { decodeWith, type Resource } from '../../../src/warehouse/decoding/jsonapi.ts';
import { orderSchema } from '../../../src/warehouse/decoding/v3.ts';

const order = (more: Record<string, unknown>) =>
  decodeWith(orderSchema, { type: 'order', id: '1', attributes: { externalOrderNumber: 'SO-1' }, ...more } as Resource);

test('relationships that are null count as absent, because services send null for none', () => {
  const absent = order({});
  expect(absent).toMatchObject({ value: { id: 1 } });
  expect(order({ relationships: null })).toEqual(absent);
  expect(order({ relationships: {} })).toEqual(absent);
});

test('relationships of another type are a problem', () => {
  expect(order({ relationships: 'x' })).toMatchObject({ problem: { path: 'relationships' } });
});
