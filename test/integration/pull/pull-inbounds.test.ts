import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/cli/demo/oracle.ts';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { emptyList, lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);

const day = 86_400;
const differences = () => compareWithSandbox(database.db, sandbox.url, ['inbounds']);
const listReadsById = (place: number) =>
  sandbox.requests(place).then((all) => all.filter((one) => one.operation === 'v3.inbounds.get'));

const open = `fulfilment.inbounds where status <> 'COMPLETED'`;
/** Polls every two hours, until an inbound is open. */
async function pullUntilOpen(): Promise<void> {
  done(await pull('pull-inbounds'));
  for (let hours = 0; hours < 24 * 6 && (await database.count(open)) === 0; hours += 2) {
    await sandbox.advance(2 * 3_600);
    done(await pull('pull-inbounds'));
  }
  expect(await database.count(open)).toBeGreaterThan(0);
}

test('inbounds and return items are listed without a page size, unless a switch sends it', async () => {
  await sandbox.advance(90 * day);
  const listed = async (place: number) => {
    const asked = (await sandbox.requests(place)).filter(({ operation }) =>
      operation?.endsWith('.list'),
    );
    expect(new Set(asked.map(({ operation }) => operation))).toEqual(
      new Set(['v3.inbounds.list', 'v3.returnItems.list']),
    );
    return asked.map(({ query }) => new URLSearchParams(query));
  };
  const first = await sandbox.lastPlace();
  for (const job of ['pull-inbounds', 'pull-return-items'] as const) done(await pull(job));
  const queries = await listed(first);
  // Links of the service may have a size. The first request of a walk has none.
  for (const query of queries.filter((one) => !one.has('page[cursor]')))
    expect(query.has('page[size]')).toBe(false);
  expect(queries.some((query) => query.has('page[cursor]'))).toBe(true);
  expect(await differences()).toEqual([]);
  const switched = {
    'v3.inbounds.list': { pageSize: true },
    'v3.returnItems.list': { pageSize: true },
  };
  const env = { WAREHOUSE_OPERATIONS_FILE: writeSwitches(switched) };
  await database.query('delete from sync.cursors');
  const place = await sandbox.lastPlace();
  for (const job of ['pull-inbounds', 'pull-return-items'] as const) done(await pull(job, { env }));
  expect((await listed(place)).map((query) => query.get('page[size]'))).not.toContain(null);
});

test('the tables follow an inbound through every state and every counted line', async () => {
  await sandbox.advance(20 * day);
  done(await pull('pull-inbounds'));
  let updated = 0;
  for (let hours = 0; hours < 24 * 6; hours += 6) {
    await sandbox.advance(6 * 3_600);
    updated += done(await pull('pull-inbounds')).updated;
    expect(await differences()).toEqual([]);
  }
  expect(updated).toBeGreaterThan(5);
});

test('an inbound that the lists no longer show is settled by a read by id', async () => {
  await sandbox.advance(20 * day);
  await pullUntilOpen();
  const n = await database.count(open);
  await sandbox.advance(2 * day);
  await sandbox.faults({ operation: 'v3.inbounds.list', count: 2, effect: emptyList });
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-inbounds'))).toMatchObject({
    created: expect.any(Number),
    fetched: n,
  });
  expect(await listReadsById(place)).toHaveLength(n);
  expect(await database.count(open)).toBe(0);
  done(await pull('pull-inbounds'));
  expect(await differences()).toEqual([]);
});

test('if items come at the top of the list, without a link, each inbound is read by id', async () => {
  await sandbox.advance(60 * day);
  await sandbox.switches({ included: 'top' });
  done(await pull('pull-inbounds'));
  expect((await listReadsById(0)).length).toBeGreaterThan(60);
  expect(await differences()).toEqual([]);
  let reads = 0;
  for (let hours = 0; hours < 24 * 5; hours += 12) {
    await sandbox.advance(12 * 3_600);
    done(await pull('pull-inbounds'));
    expect(await differences()).toEqual([]);
    const place = await sandbox.lastPlace();
    done(await pull('pull-inbounds'));
    const again = (await listReadsById(place)).map(({ path }) => Number(path.split('/').at(-1)));
    const stillOpen = (await database.query<{ id: number }>(`select id from ${open}`)).map(
      ({ id }) => id,
    );
    expect(again.filter((id) => !stillOpen.includes(id))).toEqual([]);
    reads += again.length;
  }
  expect(reads).toBeGreaterThan(0);
});

test('an inbound that the service no longer knows is marked, until it is listed again', async () => {
  await sandbox.advance(20 * day);
  await pullUntilOpen();
  await sandbox.faults({
    operation: 'v3.inbounds.list',
    count: 2,
    effect: { hideRow: { index: 0, seconds: 3_600 } },
  });
  const marked = () =>
    database.query<{ id: number }>(
      'select id from fulfilment.inbounds where unlisted_since is not null',
    );
  done(await pull('pull-inbounds'));
  done(await pull('pull-inbounds'));
  const [lost] = await marked();
  expect(lost?.id).toBeGreaterThan(0);
  await sandbox.advance(4_000);
  done(await pull('pull-inbounds'));
  done(await pull('pull-inbounds'));
  expect(await marked()).toEqual([]);
  expect(await differences()).toEqual([]);
});
