import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/core/logger.ts';
import { connectDatabase } from '../../../../src/db/connect.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const start = useAdmin(database);

test('a page that reads a table which another session has locked says so', async () => {
  const { visitor } = await start({});
  await database
    .open(1)
    .transaction()
    .execute(async (trx) => {
      await sql`lock table fulfilment.orders in access exclusive mode`.execute(trx);
      const answer = await visitor.get('/orders?q=SO-1', { accept: 'application/json' });
      expect([answer.status, await answer.json()]).toEqual([
        503,
        { error: expect.stringContaining('has locked a table') },
      ]);
    });
});

test('a page whose login Postgres refuses names the setting', async () => {
  const url = Object.assign(new URL(database.url), { username: 'nobody_here' }).href;
  const { db, close } = connectDatabase(url, silentLogger, { name: 'admin', max: 1 });
  const { visitor } = await start({}, db);

  const answer = await visitor.get('/outbox/1', { accept: 'application/json' });
  expect([answer.status, await answer.json()]).toEqual([
    503,
    { error: expect.stringMatching(/^Postgres refuses the login .*DATABASE_URL/) },
  ]);
  await close();
});
