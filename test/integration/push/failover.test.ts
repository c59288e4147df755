import { beforeEach, describe, expect, test } from 'vitest';
import { compareMarks } from '../../../src/core/database-mark.ts';
import {
  acceptDatabase,
  acceptFencedFailover,
  expectFailover,
  markAlive,
  markEnded,
  noteDatabase,
  notePlace,
  type SentRow,
} from '../../../src/push/sql/push-database.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

/** Stores another timeline than the present one, as if a standby had been promoted. */
const failOver = () =>
  database.query(`update sync.push_database set mark = regexp_replace(mark, '[^/]*$', '00000000')`);
const note = (worker: string, sent: readonly SentRow[] = []) =>
  noteDatabase(database.db, worker, sent);
/** Moves the change back in time, so that the span in which workers report missing rows is over. */
const endReports = () =>
  database.query("update sync.push_database set changed_at = now() - interval '11 seconds'");
/** Registers a worker that sends rows. */
const startWorker = async (worker: string) => {
  const found = await note(worker);
  expect(found).toMatchObject({ change: 'none' });
  await notePlace(database.db, worker, found);
  await markAlive(database.db, worker);
};
/** Inserts a row that a worker has claimed, and returns what the worker remembers of it. */
async function sendRow(columns: Record<string, string> = {}): Promise<SentRow> {
  const values = {
    status: "'sending'",
    lease_until: 'now()',
    sent_at: 'now()',
    attempts: '1',
    ...columns,
  };
  const [row] = await database.query<SentRow>(`
    insert into fulfilment.outbox (kind, reference, next_attempt_at, claim_no, ${Object.keys(values).join(', ')})
    values ('order.create', 'SO-1', null, nextval('sync.read_no'), ${Object.values(values).join(', ')})
    returning id, claim_no as "claimNo", 1 as attempts`);
  if (row === undefined) throw new Error('no row was inserted');
  return row;
}

test('the new primary is accepted if the worker finds every row that it has sent', async () => {
  await startWorker('a');
  const sent = await sendRow();
  await failOver();
  expect(await note('a', [sent])).toMatchObject({ change: 'timeline' });
  await endReports();
  expect(await note('a', [sent])).toMatchObject({ change: 'none', acceptedAs: 'failover' });
  expect(await note('a', [sent])).toMatchObject({
    change: 'none',
    acceptedAs: 'failover',
    changedAt: null,
  });
});

test.each<[string, Record<string, string> | null]>([
  ['the row', null],
  [
    'its claim',
    {
      status: "'pending'",
      next_attempt_at: 'now()',
      lease_until: 'null',
      sent_at: 'null',
      attempts: '0',
      claim_no: 'null',
    },
  ],
  ['the time of its sending', { sent_at: 'null' }],
])('nothing is sent if the new primary has lost %s', async (_missing, columns) => {
  await startWorker('a');
  const sent = await sendRow();
  if (columns === null) await database.query('delete from fulfilment.outbox');
  else
    await database.query(
      `update fulfilment.outbox set ${Object.entries(columns)
        .map(([name, value]) => `${name} = ${value}`)
        .join(', ')}`,
    );
  await failOver();
  expect(await note('a', [sent])).toMatchObject({
    change: 'timeline',
    changedAt: expect.any(Date),
  });
  // A worker that misses no row cannot accept the new primary for the other worker.
  await endReports();
  expect(await note('b')).toMatchObject({ change: 'timeline' });
  await acceptDatabase(database.db, 'restored', 'operator');
  expect(await note('a', [sent])).toMatchObject({ change: 'none', acceptedAs: 'restored' });
});

test('the new primary is accepted after every worker reports, except stopped and silent ones', async () => {
  for (const worker of ['a', 'b', 'stopped', 'silent']) await startWorker(worker);
  await markEnded(database.db, 'stopped');
  await database.query(
    "update sync.push_workers set seen_at = now() - interval '3 minutes' where worker = 'silent'",
  );
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  await endReports();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  expect(await note('b')).toMatchObject({ change: 'none', acceptedAs: 'failover' });
  const audited = await database.query('select by, action from sync.audit');
  expect(audited).toEqual([{ by: 'b', action: 'database_accepted' }]);
});

test('a worker that was lost at the failover holds all pushes, even of workers started later', async () => {
  await startWorker('lost');
  await failOver();
  expect(await note('new')).toMatchObject({ change: 'timeline' });
  await database.query("update sync.push_workers set seen_at = now() - interval '1 hour'");
  await endReports();
  expect(await note('new')).toMatchObject({ change: 'timeline' });
});

