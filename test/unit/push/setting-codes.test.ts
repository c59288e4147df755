import { describe, expect, test } from 'vitest';
import { checkPayload } from '../../helpers/check-payload.ts';
import { orderPayload } from '../../helpers/order-payload.ts';

const toOptions = (list: string, ...codes: (string | null)[]) =>
  codes.map((code, index) => ({ list, id: 91 + index, code }));

const options = [
  ...toOptions('orderTypes', 'B2B', 'B2C'),
  ...toOptions('languages', 'de-DE', 'nl-NL'),
  ...toOptions('countries', 'BE', 'NL'),
  { list: 'mainShippingMethods', id: 13, code: 'PALLET' },
];
const lists = { options, offers: [{ methodId: 13, warehouse: 'EIN' }] };

/** Returns service lists in which one list has other entries. */
const withList = (list: string, ...codes: (string | null)[]) => ({
  ...lists,
  options: [...options.filter((option) => option.list !== list), ...toOptions(list, ...codes)],
});

/** Checks a payload with service lists, which become `newer` when they are read again. */
const check = (payload: object, known = lists, { kind = 'order.create', newer = known } = {}) =>
  checkPayload(kind, payload, {
    codes: { read: async () => known, refresh: async () => newer },
  });

const order = (changes: Record<string, unknown>) => orderPayload('SO-1', changes);
const toPallet = { shippingMethod: 'PALLET', fulfillFrom: 'AMS' };
const notInAms = 'shipping method PALLET is not offered in AMS (offered in: EIN)';

describe('an order that names what the service does not list', () => {
  test.each<[string, Record<string, unknown>, string]>([
    ['type', { orderType: 'B2X' }, 'orderType: there is no code B2X (known codes: B2B, B2C)'],
    ['locale', { locale: 'xx-XX' }, 'locale: there is no code xx-XX (known codes: de-DE, nl-NL)'],
    [
      'country',
      { deliveryAddress: { ...order({}).deliveryAddress, countryCode: 'ZZ' } },
      'deliveryAddress.countryCode: there is no code ZZ (known codes: BE, NL)',
    ],
    ['warehouse', toPallet, `fulfillFrom: ${notInAms}`],
    [
      'warehouse of a line',
      {
        shippingMethod: 'PALLET',
        items: [{ sku: 'MUG-RED', quantity: 1, fulfillFrom: 'AMS' }],
      },
      `items[0].fulfillFrom: ${notInAms}`,
    ],
  ])('is refused: %s', async (_what, changes, problem) => {
    expect(await check(order(changes))).toEqual([problem]);
  });

  test.each([
    ['locale', withList('languages', 'xx-XX'), { locale: 'xx-XX' }],
    ['warehouse', { ...lists, offers: [{ methodId: 13, warehouse: 'AMS' }] }, toPallet],
  ])(
    'is taken if the lists have it when they are read again: %s',
    async (_what, newer, changes) => {
      expect(await check(order(changes), lists, { newer })).toEqual([]);
    },
  );

  test.each([
    ['is empty', withList('languages'), { locale: 'xx-XX' }],
    ['has entries of another form', withList('languages', 'nl'), { locale: 'xx-XX' }],
    ['has no warehouses', { ...lists, offers: [] }, toPallet],
  ])('is taken if the list %s', async (_how, known, changes) => {
    expect(await check(order(changes), known)).toEqual([]);
  });
});

test.each([
  ['order.create', 'orderTypes', 'orderType', 'orderTypeId'],
  ['return.create', 'returnReasons', 'reason', 'reasonId'],
] as const)(
  '%s: a code of %s without one id is refused with the member for ids',
  async (kind, list, member, idMember) => {
    const known = withList(list, 'TWICE', 'ONCE', null, '', 'TWICE');
    const items = (code: object) => [{ shipmentItemId: 1, quantity: 1, ...code }];
    const find = (code: Record<string, unknown>) =>
      check(kind === 'order.create' ? order(code) : { shipmentId: 1, items: items(code) }, known, {
        kind,
      });

    const path = kind === 'order.create' ? member : `items[0].${member}`;
    expect(await find({ [member]: 'TWICE' })).toEqual([
      `${path}: several entries have the code TWICE (ids 91, 95), so use ${idMember} instead`,
    ]);
    expect(await find({ [member]: 'NEVER' })).toEqual([
      `${path}: there is no code NEVER (known codes: TWICE, ONCE; entries without a code: ids 93, 94, which ${idMember} takes)`,
    ]);
    expect(await find({ [member]: 'ONCE', [idMember]: 92 })).toEqual([
      `${path}: give either ${member} (code) or ${idMember}`,
    ]);
  },
);
