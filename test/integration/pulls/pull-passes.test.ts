import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/app/demo/oracle.ts';
import { requestRereads } from '../../../src/erp/pull/rereads.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);

/** Operations that the service was asked for since `place`, by name, without tokens. */
async function askedSince(place: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { operation } of await sandbox.requests(place))
    if (operation !== null && operation !== 'common.token') counts[operation] = (counts[operation] ?? 0) + 1;
  return counts;
}
/** What one poll asks. */
async function askedBy(job: 'pull-shipments' | 'pull-inbounds'): Promise<Record<string, number>> {
  const place = await sandbox.lastPlace();
  done(await pull(job));
  return askedSince(place);
}
/** Makes all reads by id due that wait for their turn. */
const passPauses = () => database.query('update sync.rereads set next_try_at = now()');
const twoLists = { 'v3.shipments.list': 2 };

test('a shipment that the service no longer knows is not asked for with every poll, and after 90 days once a week', async () => {
  await sandbox.seed(20);
  done(await pull('pull-shipments'));
  await database.query(
    `insert into fulfilment.shipments (client, id, status, order_id, raw, read_no)
     select 'default', 700000 + n, 'READY_TO_PICK', 700000 + n, '{}', 0 from generate_series(1, 40) n`,
  );
  expect(await askedBy('pull-shipments')).toEqual({ 'v3.shipments.list': 3, 'v3.shipments.get': 40 });
  expect(await askedBy('pull-shipments')).toEqual(twoLists);
  await passPauses();
  expect(await askedBy('pull-shipments')).toEqual({ ...twoLists, 'v3.shipments.get': 40 });
  await database.query(
    `update fulfilment.shipments set unlisted_since = unlisted_since - interval '91 days' where id > 700000`,
  );
  await passPauses();
  expect(await askedBy('pull-shipments')).toEqual(twoLists);
  await database.query(`update sync.rereads set next_try_at = now() - interval '6 days'`);
  expect(await askedBy('pull-shipments')).toEqual({ ...twoLists, 'v3.shipments.get': 40 });
  // Rows that had no turn in 90 days, for example because no worker ran, are asked for once.
  await database.query('delete from sync.rereads');
  expect(await askedBy('pull-shipments')).toEqual({ ...twoLists, 'v3.shipments.get': 40 });
  expect(await askedBy('pull-shipments')).toEqual(twoLists);
});

test('one with a status that is not documented is asked for after growing pauses, after 90 days rarely', async () => {
  await sandbox.seed(3);
  const set = [0, 1, 2].map((index) => ({ path: ['data', index, 'attributes', 'status'], value: 'ARCHIVED' }));
  await sandbox.faults({ operation: 'v3.shipments.list', effect: { set } });
  await pull('pull-shipments');
  const tries = async () =>
    (await database.query<{ tries: number }>('select distinct tries from sync.rereads')).map((row) => row.tries);
  for (const before of [1, 2, 3]) {
    expect(await tries()).toEqual([before]);
    expect(await askedBy('pull-shipments')).toEqual(twoLists);
    await passPauses();
    expect(await askedBy('pull-shipments')).toEqual({ 'v3.shipments.list': 3 });
  }
  await database.query(`update fulfilment.shipments set changed_at = changed_at - interval '91 days'`);
  await passPauses();
  expect(await askedBy('pull-shipments')).toEqual(twoLists);
});

test('what is in quarantine is read by id, however many others wait', async () => {
  // Two pages: only the second one is read again by the next poll.
  await sandbox.seed(120);
  await sandbox.faults({
    operation: 'v3.shipments.list',
    count: 1,
    effect: { set: [{ path: ['data', 0, 'attributes', 'status'], value: 7 }] },
  });
  done(await pull('pull-shipments'));
  await sandbox.clearFaults();
  await database.query(`update sync.quarantine set first_seen_at = now() - interval '1 hour'`);
  await database.query(
    `insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
     select 'default', 'shipments', 700000 + n, 0, now() - interval '1 day', 'asked for' from generate_series(1, 200) n`,
  );
  done(await pull('pull-shipments'));
  expect(await database.query('select resource_id from sync.quarantine')).toEqual([]);
});

