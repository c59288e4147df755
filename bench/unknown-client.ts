/**
 * What first loads and polls cost a client that Postgres' statistics do not know, beside a large one that they do, and what
 * they cost once they know it: `npm run --silent bench:unknown-client -- [CHECKOUT]`.
 */
import { keep, round, say } from './stand/measure.ts';
import { openStand, type Stand } from './stand/stand.ts';

const checkout = process.argv[2];
const knownRows = 600_000;
const ownRows = 25_000;
const tables = ['orders', 'order_items', 'order_addresses', 'shipments', 'shipment_items'];
const jobs = ['pull-shipments', 'pull-orders'];

/** A client of which statistics know 600,000 shipments and as many orders. */
async function makeKnown({ query }: Stand): Promise<void> {
  const raw = `jsonb_build_object('id', n, 'attributes', jsonb_build_object('text', repeat('x', 300)))`;
  await query(
    `insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no)
     select 'large', n, 'L-' || n, current_date - 40, ${raw}, 0 from generate_series(1, $1::int) n`,
    [knownRows],
  );
  await query(
    `insert into fulfilment.shipments (client, id, status, shipped_on, order_id, external_order_number, raw, read_no)
     select 'large', n, 'SHIPPED', now() - interval '40 days', n, 'L-' || n, ${raw}, 0 from generate_series(1, $1::int) n`,
    [knownRows],
  );
  for (const table of tables) {
    await query(`alter table fulfilment.${table} set (autovacuum_enabled = off)`);
    await query(`vacuum analyze fulfilment.${table}`);
  }
}

/** Runs each job to its end, and says how long it took; a run that fails is named. */
async function load(stand: Stand): Promise<Record<string, number | string>> {
  const found: Record<string, number | string> = {};
  for (const job of jobs) {
    const startedAtMs = performance.now();
    const output = await stand.run(['run', job], {}, true);
    const seconds = round((performance.now() - startedAtMs) / 1_000);
    found[job] = /failed/.test(output) ? `failed after ${seconds} s: ${output.trim().slice(0, 120)}` : seconds;
  }
  return found;
}

async function forget({ query }: Stand): Promise<void> {
  for (const table of tables.toReversed()) {
    await query(`delete from fulfilment.${table} where client = 'default'`);
    await query(`vacuum fulfilment.${table}`);
  }
  await query('truncate sync.cursors, sync.rereads, sync.freshness');
}

const stand = await openStand(['default'], checkout);
try {
  await makeKnown(stand);
  await stand.sandbox.seed(ownRows);
  const unknown = { first: await load(stand), poll: await load(stand) };
  say(`statistics do not know it, seconds: ${JSON.stringify(unknown)}`);
  for (const table of tables) await stand.query(`analyze fulfilment.${table}`);
  await forget(stand);
  const known = { first: await load(stand), poll: await load(stand) };
  say(`statistics know it, seconds: ${JSON.stringify(known)}`);
  if (checkout === undefined) keep('unknown-client', { knownRows, ownRows, seconds: { unknown, known } });
} finally {
  await stand.stop();
}
