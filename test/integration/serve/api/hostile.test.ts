import { expect, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';

const database = useDatabase();
const api = useApi(database);

const list = (entry: string, times: number) => `[${Array.from({ length: times }, () => entry)}]`;
const makeBody = (items: string, rows = 1) => {
  const payload = JSON.stringify(orderPayload('A', { items: '?' as never })).replace('"?"', items);
  const row = `{"kind":"order.create","reference":"A","payload":${payload}}`;
  return rows === 1 ? row : list(row, rows);
};
const unknownMembers = (count: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`m${n}`, 1])));

const hostile: readonly [string, () => string][] = [
  ['130 rows of 4,999 empty items', () => makeBody(list('{}', 4_999), 130)],
  ['290 items of 5,000 unknown members', () => makeBody(list(unknownMembers(5_000), 290))],
  ['4,000 items with seven wrong members', () => makeBody(list(wrongItem, 4_000))],
  ['90,000 rows', () => list('{}', 90_000)],
  ['a row with 90,000 unknown members', () => unknownMembers(90_000)],
  ['a member with a name of 10 MB', () => makeBody(`[{"${'x'.repeat(10_000_000)}":1}]`)],
  ['an order type of 10 MB', () => makeBody('[]').replace('"B2C"', `"${'x'.repeat(10_000_000)}"`)],
  ['a time of 10 MB', () => makeTimed(`2026-11-26T00:00:00.${'0'.repeat(10_000_000)}Z`)],
  [
    'a time that only the database refuses',
    () => makeTimed('2026-11-26T00:00:00.0000000000000001+23:59'),
  ],
  ['a document of blanks', () => makeDocument('A '.repeat(7_900_000))],
];
const wrongItem =
  '{"sku":1,"quantity":"a","price":true,"vat":true,"name":1,"metadata":{"reference":1,"extra6":1},"fulfillFrom":1}';
const makeTimed = (time: string) =>
  `{"kind":"order.cancel","reference":"A","payload":{},"notBefore":"${time}"}`;
const makeDocument = (content: string) =>
  `{"kind":"order_attachment.create","reference":"A","payload":{"filename":"a","content":"${content}"}}`;

test.each(hostile)('%s: refused in few words, for little work', async (_what, make) => {
  const { call } = await api();
  await database.query(`
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
    values ('default', 'orderTypes', 1, 'B2B', 'B2B', '{}') on conflict do nothing`);
  const body = make();
  const before = process.cpuUsage();
  const answer = await call('/v1/outbox', body);
  const { user } = process.cpuUsage(before);
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    422,
    'application/problem+json',
  ]);
  expect(answer.json.problems?.length ?? 0).toBeLessThanOrEqual(101);
  expect(answer.text.length).toBeLessThan(64 * 1024);
  // Microseconds of work of this process, which other processes do not make longer.
  expect(user).toBeLessThan(3_000_000);
});
