import { describe, expect, test } from 'vitest';
import { maskPayload } from '../../../src/push/show-row.ts';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { checkPayload } from '../../helpers/check-payload.ts';
import { orderPayload } from '../../helpers/order-payload.ts';

const order = (changes: Record<string, unknown>) => orderPayload('SO-1', changes);
const line = (changes: Record<string, unknown>) =>
  order({ items: [{ sku: 'A', quantity: 1, ...changes }] });
const label = (changes: Record<string, unknown>) => ({
  shipmentId: 1,
  shippingMethod: 'A',
  ...changes,
});

const base64 = (text: string) => Buffer.from(text).toString('base64');

const unknownMember = 'is not a known member and must be removed';
const readOnly = 'is read-only at the service and cannot be sent';
describe('the check of a payload', () => {
  test.each<[string, unknown]>([
    [
      'order.create',
      order({ email: null, metadata: null, billingAddress: null, allowPartialDelivery: true }),
    ],
    [
      'order.create',
      order({ pickUpPoint: { any: { thing: [1, null] } }, metadata: { extra1: 'x' } }),
    ],
    ['order.create', line({ price: '9.95', vat: 0.21, quantity: 2.0 })],
    ['order.create', line({ price: 21, vat: '1.00' })],
    ['return_label.create', label({ paperless: null })],
    ['order_item.cancel', { sku: 'A', orderItemId: null }],
  ])('finds no problem in a valid %s', async (kind, payload) => {
    expect(await checkPayload(kind, payload)).toEqual([]);
  });

  test.each<[string, unknown, string[]]>([
    ['order.cancel', { a: 1 }, [`«a»: ${unknownMember}`]],
    ['order.update', {}, ['payload: must name at least one member to change']],
    ['order.cancel', '[]', ['payload: must be an object']],
    ['order.cancel', 'null', ['payload: must be an object']],
    [
      'order.create',
      order({ onHold: 'no', email: 7 }),
      ['email: must be a string', 'onHold: must be a boolean'],
    ],
    ['order.create', order({ items: [] }), ['items: must have at least one entry']],
    [
      'order.create',
      order({ orderedOn: '0000-01-01' }),
      ['orderedOn: must not be before the year 1900'],
    ],
    ['order.create', line({ colour: 'red' }), [`items[0].«colour»: ${unknownMember}`]],
    ['order.create', order({ channelIdentifier: 'web' }), [`channelIdentifier: ${readOnly}`]],
    [
      'order.create',
      order({ orderType: undefined, shippingMethod: undefined }),
      ['orderType: give either orderType (code) or orderTypeId'],
    ],
    ...[21, '21.00', '1.00000000000000000001'].map((vat): [string, unknown, string[]] => [
      'order.create',
      line({ vat }),
      ['items[0].vat: must be a rate from 0 to 1, such as 0.21 for 21 %'],
    ]),
    [
      'order.create',
      order({ currency: 'EUR', deliveryAddressExtraName: 'c/o' }),
      [`currency: ${readOnly}`, `«deliveryAddressExtraName»: ${unknownMember}`],
    ],
    [
      'order.create',
      line({ warehouseId: 3 }),
      [
        'items[0].warehouseId: is not a member of v3; name the warehouse by its code, in fulfillFrom',
      ],
    ],
    [
      'order.create',
      order({ orderTypeId: 7 }),
      ['orderType: give either orderType (code) or orderTypeId'],
    ],
    [
      'order.create',
      line({ price: true }),
      ['items[0].price: must be a number or a decimal text such as "9.95"'],
    ],
    [
      'order_item.cancel',
      { sku: 'A', quantity: 1 },
      [
        'quantity: the interface cancels all that is left of an item, not a part of it;' +
          ' to change the quantity, use order.replace',
      ],
    ],
    [
      'order.update',
      { shippingMethodId: 3 },
      [expect.stringContaining('"shippingMethod" to "takes" of v3.orders.update') as string],
    ],
    [
      'order.update',
      { items: [] },
      [
        'items: cannot be changed by an update; order_item.cancel cancels a line, and order.replace changes lines and keeps the number',
      ],
    ],
    [
      'order.create',
      order({ attachments: [{ filename: 'a.pdf', content: base64('hello') }] }),
      ['attachments[0].content: is not a pdf document'],
    ],
    [
      'order.create',
      order({ attachments: [{ filename: 'a.pdf', content: base64('%PDF-1.7 hello') }] }),
      ['attachments[0].content: is a pdf document that cannot be read'],
    ],
    ['return_label.create', label({ paperless: 1 }), ['paperless: must be a boolean']],
    [
      'order.update',
      { email: maskPayload(undefined, 'anna@example.com') },
      ['payload: has ••• in place of hidden values; outbox show <id> --reveal shows them'],
    ],
    [
      'order.create',
      order({ deliveryAddress: { lastName: 'A', countryCode: 'NL', postcode: { toString: 1 } } }),
      expect.arrayContaining(['deliveryAddress.postcode: must be a string']) as string[],
    ],
  ])('names the problems of %s %j', async (kind, payload, problems) => {
    expect(await checkPayload(kind, payload)).toEqual(problems);
  });
});

