/**
 * Measures how fast shipments with two items each are pulled from the sandbox into Postgres, and compares that with
 * four other ways to do the same or a part of it: `npm run --silent bench:pull -- [SHIPMENTS] [ROUNDS]`. They run by
 * turns, on one Postgres.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { waitFor } from '../test/helpers/wait.ts';
import { bulkUpsert, insertOneByOne, PageReader, prepareTables, toRows } from './pull-parts.ts';
import { measureByTurns, median, medianRatio, printLine, round, saveResults } from './stand/measure.ts';
import { collectOutput, openStand, readLastRate, type Stand } from './stand/stand.ts';

const total = Number(process.argv[2] ?? 200_000);
const rounds = Number(process.argv[3] ?? 5);
const slice = Math.round(total / rounds);
/** Number of rows per shipment: itself and its two items. */
const rowsEach = 3;
const toRivalPath = (name: string) => fileURLToPath(new URL(`./rivals/${name}.ts`, import.meta.url));

/**
 * Returns the rows per second of @supabase/stripe-sync-engine for equally many rows from a server that imitates Stripe.
 */
async function measureStripeSync(stand: Stand): Promise<number> {
  const server = stand.start([toRivalPath('stripe-server'), String(slice)]);
  const [line] = await once(server.stdout ?? server, 'data');
  const port = /\d+/.exec(String(line))?.[0] ?? '';
  const output = await collectOutput(stand.start([toRivalPath('stripe-sync'), stand.url, port]), 'stripe-sync');
  server.kill();
  await stand.query('drop schema stripe cascade');
  const { synced, seconds } = JSON.parse(output.trim().split('\n').at(-1) ?? '') as { synced: number; seconds: number };
  if (synced !== slice) throw new Error(`stripe-sync-engine took ${synced} of ${slice}`);
  return (synced * rowsEach) / seconds;
}

/** Adds the shipments of one round to the sandbox. */
async function seed({ sandbox }: Stand): Promise<void> {
  const wanted = { client: 'default', shipments: slice, items: 2, statuses: ['SHIPPED'], spreadDays: 60 };
  await sandbox.call('POST', '/_sandbox/seed', wanted);
}

/** Counts the row versions that have been written in schema fulfilment. */
async function countRowVersions({ query }: Stand): Promise<number> {
  // Sessions report their writes to the statistics when they end.
  const sessions = `select from pg_stat_activity where application_name like 'fulfilment-sync%'`;
  await waitFor('the sessions to end', async () => (await query(sessions)).length === 0);
  const [row] = await query<{ n: number }>(
    `select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as n from pg_stat_user_tables where schemaname = 'fulfilment'`,
  );
  return row?.n ?? 0;
}

/** Reads all shipments again. */
async function measureRescan(stand: Stand): Promise<{ rowsPerSecond: number; rowVersions: number }> {
  const before = await countRowVersions(stand);
  await stand.run(['backfill', 'shipments']);
  return {
    rowsPerSecond: await readLastRate(stand, 'rescans', rowsEach),
    rowVersions: (await countRowVersions(stand)) - before,
  };
}

/** Changes the return label of every hundredth shipment. */
async function changeOneInAHundred({ query, sandbox }: Stand, turn: number): Promise<void> {
  const found = await query<{ id: number }>('select id::int from fulfilment.shipments where id % 100 = 0');
  const shipmentIds = found.map(({ id }) => id);
  await sandbox.call('POST', '/_sandbox/edit', { client: 'default', shipmentIds, returnLabel: `RL-${turn}` });
}

async function measureRescans(stand: Stand) {
  const unchanged: number[] = [];
  const changed: number[] = [];
  const written = { unchanged: 0, changed: 0 };
  const figures = await measureByTurns(rounds, {
    're-scan, unchanged': async () => {
      const { rowsPerSecond, rowVersions } = await measureRescan(stand);
      unchanged.push(rowVersions);
      return rowsPerSecond;
    },
    're-scan, 1 % changed': async (turn) => {
      await changeOneInAHundred(stand, turn);
      const { rowsPerSecond, rowVersions } = await measureRescan(stand);
      changed.push(rowVersions);
      return rowsPerSecond;
    },
  });
  written.unchanged = Math.max(...unchanged);
  written.changed = median(changed);
  return { figures, written };
}

/** Measures first loads and the other ways, in rows per second. */
async function measureLoads(stand: Stand, pool: pg.Pool) {
  await prepareTables(pool, ['bulk', 'naive']);
  const reader = new PageReader(stand.sandbox.url);
  const writer = await pool.connect();
  const rate = async (rows: number, work: Promise<unknown>) => {
    const startedAtMs = performance.now();
    await work;
    return (rows * 1_000) / (performance.now() - startedAtMs);
  };
  let from: string | null = null;
  let after: string | null = null;
  let pages: ReturnType<typeof toRows>[] = [];
  const figures = await measureByTurns(
    rounds,
    {
      product: async () => {
        await stand.run(['run', 'pull-shipments']);
        return readLastRate(stand, 'runs', rowsEach);
      },
      'fetch and drop': () =>
        rate(
          slice * rowsEach,
          reader.read(from, () => undefined),
        ),
      'bulk upsert alone': () =>
        rate(
          slice * rowsEach,
          (async () => {
            for (const page of pages) await bulkUpsert(writer, 'bulk', page);
          })(),
        ),
      'stripe-sync-engine': () => measureStripeSync(stand),
      'one insert a row': () =>
        rate(
          slice * rowsEach,
          (async () => {
            for (const page of pages) await insertOneByOne(writer, 'naive', page);
          })(),
        ),
    },
    async () => {
      await seed(stand);
      from = after;
      pages = [];
      after = await reader.read(from, (page) => void pages.push(toRows(page)));
    },
  );
  writer.release();
  await reader.close();
  return figures;
}

/** Opens a stand for `work`, and stops it afterwards, even if `work` fails. */
async function withStand<T>(work: (stand: Stand) => Promise<T>): Promise<T> {
  const stand = await openStand();
  try {
    return await work(stand);
  } finally {
    await stand.stop();
  }
}

const figures = await withStand(async (stand) => {
  const pool = new pg.Pool({ connectionString: stand.url, max: 2 });
  return measureLoads(stand, pool).finally(() => pool.end());
});
const again = await withStand(async (stand) => {
  await seed(stand);
  await stand.run(['run', 'pull-shipments']);
  return measureRescans(stand);
});
const found = { ...figures, ...again.figures };
const rowsPerSecond = Object.fromEntries(Object.entries(found).map(([name, values]) => [name, round(median(values))]));
const slower =
  (rowsPerSecond['fetch and drop'] ?? 0) < (rowsPerSecond['bulk upsert alone'] ?? 0)
    ? 'fetch and drop'
    : 'bulk upsert alone';
const ratios = Object.fromEntries(
  ['stripe-sync-engine', slower, 'one insert a row'].map((name) => [
    `product : ${name}`,
    round(medianRatio(figures, 'product', name)),
  ]),
);
for (const [name, value] of Object.entries(rowsPerSecond))
  printLine(`${name.padEnd(22)} ${value.toLocaleString('en')} rows/s`);
printLine(JSON.stringify(ratios));
printLine(
  `row versions written by a re-scan: unchanged ${again.written.unchanged}, 1 % changed ${again.written.changed}`,
);
saveResults('pull', {
  shipments: total,
  rescanned: slice,
  rounds,
  rowsPerSecond,
  ratios,
  rowVersions: again.written,
  found,
});
