import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/app/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ordersPerDay: 68 });
const pull = usePuller(database, sandbox);

const day = 86_400;
const list = 'v3.returnItems.list';
const differences = () => compareWithSandbox(database.db, sandbox.url, ['return-items']);
const ids = async () =>
  (await database.query<{ id: number }>('select id from fulfilment.return_items order by first_seen_at, id')).map(
    ({ id }) => id,
  );

test('returns equal the sandbox; a second poll reads the date window again and writes nothing', async () => {
  await sandbox.advance(40 * day);
  const first = done(await pull('pull-return-items'));
  expect(await differences()).toEqual([]);
  const count = (await ids()).length;
  expect(count).toBeGreaterThan(100);
  expect(first).toMatchObject({ created: count, pages: Math.ceil(count / 100) });
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-return-items'))).toMatchObject({ created: 0, updated: 0, stale: 0 });
  const [{ newest, written } = { newest: '', written: 0 }] = await database.query<{ newest: string; written: number }>(`
    select max(processed_on) as newest, (select count(*)::int from fulfilment.changes) as written
    from fulfilment.return_items`);
  expect(written).toBe(count);
  const from = new Date(Date.parse(newest) - 8 * day * 1_000).toISOString().slice(0, 10);
  const [asked] = await sandbox.requestsTo('/v3/returnItems', place);
  expect(asked?.query).toContain(`filter%5BprocessedOn%5D%5Bgt%5D=${from}`);
});

test('daily polls find a return with a low id processed late, and one that is restocked later', async () => {
  await sandbox.advance(15 * day);
  done(await pull('pull-return-items'));
  let [late, restocked] = [0, 0];
  for (let days = 0; days < 20; days++) {
    const highest = Math.max(...(await ids()));
    const known = new Set(await ids());
    await sandbox.advance(day);
    const { updated } = done(await pull('pull-return-items', { env: { LOOKBACK_DAYS: '14' } }));
    expect(await differences()).toEqual([]);
    late += (await ids()).filter((id) => !known.has(id) && id < highest).length;
    restocked += updated;
  }
  expect(late).toBeGreaterThan(0);
  expect(restocked).toBeGreaterThan(0);
});

test('a return that cannot be decoded stays in quarantine until the list shows a good version', async () => {
  await sandbox.advance(12 * day);
  const set = [{ path: ['data', 1, 'attributes', 'processedOn'], value: 'yesterday' }];
  await sandbox.faults({ operation: list, count: 1, effect: { set } });
  done(await pull('pull-return-items'));
  expect(await database.query('select stream, member_path from sync.quarantine')).toEqual([
    { stream: 'return-items', member_path: 'attributes.processedOn' },
  ]);
  expect(await differences()).toHaveLength(1);
  done(await pull('pull-return-items'));
  expect(await differences()).toEqual([]);
  expect(await database.query('select 1 from sync.quarantine')).toEqual([]);
});

test('a walk that was cut short 20 days ago starts again at the first page', async () => {
  // With this many returns, those that were processed late are several pages before the last one.
  await sandbox.call('POST', '/_sandbox/reset', { ordersPerDay: 150 });
  await sandbox.advance(40 * day);
  await sandbox.faults({ operation: list, after: 3, effect: { status: 500 } });
  expect((await pull('pull-return-items')).status).toBe('failed');
  await sandbox.clearFaults();
  // Meanwhile returns with lower ids may be processed.
  await sandbox.advance(20 * day);
  await database.query(`update sync.cursors set updated_at = updated_at - interval '20 days'`);
  done(await pull('pull-return-items'));
  expect(await differences()).toEqual([]);
});

test.each(['id', 'offset', 'opaque'] as const)(
  'a walk that is cut short ends with equal tables, with a cursor of type %s',
  async (cursor) => {
    await sandbox.advance(70 * day);
    await sandbox.switches({ cursor });
    await sandbox.faults({ operation: list, after: 1, effect: { status: 500 } });
    expect((await pull('pull-return-items')).status).toBe('failed');
    await sandbox.clearFaults();
    await sandbox.advance(day / 4);
    done(await pull('pull-return-items'));
    expect(await differences()).toEqual([]);
  },
);
