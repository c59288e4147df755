import { expect, test } from 'vitest';
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
const announcing = 'v3.returnMerchandiseAuthorizations.create';

test('a switch is taken by an operation that uses it, and changes nothing else', () => {
  const { merged, problems } = read(order, { optional: [] });
  expect(problems).toEqual([]);
  expect(merged).toEqual({ ...operations, [order]: { ...operations[order], optional: [] } });
  expect(listSetSwitches(merged)).toEqual([`optional of ${order}`]);
});

test.each<[OperationName, object, RegExp]>([
  [
    announcing,
    { houseNumberCountries: [] },
    /houseNumberCountries belongs to v3.orders.create only$/,
  ],
  [order, { optional: 7 }, /v3\.orders\.create\.optional: /],
  [order, { postcodeCountries: ['Netherlands'] }, /must be a country code/],
])('%s with %j is refused, with the reason', (name, switches, words) => {
  expect(read(name, switches).problems).toEqual([expect.stringMatching(words)]);
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
