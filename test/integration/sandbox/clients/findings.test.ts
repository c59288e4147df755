import { beforeEach, expect, test } from 'vitest';
import type { Finding } from '../../../../src/sandbox/findings.ts';
import { createCurl } from '../../../helpers/processes/curl.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const lenientSandbox = useSandbox(['default'], { ...quiet, strict: false });
const strictSandbox = useSandbox(['default'], quiet);
const lenient = createCurl(lenientSandbox);
const strict = createCurl(strictSandbox);
beforeEach(() => {
  lenient.logOut();
  strict.logOut();
});

const read = (sandbox = lenientSandbox) =>
  sandbox.call<{ findings: Finding[]; beyondLimit: number }>('GET', '/_sandbox/findings');

/** Returns code, member and count of each finding, in the order of code and member. */
async function readRows(sandbox = lenientSandbox) {
  const { findings } = await read(sandbox);
  const rows = findings.map(({ code, member, count }) => `${code} | ${member} | ${count}`);
  return rows.sort();
}

const v2Order = {
  externalOrderNumber: 'F-1',
  preferredShippingDate: '2026-05-06 10:00:00',
  languageId: '51',
  orderTypeId: 31,
  PaymentMethodId: 1,
  bankAccountNumber: 'NL00BANK0123456789',
  deliveryAddressLastName: 'de Vries',
  deliveryAddressPostalCode: '1015CJ',
  deliveryAddressStreet: 'Keizersgracht 12',
  deliveryAddressCountryIso: 'NL',
  orderItems: [
    { sku: 'MUG-BLUE', quantity: 1, gift: { to: 'Anna', tags: ['x'] } },
    { sku: 'MUG-RED', Quantity: '2', quantity: 2 },
  ],
};

test('findings name what a body has beyond the interface, without values', async () => {
  expect((await lenient.json('/v2/order/add', v2Order)).body.messageCode).toBe('OK');
  expect(
    (await lenient.json('/v2/order/add', { ...v2Order, externalOrderNumber: 'F-2' })).body
      .messageCode,
  ).toBe('OK');
  expect(await readRows()).toEqual([
    'date_with_space | preferredShippingDate | 2',
    'deprecated_call |  | 2',
    'deprecated_member | PaymentMethodId | 2',
    'deprecated_member | bankAccountNumber | 2',
    'given_twice | orderItems[].Quantity | 2',
    'odd_case | PaymentMethodId | 2',
    'unknown_member | orderItems[].gift | 2',
    'wrong_type | languageId | 2',
  ]);
  const { findings } = await read();
  expect(JSON.stringify(findings)).not.toMatch(/Anna|NL00BANK|Vries|F-1/);
  const call = findings.find(({ code }) => code === 'deprecated_call');
  expect(call).toMatchObject({
    client: 'default',
    operation: 'v2.order.add',
    advice: 'Call POST /v3/orders',
  });
  expect(Date.parse(call?.lastAt ?? '')).toBeGreaterThanOrEqual(Date.parse(call?.firstAt ?? ''));
});

test('findings name odd parameters, encoded separators, forms and deprecated calls', async () => {
  const include = encodeURIComponent('orderItems,billingAddress');
  await lenient.get(`/v3/orders?include=${include}&sort=id&filter[externalOrderNumber][in]=A%2CB`);
  await lenient.get('/v2/returnLabel/get/1?ShippingMethodId=21&paperless=1');
  await lenient.form('/v2/order/release', ['externalOrderNumber=A']);
  await lenient.get('/v2/shipment/list/SHIPPED');
  await lenient.json('/v2/shipment/search', { id: '12' });
  expect(await readRows()).toEqual([
    'deprecated_call |  | 1',
    'deprecated_call |  | 1',
    'encoded_comma | include | 1',
    'form_body |  | 1',
    'odd_case | ShippingMethodId | 1',
    'unknown_parameter | sort | 1',
    'wrong_type | id | 1',
    'wrong_type | paperless | 1',
  ]);
});

test('track-trace more than once an hour and settings more than once a day are findings', async () => {
  const calls = [
    ['/v2/shipment/tracktrace', 3_600],
    ['/settings/get', 86_400],
  ] as const;
  for (const [path, seconds] of calls) {
    await strict.get(path);
    await strictSandbox.advance(seconds);
    await strict.get(path);
  }
  expect(await readRows(strictSandbox)).toEqual([]);

  for (const [path, seconds] of calls) {
    await strictSandbox.advance(seconds);
    await strict.get(path);
    await strictSandbox.advance(seconds - 1_200);
    await strict.get(path);
  }
  const { findings } = await read(strictSandbox);
  const rows = findings.map(
    ({ operation, code, count, advice }) => `${operation} ${code} ${count} ${advice}`,
  );
  expect(rows.sort()).toEqual([
    'common.settings.get too_often 1 Call it at most once a day, and keep the lists',
    'v2.shipment.trackTrace too_often 1 Call it at most once an hour',
  ]);
});

test('invented names cannot fill the list: what is beyond the limit is only counted', async () => {
  const invented = Object.fromEntries(
    Array.from({ length: 400 }, (_, index) => [`${'n'.repeat(200)}${index}`, 1]),
  );
  const names = Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`n${index}`, 1]));
  await lenient.json('/product/search', { Sku: 'A', ...invented });
  const merged = (await read()).findings;
  expect(merged.map(({ count }) => count)).toEqual([400]);
  expect(merged[0]?.member.length).toBeLessThan(130);
  await lenient.json('/product/search', { Sku: 'A', ...names });
  const { findings, beyondLimit } = await read();
  expect([findings.length, beyondLimit]).toEqual([300, 101]);
});
