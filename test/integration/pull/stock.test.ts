import { expect, test } from 'vitest';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { quiet } from '../../helpers/sandbox.ts';

const { database, sandbox, pull } = usePulls({ ...quiet, strict: false });

const watch = (...skus: string[]) =>
  database.query('insert into fulfilment.stock_watch (sku) select * from unnest($1::text[])', [
    skus,
  ]);
const levels = () => database.query('select sku, stock from fulfilment.stock_levels order by sku');
const readPaths = async () =>
  (await sandbox.requests()).map(({ path }) => path).filter((path) => path.startsWith('/stock/'));
const setResult = (operation: string, value: unknown) =>
  sandbox.faults({ operation, effect: { set: [{ path: ['result'], value }] } });
const pullList = () => {
  const route = { method: 'GET', path: '/stock/bulk/{all}' };
  const file = writeSwitches({ 'oldest.stock.bulk': route });
  return pull('pull-stock', { env: { WAREHOUSE_OPERATIONS_FILE: file } });
};

test('the stock of watched articles is stored, and removed when nobody watches them any more', async () => {
  await watch('MUG-RED', 'MUG-BLUE');
  expect(done(await pull('pull-stock'))).toMatchObject({ created: 2, warnings: [] });
  expect(done(await pull('pull-stock'))).toMatchObject({ unchanged: 2 });
  await setResult('oldest.stock.get', 3);
  await database.query(`delete from fulfilment.stock_watch where sku = 'MUG-BLUE'`);
  done(await pull('pull-stock'));
  expect(await levels()).toEqual([{ sku: 'MUG-RED', stock: 3 }]);
  const changes = await database.query(
    `select key || ' ' || operation as change from fulfilment.changes where entity = 'stock_levels' order by seq`,
  );
  expect(changes.map(({ change }) => change)).toEqual([
    ...['MUG-BLUE created', 'MUG-RED created'],
    ...['MUG-RED updated', 'MUG-BLUE removed'],
  ]);
});

test('requests are a quarter of a second apart; an unknown article is named', async () => {
  await watch('MUG-RED', 'MUG-BLUE', 'no such / one?');
  const startedAtMs = performance.now();
  const { warnings } = done(await pull('pull-stock'));
  // Three requests have two pauses. A busy machine only makes them longer.
  expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(500);
  expect(await readPaths()).toEqual([
    ...['/stock/get/MUG-BLUE', '/stock/get/MUG-RED', '/stock/get/no%20such%20%2F%20one%3F'],
  ]);
  expect(warnings?.join()).toMatch(/for 1 of 3 articles, such as no such \/ one\?: .*NOK/);
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

test('sync.watched_articles follows every change of stock_watch', async () => {
  const readFollowed = () => database.query('select sku from sync.watched_articles order by sku');
  await watch('A', 'B', 'C');
  await database.query(`
    insert into fulfilment.stock_watch (sku) values ('A'), ('D') on conflict do nothing;
    update fulfilment.stock_watch set sku = 'E' where sku = 'B';
    delete from fulfilment.stock_watch where sku = 'C'`);
  expect(await readFollowed()).toEqual([{ sku: 'A' }, { sku: 'D' }, { sku: 'E' }]);
  await database.query('truncate fulfilment.stock_watch');
  expect(await readFollowed()).toEqual([]);
  await expect(watch('')).rejects.toThrow('stock_watch_sku_check');
});

test('an article whose sku is a dot segment of a path is refused; the others are asked for', async () => {
  await watch('..', '.', 'MUG-BLUE');
  expect(done(await pull('pull-stock')).warnings?.join()).toContain('for 2 of 3 articles');
  expect(await readPaths()).toEqual(['/stock/get/MUG-BLUE']);
});

const setStock = (sku: string, quantity: number) =>
  sandbox.call('POST', '/_sandbox/stock', { client: 'default', sku, warehouse: 'AMS', quantity });

test('one request reads all watched articles; others are ignored', async () => {
  await watch('MUG-RED', 'mug-blue');
  expect(done(await pullList())).toMatchObject({ pages: 1, fetched: 2, created: 2, warnings: [] });
  expect(await levels()).toEqual([
    { sku: 'MUG-RED', stock: 800 },
    { sku: 'mug-blue', stock: 800 },
  ]);
  await setStock('MUG-RED', 7);
  expect(done(await pullList())).toMatchObject({ pages: 1, updated: 1, unchanged: 1 });
  // Only a list of all articles has those that did not change.
  expect(await readPaths()).toEqual(['/stock/bulk/true', '/stock/bulk/true']);
});

test('an article that the list lacks keeps its level and causes a warning', async () => {
  await watch('MUG-RED', 'MUG-BLUE');
  done(await pullList());
  await setResult('oldest.stock.bulk', [{ sku: 'MUG-BLUE', stock: 3 }, { name: 'no sku' }]);
  expect(done(await pullList()).warnings?.join()).toMatch(/name no article,.*1 of 2 articles/);
  expect(await levels()).toEqual([
    { sku: 'MUG-BLUE', stock: 3 },
    { sku: 'MUG-RED', stock: 800 },
  ]);
});

const noList = { set: [{ path: ['result'], value: 12 }] };

test('no list, of a service that never had the list, holds the job', async () => {
  await watch('MUG-RED');
  await sandbox.faults({ operation: 'oldest.stock.bulk', effect: noList });
  expect(await pullList()).toMatchObject({ status: 'failed' });
  expect(await database.query('select scope, code from sync.service_health')).toEqual([
    { scope: 'pull-stock', code: 'wrong_path' },
  ]);
});

test('no list, of a service that once had the list, fails the run alone', async () => {
  await watch('MUG-RED');
  done(await pullList());
  const before = await levels();
  await sandbox.faults({ operation: 'oldest.stock.bulk', effect: noList });
  expect(await pullList()).toMatchObject({ status: 'failed', error: { code: 'undecodable' } });
  expect(await levels()).toEqual(before);
  expect(await database.query('select scope from sync.service_health')).toEqual([]);
});
