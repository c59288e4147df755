import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { type Figures, measureByTurns } from './measure.ts';
import { bulkUpsert, insertOneByOne, PageReader, prepareTables, toRows } from './pull-parts.ts';
import { collectOutput, readLastRate, type Stand } from './stand.ts';

/** Number of rows per shipment: itself and its two items. */
export const rowsEach = 3;
const toRivalPath = (name: string) =>
  fileURLToPath(new URL(`../rivals/${name}.ts`, import.meta.url));

/** Adds shipments with two items each to the sandbox. */
export async function seedShipments({ sandbox }: Stand, shipments: number): Promise<void> {
  const wanted = { client: 'default', shipments, items: 2, statuses: ['SHIPPED'], spreadDays: 60 };
  await sandbox.call('POST', '/_sandbox/seed', wanted);
}

/**
 * Returns the rows per second of @supabase/stripe-sync-engine for equally many rows from a server
 * that imitates Stripe.
 */
async function measureStripeSync(stand: Stand, shipments: number): Promise<number> {
  const server = stand.start([toRivalPath('stripe-server'), String(shipments)]);
  const [line] = await once(server.stdout ?? server, 'data');
  const port = /\d+/.exec(String(line))?.[0] ?? '';
  const output = await collectOutput(
    stand.start([toRivalPath('stripe-sync'), stand.url, port]),
    'stripe-sync',
  );
  server.kill();
  await stand.query('drop schema stripe cascade');
  const { synced, seconds } = JSON.parse(output.trim().split('\n').at(-1) ?? '') as {
    synced: number;
    seconds: number;
  };
  if (synced !== shipments) throw new Error(`stripe-sync-engine took ${synced} of ${shipments}`);
  return (synced * rowsEach) / seconds;
}

interface LoadOptions {
  /** Number of shipments per round. */
  readonly shipments: number;
  readonly rounds: number;
}

/** Measures first loads and the other ways, in rows per second. */
export async function measureLoads(
  stand: Stand,
  { shipments, rounds }: LoadOptions,
): Promise<Figures> {
  const pool = new pg.Pool({ connectionString: stand.url, max: 2 });
  await prepareTables(pool, ['bulk', 'naive']);
  const reader = new PageReader(stand.sandbox.url);
  const writer = await pool.connect();
  const rate = async (work: () => Promise<unknown>) => {
    const startedAtMs = performance.now();
    await work();
    return (shipments * rowsEach * 1_000) / (performance.now() - startedAtMs);
  };
  let from: string | null = null;
  let after: string | null = null;
  let pages: ReturnType<typeof toRows>[] = [];
  const subjects = {
    product: async () => {
      await stand.run(['run', 'pull-shipments']);
      return readLastRate(stand, 'runs', rowsEach);
    },
    'fetch and drop': () => rate(() => reader.read(from, () => undefined)),
    'bulk upsert alone': () =>
      rate(async () => {
        for (const page of pages) await bulkUpsert(writer, 'bulk', page);
      }),
    'stripe-sync-engine': () => measureStripeSync(stand, shipments),
    'one insert a row': () =>
      rate(async () => {
        for (const page of pages) await insertOneByOne(writer, 'naive', page);
      }),
  };
  try {
    return await measureByTurns(rounds, subjects, async () => {
      await seedShipments(stand, shipments);
      from = after;
      pages = [];
      after = await reader.read(from, (page) => void pages.push(toRows(page)));
    });
  } finally {
    writer.release();
    await reader.close();
    await pool.end();
  }
}
