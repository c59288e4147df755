// Orders once and waits for the outcome: DATABASE_URL=… node consumer.mjs SO-1001 (docs/erp.md)
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';

if (!process.env.DATABASE_URL) fail('Set DATABASE_URL to the URL of the database');
const [, , reference] = process.argv;
const payload = {
  externalOrderNumber: reference,
  orderType: 'B2C',
  locale: 'nl-NL',
  items: [{ sku: 'MUG-BLUE', quantity: 1 }],
  deliveryAddress: {
    lastName: 'de Vries',
    street1: 'Keizersgracht 12',
    postcode: '1015CJ',
    countryCode: 'NL',
  },
};

function fail(words) {
  process.stderr.write(`${words}\n`);
  process.exit(1);
}

/** Inserts the row and books it in one statement, so a restart orders nothing twice. */
const order = (db) =>
  db.query(
    `with row as (
       insert into fulfilment.outbox (kind, reference, payload)
       select 'order.create', $1, $2 where not exists (select from shop.orders where reference = $1)
       returning id, reference)
     insert into shop.orders (outbox_id, reference) select id, reference from row`,
    [reference, JSON.stringify(payload)],
  );

/** Handles the next changes. Your work and the checkpoint commit together. */
async function readChanges(db) {
  await db.query('begin');
  const { rows } = await db.query(`select entity, id from fulfilment.consume_changes('shop', 500)`);
  for (const { entity, id } of rows)
    if (entity === 'outbox')
      await db.query(
        `update shop.orders s set status = o.status, problem = o.last_error
         from fulfilment.outbox o where o.id = $1 and s.outbox_id = o.id`,
        [id],
      );
  await db.query('commit');
  return rows.length;
}

async function follow(db) {
  let wake = () => undefined;
  db.on('notification', () => wake()).on('error', () => wake());
  await db.connect();
  await db.query('listen fulfilment_changes');
  await db.query(`select fulfilment.start_consumer('shop')`);
  if (reference !== undefined) await order(db);
  for (;;) {
    const hint = new Promise((resolve) => (wake = resolve));
    while ((await readChanges(db)) === 500);
    const { rows } = await db.query(
      'select status, problem from shop.orders where reference = $1',
      [reference],
    );
    if (['done', 'dead', 'cancelled'].includes(rows[0]?.status)) return rows[0];
    await Promise.race([hint, wait(10_000)]);
  }
}

for (;;) {
  const db = new pg.Client({
    connectionString: process.env.DATABASE_URL,
    keepAlive: true,
    query_timeout: 60_000,
  });
  try {
    const { status, problem } = await follow(db);
    process.stdout.write(`${[`${reference} is ${status}`, problem].filter(Boolean).join(': ')}\n`);
    process.exit(status === 'done' ? 0 : 1);
  } catch (error) {
    // A mistake, not a lost connection: a lost place in the feed, a missing right, a wrong password.
    if (/^(22|28|42)/.test(error.code)) fail(error.message);
    process.stderr.write(`DATABASE_URL: ${error.message}; connecting again\n`);
    db.end().catch(() => undefined);
    await wait(1_000);
  }
}
