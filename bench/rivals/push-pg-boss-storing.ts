/**
 * Sends orders with one pg-boss job per order, and stores what each answer shows: the order, its
 * items and its addresses in the tables of the product, with one statement, and the result with the
 * job.
 */
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { decodePage } from '../../src/pull/decode.ts';
import type { MirrorRow } from '../../src/pull/sql/mirror-tables.ts';
import { orders } from '../../src/pull/streams/orders.ts';
import { allPlaced, countPlaced, numbers, post, rivalOptions } from './post.ts';

const pool = new pg.Pool({
  connectionString: rivalOptions.database,
  max: rivalOptions.concurrency,
});
const decode = orders.decoder('Europe/Amsterdam');
const insert = (table: string, key: string, place: number) => `
  insert into fulfilment.${table}
  select * from json_populate_recordset(null::fulfilment.${table}, $${place}::json)
  on conflict (${key}) do update set raw = excluded.raw, changed_at = excluded.changed_at`;
const store = {
  name: 'store',
  text: `
    with o as (${insert('orders', 'client, id', 1)}), i as (${insert('order_items', 'client, id', 2)})
    ${insert('order_addresses', 'client, order_id, role', 3)}`,
};

/** Stores the order of an answer, and returns the result of its job. */
async function storeOrder(answer: unknown) {
  const { data } = answer as { data: never };
  const { resources } = await decodePage({ data: [data], included: [], escaped: false }, decode);
  const [resource] = resources;
  if (resource === undefined) throw new Error('the answer has no order');
  const now = new Date().toISOString();
  const toRow = (row: MirrorRow): MirrorRow => ({
    ...row,
    client: 'default',
    first_seen_at: now,
    changed_at: now,
    read_no: 0,
  });
  const [items = [], addresses = []] = resource.children.map(({ rows }) => rows.map(toRow));
  const values = [[toRow(resource.parent)], items, addresses].map((rows) => JSON.stringify(rows));
  await pool.query({ ...store, values });
  return { orderId: resource.parent.id, orderItems: items.map(({ id, sku }) => ({ id, sku })) };
}

const boss = new PgBoss({ connectionString: rivalOptions.database, max: 12 });
boss.on('error', (error) => process.stderr.write(`${error}\n`));
await boss.start();
const name = `orders-${process.pid}`;
await boss.createQueue(name, { retryLimit: 10 });
await boss.insert(
  name,
  numbers.map((number) => ({ data: { number } })),
);
const options = {
  localConcurrency: rivalOptions.concurrency,
  batchSize: 10,
  pollingIntervalSeconds: 0.5,
  burstWhenBatchFull: true,
  perJobResults: true as const,
};
await boss.work<{ number: string }>(name, options, async (jobs) => {
  const done: { id: string; status: 'completed'; output: object }[] = [];
  for (const { id, data } of jobs) {
    done.push({ id, status: 'completed', output: await storeOrder(await post(data.number)) });
    countPlaced();
  }
  return done;
});
await allPlaced;
process.exit(0);
