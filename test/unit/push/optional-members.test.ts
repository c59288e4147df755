import { expect, test } from 'vitest';
import { type OperationName, type Operations, operations } from '../../../config/operations.ts';
import { optionalMembers } from '../../../config/optional-members.ts';
import { isObject, type Json } from '../../../src/core/json.ts';
import { findPayloadProblems } from '../../../src/push/check-payload.ts';
import type { AnyKind } from '../../../src/push/kind.ts';
import { makeKinds, outboxKinds } from '../../../src/push/kinds/registry.ts';
import { toPayloadSchema } from '../../../src/push/payload.ts';
import { anyCode } from '../../../src/push/setting-codes.ts';
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

function find(name: string, used: Operations): AnyKind {
  const kind = makeKinds(used).find((known) => known.name === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kind;
}

/** Checks a payload as a worker does. Returns the problems. */
async function check(
  name: string,
  payload: object,
  used: Operations,
  reference = 'SO-1',
): Promise<readonly string[]> {
  const { signal } = new AbortController();
  const context = { owner: 'test', operations: used, codes: anyCode, signal };
  const row = { payload: JSON.stringify(payload), reference };
  const problems = await findPayloadProblems(find(name, used), row, context);
  return problems.map(({ text }) => text);
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
  const used = withSwitches({
    'v3.returnMerchandiseAuthorizations.replace': { optional: ['items.reason'] },
  });
  expect(await check('return.create', payload, used)).toEqual(missing);
  expect(await check('return.replace', payload, used)).toEqual([]);
  const both = {
    shipmentId: 1,
    items: [{ shipmentItemId: 2, quantity: 1, reason: 'A', reasonId: 3 }],
  };
  expect(await check('return.replace', both, used)).toEqual(missing);
});

test('switches name the countries that need a postcode and a house number', async () => {
  const payload = (countryCode: string) => ({
    externalOrderNumber: 'SO-1',
    orderTypeId: 1,
    locale: 'nl-NL',
    items: [{ sku: 'A', quantity: 1 }],
    deliveryAddress: { lastName: 'X', street1: 'Y', countryCode },
  });
  const both = (countryCode: string) => [
    `deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`,
    `deliveryAddress.postcode: is required for ${countryCode}`,
  ];
  for (const country of ['NL', 'BE', 'DE'])
    expect(await check('order.create', payload(country), operations)).toEqual(both(country));
  expect(await check('order.create', payload('FR'), operations)).toEqual([]);
  const used = withSwitches({
    'v3.orders.create': { postcodeCountries: ['FR', 'NL'], houseNumberCountries: ['BE'] },
  });
  expect(await check('order.create', payload('FR'), used)).toEqual(both('FR').slice(1));
  expect(await check('order.create', payload('NL'), used)).toEqual(both('NL').slice(1));
  expect(await check('order.create', payload('BE'), used)).toEqual(both('BE').slice(0, 1));
  expect(await check('order.create', payload('DE'), used)).toEqual([]);
});
