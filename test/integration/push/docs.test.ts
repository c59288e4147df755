import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { listStoredKinds } from '../../../src/push/kinds/registry.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, outbox } = usePushes();

const docs = readFileSync(new URL('../../../docs/outbox.md', import.meta.url), 'utf8');
const statements = [...docs.matchAll(/```sql\n(.*?)```/gs)].map(([, text = '']) => text);

/** Runs a statement with the role that writes for the ERP. */
const runAsWriter = (statement: string) =>
  database.db.transaction().execute(async (trx) => {
    await sql`set local role fulfilment_writer`.execute(trx);
    return (await sql.raw<Record<string, unknown>>(statement).execute(trx)).rows;
  });

test('the SQL of docs/outbox.md works for a role that may only write to the outbox', async () => {
  const results: Record<string, unknown>[][] = [];
  for (const statement of statements) {
    results.push(await runAsWriter(statement));
    await outbox.push();
  }
  const [inserted, read, , open, , members] = results;
  expect(statements).toHaveLength(6);
  expect(inserted).toEqual([{ id: expect.any(Number) }]);
  expect(read).toMatchObject([
    { status: 'done', attempts: 1, last_error: null, order_id: expect.stringMatching(/^\d+$/) },
  ]);
  expect(open).toEqual([]);
  expect(members).toContainEqual({ member: 'deliveryAddress' });
  expect((await outbox.rows()).map(({ kind, status }) => [kind, status])).toEqual([
    ['order.create', 'done'],
    ['order.update', 'done'],
    ['order_item.cancel', 'done'],
    ['order.cancel', 'done'],
    ['product.save', 'pending'],
  ]);
});

test('every kind has a schema in docs/outbox-payloads.json and in the database', async () => {
  const schemas = Object.fromEntries(
    listStoredKinds(operations).map(({ kind, schema }) => [kind, schema]),
  );
  await expect(`${JSON.stringify(schemas, null, 2)}\n`).toMatchFileSnapshot(
    '../../../docs/outbox-payloads.json',
  );
  for (const [kind, schema] of Object.entries(schemas)) {
    const [row] = await database.query('select fulfilment.outbox_schema($1) as schema', [kind]);
    expect(row?.schema).toEqual(schema);
  }
  await expect(database.query("select fulfilment.outbox_schema('order.crate')")).rejects.toThrow(
    /there is no kind order.crate; known are .*product.save/,
  );
});
