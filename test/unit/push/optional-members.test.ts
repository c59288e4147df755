import { expect, test } from 'vitest';
import type { OperationName } from '../../../config/operations.ts';
import { optionalMembers } from '../../../config/optional-members.ts';
import { isObject, type Json } from '../../../src/core/json.ts';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { toPayloadSchema } from '../../../src/push/payload.ts';
import { checkPayload } from '../../helpers/check-payload.ts';
import { withSwitches } from '../../helpers/config/operations-file.ts';

const optionalByOperation = Object.entries(optionalMembers) as [OperationName, readonly string[]][];

/**
 * Returns the paths of all required members of a JSON Schema, also of objects in optional members
 * and in lists.
 */
function listRequired(schema: Json | undefined, place = ''): string[] {
  if (!isObject(schema)) return [];
  const branches = Array.isArray(schema.anyOf) ? schema.anyOf : [];
  const required = Array.isArray(schema.required)
    ? schema.required.map((name) => `${place}${String(name)}`)
    : [];
  const properties = Object.entries(isObject(schema.properties) ? schema.properties : {});
  return [
    ...required,
    ...properties.flatMap(([name, member]) => listRequired(member, `${place}${name}.`)),
    ...branches.flatMap((branch) => listRequired(branch, place)),
    ...listRequired(schema.items, place),
  ];
}

test('each member that may be optional is required without the switch', () => {
  const required = new Set(outboxKinds.flatMap((kind) => listRequired(toPayloadSchema(kind))));
  const unknown = optionalByOperation
    .flatMap(([, members]) => members)
    .filter((member) => !required.has(member));
  // A return reason is named by code or id, which the schema cannot require.
  expect([...new Set(unknown)]).toEqual(['items.reason']);
});

test('a return may lack its reason only if the switch of its own operation says so', async () => {
  const payload = { shipmentId: 1, items: [{ shipmentItemId: 2, quantity: 1 }] };
  const missing = ['items[0].reason: give either reason (code) or reasonId'];
  const operations = withSwitches({
    'v3.returnMerchandiseAuthorizations.replace': { optional: ['items.reason'] },
  });
  expect(await checkPayload('return.create', payload, { operations })).toEqual(missing);
  expect(await checkPayload('return.replace', payload, { operations })).toEqual([]);
  const both = {
    shipmentId: 1,
    items: [{ shipmentItemId: 2, quantity: 1, reason: 'A', reasonId: 3 }],
  };
  expect(await checkPayload('return.replace', both, { operations })).toEqual(missing);
});

test('switches name the countries that need a postcode and a house number', async () => {
  const payload = (countryCode: string) => ({
    externalOrderNumber: 'SO-1',
    orderTypeId: 1,
    locale: 'nl-NL',
    items: [{ sku: 'A', quantity: 1 }],
    deliveryAddress: { lastName: 'X', street1: 'Y', countryCode },
  });
  const check = (countryCode: string, options: Parameters<typeof checkPayload>[2] = {}) =>
    checkPayload('order.create', payload(countryCode), options);
  const both = (countryCode: string) => [
    `deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`,
    `deliveryAddress.postcode: is required for ${countryCode}`,
  ];
  for (const country of ['NL', 'BE', 'DE']) expect(await check(country)).toEqual(both(country));
  expect(await check('FR')).toEqual([]);
  const operations = withSwitches({
    'v3.orders.create': { postcodeCountries: ['FR', 'NL'], houseNumberCountries: ['BE'] },
  });
  expect(await check('FR', { operations })).toEqual(both('FR').slice(1));
  expect(await check('NL', { operations })).toEqual(both('NL').slice(1));
  expect(await check('BE', { operations })).toEqual(both('BE').slice(0, 1));
  expect(await check('DE', { operations })).toEqual([]);
});
