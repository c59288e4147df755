import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';

const database = useDatabase();

/** Checks a payload in SQL. Returns the problems as workers write them. */
async function check(kind: string | null, payload: unknown): Promise<string[]> {
  const rows = await database.query<{ path: string; problem: string }>(
    'select path, problem from fulfilment.outbox_check($1, $2)',
    [
      kind,
      payload === null ? null : typeof payload === 'string' ? payload : JSON.stringify(payload),
    ],
  );
  return rows.map(({ path, problem }) => `${path}: ${problem}`);
}
const order = (changes: Record<string, unknown>) => orderPayload('SO-1', changes);
const line = (changes: Record<string, unknown>) =>
  order({ items: [{ sku: 'A', quantity: 1, ...changes }] });
const label = (changes: Record<string, unknown>) => ({
  filename: 'a.pdf',
  content: 'JVBERi0=',
  ...changes,
});

describe('fulfilment.outbox_check', () => {
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
    [
      'order.create',
      order({
        attachments: [label({ printStrategy: 'REQUIRED', contentType: 'application/pdf' })],
      }),
    ],
    ['order_attachment.create', label({ printStrategy: 'REQUIRED', contentType: null })],
  ])('finds no problem in a valid %s', async (kind, payload) => {
    expect(await check(kind, payload)).toEqual([]);
  });

  test.each<[string, unknown, string[]]>([
    ['order.cancel', { a: 1 }, ['a: is not a known member and must be removed']],
    [
      'order.create',
      order({ onHold: 'no', email: 7 }),
      ['email: must be a string', 'onHold: must be a boolean'],
    ],
    [
      'order.create',
      line({ warehouseId: 3 }),
      [
        'items[0].warehouseId: exists only in the older order operation, which this program does not call;' +
          ' name the warehouse by its code, in fulfillFrom',
      ],
    ],
    ['order.create', order({ items: [] }), ['items: must have at least 1 entries']],
    [
      'order.create',
      order({ orderType: undefined }),
      ['orderType: give either orderType (code) or orderTypeId'],
    ],
    [
      'order.create',
      order({ orderTypeId: 7 }),
      ['orderType: give either orderType (code) or orderTypeId'],
    ],
    ['order.create', line({ quantity: 1.5 }), ['items[0].quantity: must be a whole number']],
    ['order.create', line({ price: true }), ['items[0].price: has none of the permitted forms']],
    [
      'order.create',
      line({ vat: 21 }),
      ['items[0].vat: must be a rate from 0 to 1, such as 0.21 for 21 %'],
    ],
    [
      'order.create',
      line({ vat: '21.0' }),
      ['items[0].vat: must be a rate from 0 to 1, such as 0.21 for 21 %'],
    ],
    [
      'order_attachment.create',
      label({ printStrategy: 'NEVER' }),
      ['printStrategy: must be "REQUIRED"'],
    ],
    ['order.cancel', '[]', ['payload: must be an object']],
    ['order.cancel', null, ['payload: is missing']],
  ])('names the problems of %s %j', async (kind, payload, problems) => {
    expect(await check(kind, payload)).toEqual(problems);
  });

  test('names a client that no worker was ever set up with, once there are others', async () => {
    const check = () =>
      database.query(
        "select path, problem from fulfilment.outbox_check('order.cancel', '{}', 'shop2')",
      );
    expect(await check()).toEqual([]);
    await registerClients(database.db, [
      { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
    ]);
    expect(await check()).toEqual([
      { path: 'client', problem: 'no worker was ever set up with client shop2; known are default' },
    ]);
  });

  test('names an unknown kind with those that are known', async () => {
    expect(await check('order.crate', {})).toEqual([
      `kind: there is no kind order.crate; known are ${outboxKinds
        .map(({ name }) => name)
        .sort()
        .join(', ')}`,
    ]);
    expect((await check(null, {}))[0]).toMatch(/^kind: there is no kind null; known are /);
  });
});

describe('a hostile payload costs little:', () => {
  const deep = (depth: number) => `${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`;
  const repeat = (entry: string, times: number) =>
    `[${Array.from({ length: times }, () => entry).join(',')}]`;
  const withItems = (items: string) => JSON.stringify(order({ items: '?' })).replace('"?"', items);

  test.each<[string, () => string, string, number]>([
    [
      '16 MB',
      () => JSON.stringify({ a: 'x'.repeat(17_000_000) }),
      'payload: has 17000009 bytes',
      1,
    ],
    [
      'deep nesting',
      () => `{"pickUpPoint": ${deep(1_000)}, "a": ${deep(1_000)}}`,
      'a: is not a known',
      6,
    ],
    [
      'many wrong lines',
      () => withItems(repeat('1', 1_000_000)),
      'items[0]: must be an object',
      101,
    ],
    [
      'many unknown members',
      () => `{${Array.from({ length: 200_000 }, (_, n) => `"k${n}":1`)}}`,
      'k',
      101,
    ],
    [
      'a long name',
      () => JSON.stringify({ ['x'.repeat(1_000_000)]: 1 }),
      `${'x'.repeat(100)}: is not`,
      6,
    ],
    [
      'many right lines',
      () => withItems(repeat('{"sku":"A","quantity":1}', 100_000)),
      'items: has 100000 entries',
      1,
    ],
    [
      'huge numbers',
      () => withItems(repeat('{"sku":"A","quantity":1e100000}', 99)),
      'items[98].quantity: must be at',
      99,
    ],
    [
      'numbers of 2 GB',
      () => withItems(repeat('1e100000', 20_000)),
      'payload: has 1073741824 bytes or more',
      1,
    ],
  ])('%s', async (_name, make, first, count) => {
    await database.db.transaction().execute(async (trx) => {
      await sql`set local statement_timeout = '60s'`.execute(trx);
      const { rows } = await sql<{ path: string; problem: string }>`
        select path, problem from fulfilment.outbox_check('order.create', ${make()}::jsonb)`.execute(
        trx,
      );
      expect(rows).toHaveLength(count);
      const texts = rows.map(({ path, problem }) => `${path}: ${problem}`);
      expect(
        texts.find((text) => text.startsWith(first)),
        texts[0],
      ).toBeDefined();
      for (const text of texts) expect(text.length).toBeLessThan(300);
    });
  });
});