test('inbounds that were completed over night are read by the pages they stand on', async () => {
  await sandbox.advance(90 * 86_400);
  done(await pull('pull-inbounds'));
  const moved = await database.query(
    `update fulfilment.inbounds set status = 'CHECKING', read_no = 0, raw = jsonb_set(raw, '{attributes,status}', '"CHECKING"')
     where id in (select id from fulfilment.inbounds where status = 'COMPLETED' order by id desc limit 90) returning id`,
  );
  expect(moved).toHaveLength(90);
  const { 'v3.inbounds.list': lists, ...byId } = await askedBy('pull-inbounds');
  expect(lists).toBeLessThanOrEqual(4);
  expect(byId).toEqual({});
  expect(await compareWithSandbox(database.db, sandbox.url, ['inbounds'])).toEqual([]);
  // Two alone are cheaper by id.
  await database.query(
    `update fulfilment.inbounds set status = 'CHECKING', read_no = 0, raw = jsonb_set(raw, '{attributes,status}', '"CHECKING"')
     where id in (select min(id) from fulfilment.inbounds) or id in (select id from fulfilment.inbounds order by id offset 40 limit 1)`,
  );
  expect(await askedBy('pull-inbounds')).toEqual({ 'v3.inbounds.list': 2, 'v3.inbounds.get': 2 });
  expect(await compareWithSandbox(database.db, sandbox.url, ['inbounds'])).toEqual([]);
});

test('one poll reads at most 50 pages for inbounds that have moved; the others wait for the next poll', async () => {
  await sandbox.advance(90 * 86_400);
  done(await pull('pull-inbounds'));
  await database.query(
    `insert into fulfilment.inbounds (client, id, status, raw, read_no)
     select 'default', 700000 + n, 'CHECKING', '{}', 0 from generate_series(1, 6000) n`,
  );
  const asked = await askedBy('pull-inbounds');
  expect(asked['v3.inbounds.list']).toBeLessThanOrEqual(52);
  expect(asked['v3.inbounds.list']).toBeGreaterThan(40);
});

test('a page that cannot be read in one pass keeps none of the others from running; the poll fails with its error', async () => {
  await sandbox.seed(40, ['READY_TO_PICK']);
  done(await pull('pull-shipments'));
  const ids = (await database.query<{ id: number }>('select id from fulfilment.shipments')).map(({ id }) => id);
  await sandbox.setStatus(ids, 'SHIPPED');
  // The first list that a poll asks for is that of the pass `new`.
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { invalidJson: true } });
  const report = await pull('pull-shipments');
  expect(report).toMatchObject({ status: 'failed', error: { code: 'undecodable' } });
  const open = await database.query(`select distinct status from fulfilment.shipments where status <> 'SHIPPED'`);
  expect(open).toEqual([]);
});

test('a page that cannot be read does not keep its rows from being read by id', async () => {
  await sandbox.advance(90 * 86_400);
  done(await pull('pull-inbounds'));
  await database.query(
    `update fulfilment.inbounds set status = 'CHECKING', read_no = 0, raw = jsonb_set(raw, '{attributes,status}', '"CHECKING"')
     where id in (select id from fulfilment.inbounds order by id offset 20 limit 5)`,
  );
  // The third list of a poll is the first page that is read for rows which have moved on.
  await sandbox.faults({ operation: 'v3.inbounds.list', after: 2, effect: { invalidJson: true } });
  const { warnings } = done(await pull('pull-inbounds'));
  expect(warnings).toEqual([expect.stringMatching(/a page could not be read .*its rows are read by id/)]);
  expect(await compareWithSandbox(database.db, sandbox.url, ['inbounds'])).toEqual([]);
});

test('a row that waits because it is still open is read at once if somebody asks for it', async () => {
  await database.query(
    `insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
     values ('default', 'shipments', 7, 9, now() + interval '1 day', 'found, and still open')`,
  );
  await database.db
    .transaction()
    .execute((trx) => requestRereads({ trx, client: 'default', stream: 'shipments' }, [7], 'a push changed it', false));
  expect(await database.query('select tries, next_try_at <= now() as due from sync.rereads')).toEqual([
    { tries: 0, due: true },
  ]);
});
