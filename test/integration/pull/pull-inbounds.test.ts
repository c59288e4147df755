import { expect, test } from 'vitest';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList, lively } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, reconcile, findDifferences } = usePulls(lively);

const day = 86_400;
const differences = () => findDifferences(['inbounds']);
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

test('inbounds are listed without a page size, unless a switch sends it', async () => {
  await sandbox.advance(90 * day);
  const pullAndListQueries = async (env: Record<string, string> = {}) => {
    const place = await sandbox.lastPlace();
    done(await pull('pull-inbounds', { env }));
    const lists = await sandbox.requestsTo('/v3/inbounds', place);
    return lists.map(({ query }) => new URLSearchParams(query));
  };
  const queries = await pullAndListQueries();
  // Links of the service may have a size. The first request of a walk has none.
  const first = queries.filter((query) => !query.has('page[cursor]'));
  expect(queries.length).toBeGreaterThan(first.length);
  expect(first.map((query) => query.has('page[size]'))).not.toContain(true);
  const file = writeSwitches({ 'v3.inbounds.list': { pageSize: true } });
  await database.query('delete from sync.cursors');
  const switched = await pullAndListQueries({ WAREHOUSE_OPERATIONS_FILE: file });
  expect(switched.map((query) => query.get('page[size]'))).not.toContain(null);
});

test('an inbound that the lists no longer show is settled by a read by id', async () => {
  await sandbox.advance(20 * day);
  await pullUntilOpen();
  const n = await database.count(open);
  await sandbox.advance(2 * day);
  await sandbox.faults({ operation: 'v3.inbounds.list', count: 2, effect: emptyList });
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-inbounds'))).toMatchObject({ fetched: n });
  expect(await listReadsById(place)).toHaveLength(n);
  expect(await database.count(open)).toBe(0);
  done(await pull('pull-inbounds'));
  expect(await differences()).toEqual([]);
});

test('if items come at the top of the list, without a link, each inbound is read by id once', async () => {
  await sandbox.advance(60 * day);
  await sandbox.switches({ included: 'top' });
  done(await pull('pull-inbounds'));
  expect((await listReadsById(0)).length).toBeGreaterThan(60);
  let reads = 0;
  for (let hours = 0; hours < 24 * 5; hours += 12) {
    await sandbox.advance(12 * 3_600);
    done(await pull('pull-inbounds'));
    const place = await sandbox.lastPlace();
    done(await pull('pull-inbounds'));
    const again = (await listReadsById(place)).map(({ path }) => Number(path.split('/').at(-1)));
    const stillOpen = await database.ids(open);
    expect(again.filter((id) => !stillOpen.includes(id))).toEqual([]);
    reads += again.length;
  }
  expect(reads).toBeGreaterThan(0);
  expect(await differences()).toEqual([]);
});

test('a line whose read is refused does not keep others from being marked as unlisted', async () => {
  await sandbox.advance(30 * day);
  await sandbox.faults({
    operation: 'v3.inboundItems.get',
    count: 1,
    effect: { status: 422 },
  });
  done(await pull('pull-inbounds'));
  // Lines that the service does not have: copies of the first one under other ids.
  await database.query(`
    insert into fulfilment.inbound_items (client, id, inbound_id, raw, first_seen_at)
    select client, 900000 + n, inbound_id, raw, now() - interval '1 day'
    from (select * from fulfilment.inbound_items order by id limit 1) i, generate_series(1, 2) n`);

  const { report, rescan } = await reconcile('inbounds');
  expect(done(report).warnings?.join()).toContain('checks its line again');
  expect(rescan).toMatchObject({ extra: 1 });
  expect(await database.ids('fulfilment.inbound_items where unlisted_since is not null')).toEqual([
    900_002,
  ]);
});

test('a line is not marked after a 404 of another path that has found no line yet', async () => {
  await sandbox.advance(30 * day);
  done(await pull('pull-inbounds'));
  await database.query(`
    insert into fulfilment.inbound_items (client, id, inbound_id, raw, first_seen_at)
    select client, 900001, inbound_id, raw, now() - interval '1 day'
    from (select * from fulfilment.inbound_items order by id limit 1) i`);
  const file = writeSwitches({ 'v3.inboundItems.get': { path: '/v3/lines/{id}' } });
  done(await pull('reconcile', { env: { WAREHOUSE_OPERATIONS_FILE: file } }));
  expect(await database.count('fulfilment.inbound_items where unlisted_since is not null')).toBe(0);
});