test('a number that begins or ends with a blank is refused: the service may store another', async () => {
  const words = 'must not begin or end with a blank';
  const blank = orderPayload('SO-1 ', {});
  expect(await checkPayload('order.create', blank)).toEqual([`externalOrderNumber: ${words}`]);
  expect(await checkPayload('order.create', blank, { reference: 'SO-1 ' })).toEqual([
    `externalOrderNumber: ${words}`,
    `reference: ${words}`,
  ]);
  expect(
    await checkPayload(
      'order.rename',
      { externalOrderNumber: '\u00a0SO-2' },
      { reference: 'SO-1' },
    ),
  ).toEqual([`externalOrderNumber: ${words}`]);
  expect(await checkPayload('order.cancel', {}, { reference: '\tSO-1' })).toEqual([
    `reference: ${words}`,
  ]);
  expect(await checkPayload('order.cancel', {}, { reference: ' ' })).toEqual([
    'reference: must not be empty',
  ]);
  expect(await checkPayload('order.cancel', {}, { reference: 'SO 1' })).toEqual([]);
});

test("base64 with line breaks, as Postgres' encode() makes it, is accepted", async () => {
  const page = (await writePage(['A page'])).toString('base64');
  const content = page.replaceAll(/.{76}/g, '$&\n');
  expect(await checkPayload('order_attachment.create', { filename: 'a.pdf', content })).toEqual([]);
});

describe('a hostile payload is refused in few words:', () => {
  const deep = (depth: number) => `${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`;
  const repeat = (entry: string, times: number) => `[${Array(times).fill(entry).join(',')}]`;
  const withItems = (items: string) => JSON.stringify(order({ items: '?' })).replace('"?"', items);

  test.each<[string, () => string, string, number]>([
    [
      '16 MB',
      () => JSON.stringify({ a: 'x'.repeat(17_000_000) }),
      'payload: has 17000009 bytes',
      1,
    ],
    [
      '16 MB with the blanks of jsonb',
      () => JSON.stringify({ a: 'x'.repeat(16_777_208) }),
      'payload: has 16777217 bytes',
      1,
    ],
    [
      'numbers that jsonb writes out',
      () => `{"metadata":{"a":${repeat(repeat('1e308', 4_999), 12)}}}`,
      'payload: has 18',
      1,
    ],
    [
      'a number that jsonb does not take',
      () => '{"metadata":{"a":1e999999}}',
      'payload: holds a number with a huge exponent',
      1,
    ],
    [
      'a number of more digits than jsonb takes',
      () => `{"metadata":{"a":[${'1'.repeat(131_073)}]}}`,
      'payload: holds a number of more than 16000 digits',
      1,
    ],
    [
      'deep nesting',
      () => JSON.stringify(order({ pickUpPoint: '?' })).replace('"?"', deep(2_000)),
      'payload: ',
      1,
    ],
    ['many wrong lines', () => withItems(repeat('1', 5_000)), 'items[0]: must be an object', 101],
    ['too many lines', () => withItems(repeat('1', 100_000)), 'payload: ', 1],
    [
      'many unknown members',
      () => `{${Array.from({ length: 4_000 }, (_, n) => `"k${n}":1`)}}`,
      '«k0»: is not a known member',
      101,
    ],
    ['a long name', () => JSON.stringify({ ['x'.repeat(1_000_000)]: 1 }), 'externalOrderNumber', 8],
    [
      'huge numbers',
      () => withItems(repeat('{"sku":"A","quantity":1e100000}', 99)),
      'payload: holds a number with a huge exponent',
      1,
    ],
  ])('%s', async (_name, make, first, count) => {
    const problems = await checkPayload('order.create', make());
    expect(problems.length).toBeLessThanOrEqual(count);
    expect(
      problems.find((text) => text.startsWith(first)),
      problems[0],
    ).toBeDefined();
    for (const text of problems) expect(text.length).toBeLessThan(2_500);
  });
});
