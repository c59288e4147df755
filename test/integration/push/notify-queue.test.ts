import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { notifyPushers } from '../../../src/db/listener.ts';
import { checkProblems } from '../../../src/operate/doctor/checks.ts';
import { findProblems } from '../../../src/operate/health/problems.ts';
import { readCurrentState } from '../../../src/operate/health/state.ts';
import { startPostgres } from '../../helpers/processes/postgres-server.ts';
import type { TestPostgres } from '../../helpers/processes/test-servers.ts';
import { waitFor } from '../../helpers/wait.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  // The smallest queue that Postgres allows. A full one concerns all databases of the server, so
  // this test has its own.
  postgres = await startPostgres({ max_notify_queue_pages: '64' });
});
afterAll(() => postgres.stop());

/** Connects as a role that may only connect, listens, and keeps a transaction open. */
async function holdUpQueue(owner: pg.Client): Promise<pg.Client> {
  await owner.query(`create role connects_only login password 'connects'`);
  const url = Object.assign(new URL(postgres.url), {
    username: 'connects_only',
    password: 'connects',
  });
  const stranger = new pg.Client(url.href);
  await stranger.connect();
  await stranger.query('listen held');
  await stranger.query('begin');
  await stranger.query('select 1');
  return stranger;
}

/** Notifies until the queue is full. */
async function fillQueue(owner: pg.Client): Promise<void> {
  const fill = async () => {
    for (let count = 0; ; count++)
      await owner.query(`select pg_notify('held', repeat('a', 7000) || $1)`, [count]);
  };
  await expect(fill()).rejects.toThrow('too many notifications');
}

test('a full NOTIFY queue stops no write, and doctor and an alert say so', async () => {
  await migrateDatabase(postgres.url, silentLogger);
  const owner = new pg.Client(postgres.url);
  await owner.connect();
  const config = readConfig({ database: true, clients: false }, { DATABASE_URL: postgres.url });
  const { db, close } = connectDatabase(postgres.url, silentLogger, { name: 'test', max: 4 });
  const stranger = await holdUpQueue(owner);
  try {
    await fillQueue(owner);
    await owner.query(
      `insert into fulfilment.outbox (kind, reference, payload) values ('no.such', 'A', '{}')`,
    );
    await owner.query(`select fulfilment.outbox_cancel(id) from fulfilment.outbox`);
    await owner.query('select sync.number_changes(10)');
    await notifyPushers(db);
    const problems = findProblems(await readCurrentState(db, config), config);
    expect(problems.map(({ code, severity }) => `${severity} ${code}`)).toContain(
      'bad notify_queue',
    );
    const found = {
      check: 'notify_queue',
      state: 'fail',
      found: expect.stringMatching('100 % of the NOTIFY queue'),
    };
    expect(checkProblems(problems)).toContainEqual(expect.objectContaining(found));
    await stranger.end();
    await waitFor('the queue to be empty again', async () =>
      findProblems(await readCurrentState(db, config), config).every(
        ({ code }) => code !== 'notify_queue',
      ),
    );
  } finally {
    await Promise.allSettled([stranger.end(), owner.end(), close()]);
  }
});
