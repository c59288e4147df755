/**
 * Shipments with two items each from the sandbox into Postgres, beside four other ways to do the same or a part of it:
 * `npm run --silent bench:pull -- [SHIPMENTS] [ROUNDS]`. They run by turns, on one Postgres.
 */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { waitFor } from '../test/helpers/wait.ts';
import { bulkUpsert, insertOneByOne, PageReader, prepareTables, rowsOf } from './pull-parts.ts';
import { byTurns, keep, median, ratio, round, say } from './stand/measure.ts';
import { lastRate, openStand, outputOf, type Stand } from './stand/stand.ts';

const total = Number(process.argv[2] ?? 200_000);
const rounds = Number(process.argv[3] ?? 5);
const slice = Math.round(total / rounds);
/** A shipment and its items. */
const rowsEach = 3;
const rival = (name: string) => fileURLToPath(new URL(`./rivals/${name}.ts`, import.meta.url));

/** Rows a second of @supabase/stripe-sync-engine, reading as many from a server of its own shape. */
async function stripe(stand: Stand): Promise<number> {
  const server = stand.start([rival('stripe-server'), String(slice)]);
  const [line] = await once(server.stdout ?? server, 'data');
  const port = /\d+/.exec(String(line))?.[0] ?? '';
  const output = await outputOf(stand.start([rival('stripe-sync'), stand.url, port]), 'stripe-sync');
  server.kill();
  await stand.query('drop schema stripe cascade');
  const { synced, seconds } = JSON.parse(output.trim().split('\n').at(-1) ?? '') as { synced: number; seconds: number };
  if (synced !== slice) throw new Error(`stripe-sync-engine took ${synced} of ${slice}`);
  return (synced * rowsEach) / seconds;
}

/** As many shipments more as one round takes. */
async function seed({ sandbox }: Stand): Promise<void> {
  const wanted = { client: 'default', shipments: slice, items: 2, statuses: ['SHIPPED'], spreadDays: 60 };
  await sandbox.call('POST', '/_sandbox/seed', wanted);
}

/** Row versions written in schema fulfilment so far. */
async function versions({ query }: Stand): Promise<number> {
  // Sessions tell what they wrote when they end.
  const sessions = `select from pg_stat_activity where application_name like 'fulfilment-sync%'`;
  await waitFor('the sessions to end', async () => (await query(sessions)).length === 0);
  const [row] = await query<{ n: number }>(
    `select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as n from pg_stat_user_tables where schemaname = 'fulfilment'`,
  );
  return row?.n ?? 0;
}

/** Reads all of it again. */
async function rescan(stand: Stand): Promise<{ rowsPerSecond: number; rowVersions: number }> {
  const before = await versions(stand);
  await stand.run(['backfill', 'shipments']);
  return { rowsPerSecond: await lastRate(stand, 'rescans', rowsEach), rowVersions: (await versions(stand)) - before };
}

/** One of a hundred shipments gets another return label. */
async function changeOneInAHundred({ query, sandbox }: Stand, turn: number): Promise<void> {
  const found = await query<{ id: number }>('select id::int from fulfilment.shipments where id % 100 = 0');
  const shipmentIds = found.map(({ id }) => id);
  await sandbox.call('POST', '/_sandbox/edit', { client: 'default', shipmentIds, returnLabel: `RL-${turn}` });
}

async function rescans(stand: Stand) {
  const unchanged: number[] = [];
  const changed: number[] = [];
  const written = { unchanged: 0, changed: 0 };
  const figures = await byTurns(rounds, {
    're-scan, unchanged': async () => {
      const { rowsPerSecond, rowVersions } = await rescan(stand);
      unchanged.push(rowVersions);
      return rowsPerSecond;
    },
    're-scan, 1 % changed': async (turn) => {
      await changeOneInAHundred(stand, turn);
      const { rowsPerSecond, rowVersions } = await rescan(stand);
      changed.push(rowVersions);
      return rowsPerSecond;
    },
  });
  written.unchanged = Math.max(...unchanged);
  written.changed = median(changed);
  return { figures, written };
}

/** First loads and what they are held against, rows a second. */
async function loads(stand: Stand, pool: pg.Pool) {
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
  let pages: ReturnType<typeof rowsOf>[] = [];
  const figures = await byTurns(
    rounds,
    {
      product: async () => {
        await stand.run(['run', 'pull-shipments']);
        return lastRate(stand, 'runs', rowsEach);
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
      'stripe-sync-engine': () => stripe(stand),
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
      after = await reader.read(from, (page) => void pages.push(rowsOf(page)));
    },
  );
  writer.release();
  await reader.close();
  return figures;
}

/** Opens all that `work` needs, and closes it however that ends. */
async function within<T>(work: (stand: Stand) => Promise<T>): Promise<T> {
  const stand = await openStand();
  try {
    return await work(stand);
  } finally {
    await stand.stop();
  }
}

const figures = await within(async (stand) => {
  const pool = new pg.Pool({ connectionString: stand.url, max: 2 });
  return loads(stand, pool).finally(() => pool.end());
});
const again = await within(async (stand) => {
  await seed(stand);
  await stand.run(['run', 'pull-shipments']);
  return rescans(stand);
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
    round(ratio(figures, 'product', name)),
  ]),
);
for (const [name, value] of Object.entries(rowsPerSecond))
  say(`${name.padEnd(22)} ${value.toLocaleString('en')} rows/s`);
say(JSON.stringify(ratios));
say(`row versions written by a re-scan: unchanged ${again.written.unchanged}, 1 % changed ${again.written.changed}`);
keep('pull', { shipments: total, rescanned: slice, rounds, rowsPerSecond, ratios, rowVersions: again.written, found });
