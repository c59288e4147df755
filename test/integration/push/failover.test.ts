import { expect, test } from 'vitest';
import { compareMarks } from '../../../src/core/database-mark.ts';
import { acceptDatabase } from '../../../src/erp/outbox/accept-database.ts';
import { markAlive, markEnded, noteDatabase, type SentRow } from '../../../src/erp/outbox/push-database.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

/** Makes the present timeline another one than the stored: a standby was promoted. */
const failOver = () =>
  database.query(`update sync.push_database set mark = regexp_replace(mark, '[^/]*$', '00000000')`);
const note = (worker: string, sent: readonly SentRow[] = []) => noteDatabase(database.db, worker, sent);
/** Lets the time go by in which workers may report missing rows. */
const waitForReports = () => database.query("update sync.push_database set changed_at = now() - interval '11 seconds'");
/** A worker that sends rows. */
const start = async (worker: string) => {
  expect(await note(worker)).toMatchObject({ change: 'none' });
  await markAlive(database.db, worker);
};
/** Inserts a row that a worker has claimed, and returns what the worker remembers of it. */
async function sendRow(columns: Record<string, string> = {}): Promise<SentRow> {
  const given = { status: "'sending'", lease_until: 'now()', sent_at: 'now()', attempts: '1', ...columns };
  const [row] = await database.query<SentRow>(`
    insert into fulfilment.outbox (kind, reference, next_attempt_at, claim_no, ${Object.keys(given).join(', ')})
    values ('order.create', 'SO-1', null, nextval('sync.read_no'), ${Object.values(given).join(', ')})
    returning id, claim_no as "claimNo", 1 as attempts`);
  if (row === undefined) throw new Error('no row was inserted');
  return row;
}

test('the new primary is accepted if the worker finds all that it has sent', async () => {
  await start('a');
  const sent = await sendRow();
  await failOver();
  expect(await note('a', [sent])).toMatchObject({ change: 'timeline' });
  await waitForReports();
  expect(await note('a', [sent])).toMatchObject({ change: 'none', acceptedAs: 'failover' });
  expect(await note('a', [sent])).toMatchObject({ change: 'none', acceptedAs: 'failover', changedAt: null });
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
  ['the note that it was sent', { sent_at: 'null' }],
])('nothing is sent if the new primary has lost %s', async (_lost, columns) => {
  await start('a');
  const sent = await sendRow();
  if (columns === null) await database.query('delete from fulfilment.outbox');
  else
    await database.query(
      `update fulfilment.outbox set ${Object.entries(columns)
        .map(([name, value]) => `${name} = ${value}`)
        .join(', ')}`,
    );
  await failOver();
  expect(await note('a', [sent])).toMatchObject({ change: 'timeline', changedAt: expect.any(Date) });
  // A worker that has lost nothing cannot accept it for the other one.
  await waitForReports();
  expect(await note('b')).toMatchObject({ change: 'timeline' });
  await acceptDatabase(database.db, { as: 'restored', by: 'operator', lookedUp: [], advice: '' });
  expect(await note('a', [sent])).toMatchObject({ change: 'none', acceptedAs: 'restored' });
});

test('the new primary waits for every worker; one that was stopped or silent before has nothing to say', async () => {
  for (const worker of ['a', 'b', 'stopped', 'silent']) await start(worker);
  await markEnded(database.db, 'stopped');
  await database.query("update sync.push_workers set seen_at = now() - interval '3 minutes' where worker = 'silent'");
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  await waitForReports();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  expect(await note('b')).toMatchObject({ change: 'none', acceptedAs: 'failover' });
  const audited = await database.query('select by, action from sync.audit');
  expect(audited).toEqual([{ by: 'b', action: 'database_accepted' }]);
});

test('a worker that was lost at the failover holds all pushes, also of workers that start later', async () => {
  await start('lost');
  await failOver();
  expect(await note('new')).toMatchObject({ change: 'timeline' });
  await database.query("update sync.push_workers set seen_at = now() - interval '1 hour'");
  await waitForReports();
  expect(await note('new')).toMatchObject({ change: 'timeline' });
});

test('a worker whose row is lost reports missing rows before another one accepts the failover', async () => {
  for (const worker of ['a', 'b']) await start(worker);
  const lost = { id: 7, claimNo: 1_000, attempts: 1 };
  await database.query("delete from sync.push_workers where worker = 'b'");
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
  expect(await note('b', [lost])).toMatchObject({ change: 'timeline' });
  await waitForReports();
  expect(await note('a')).toMatchObject({ change: 'timeline' });
});

test('without a worker that has sent rows nobody can say that nothing was lost', async () => {
  await start('a');
  await markEnded(database.db, 'a');
  await failOver();
  await note('new');
  await waitForReports();
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
  await start('a');
  await acceptDatabase(database.db, { as: 'copy', by: 'operator', lookedUp: [], advice: '' });
  await failOver();
  expect(await note('a')).toMatchObject({ change: 'timeline', acceptedAs: 'copy' });
});
