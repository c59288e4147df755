/**
 * Runs a shop in Tryton with the example of examples/tryton: `npm run test:tryton [-- SALES]`, 200
 * by default; with `--api`, Tryton has a database of its own. Sales are shipped in parts, changed,
 * cancelled, refused and returned, purchases arrive short, and each process is killed. At the end,
 * Tryton and the sandbox must agree. Without Tryton it says that nothing was tested, and fails only
 * if TRYTON=required is set. Whatever fails, no program is left, and what they wrote is kept.
 */
import { parseArgs } from 'node:util';
import { silentLogger } from '../src/core/logger.ts';
import { connectDatabase } from '../src/db/connect.ts';
import { compareWithSandbox } from '../test/helpers/oracle.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { compare, type ErpState } from './tryton/compare.ts';
import { hasTryton, Programs } from './tryton/programs.ts';

const daySeconds = 86_400;
/** On a busy machine, a step may take a quarter of an hour. */
const stepMs = 40 * 60_000;

const startedMs = performance.now();
const tell = (text: string) =>
  void process.stdout.write(
    `${((performance.now() - startedMs) / 1_000).toFixed(0).padStart(5)} s  ${text}\n`,
  );

/** Kills a program as soon as a table has this number of rows, and starts it again. */
async function killAt(
  programs: Programs,
  from: string,
  rows: number,
  kill: readonly [string, () => Promise<void>],
): Promise<void> {
  const [name, restart] = kill;
  await waitFor(
    `${rows} rows of ${from}`,
    async () => ((await programs.count(from)) ?? 0) >= rows,
    stepMs,
  );
  await restart();
  tell(`killed: ${name}, at ${rows} rows of ${from}`);
}

const killers = ({ named, postgres }: Programs) =>
  ({
    worker: ['the worker', () => named.worker.restart('SIGKILL')],
    tryton: ['the Tryton server', () => named.tryton.restart('SIGKILL')],
    cron: ['the scheduler of Tryton', () => named.cron.restart('SIGKILL')],
    postgres: ['Postgres', () => postgres.crash()],
    // A service that forgets what it answered is not one to agree with: it saves its state first.
    sandbox: ['the sandbox, by SIGTERM', () => named.sandbox.restart('SIGTERM')],
  }) as const satisfies Record<string, readonly [string, () => Promise<void>]>;

/** Fills the warehouse, and sells, while programs are killed. */
async function sell(programs: Programs, sales: number): Promise<void> {
  const { sandbox } = programs;
  const kill = killers(programs);
  await waitFor('the sandbox', () =>
    sandbox.lastPlace().then(
      () => true,
      () => false,
    ),
  );
  await sandbox.switches({ repeatedNumbers: true });
  await emptyWarehouses(programs);
  await programs.shop('prepare');
  tell('the company, its warehouse and its articles are there');

  const orders = "fulfilment.outbox where kind = 'order.create'";
  await Promise.all([
    programs.shop('sell', '1', String(sales)),
    killAt(programs, orders, sales * 0.2, kill.worker),
    killAt(programs, orders, sales * 0.4, kill.tryton),
    killAt(programs, orders, sales * 0.6, kill.postgres),
    killAt(programs, orders, sales * 0.8, kill.sandbox),
  ]);
  tell(`${sales} sales are confirmed`);

  await settle(programs, 'the first orders');
  tell(`refused and withdrawn: ${await programs.shop('withdraw')}`);
  const refused = await programs.shop('correct');
  tell(`corrected and sent again: ${JSON.stringify(refused)}`);
  await settle(programs, 'the corrected orders');
  tell(`changed: ${await programs.shop('change')}, cancelled: ${await programs.shop('cancel')}`);
  await settle(programs, 'changes and cancels');
}

/** Removes the stock that the sandbox begins with: Tryton knows only what it bought. */
async function emptyWarehouses({ sandbox }: Programs): Promise<void> {
  type Products = { sku: string; stock: Record<string, number> }[];
  const { clients } = await sandbox.call<{ clients: { products: Products }[] }>(
    'GET',
    '/_sandbox/state?lists=products',
  );
  for (const { sku, stock } of clients[0]?.products ?? [])
    for (const warehouse of Object.keys(stock))
      await sandbox.call('POST', '/_sandbox/stock', {
        client: 'default',
        sku,
        warehouse,
        quantity: 0,
      });
}

/** Runs the task of Tryton until each request has an outcome and each change is booked. */
async function settle(programs: Programs, what: string): Promise<void> {
  const endMs = performance.now() + stepMs;
  for (;;) {
    const left = await programs.shop<{ changes: number; requests: number }>('follow');
    if (left.changes === 0 && left.requests === 0) return;
    if (performance.now() > endMs)
      throw new Error(`Tryton did not book ${what}: ${JSON.stringify(left)}`);
  }
}

