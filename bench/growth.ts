/**
 * Measures what pages of a list, claims, `changes_since`, `status` and `/metrics` cost as tables
 * grow: `npm run --silent bench:growth -- [ROWS,ROWS,…]`. SQL makes the rows; the program does the
 * same measured work at each size. `status` is that of the bundle: run `npm run build` first.
 */
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { silentLogger } from '../src/core/logger.ts';
import { connectDatabase } from '../src/db/connect.ts';
import { timeClaims } from './stand/claims.ts';
import { median, printLine, round, saveResults } from './stand/measure.ts';
import { createSettings, endProcess, openStand, type Stand } from './stand/stand.ts';
import { measureMedian, measureStatus } from './stand/status-time.ts';

const sizes = (process.argv[2] ?? '1e4,1e5,1e6,5e6').split(',').map(Number);
const rounds = 5;
/** The program as users run it. */
const bundle = fileURLToPath(new URL('../dist/main.js', import.meta.url));
if (!existsSync(bundle)) throw new Error('There is no dist/main.js; make it with: npm run build');
const clients = Array.from({ length: 50 }, (_, index) => `shop-${index + 1}`);

/**
 * Fills the tables up to this number of rows, a third of them shipments. Their ids are below those
 * of the sandbox.
 */
async function fill({ query }: Stand, client: string, rows: number): Promise<void> {
  const [here] = await query<{ n: number }>(
    'select count(*)::int as n from fulfilment.shipments where id < 0 and client = $1',
    [client],
  );
  const [from, to] = [here?.n ?? 0, Math.round(rows / 3)];
  if (to <= from) return;
  const raw = `jsonb_build_object('id', -n, 'type', 'shipment', 'attributes', jsonb_build_object('status', 'SHIPPED', 'text', repeat('x', 300)))`;
  await query(
    `insert into fulfilment.shipments (client, id, status, shipped_on, order_id, raw, read_no)
     select $1, -n, 'SHIPPED', now() - interval '40 days', -n, ${raw}, 0 from generate_series($2::int + 1, $3::int) n`,
    [client, from, to],
  );
  for (const place of [1, 2])
    await query(
      `insert into fulfilment.shipment_items (client, id, shipment_id, sku, quantity, raw)
       select $1, -2 * n - ${place}, -n, 'MUG-BLUE', 1, ${raw} from generate_series($2::int + 1, $3::int) n`,
      [client, from, to],
    );
  await query('vacuum analyze fulfilment.shipments');
  await query('vacuum analyze fulfilment.shipment_items');
}

/**
 * Returns the milliseconds of a page of 100 new shipments with their items: the median of several
 * loads of 40 pages.
 */
async function measurePageCost(stand: Stand): Promise<number> {
  const costs: number[] = [];
  for (let turn = 0; turn < rounds; turn++) {
    await stand.sandbox.call('POST', '/_sandbox/seed', {
      client: 'shop-1',
      shipments: 4_000,
      items: 2,
      statuses: ['SHIPPED'],
    });
    await stand.run(['run', 'pull-shipments']);
    const [run] = await stand.query<{ ms: number }>(
      `select extract(epoch from finished_at - started_at)::float8 * 1000 / pages as ms from sync.runs order by id desc limit 1`,
    );
    costs.push(run?.ms ?? Number.NaN);
  }
  return median(costs);
}

async function measurePages(stand: Stand): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const size of sizes) {
    await fill(stand, 'shop-1', size);
    found[size] = round(await measurePageCost(stand));
    printLine(`a page beside ${size.toLocaleString('en')} rows: ${found[size]} ms`);
  }
  return found;
}

async function measureClaims(stand: Stand): Promise<Record<string, number>> {
  const { db, close } = connectDatabase(stand.url, silentLogger, { name: 'bench', max: 2 });
  const [stored] = await stand.query<{ identity: string }>(
    `select identity from sync.clients where client = 'shop-1'`,
  );
  const found: Record<string, number> = {};
  const measure = async (name: string) => {
    await stand.query('vacuum analyze fulfilment.outbox');
    found[name] = round(median(await timeClaims(db, 'shop-1', stored?.identity ?? '', 21)));
    printLine(`a claim with ${name}: ${found[name]} ms`);
  };
  await stand.query(
    `insert into fulfilment.outbox (client, kind, reference) select 'shop-1', 'order.create', 'NEW-' || n from generate_series(1, 1000) n`,
  );
  await measure('1,000 due');
  await stand.query(
    `insert into fulfilment.outbox (client, kind, reference, status, next_attempt_at, finished_at, result)
     overriding system value
     select 'shop-1', 'order.create', 'SO-' || n, 'done', null, now(), '{}' from generate_series(1, 1000000) n`,
  );
  await measure('1,000 due beside 1,000,000 done');
  await stand.query(
    `insert into fulfilment.outbox (client, kind, reference)
     select 'shop-1', 'order.update', 'NEW-1' from generate_series(1, 100000)`,
  );
  await measure('100,000 more behind one of them');
  await close();
  await stand.query('truncate fulfilment.outbox cascade');
  return found;
}

async function measureReaders({ query }: Stand): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  await query('truncate fulfilment.changes');
  for (const size of [10_000, 10_000_000]) {
    await query('alter table fulfilment.changes disable trigger user');
    await query(
      `insert into fulfilment.changes (client, entity, id, operation)
       select 'shop-1', 'shipments', n, 'created' from generate_series(1, $1::int - (select count(*) from fulfilment.changes)::int) n`,
      [size],
    );
    await query('alter table fulfilment.changes enable trigger user');
    await query('vacuum analyze fulfilment.changes');
    const [last] = await query<{ seq: number }>('select max(seq) as seq from fulfilment.changes');
    const after = Number(last?.seq) - 500;
    found[size] = round(
      await measureMedian(21, () =>
        query('select count(*) from fulfilment.changes_since($1)', [after]),
      ),
    );
    printLine(`changes_since, 500 of ${size.toLocaleString('en')} rows: ${found[size]} ms`);
  }
  return found;
}

/**
 * Measures `status` and `/metrics` with 50 clients, with small tables and with two million rows.
 */
async function measureStatusAndMetrics(stand: Stand): Promise<object> {
  const { settings: env, close } = createSettings(stand, clients);
  const found: Record<string, object> = {};
  for (const rows of [0, 2_000_000]) {
    for (const client of clients.slice(1)) await fill(stand, client, rows / (clients.length - 1));
    const worker = stand.start([...stand.program, 'worker'], { ...env, LOG_LEVEL: 'info' });
    let port = '';
    if (worker.stdout)
      for await (const line of createInterface({ input: worker.stdout })) {
        port ||= /"port":(\d+)/.exec(line)?.[1] ?? '';
        if (line.includes('worker_started')) break;
      }
    worker.stdout?.resume();
    const metrics = await measureMedian(11, async () =>
      (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
    );
    const status = await measureStatus(stand, env, bundle);
    await endProcess(worker);
    found[rows] = { metricsMs: round(metrics), statusMs: round(status) };
    printLine(
      `with ${clients.length} clients and ${rows.toLocaleString('en')} rows more: ${JSON.stringify(found[rows])}`,
    );
  }
  close();
  return found;
}

const stand = await openStand(clients);
try {
  const found = {
    people: await measureStatusAndMetrics(stand),
    pageMs: await measurePages(stand),
    claimMs: await measureClaims(stand),
    changesSinceMs: await measureReaders(stand),
  };
  saveResults('growth', { rounds, ...found });
} finally {
  await stand.stop();
}
