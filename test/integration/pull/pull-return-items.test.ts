import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/cli/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ordersPerDay: 68 });
const pull = usePuller(database, sandbox);

const day = 86_400;
const list = 'v3.returnItems.list';
const differences = () => compareWithSandbox(database.db, sandbox.url, ['return-items']);
const ids = () => database.ids('fulfilment.return_items');

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
