import { expect, test } from 'vitest';
import { refetch } from '../../../src/pull/refetch.ts';
import { type RequestReason, requestReads } from '../../../src/pull/sql/waiting-reads.ts';
import { toPullContext } from '../../../src/pull/stream.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList, lively } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, work } = usePulls(lively);

/** Runs a poll, and counts its requests for lists and by id. */
async function countPollRequests(): Promise<[lists: number, reads: number]> {
  const place = await sandbox.lastPlace();
  done(await pull('pull-shipments'));
  const lists = await sandbox.count('v3.shipments.list', place);
  return [lists, await sandbox.count('v3.shipments.get', place)];
}
/** Makes all postponed reads by id due. */
const makeReadsDue = () => database.query('update sync.waiting_reads set next_at = now()');

test('an unlisted shipment is not read by every poll, and after 90 days only once a week', async () => {
  await sandbox.seed(20);
  done(await pull('pull-shipments'));
  await database.query(
    `insert into fulfilment.shipments (client, id, status, order_id, raw, read_no)
     select 'default', 700000 + n, 'READY_TO_PICK', 700000 + n, '{}', 0 from generate_series(1, 40) n`,
  );
  expect(await countPollRequests()).toEqual([3, 40]);
  expect(await countPollRequests()).toEqual([2, 0]);
  await makeReadsDue();
  expect(await countPollRequests()).toEqual([2, 40]);
  await database.query(
    `update fulfilment.shipments set unlisted_since = unlisted_since - interval '91 days' where id > 700000`,
  );
  await makeReadsDue();
  expect(await countPollRequests()).toEqual([2, 0]);
  await database.query(`update sync.waiting_reads set next_at = now() - interval '6 days'`);
  expect(await countPollRequests()).toEqual([2, 40]);
  // Rows that were not read for 90 days, for example because no worker ran, are read once.
  await database.query('delete from sync.waiting_reads');
  expect(await countPollRequests()).toEqual([2, 40]);
  expect(await countPollRequests()).toEqual([2, 0]);
});

test('rows that only the list by orders shows still open are not asked for by each poll', async () => {
  await sandbox.seed(3, { statuses: ['READY_TO_PICK'] });
  done(await pull('pull-shipments'));
  const hideOpen = async () => {
    await sandbox.clearFaults();
    // The second list request of a poll belongs to the pass of the open rows.
    await sandbox.faults({ operation: 'v3.shipments.list', after: 1, count: 1, effect: emptyList });
  };

  await hideOpen();
  expect(await countPollRequests()).toEqual([3, 0]);
  await hideOpen();
  expect(await countPollRequests()).toEqual([2, 0]);
  await makeReadsDue();
  await hideOpen();
  expect(await countPollRequests()).toEqual([3, 0]);
});

test('a resource in quarantine is read by id, even if many others wait', async () => {
  // Two pages: only the second one is read again by the next poll.
  await sandbox.seed(120);
  await sandbox.faults({
    operation: 'v3.shipments.list',
    count: 1,
    effect: { set: [{ path: ['data', 0, 'attributes', 'status'], value: 7 }] },
  });
  done(await pull('pull-shipments'));
  await sandbox.clearFaults();
  await database.query(`update sync.waiting_reads set next_at = now() - interval '1 hour'`);
  await database.query(
    `insert into sync.waiting_reads (client, resource, id, tries, next_at, reason)
     select 'default', 'shipments', 700000 + n, 0, now() - interval '1 day', 'pushed' from generate_series(1, 200) n`,
  );
  done(await pull('pull-shipments'));
  expect(await database.query('select resource_id from sync.quarantine')).toEqual([]);
});

test('an unreadable page does not stop the other passes; the poll fails with its error', async () => {
  await sandbox.seed(40, { statuses: ['READY_TO_PICK'] });
  done(await pull('pull-shipments'));
  const ids = await database.ids('fulfilment.shipments');
  await sandbox.setStatus(ids, 'SHIPPED');
  // The first list request of a poll belongs to the pass `new`.
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { invalidJson: true } });
  const report = await pull('pull-shipments');
  expect(report).toMatchObject({ status: 'failed', error: { code: 'undecodable' } });
  const open = await database.query(
    `select distinct status from fulfilment.shipments where status <> 'SHIPPED'`,
  );
  expect(open).toEqual([]);
});

const request = (id: number, reason: RequestReason) =>
  database.db
    .transaction()
    .execute((trx) => requestReads({ trx, client: 'default', stream: 'shipments' }, [id], reason));
const readWaits = () =>
  database.query(
    `select tries, next_at <= sync.clock() as "isDue"
     from sync.waiting_reads where resource = 'shipments'`,
  );

/** Reads a shipment by id. `during` runs after the service has answered, before it is stored. */
async function readDuring(id: number, during: () => Promise<unknown>): Promise<void> {
  const report = await work('read', async (context) => {
    const { warehouse } = context;
    const slow = Object.assign(Object.create(warehouse), {
      get: async (...asked: Parameters<typeof warehouse.get>) => {
        const answer = await warehouse.get(...asked);
        await during();
        return answer;
      },
    });
    const reader = { ...toPullContext(context, shipments), warehouse: slow };
    await refetch(reader, id);
  });
  done(report);
}

test.each([
  ['waits already', true],
  ['does not wait yet', false],
])('a resource that %s and is asked for while it is read is read again', async (_, isWaiting) => {
  await sandbox.seed(1);
  done(await pull('pull-shipments'));
  const [id = 0] = await database.ids('fulfilment.shipments');
  if (isWaiting) await request(id, 'older_reading');
  await readDuring(id, () => request(id, 'pushed'));
  expect(await readWaits()).toEqual([{ tries: 0, isDue: true }]);
});

test('a read whose answer differs from a newer row is made again', async () => {
  await sandbox.seed(1);
  done(await pull('pull-shipments'));
  const [id = 0] = await database.ids('fulfilment.shipments');
  await request(id, 'pushed');
  await readDuring(id, () =>
    database.query(
      `update fulfilment.shipments set raw = raw || '{"newer": true}', read_no = nextval('sync.read_no')`,
    ),
  );
  expect(await readWaits()).toEqual([{ tries: 0, isDue: true }]);
});

test.each([
  { reason: 'quarantined', tries: 0, after: 'quarantined' },
  { reason: 'quarantined', tries: 9, after: 'quarantined' },
  { reason: 'read_failed', tries: 9, after: 'pushed' },
  { reason: 'still_open', tries: 9, after: 'pushed' },
])(
  'a resource that waits because it is $reason ($tries) is read at once after a push changed it',
  async ({ reason, tries, after }) => {
    await database.query(
      `insert into sync.waiting_reads (client, resource, id, tries, next_at, reason)
       values ('default', 'shipments', 7, $1, now() + interval '1 day', $2)`,
      [tries, reason],
    );
    await request(7, 'pushed');
    expect(await readWaits()).toEqual([{ tries: 0, isDue: true }]);
    expect(await database.query('select reason from sync.waiting_reads')).toEqual([
      { reason: after },
    ]);
  },
);
