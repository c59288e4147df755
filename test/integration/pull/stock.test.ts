import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);

const watch = (...skus: string[]) =>
  database.query('insert into fulfilment.stock_watch (sku) select * from unnest($1::text[])', [
    skus,
  ]);
const levels = () => database.query('select sku, stock from fulfilment.stock_levels order by sku');
const setStockAnswer = (result: unknown) =>
  sandbox.faults({
    operation: 'oldest.stock.get',
    effect: { set: [{ path: ['result'], value: result }] },
  });

test('the stock of watched articles is stored, and removed when nobody watches them any more', async () => {
  await watch('MUG-RED', 'MUG-BLUE');
  expect(done(await pull('pull-stock'))).toMatchObject({ fetched: 2, created: 2, warnings: [] });
  const before = await levels();
  expect(before).toMatchObject([{ sku: 'MUG-BLUE' }, { sku: 'MUG-RED' }]);
  for (const { stock } of before) expect(stock).toBeGreaterThan(0);
  expect(done(await pull('pull-stock'))).toMatchObject({
    fetched: 2,
    created: 0,
    updated: 0,
    unchanged: 2,
  });
  await setStockAnswer(3);
  await database.query(`delete from fulfilment.stock_watch where sku = 'MUG-BLUE'`);
  expect(done(await pull('pull-stock'))).toMatchObject({ fetched: 1, updated: 1, removed: 1 });
  expect(await levels()).toEqual([{ sku: 'MUG-RED', stock: 3 }]);
  expect(
    await database.query('select entity, key, operation from fulfilment.changes order by seq'),
  ).toEqual([
    { entity: 'stock_levels', key: 'MUG-BLUE', operation: 'created' },
    { entity: 'stock_levels', key: 'MUG-RED', operation: 'created' },
    { entity: 'stock_levels', key: 'MUG-RED', operation: 'updated' },
    { entity: 'stock_levels', key: 'MUG-BLUE', operation: 'removed' },
  ]);
});

test('requests are a quarter of a second apart', async () => {
  await watch('MUG-RED', 'MUG-BLUE', 'no such / one?');
  const startedAtMs = performance.now();
  const report = done(await pull('pull-stock'));
  const tookMs = performance.now() - startedAtMs;
  const asked = (await sandbox.requests()).filter(({ path }) => path.startsWith('/stock/get/'));
  expect(asked.map(({ path }) => path)).toEqual([
    '/stock/get/MUG-BLUE',
    '/stock/get/MUG-RED',
    '/stock/get/no%20such%20%2F%20one%3F',
  ]);
  // Three requests have two pauses. A busy machine only makes them longer.
  expect(tookMs).toBeGreaterThanOrEqual(500);
  expect(report.warnings).toEqual([
    expect.stringMatching(
      /^the service gave no stock for 1 of 3 articles, such as no such \/ one\?: .*NOK/,
    ),
  ]);
});

test.each([
  ['NOK', { set: [{ path: ['messageCode'], value: 'NOK' }] }],
  ['a text', { set: [{ path: ['result'], value: 'many' }] }],
])('an answer of %s keeps the stored stock and causes a warning', async (_name, effect) => {
  await watch('MUG-RED');
  done(await pull('pull-stock'));
  const before = await levels();
  await sandbox.faults({ operation: 'oldest.stock.get', effect });
  expect(done(await pull('pull-stock')).warnings).toHaveLength(1);
  expect(await levels()).toEqual(before);
});

test('the role that writes to the outbox may watch articles, but not change their stock', async () => {
  const runAsWriter = (text: string) => database.query(`set local role fulfilment_writer; ${text}`);
  await runAsWriter(`insert into fulfilment.stock_watch (client, sku) values ('default', 'A')`);
  await runAsWriter(`delete from fulfilment.stock_watch where sku = 'A'`);
  await expect(runAsWriter(`update fulfilment.stock_watch set sku = 'B'`)).rejects.toThrow(
    'permission denied',
  );
  await expect(
    runAsWriter(
      `insert into fulfilment.stock_levels (client, sku, asked_at) values ('x', 'y', now())`,
    ),
  ).rejects.toThrow('permission denied');
  await expect(watch('')).rejects.toThrow('stock_watch_sku_check');
});

test('sync.watched_articles follows every change of stock_watch', async () => {
  const listFollowed = async () =>
    (
      await database.query<{ sku: string }>('select sku from sync.watched_articles order by sku')
    ).map(({ sku }) => sku);
  await watch('A', 'B', 'C');
  await database.query(
    `insert into fulfilment.stock_watch (sku) values ('A'), ('D') on conflict do nothing`,
  );
  await database.query(`update fulfilment.stock_watch set sku = 'E' where sku = 'B'`);
  await database.query(`delete from fulfilment.stock_watch where sku = 'C'`);
  expect(await listFollowed()).toEqual(['A', 'D', 'E']);
  await database.query('truncate fulfilment.stock_watch');
  expect(await listFollowed()).toEqual([]);
});

test('an article whose sku is a dot segment of a path is refused; the others are asked for', async () => {
  await watch('..', '.', 'MUG-BLUE');
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-stock')).warnings).toEqual([
    expect.stringContaining('for 2 of 3 articles'),
  ]);
  const paths = (await sandbox.requests(place))
    .map(({ path }) => path)
    .filter((path) => path.startsWith('/stock'));
  expect(paths).toEqual(['/stock/get/MUG-BLUE']);
});
