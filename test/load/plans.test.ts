import { expect, test } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { connectForWriting } from '../../src/db/connect.ts';
import { claimDeliveries, settleAttempt } from '../../src/operate/sql/claim-deliveries.ts';
import { makeEvents } from '../../src/operate/sql/make-events.ts';
import { registerReceivers } from '../../src/operate/sql/receivers.ts';
import { useDatabase } from '../helpers/database.ts';
import { insertShipments } from '../helpers/event-receiver.ts';
import { orderPayload } from '../helpers/order-payload.ts';
import { dailyJobs, done, usePuller } from '../helpers/puller.ts';
import { usePusher } from '../helpers/pusher.ts';
import { lively, useSandbox } from '../helpers/sandbox.ts';
import { type ExecutedStatement, watchPlans } from '../helpers/schema/plans.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const { push, insert, connect } = usePusher(database, sandbox);

/** Mirror tables, parents before their lines. */
const mirrors = [
  'orders',
  'order_items',
  'order_addresses',
  'shipments',
  'shipment_items',
  'return_items',
  'inbounds',
  'inbound_items',
  'inbound_packing_slips',
  'inbound_packing_slip_items',
  'track_traces',
  'parcels',
];
/** Number of copies of each row that the client `big` gets. */
const copies = 20;

/**
 * Moves all rows to the client `big`, in many copies, and analyzes. Statistics do not know
 * `default` then.
 */
async function makeKnownClient(): Promise<void> {
  const tables = await database.query<{ name: string; columns: string[]; ids: string[] }>(
    `select table_name as name, json_agg(column_name) as columns,
       coalesce(json_agg(column_name) filter (where data_type = 'bigint' and column_name ~ '(^|_)id$'), '[]') as ids
     from information_schema.columns where table_schema = 'fulfilment' and table_name = any($1) group by 1`,
    [mirrors],
  );
  const makeRows = mirrors.map((name) => {
    const { columns = [], ids = [] } = tables.find((table) => table.name === name) ?? {};
    const given: Record<string, string> = { client: `'big'`, raw: `'{}'` };
    const shown = (column: string) =>
      ids.includes(column) ? `t.${column} + n * 10000000` : `t.${column}`;
    const values = columns.map((column) => given[column] ?? shown(column));
    return `insert into fulfilment.${name} (${columns.join()})
            select ${values.join()} from fulfilment.${name} t, generate_series(1, ${copies}) n;
            delete from fulfilment.${name} where client = 'default';`;
  });
  // As on a replica, without checks of foreign keys, which this test is not about.
  await database.query(`
    set session_replication_role = replica;
    ${makeRows.join('')}
    insert into fulfilment.outbox (client, kind, reference, payload, status, attempts, next_attempt_at, finished_at, result)
      select 'big', 'order.create', 'B-' || n, '{}', 'done', 1, null, now(), '{}' from generate_series(1, 20000) n;
    insert into sync.waiting_reads (client, resource, id, tries, next_at, reason)
      select 'big', 'parcels', n, 0, now() + interval '1 hour', 'aging' from generate_series(1, 20000) n
      union all
      select 'big', resource, n, 1, now(), 'read_failed' from generate_series(1, 5000) n, unnest(array['orders', 'shipments']) resource;
    insert into fulfilment.stock_watch (client, sku) select 'big', 'S-' || n from generate_series(1, 20000) n;
    insert into fulfilment.stock_levels (client, sku, stock, asked_at) select client, sku, 1, now() from fulfilment.stock_watch;
    set session_replication_role = origin;
    insert into fulfilment.outbox (client, kind, reference, payload)
      select 'big', 'order.update', 'B-' || n, '{}' from generate_series(1, 5000) n`);
  await forgetClient();
  await database.query('analyze');
}

/**
 * Inserts outbox rows and watched articles for the client `default`, which statistics do not know.
 */
