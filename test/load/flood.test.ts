import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { findProblems } from '../../src/operate/health/problems.ts';
import { readCurrentState } from '../../src/operate/health/state.ts';
import { ensureJobs } from '../../src/schedule/sql/due-jobs.ts';
import { registerClients } from '../../src/service/sql/clients.ts';
import { useAdmin } from '../helpers/admin.ts';
import { useDatabase } from '../helpers/database.ts';
import { workerEnv } from '../helpers/processes/processes.ts';
import { runCommand } from '../helpers/processes/run-command.ts';
import { makeConfig } from '../helpers/puller.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const admin = useAdmin(database);

/** More rows than a call of a function has room for arguments. */
const flood = 150_000;

/** Inserts rows without the triggers, which would take most of the time. */
async function insertMany(
  count: number,
  toStatement: (from: number, to: number) => string,
): Promise<void> {
  for (let from = 1; from <= count; from += 25_000)
    await database.db.transaction().execute(async (trx) => {
      await sql`set local session_replication_role = replica`.execute(trx);
      await sql.raw(toStatement(from, Math.min(count, from + 24_999))).execute(trx);
    });
}

const insertOrders = (count: number) =>
  insertMany(
    count,
    (from, to) => `
      insert into fulfilment.outbox (client, kind, reference)
      select 'a-' || n, 'order.cancel', 'SO-' || n from generate_series(${from}, ${to}) n`,
  );

test('rows of any number of invented clients make no page, metric, list or alert long', async () => {
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await ensureJobs(database.db, [
    { client: 'default', job: 'pull-orders', stream: 'orders', due: null },
  ]);
  await insertOrders(flood);
  await insertMany(
    flood,
    (from, to) => `
      insert into sync.watched_articles (client, sku) select 'a-' || n, 'X' from generate_series(${from}, ${to}) n`,
  );

  const { visitor } = await admin();
  for (const path of ['/', '/metrics', '/outbox', '/schedules', '/charts']) {
    const answer = await visitor.get(path);
    const text = await answer.text();
    expect([path, answer.status, text.length < 200_000]).toEqual([path, 200, true]);
    if (path === '/metrics')
      expect(text).toContain(`outbox_rows{client="unknown",status="pending"} ${flood}\n`);
  }
  const config = makeConfig(database, sandbox);
  expect(findProblems(await readCurrentState(database.db, config), config).length).toBeLessThan(20);
  const env = workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' });
  for (const call of [['status'], ['status', '--json'], ['doctor'], ['outbox', 'list']])
    expect((await runCommand(call, env)).output.length, call.join(' ')).toBeLessThan(100_000);
});
