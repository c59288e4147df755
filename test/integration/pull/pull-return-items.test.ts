import { expect, test } from 'vitest';
import { done, usePulls } from '../../helpers/puller.ts';

const { database, sandbox, pull, reconcile, findDifferences } = usePulls({ ordersPerDay: 68 });

const day = 86_400;
const list = 'v3.returnItems.list';
const differences = () => findDifferences(['return-items']);
const ids = () => database.ids('fulfilment.return_items');

test('daily polls find a return with a low id processed late, and one that is restocked later', async () => {
  await sandbox.advance(15 * day);
  done(await pull('pull-return-items'));
  let [late, restocked] = [0, 0];
  for (let days = 0; days < 20 && Math.min(late, restocked) === 0; days++) {
    const known = await ids();
    await sandbox.advance(day);
    const { updated } = done(await pull('pull-return-items', { env: { LOOKBACK_DAYS: '14' } }));
    late += (await ids()).filter((id) => !known.includes(id) && id < Math.max(...known)).length;
    restocked += updated;
  }
  expect(Math.min(late, restocked)).toBeGreaterThan(0);
  expect(await differences()).toEqual([]);
});

test('a walk that was cut short 20 days ago starts again at the first page', async () => {
  await sandbox.call('POST', '/_sandbox/reset', { ordersPerDay: 150 });
  await sandbox.advance(40 * day);
  await sandbox.faults({ operation: list, after: 3, effect: { status: 500 } });
  expect((await pull('pull-return-items')).status).toBe('failed');
  expect(await database.count(`sync.cursors where query like '%cursor%'`)).toBe(1);
  await sandbox.clearFaults();
  // Meanwhile returns with lower ids may be processed.
  await database.query(`update sync.cursors set updated_at = updated_at - interval '20 days'`);
  const place = await sandbox.lastPlace();
  done(await pull('pull-return-items'));
  expect((await sandbox.requestsTo('/v3/returnItems', place))[0]?.query).not.toContain('cursor');
  expect(await differences()).toEqual([]);
});

test.each([
  ['poll', 'sync.cursors', () => pull('pull-return-items')],
  ['reconciliation', 'sync.rescans', async () => (await reconcile('return-items')).report],
])(
  'a %s that is cut short after an empty page continues at the page before it',
  async (_name, table, run) => {
    await sandbox.call('POST', '/_sandbox/reset', { ordersPerDay: 150 });
    await sandbox.advance(40 * day);
    // The page before it is written alone meanwhile.
    const empty = { delayMs: 1_000, set: [{ path: ['data'], value: [] }] };
    await sandbox.faults(
      { operation: list, after: 2, count: 1, effect: empty },
      { operation: list, after: 3, effect: { status: 500 } },
    );

    expect((await run()).status).toBe('failed');

    expect(
      await database.query(
        `select last_id is not null as "hasRow" from ${table} where query is not null`,
      ),
    ).toEqual([{ hasRow: true }]);
  },
);
