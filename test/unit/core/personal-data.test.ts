import { expect, test } from 'vitest';
import { maskJson } from '../../../src/core/personal-data.ts';
import { maskResource, maskRow } from '../../../src/pull/sql/erasures.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { authorizations } from '../../../src/pull/streams/authorizations.ts';
import { orders } from '../../../src/pull/streams/orders.ts';

const tables = [...streams, authorizations].flatMap(({ tables: { parent, children } }) => [
  parent,
  ...children,
]);
const [, addresses = orders.tables.parent] = orders.tables.children;

test('only known harmless members stay, at every depth', () => {
  const masked = maskJson({
    id: '12',
    type: 'order',
    unknown: 'Anna',
    attributes: {
      externalOrderNumber: 'SO-1',
      email: 'a@b.example',
      newMember: { sku: 'Anna' },
      onHold: true,
    },
    relationships: {
      orderItems: { data: [{ id: 1, type: 'orderItem', name: 'Anna' }] },
      consignee: { data: { id: 1 } },
    },
    items: [
      {
        sku: 'MUG',
        quantity: 2,
        price: JSON.rawJSON('9.950'),
        name: 'Mug for Anna',
        metadata: { extra6: 'x' },
      },
    ],
    deliveryAddress: { lastName: 'Anna', postcode: '1015CJ', countryCode: 'NL' },
  });
  expect(JSON.parse(JSON.stringify(masked))).toEqual({
    id: '12',
    type: 'order',
    attributes: { externalOrderNumber: 'SO-1', onHold: true },
    relationships: { orderItems: { data: [{ id: 1, type: 'orderItem' }] } },
    items: [{ sku: 'MUG', quantity: 2, price: 9.95 }],
    deliveryAddress: { postcode: '10', countryCode: 'NL' },
  });
  expect(JSON.stringify(masked)).toContain('9.950');
});

test('a harmless member with a value of another kind goes', () => {
  const values = {
    quantity: 'Anna',
    id: 'Anna',
    onHold: 'Anna',
    orderedOn: 'Anna',
    sku: ['Anna', {}],
    status: { a: 1 },
  };
  expect(maskJson(values)).toEqual({});
  expect(maskJson({ items: 'Anna', deliveryAddress: ['Anna'], status: 'x'.repeat(101) })).toEqual(
    {},
  );
  expect([maskJson('Anna'), maskJson(['Anna']), maskJson(null)]).toEqual([{}, {}, {}]);
});

test('an empty list of a known member stays, one of an unknown member goes', () => {
  expect(maskJson({ modifiedItemIds: [], items: [], nickNames: [] })).toEqual({
    modifiedItemIds: [],
    items: [],
  });
});

test('masking twice is the same as masking once', () => {
  const row = {
    id: 1,
    postcode: '1015CJ',
    city: 'Amsterdam',
    raw: { attributes: { postcode: '1015CJ', city: 'X' } },
  };
  const once = maskRow(addresses, row);
  expect(once).toMatchObject({
    id: 1,
    postcode: '10',
    city: null,
    raw: { attributes: { postcode: '10' } },
  });
  expect(maskRow(addresses, once)).toEqual(once);
});

test('of each mirrored column that stays, the member of raw stays too', () => {
  const toMember = (column: string) =>
    column.replaceAll(/_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
  for (const { name: table, columns: declared, personal: erased } of tables) {
    if (erased === undefined) continue;
    const columns = Object.keys(declared);
    for (const column of columns.filter(
      (name) => !name.endsWith('_id') && name !== 'role' && erased[name] !== 'area',
    )) {
      const samples = [1, true, '2026-01-01', 'A', ['A']].map((value) =>
        maskJson({ [toMember(column)]: value }),
      );
      const stays = samples.some((sample) => JSON.stringify(sample) !== '{}');
      expect([table, column, stays]).toEqual([table, column, erased[column] === undefined]);
    }
  }
});

test('a resource is masked with its child rows', () => {
  const masked = maskResource(orders.tables, {
    parent: { id: 1, raw: { attributes: { email: 'a' } }, email: 'a' },
    children: [
      {
        table: 'order_items',
        complete: true,
        rows: [{ id: 2, raw: { id: 2, secret: 'a' }, name: 'a' }],
      },
    ],
  });
  expect(masked.parent).toMatchObject({ id: 1, email: null, raw: { attributes: {} } });
  expect(masked.children[0]?.rows).toEqual([{ id: 2, name: null, metadata: null, raw: { id: 2 } }]);
});
