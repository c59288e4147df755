import { setTimeout as wait } from 'node:timers/promises';
import { sql, type Transaction } from 'kysely';
import { describe, expect, test } from 'vitest';
import type { DB } from '../../../src/db/generated/tables.ts';
import { appendChanges, numberChanges } from '../../../src/pull/sql/feed.ts';
import { FeedNumbering } from '../../../src/push/feed-numbering.ts';
import { Random } from '../../../src/sandbox/random.ts';
import { useDatabase } from '../../helpers/database.ts';
import { numberFeed } from '../../helpers/feed.ts';

const database = useDatabase();

const readChangesSince = (after: number, max = 1_000) =>
  database.query<{ seq: string; id: string }>(
    'select seq, id from fulfilment.changes_since($1, $2)',
    [after, max],
  );
const change = (id: number, key: string | null = null) =>
  ({ entity: 'shipments', id, key, operation: 'updated', changedColumns: ['status'] }) as const;
const append = async (id: number) => {
  await database.db.transaction().execute((trx) => appendChanges(trx, 'default', [change(id)]));
  await numberFeed(database.db);
};

/** Follows the feed until nothing is written any more, and returns the entries in their order. */
async function follow(isWriting: () => boolean) {
  const read: { seq: string; id: string; key: string | null }[] = [];
  for (let last = false; !last; ) {
    last = !isWriting();
    const rows = await database.query<(typeof read)[number]>(
      'select seq, id, key from fulfilment.changes_since($1, 7)',
      [read.at(-1)?.seq ?? 0],
    );
    read.push(...rows);
    last &&= rows.length === 0;
    await wait(1);
  }
  return read;
}

const writers = 8;
const transactions = 30;

test('8 writers of one row, and 3 that number: a reader meets each change once, in its order', async () => {
  const [db, random] = [database.open(writers + 3), new Random(8)];
  const pause = (trx: Transaction<DB>) =>
    sql`select pg_sleep(${random.next() * 0.004})`.execute(trx);
  await database.query("insert into sync.leases (client, name, key) values ('default', 'row', 0)");
  let writing = writers;
  let isNumbered = false;
  const write = async (writer: number) => {
    for (let nth = 1; nth <= transactions; nth++)
      await db.transaction().execute(async (trx) => {
        const own = change(writer * transactions + nth);
        if (nth % 2 === 0) await appendChanges(trx, 'default', [own]);
        await pause(trx);
        const { rows } = await sql<{ key: number }>`
          update sync.leases set key = key + 1 where name = 'row' returning key`.execute(trx);
        await appendChanges(trx, 'default', [change(0, String(rows[0]?.key))]);
        await pause(trx);
        if (nth % 2 === 1) await appendChanges(trx, 'default', [own]);
      });
    writing--;
  };
  const number = async () => {
    while (writing > 0) await numberChanges(db).then(() => wait(2));
    await numberFeed(db);
  };

  const [read] = await Promise.all([
    follow(() => writing > 0 || !isNumbered),
    Promise.all([number(), number(), number()]).then(() => {
      isNumbered = true;
    }),
    ...Array.from({ length: writers }, (_, writer) => write(writer)),
  ]);

  const all = Array.from({ length: writers * transactions }, (_, index) => index + 1);
  const ofRow = read.filter(({ id }) => Number(id) === 0).map(({ key }) => Number(key));
  expect(ofRow).toEqual(all);
  const others = read.map(({ id }) => Number(id)).filter((id) => id !== 0);
  expect(others.toSorted((one, two) => one - two)).toEqual(all);
});

test('a writer that stays in its transaction holds up nobody, and its change comes last', async () => {
  const slow = await database.open(1).startTransaction().execute();
  await appendChanges(slow, 'default', [change(1)]);
  await append(2);
  await append(3);
  expect((await readChangesSince(0)).map(({ id }) => Number(id))).toEqual([2, 3]);

  await slow.commit().execute();
  await numberFeed(database.db);

  expect((await readChangesSince(2)).map(({ id }) => Number(id))).toEqual([1]);
});

test('a row that another server wrote under an old number is found by a whole search', async () => {
  await append(1);
  await append(2);
  await database.query(
    `insert into sync.new_changes (xid, client, entity, id, operation) values ('3', 'default', 'shipments', 3, 'created')`,
  );
  await numberFeed(database.db);
  expect(await readChangesSince(2)).toEqual([]);
  expect(await numberChanges(database.db, true)).toMatchObject({ numbered: 1 });
  // A mark from a server that was ahead does not count.
  await database.query("update sync.feed_mark set numbered = '9000000:9000000:'");
  await append(4);
  expect((await readChangesSince(2)).map(({ id }) => Number(id))).toEqual([3, 4]);
});

test('a whole search that fails does not keep later looks from the feed', async () => {
  await database.query('alter function sync.number_changes rename to number_some');
  await database.query(`
    create function sync.number_changes(max integer, whole boolean, out numbered integer,
      out outbox_ids bigint[])
    language plpgsql as $$
    begin
      if whole then raise exception 'too slow' using errcode = '57014'; end if;
      select * from sync.number_some(max) into numbered, outbox_ids;
    end $$`);
  await database.db.transaction().execute((trx) => appendChanges(trx, 'default', [change(1)]));

  const errors: unknown[] = [];
  const feed = new FeedNumbering(database.db, (error) => errors.push(error));
  await feed.number();
  await feed.number();
  expect(errors).toHaveLength(1);
  expect(await readChangesSince(0)).toHaveLength(1);
});

test('while one transaction numbers, another leaves the changes to it', async () => {
  await database.db.transaction().execute((trx) => appendChanges(trx, 'default', [change(1)]));
  const first = await database.open(1).startTransaction().execute();
  expect(await numberChanges(first)).toMatchObject({ numbered: 1 });
  expect(await numberChanges(database.db)).toMatchObject({ numbered: null });
  await first.rollback().execute();
  expect(await numberChanges(database.db)).toMatchObject({ numbered: 1 });
  expect(await readChangesSince(0)).toHaveLength(1);
});

test('the changes that a rescan found stay marked, however others come between them', async () => {
  const add = (id: number, isRescan: boolean) =>
    database.db
      .transaction()
      .execute((trx) => appendChanges(trx, 'default', [change(id)], isRescan));
  for (const [index, isRescan] of [true, true, false, true, false].entries())
    await add(index + 1, isRescan);
  await numberFeed(database.db);
  expect(
    await database.query('select first_seq, last_seq from sync.rescanned_changes order by 1'),
  ).toEqual([
    { first_seq: 1, last_seq: 2 },
    { first_seq: 4, last_seq: 4 },
  ]);
});

describe('changes_since', () => {
  test('raises if changes after the seq are no longer all kept, and says where to continue', async () => {
    for (const id of [1, 2, 3]) await append(id);
    await database.query('update sync.feed_mark set pruned_until = 2');
    await expect(readChangesSince(1)).rejects.toThrow(
      'no longer all kept (pruned until 2): read the tables again, then continue from 3',
    );
    expect(await readChangesSince(2)).toHaveLength(1);
  });

  test('raises if a seq was never given out here, or if an argument is invalid', async () => {
    await append(1);
    await expect(readChangesSince(5)).rejects.toThrow(
      'was never used here: was the database restored? Read the tables again, then continue from 1',
    );
    await expect(readChangesSince(-1)).rejects.toThrow('after must be');
    await expect(readChangesSince(0, 0)).rejects.toThrow('max must lie');
    await expect(database.query('select * from fulfilment.changes_since(null)')).rejects.toThrow(
      'after must be',
    );
  });
});
