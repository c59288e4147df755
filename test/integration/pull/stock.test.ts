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
const readPaths = async () =>
  (await sandbox.requests()).map(({ path }) => path).filter((path) => path.startsWith('/stock/'));
const setStockAnswer = (result: unknown) =>
  sandbox.faults({
    operation: 'oldest.stock.get',
    effect: { set: [{ path: ['result'], value: result }] },
  });

test('the stock of watched articles is stored, and removed when nobody watches them any more', async () => {
  await watch('MUG-RED', 'MUG-BLUE');
  expect(done(await pull('pull-stock'))).toMatchObject({ created: 2, warnings: [] });
  expect(done(await pull('pull-stock'))).toMatchObject({ unchanged: 2 });
  await setStockAnswer(3);
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
