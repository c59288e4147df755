import { expect, test } from 'vitest';
import { openRescan } from '../../../src/pull/sql/rescans.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList, quiet } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, reconcile } = usePulls(quiet);

const tooManyExtras = { status: 'failed', error: { code: 'too_many_extras' } };

/**
 * Inserts orders that the service does not have. They are dated `daysAgo` days before the sandbox's
 * today.
 */
const addOrders = (
  count: number,
  { daysAgo, fromId = 900_000 }: { daysAgo: number; fromId?: number },
) =>
  database.query(
    `insert into fulfilment.orders (client, id, external_order_number, ordered_on, raw, read_no, first_seen_at)
     select 'default', $3 + n, 'GONE-' || n, date '2026-05-04' - $2::int, '{}', 0, now() - interval '1 day'
     from generate_series(1, $1) n`,
    [count, daysAgo, fromId],
  );
const countUnlisted = () => database.count('fulfilment.orders where unlisted_since is not null');
const readReconciliations = (stream = 'orders') =>
  database.query<{ outcome: string; error: string | null; slice: string; extra: number }>(
    `select outcome, error, windows -> 1 ->> 'before' as slice, extra from sync.rescans where stream = $1 order by id`,
    [stream],
  );
const reconcileOnSchedule = async () => {
  await database.query(`update sync.jobs set next_at = now() where job = 'reconcile'`);
  return pull('reconcile', { trigger: 'schedule' });
};

test('a slice that lacks too many rows is recorded; other windows and later slices are checked', async () => {
  await sandbox.seed(60);
  done(await pull('pull-orders'));
  await addOrders(5, { daysAgo: 30, fromId: 800_000 });
  await addOrders(60, { daysAgo: 398 });
  expect((await reconcileOnSchedule()).status).toBe('failed');
  // The missing rows of recent days are marked as unlisted.
  expect(await countUnlisted()).toBe(5);
  // A run before the next due time checks the same slice and fails again.
  expect((await reconcileOnSchedule()).status).toBe('failed');
  await database.query(`update sync.rescans set finished_at = finished_at - interval '1 day'`);
  done(await reconcileOnSchedule());
  const [first, repeated, second] = await readReconciliations();
  expect(repeated?.slice).toBe(first?.slice);
  expect(first).toMatchObject({
    outcome: 'failed',
    extra: 5,
    error: expect.stringMatching(
      /lacks 21 or more of the 60 rows after 2025-\S+ before 2025-\S+ that are stored here/,
    ),
  });
  expect(first?.error).toContain('fulfilment-sync reconcile orders --accept-missing');
  expect(second?.outcome).toBe('done');
  expect(Date.parse(second?.slice ?? '')).toBeGreaterThan(Date.parse(first?.slice ?? ''));
});

test('too many missing rows are never marked in a stream without a read by id', async () => {
  const relationships = {};
  const attributes = { sku: 'MUG', quantity: 1, processedOn: '2026-05-01' };
  const listed = { id: 1, type: 'returnItem', attributes, relationships };
  const set = [
    { path: ['data'], value: [listed] },
    { path: ['links'], value: {} },
  ];
  await sandbox.faults({ operation: 'v3.returnItems.list', effect: { set } });
  await database.query(
    `insert into fulfilment.return_items (client, id, processed_on, raw, read_no, first_seen_at)
     select 'default', 100 + n, date '2026-04-20', '{}', 0, now() - interval '1 day' from generate_series(1, 40) n`,
  );
  for (let walks = 0; walks < 3; walks++)
    expect(await reconcile('return-items')).toMatchObject({ report: tooManyExtras });
  expect(await database.count('fulfilment.return_items where unlisted_since is not null')).toBe(0);
});

test('two reconciliations that lack a row count only if none between them showed it', async () => {
  const list = async (ids: readonly number[], links = {}) => {
    await sandbox.clearFaults();
    const attributes = { sku: 'MUG', quantity: 1, processedOn: '2026-05-01' };
    const data = ids.map((id) => ({ id, type: 'returnItem', attributes, relationships: {} }));
    const set = [
      { path: ['data'], value: data },
      { path: ['links'], value: links },
    ];
    await sandbox.faults({ operation: 'v3.returnItems.list', effect: { set } });
  };
  const readMarked = () => database.ids('fulfilment.return_items where unlisted_since is not null');
  await list([1, 2]);
  done(await pull('pull-return-items'));
  await database.query(`update fulfilment.return_items set first_seen_at = '2026-05-01'`);
  await list([1]);
  await reconcile('return-items');
  await list([1, 2], { next: 'https://elsewhere.example/' });
  expect(await reconcile('return-items')).toMatchObject({ report: { status: 'failed' } });
  await list([1]);
  for (const marked of [[], [], [2]]) {
    await reconcile('return-items');
    expect(await readMarked()).toEqual(marked);
  }
});

test('an operator can accept that missing rows are gone, but not if the list is empty', async () => {
  await sandbox.seed(60);
  done(await pull('pull-orders'));
  await addOrders(60, { daysAgo: 398 });
  const accept = () => reconcile('orders', { acceptMissing: true });
  await sandbox.faults({ operation: 'v3.orders.list', effect: emptyList });
  expect(await accept()).toMatchObject({ report: tooManyExtras });
  expect(await countUnlisted()).toBe(0);
  await sandbox.clearFaults();
  expect(await accept()).toMatchObject({ report: { status: 'done' }, rescan: { extra: 60 } });
  expect(await countUnlisted()).toBe(60);
});

test('a repeated reconciliation reads only the streams that failed', async () => {
  await sandbox.seed(20);
  for (const job of ['pull-orders', 'pull-shipments'] as const) done(await pull(job));
  await sandbox.faults({ operation: 'v3.shipments.list', effect: { status: 500 } });
  expect((await reconcileOnSchedule()).status).toBe('failed');
  await sandbox.clearFaults();
  const place = await sandbox.lastPlace();
  done(await reconcileOnSchedule());
  const operations = new Set((await sandbox.requests(place)).map(({ operation }) => operation));
  expect([...operations].filter((operation) => operation?.endsWith('.list'))).toEqual([
    'v3.shipments.list',
  ]);
  // After a success the next run reads all streams, on the same day and on the next day.
  done(await reconcileOnSchedule());
  expect((await readReconciliations('orders')).length).toBe(2);
  await database.query(`update sync.rescans set finished_at = finished_at - interval '1 day'`);
  done(await reconcileOnSchedule());
  expect((await readReconciliations('orders')).length).toBe(3);
});

test('a foreground backfill does not end a reconciliation that has run for more than a day', async () => {
  const request = { client: 'default', stream: 'orders', from: null, to: null };
  const { id } = await openRescan(database.db, { ...request, kind: 'reconcile', background: true });
  await database.query(
    `update sync.rescans set started_at = now() - interval '30 hours', windows = '[]', read_no = 1`,
  );
  await openRescan(database.db, { ...request, kind: 'backfill', background: false });
  await openRescan(database.db, { ...request, kind: 'reconcile', background: false });
  expect(await database.query('select outcome from sync.rescans where id = $1', [id])).toEqual([
    { outcome: null },
  ]);
});