test('a worker whose registration is lost still reports missing rows and prevents acceptance', async () => {
  for (const worker of ['a', 'b']) await startWorker(worker);
  const lost = { id: 7, claimNo: 1_000, attempts: 1 };
  await database.query("delete from sync.push_workers where worker = 'b'");
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  expect(await note('b', [lost])).toMatchObject({ change: 'timeline' });
  await endReports();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
});

test('the new primary is not accepted if no worker from before the failover can report', async () => {
  await startWorker('a');
  await markEnded(database.db, 'a');
  await failOver();
  await note('new');
  await endReports();
  expect(await note('new')).toMatchObject({ change: 'timeline' });
});

test('marks are compared by their largest difference; a standby has no timeline', () => {
  expect(compareMarks('1/2/3/00000001', '1/2/3/-')).toBe('none');
  expect(compareMarks('1/2/3/00000001', '1/2/3/00000002')).toBe('timeline');
  expect(compareMarks('1/2/3/00000001', '1/2/4/-')).toBe('table');
  expect(compareMarks('1/2/3/00000001', '1/5/4/-')).toBe('database');
  expect(compareMarks('1/2/3/00000001', '9/2/3/00000001')).toBe('server');
});

test('no failover makes a copy send rows', async () => {
  await startWorker('a');
  await acceptDatabase(database.db, 'copy', 'operator');
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline', acceptedAs: 'copy' });
});

test('a fenced failover is accepted if all workers had ended in good order just before', async () => {
  await startWorker('a');
  await markEnded(database.db, 'a');
  await failOver();
  await note('new');
  await database.query("update sync.push_database set changed_at = now() - interval '31 seconds'");
  expect(await acceptFencedFailover(database.db, true, 'a')).toBe(true);
});

describe('a failover that lost what a worker knew', () => {
  const acceptFenced = () => acceptFencedFailover(database.db, true, 'a');
  const ageChange = (span: string) =>
    database.query('update sync.push_database set changed_at = changed_at - $1::interval', [span]);
  const ageSeen = (span: string) =>
    database.query('update sync.push_database set seen_at = changed_at - $1::interval', [span]);
  const insert = (kind: string) =>
    database.query('insert into fulfilment.outbox (kind, reference) values ($1, $1)', [kind]);

  beforeEach(async () => {
    await startWorker('lost');
    await insert('order.create');
    await insert('return.create');
    await failOver();
    await note('new');
    await insert('order.cancel');
  });

  test('is accepted as restored after 30 s, if the cluster fences the former primary', async () => {
    await ageChange('29 seconds');
    expect(await acceptFenced()).toBe(false);
    await ageChange('2 seconds');
    await ageSeen('119 seconds');
    expect(await acceptFencedFailover(database.db, false, 'a')).toBe(false);

    expect(await acceptFenced()).toBe(true);
    expect(await note('new')).toMatchObject({ change: 'none', acceptedAs: 'restored' });
    const rows = await database.query(
      'select kind, status, next_attempt_at is not null as planned from fulfilment.outbox order by id',
    );
    expect(rows).toEqual([
      { kind: 'order.create', status: 'unknown', planned: true },
      { kind: 'return.create', status: 'unknown', planned: false },
      { kind: 'order.cancel', status: 'pending', planned: true },
    ]);
    const audited = await database.query('select by, action from sync.audit');
    expect(audited).toEqual([{ by: 'a', action: 'database_accepted' }]);
  });

  test('waits for a person after a recovery to a point in time', async () => {
    await ageChange('31 seconds');
    await ageSeen('121 seconds');
    expect(await acceptFenced()).toBe(false);

    // A worker that misses rows writes its sign of life only after the change was found.
    await note('other', [{ id: 7, claimNo: 1_000, attempts: 1 }]);
    expect(await acceptFenced()).toBe(false);
  });

  test('is accepted without fencing and without a worker if it is planned', async () => {
    await expectFailover(database.db, 3_600_000, 'operator');
    await ageChange('31 seconds');
    await ageSeen('50 minutes');
    expect(await acceptFencedFailover(database.db, false, 'a')).toBe(true);

    await failOver();
    await note('new');
    await ageChange('31 seconds');
    expect(await acceptFencedFailover(database.db, false, 'a')).toBe(false);
  });

  test.each(['server', 'copy'])('waits for a person if it may be another %s', async (what) => {
    if (what === 'copy') {
      await acceptDatabase(database.db, 'copy', 'a');
      await failOver();
    } else await database.query("update sync.push_database set mark = '1/2/3/4'");
    await database.query(
      "update sync.push_database set changed_at = now() - interval '1 minute', seen_at = now()",
    );
    expect(await acceptFenced()).toBe(false);
  });
});