async function enqueue(): Promise<void> {
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select kind, 'NEW-' || n, case kind when 'order.create' then jsonb_set($1, '{externalOrderNumber}', to_jsonb('NEW-' || n)) else '{}' end
     from generate_series(1, 100) n, unnest(array['order.create', 'order.cancel']) with ordinality k (kind, place) order by n, place`,
    [JSON.stringify(orderPayload('?'))],
  );
  await database.query(`insert into fulfilment.stock_watch (sku) values ('MUG-BLUE'), ('MUG-RED')`);
}

/** Loads everything, then reads the changes of a day. */
async function runAllJobs(): Promise<void> {
  for (const seconds of [1, 86_400]) {
    await sandbox.advance(seconds);
    await database.query('truncate sync.turns');
    for (const job of dailyJobs) done(await pull(job));
    await push();
  }
}

/** Deletes the rows of the client `default` and the cursors of its polls. */
async function forgetClient(): Promise<void> {
  const deletes = mirrors
    .map((name) => `delete from fulfilment.${name} where client = 'default';`)
    .join('');
  await database.query(`
    set session_replication_role = replica;
    ${deletes}
    truncate sync.cursors, sync.freshness, sync.jobs;
    set session_replication_role = origin`);
}

/** Returns the statements that touched more rows than `bound`, with the number of rows. */
const findAbove = (executed: readonly ExecutedStatement[], bound: number) =>
  Object.fromEntries(
    executed
      // The feed is numbered for all clients together: it touches each change that waits.
      .filter(({ statement }) => !statement.includes('delete from sync.new_changes'))
      .filter(({ touched }) => touched > bound)
      .map(({ statement, touched }) => [statement, Math.round(touched)]),
  );

test('the rows that a statement touches depend on its client, known to statistics or not', async () => {
  await sandbox.advance(10 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  const [{ lines } = { lines: 0 }] = await database.query<{ lines: number }>(
    'select count(*)::int as lines from fulfilment.shipment_items',
  );
  await makeKnownClient();
  await enqueue();
  const { executed, end } = await watchPlans(database);
  try {
    await runAllJobs();
    // Once more, from the beginning: now statistics know the client.
    await database.query('analyze');
    await forgetClient();
    await runAllJobs();
  } finally {
    end();
  }
  expect(new Set(executed.map(({ statement }) => statement)).size).toBeGreaterThan(100);
  expect(findAbove(executed, lines * 12)).toEqual({});
});

test('a claim does not read the other orders of its client', async () => {
  const insertMirrored = (client: string) =>
    database.query(
      `insert into fulfilment.orders (client, id, external_order_number, raw, read_no)
       select $1, n, 'OLD-' || n, '{}', 1 from generate_series(1, 3000) n`,
      [client],
    );
  await insertMirrored('big');
  await database.query('analyze');
  await insertMirrored('default');
  const { executed, end } = await watchPlans(database);
  try {
    for (let number = 1; number <= 10; number++)
      await database.query(
        `insert into fulfilment.outbox (kind, reference) values ('order.cancel', $1)`,
        [`NEW-${number}`],
      );
    await push();
  } finally {
    end();
  }
  const claims = executed.filter(({ statement }) => statement.includes('"knownCount"'));
  expect(claims.length).toBeGreaterThan(0);
  expect(findAbove(claims, 1_000)).toEqual({});
});

test('plans that were made while the outbox was empty do not search a later backlog', async () => {
  const [orders, waiting] = [60, 5_000];
  const place = (number: string) => insert('order.create', number, orderPayload(number));
  const { executed, end } = await watchPlans(database);
  // One session, so that each statement of the second push was planned in the first.
  const open = (name: string) =>
    connectForWriting(database.url, silentLogger, { name, max: 1, prepares: true });
  connect({ main: open('push'), claims: open('claims') });
  try {
    await place('FIRST');
    await push();
    await database.query(
      `insert into fulfilment.outbox (kind, reference, payload, not_before)
       select 'order.create', 'LATER-' || n, '{}', now() + interval '1 day' from generate_series(1, $1::int) n`,
      [waiting],
    );
    for (let number = 1; number <= orders; number++) await place(`NEW-${number}`);
    executed.length = 0;
    await push();
  } finally {
    end();
  }
  const settlements = executed.filter(({ statement }) =>
    statement.includes('sync.outbox_attempts'),
  );
  expect(settlements.length).toBeGreaterThan(0);
  expect(findAbove(executed, waiting)).toEqual({});
});

test('100,000 waiting deliveries, 20,000 of them in one lane, are searched by no claim and no new event', async () => {
  const { executed, end } = await watchPlans(database);
  // One session, whose statements are planned while the table is empty. Nothing is ever analyzed.
  const { db, close } = connectForWriting(database.url, silentLogger, {
    name: 'test',
    max: 1,
    prepares: true,
  });
  await registerReceivers(db, [{ name: 'all', kind: 'event', types: null, clients: null }]);
  const turns: string[] = [];
  let lastTurn = '';
  const claim = async () => {
    const claimed = await claimDeliveries(db, {
      receiver: 'all',
      underWay: 0,
      lastTurn,
      leaseMs: 60_000,
    });
    lastTurn = claimed.at(-1)?.turn ?? lastTurn;
    turns.push(...claimed.map(({ turn }) => turn));
    for (const delivery of claimed)
      await settleAttempt(
        db,
        { receiver: 'all', delivery, end: { status: 'delivered' }, failure: null },
        (state) => ({
          ...state,
          delayMs: 0,
        }),
      );
  };
  try {
    await insertShipments(database, 1, 1);
    await makeEvents(db);
    await claim();
    const insertWaiting = (client: string, count: number, lane: string, nextAt: string) =>
      database.query(`
        insert into sync.deliveries (receiver, type, client, turn, lane, source_id, happened_at, next_at)
        select 'all', 'shipment.created', '${client}', '${client}', ${lane}, n, now(), ${nextAt} from generate_series(1, ${count}) n`);
    await database.query('alter table sync.deliveries set (autovacuum_enabled = off)');
    await insertWaiting(
      'big',
      20_000,
      `'big order 1'`,
      `case n when 1 then now() + interval '1 day' end`,
    );
    await insertWaiting('big', 80_000, `'big lane ' || n`, 'now()');
    await insertWaiting('small', 200, `'small lane ' || n`, 'now()');
    turns.length = 0;
    executed.length = 0;
    for (let number = 0; number < 10; number++) await claim();
    await insertShipments(database, 2, 40, 'big');
    await makeEvents(db);
  } finally {
    await close();
    end();
  }
  expect(executed.length).toBeGreaterThan(50);
  expect(findAbove(executed, 2_000)).toEqual({});
  expect(turns.filter((turn) => turn === 'small')).toHaveLength(40);
});
