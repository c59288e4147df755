import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ...quiet, strict: false });
const pull = usePuller(database, sandbox);

const folder = mkdtempSync(join(tmpdir(), 'operations-'));
const file = join(folder, 'operations.json');
writeFileSync(
  file,
  JSON.stringify({ 'oldest.stock.bulk': { method: 'GET', path: '/stock/bulk/{all}' } }),
);
afterAll(() => rmSync(folder, { recursive: true }));
const pullList = () => pull('pull-stock', { env: { WAREHOUSE_OPERATIONS_FILE: file } });

const watch = (...skus: string[]) =>
  database.query('insert into fulfilment.stock_watch (sku) select * from unnest($1::text[])', [
    skus,
  ]);
const levels = () => database.query('select sku, stock from fulfilment.stock_levels order by sku');
const setStock = (sku: string, quantity: number) =>
  sandbox.call('POST', '/_sandbox/stock', { client: 'default', sku, warehouse: 'AMS', quantity });
const requestedPaths = async () =>
  (await sandbox.requests()).map(({ path }) => path).filter((path) => path.startsWith('/stock'));
/** Answers the list with these rows in the sandbox's place. */
const setList = (result: unknown) =>
  sandbox.faults({
    operation: 'oldest.stock.bulk',
    effect: { set: [{ path: ['result'], value: result }] },
  });

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
  expect(await requestedPaths()).toEqual(['/stock/bulk/true', '/stock/bulk/true']);
});

test('without its entry in the operations file the service is never asked for the list', async () => {
  await watch('MUG-RED');
  done(await pull('pull-stock'));
  expect(await requestedPaths()).toEqual(['/stock/get/MUG-RED']);
});

test('an article that the list lacks keeps its level and causes a warning', async () => {
  await watch('MUG-RED', 'MUG-BLUE');
  done(await pullList());
  await setList([{ sku: 'MUG-BLUE', stock: 3 }, { name: 'no sku' }]);
  expect(done(await pullList()).warnings?.join()).toMatch(/name no article,.*1 of 2 articles/);
  expect(await levels()).toEqual([
    { sku: 'MUG-BLUE', stock: 3 },
    { sku: 'MUG-RED', stock: 800 },
  ]);
});

const wrongPath = { status: 404, html: true };
const noList = { set: [{ path: ['result'], value: 12 }] };

test.each([
  ['a wrong path', wrongPath],
  ['no list', noList],
])('%s, of a service that never had the list, holds the job', async (_name, effect) => {
  await watch('MUG-RED');
  await sandbox.faults({ operation: 'oldest.stock.bulk', effect });
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
