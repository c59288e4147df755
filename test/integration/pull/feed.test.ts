import { setTimeout as wait } from 'node:timers/promises';
import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { appendChanges } from '../../../src/pull/sql/feed.ts';
import { Random } from '../../../src/sandbox/random.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const readChangesSince = (after: number, max = 1_000) =>
  database.query<{ seq: string; id: string }>(
    'select seq, id from fulfilment.changes_since($1, $2)',
    [after, max],
  );
const append = (id: number) =>
  database.db
    .transaction()
    .execute((trx) =>
      appendChanges(trx, 'default', [
        { entity: 'shipments', id, operation: 'updated', changedColumns: ['status'] },
      ]),
    );

const runs = 20;
const writers = 8;
const transactions = 12;

test('8 writers with random delays: a reader that follows misses nothing and meets nothing twice', async () => {
  const db = database.open(writers);
  const random = new Random(8);
  const read: number[] = [];
  let seq = 0;
  for (let run = 0; run < runs; run++) {
    let writing = writers;
    const write = async (writer: number) => {
      for (let nth = 0; nth < transactions; nth++) {
        const id = (run * writers + writer) * transactions + nth + 1;
        await db.transaction().execute(async (trx) => {
          await sql`select pg_sleep(${random.next() * 0.004})`.execute(trx);
          await appendChanges(trx, 'default', [
            { entity: 'shipments', id, operation: 'updated', changedColumns: ['status'] },
          ]);
          await sql`select pg_sleep(${random.next() * 0.004})`.execute(trx);
        });
      }
      writing--;
    };
    const follow = async () => {
      for (let last = false; !last; ) {
        last = writing === 0;
        const rows = await readChangesSince(seq, 7);
        read.push(...rows.map(({ id }) => Number(id)));
        seq = Number(rows.at(-1)?.seq ?? seq);
        last &&= rows.length === 0;
        await wait(1);
      }
    };
    await Promise.all([...Array.from({ length: writers }, (_, writer) => write(writer)), follow()]);
  }
  const all = Array.from({ length: runs * writers * transactions }, (_, index) => index + 1);
  expect(read.length).toBe(all.length);
  expect([...read].sort((left, right) => left - right)).toEqual(all);
});

describe('changes_since', () => {
  test('returns the changes after a seq, up to a maximum', async () => {
    for (const id of [1, 2, 3]) await append(id);
    expect((await readChangesSince(0, 2)).map(({ id }) => Number(id))).toEqual([1, 2]);
    expect((await readChangesSince(2)).map(({ id }) => Number(id))).toEqual([3]);
    expect(await readChangesSince(3)).toEqual([]);
  });

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
