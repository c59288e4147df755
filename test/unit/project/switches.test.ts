import { describe, expect, test } from 'vitest';
import { readOperationsFile } from '../../../config/files.ts';
import { type OperationName, type Operations, operations } from '../../../config/operations.ts';
import { listSetSwitches } from '../../../config/switches.ts';
import { writeSwitches } from '../../helpers/config/operations-file.ts';

/** Reads a file with one entry that changes only switches. */
function read(name: OperationName, switches: object): { merged: Operations; problems: string[] } {
  const problems: string[] = [];
  return { merged: readOperationsFile(writeSwitches({ [name]: switches }), problems), problems };
}

const order = 'v3.orders.create';
const updating = 'v3.orders.update';
const announcing = 'v3.returnMerchandiseAuthorizations.create';
const replacing = 'v3.returnMerchandiseAuthorizations.replace';
const slip = 'v3.inboundPackingSlips.create';
const attaching = 'v3.orderAttachments.create';

/** Each switch with a value, the operations that use it, and one that does not. */
const cases: [string, unknown, OperationName[], OperationName][] = [
  ['included', 'top', [order, updating, announcing, replacing, slip], 'v3.orders.cancel'],
  ['billingAddress', 'omit', [order], slip],
  ['takes', ['deliveryAddress'], [updating], order],
  ['repeatable', true, ['v2.returnLabel.get'], order],
  [
    'optional',
    [],
    [order, attaching, announcing, replacing, slip, 'oldest.product.add'],
    'v3.orders.cancel',
  ],
  ['postcodeCountries', ['NL', 'FR'], [order], attaching],
  ['houseNumberCountries', [], [order], announcing],
  ['contentMember', 'document', [attaching], order],
  [
    'attributes',
    { status: 'CANCELLED', nested: [1] },
    ['v3.orderItems.cancel'],
    'v3.orders.cancel',
  ],
  ['pageSize', true, ['v3.returnItems.list', 'v3.inbounds.list'], 'v3.shipments.list'],
];

describe.each(cases)('the switch %s', (name, value, users, other) => {
  test('is taken by the operations that use it, and changes nothing else', () => {
    for (const user of users) {
      const { merged, problems } = read(user, { [name]: value });
      expect(problems).toEqual([]);
      expect(merged).toEqual({ ...operations, [user]: { ...operations[user], [name]: value } });
      expect(listSetSwitches(merged)).toEqual([`${name} of ${user}`]);
    }
  });

  test('is refused at another operation, with the names of those that use it', () => {
    expect(read(other, { [name]: value }).problems).toEqual([
      `WAREHOUSE_OPERATIONS_FILE: ${other}: ${name} belongs to ${users.join(', ')} only`,
    ]);
  });

  test('is refused with a value of another type', () => {
    expect(read(users[0] ?? order, { [name]: 7 }).problems).toEqual([
      expect.stringContaining(`WAREHOUSE_OPERATIONS_FILE: ${users[0]}.${name}: `),
    ]);
  });
});

test('no switch is set without a file, although two lists get no page[size]', () => {
  expect(listSetSwitches(operations)).toEqual([]);
  expect(read('v3.inbounds.list', {}).merged['v3.inbounds.list'].pageSize).toBe(false);
});

test('a member that the interface requires cannot be optional; the error names those that can', () => {
  expect(read(announcing, { optional: ['shipmentId', 'items.quantity', 'x'] }).problems).toEqual([
    `WAREHOUSE_OPERATIONS_FILE: ${announcing}: optional: shipmentId, x cannot be optional; these can: items, items.quantity, items.reason`,
  ]);
});

test('countries are codes of two letters', () => {
  expect(read(order, { postcodeCountries: ['Netherlands'] }).problems.join()).toContain(
    'must be a country code',
  );
});