/** Lets the warehouse work for a month and a half, while programs are killed. */
async function ship(programs: Programs, sales: number): Promise<void> {
  const kill = killers(programs);
  const booked = 'stock_shipment_out where fulfilment_id is not null';
  await buy(programs);

  await Promise.all([
    warehouseWorks(programs),
    killAt(programs, booked, sales * 0.1, kill.cron),
    killAt(programs, booked, sales * 0.3, kill.tryton),
    killAt(programs, booked, sales * 0.5, kill.postgres),
    killAt(programs, booked, sales * 0.6, kill.worker),
    killAt(programs, booked, sales * 0.7, kill.sandbox),
  ]);
  await settle(programs, 'what is left');
}

/** Announces purchases. The service refuses the first, which is sent again. */
async function buy(programs: Programs): Promise<void> {
  const refusal = { operation: 'v3.inboundPackingSlips.create', count: 1, effect: { status: 422 } };
  await programs.sandbox.faults(refusal);
  await programs.shop('buy', '24');
  await settle(programs, 'the purchases');
  tell(`refused purchases sent again: ${await programs.shop('send_again')}`);
  await settle(programs, 'the refused purchase');
}

async function warehouseWorks(programs: Programs): Promise<void> {
  for (let day = 0; day < 6; day++) await advance(programs, daySeconds);
  await settle(programs, 'the first shipments');
  await announceReturns(programs);
  for (let day = 0; day < 40; day += 5) await advance(programs, 5 * daySeconds);
  await mirror(programs);
  await settle(programs, 'everything');
}

/** Advances the sandbox, also if it is just being started again. */
const advance = ({ sandbox }: Programs, seconds: number) =>
  waitFor('the sandbox', () =>
    sandbox.advance(seconds).then(
      () => true,
      () => false,
    ),
  );

/** Customers send one piece of each item of some shipments back. */
async function announceReturns({ sandbox }: Programs): Promise<void> {
  type Shipments = { resource: { id: number; attributes: { status: string } } }[];
  const { clients } = await sandbox.call<{ clients: { shipments: Shipments }[] }>(
    'GET',
    '/_sandbox/state?lists=shipments',
  );
  const shipped = (clients[0]?.shipments ?? [])
    .map(({ resource }) => resource)
    .filter(({ attributes }) => attributes.status === 'SHIPPED');
  const chosen = shipped.filter((_, index) => index % 8 === 0);
  for (const { id } of chosen)
    await sandbox.call('POST', '/_sandbox/return', {
      client: 'default',
      shipmentId: id,
      quantity: 1,
    });
  tell(`announced ${chosen.length} returns of ${shipped.length} shipments`);
}

/** Waits until the tables show what the sandbox has, and the stock of every article. */
async function mirror(programs: Programs): Promise<void> {
  const { urls, sandbox } = programs;
  const { db, close } = connectDatabase(urls.fulfilment, silentLogger, { name: 'test', max: 2 });
  try {
    await waitFor(
      'the tables to agree with the sandbox',
      async () => (await compareWithSandbox(db, sandbox.url).catch(() => ['?'])).length === 0,
      stepMs,
    );
    const { now } = await sandbox.call<{ now: string }>('GET', '/_sandbox/state?lists=products');
    tell(`the tables agree with the sandbox at ${now}`);
    const since = new Date().toISOString();
    const stale = `fulfilment.stock_levels where asked_at < '${since}'`;
    await waitFor('the stock', async () => (await programs.count(stale)) === 0, stepMs);
  } finally {
    await close();
  }
}

/** Runs the whole story, and returns the differences at its end. */
async function play(sales: number, usesApi: boolean): Promise<readonly string[]> {
  const programs = await Programs.start(usesApi, tell);
  let hasSucceeded = false;
  try {
    await sell(programs, sales);
    await ship(programs, sales);
    const erp = await programs.shop<ErpState>('report');
    const { counts, differences } = await compare(erp, programs.sandbox);

    const numbers = Object.entries(counts).map(([name, n]) => `${name} ${n}`);
    tell(numbers.join(', '));
    hasSucceeded = differences.length === 0;
    return differences;
  } finally {
    await programs.stop();
    if (hasSucceeded) programs.forget();
    else tell(`what the programs wrote: ${programs.folder}`);
  }
}

if (hasTryton()) {
  const options = { api: { type: 'boolean', default: false } } as const;
  const { positionals, values } = parseArgs({ allowPositionals: true, options });
  const differences = await play(Number(positionals[0] ?? 200), values.api);
  for (const difference of differences) tell(difference);
  tell(differences.length === 0 ? 'Tryton and the sandbox agree' : 'they do not agree');
  if (differences.length > 0) process.exitCode = 1;
} else {
  process.stdout.write(
    'SKIPPED: Tryton is not installed here, so nothing was tested (examples/tryton/README.md)\n',
  );
  if (process.env.TRYTON === 'required') process.exitCode = 1;
}
