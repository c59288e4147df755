/**
 * Measures first loads and polls of a client that the statistics of Postgres do not know, next to a large client that
 * they know, and again after `analyze`: `npm run --silent bench:unknown-client -- [CHECKOUT]`.
 */
import { printLine, round, saveResults } from './stand/measure.ts';
import { openStand, type Stand } from './stand/stand.ts';

const checkout = process.argv[2];
const knownRows = 600_000;
const unknownRows = 25_000;
const tables = ['orders', 'order_items', 'order_addresses', 'shipments', 'shipment_items'];
const jobs = ['pull-shipments', 'pull-orders'];

/** Creates a client whose 600,000 shipments and 600,000 orders the statistics know. */
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

/** Runs each job to its end. Returns its seconds, or the reason if it failed. */
async function measureRuns(stand: Stand): Promise<Record<string, number | string>> {
  const found: Record<string, number | string> = {};
  for (const job of jobs) {
    const startedAtMs = performance.now();
    const output = await stand.run(['run', job], {}, true);
    const seconds = round((performance.now() - startedAtMs) / 1_000);
    found[job] = /failed/.test(output) ? `failed after ${seconds} s: ${output.trim().slice(0, 120)}` : seconds;
  }
  return found;
}

async function deleteRows({ query }: Stand): Promise<void> {
  for (const table of tables.toReversed()) {
    await query(`delete from fulfilment.${table} where client = 'default'`);
    await query(`vacuum fulfilment.${table}`);
  }
  await query('truncate sync.cursors, sync.rereads, sync.freshness');
}

const stand = await openStand(['default'], checkout);
try {
  await makeKnown(stand);
  await stand.sandbox.seed(unknownRows);
  const unknown = { first: await measureRuns(stand), poll: await measureRuns(stand) };
  printLine(`statistics do not know it, seconds: ${JSON.stringify(unknown)}`);
  for (const table of tables) await stand.query(`analyze fulfilment.${table}`);
  await deleteRows(stand);
  const known = { first: await measureRuns(stand), poll: await measureRuns(stand) };
  printLine(`statistics know it, seconds: ${JSON.stringify(known)}`);
  if (checkout === undefined)
    saveResults('unknown-client', { knownRows, ownRows: unknownRows, seconds: { unknown, known } });
} finally {
  await stand.stop();
}
