import { expect, test } from 'vitest';
import { checkInserts, checkSequences } from '../../../src/operate/doctor/checks.ts';
import { acceptDatabase } from '../../../src/push/sql/push-database.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const accept = () => acceptDatabase(database.db, 'moved', 'operator');
const insert = () =>
  database.query<{ id: number }>(
    "insert into fulfilment.outbox (kind, reference) values ('order.cancel', 'SO-1') returning id",
  );
const readNumber = async () =>
  (await database.query<{ n: number }>("select nextval('sync.read_no') as n"))[0]?.n;

/** Fills tables, and puts all sequences back to their start, as a logical replication leaves them. */
async function replicate(): Promise<void> {
  await database.query(`
    insert into fulfilment.outbox (id, kind, reference, status, next_attempt_at, lease_until, claim_no)
    overriding system value
    values (93, 'order.cancel', 'SO-1', 'sending', null, now(), 5000)`);
  await database.query(`
    insert into sync.audit (id, by, action, detail, outbox_ids) overriding system value
    values (40, 'x', 'outbox_done', '', '{200}')`);
  await database.query(`
    insert into fulfilment.changes (seq, client, entity, id, operation, changed_columns)
    overriding system value
    values (700, 'default', 'outbox', 150, 'updated', '{status}')`);
}

test('doctor finds sequences that are behind the tables; accept raises all of them', async () => {
  expect(await checkSequences(database.db)).toMatchObject([{ state: 'ok' }]);
  await replicate();
  const [found] = await checkSequences(database.db);
  expect(found).toMatchObject({
    state: 'fail',
    remedy: expect.stringContaining('database accept'),
  });

  await accept();

  expect(await checkSequences(database.db)).toMatchObject([{ state: 'ok' }]);
  expect((await insert())[0]?.id).toBeGreaterThan(200 + 900_000);
  expect(await readNumber()).toBeGreaterThan(5_000 + 900_000);
});

test('a reader that is ahead of an accepted feed is told to read the tables again', async () => {
  await replicate();
  await accept();
  const read = (after: number) =>
    database.query('select seq from fulfilment.changes_since($1)', [after]);

  await expect(read(701)).rejects.toThrow(/never used here/);
  expect(await read(0)).toHaveLength(1);
  expect(await read(700)).toEqual([]);

  const [entry] = await database.query<{ seq: number }>(`
    insert into fulfilment.changes (client, entity, id, operation, changed_columns)
    values ('default', 'outbox', 1, 'updated', '{status}') returning seq`);
  expect(await read(700)).toEqual([entry]);
  expect(await read(entry?.seq ?? 0)).toEqual([]);
});

test('an ERP can insert if the server refuses to tell its position, and doctor tries it', async () => {
  await database.query(`
    revoke execute on function pg_current_wal_lsn() from public;
    grant usage on schema sync to fulfilment_reader;
    alter function sync.database_mark() owner to fulfilment_reader`);

  await insert();
  expect(await checkInserts(database.db)).toMatchObject([{ state: 'ok' }]);
  const [row] = await database.query<{ mark: string }>('select sync.database_mark() as mark');
  expect(row?.mark).toMatch(/^\d+\/\d+\/\d+\/-$/);

  await database.query(
    "create function public.refuse() returns text language plpgsql as $$ begin raise exception 'no'; end $$",
  );
  await database.query(
    'alter table fulfilment.outbox alter column refusal set default public.refuse()',
  );
  expect(await checkInserts(database.db)).toMatchObject([{ state: 'fail', found: 'no' }]);
  expect(await database.count('fulfilment.outbox')).toBe(1);
});
