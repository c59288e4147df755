import { expect, test } from 'vitest';
import { findProblems } from '../../../src/operate/health/problems.ts';
import { readCurrentState } from '../../../src/operate/health/state.ts';
import { useAdmin } from '../../helpers/admin.ts';
import { useDatabase } from '../../helpers/database.ts';
import { storePageRows } from '../../helpers/page-rows.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { makeConfig } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const admin = useAdmin(database);

test.each(['infinity', '-infinity', '0044-03-15 BC', '2300-01-01', '1800-01-01'])(
  'the ERP cannot set not_before to %s',
  async (time) => {
    const insert = `insert into fulfilment.outbox (kind, reference, not_before) values ('order.cancel', 'A', '${time}')`;
    await expect(database.query(insert)).rejects.toThrow(
      /^not_before is .+; it must be within 100 years of the insertion/,
    );
  },
);

/** Sets every time of our tables that may hold any value, for rows that exist. */
async function setAllTimes(time: string): Promise<void> {
  const columns = await database.query<{ target: string; name: string }>(`
    select c.oid::regclass::text as target, quote_ident(a.attname) as name
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    where c.relkind = 'r' and c.relnamespace in ('fulfilment'::regnamespace, 'sync'::regnamespace)
      and a.atttypid = 'timestamptz'::regtype and a.attnum > 0 and c.relname <> 'migrations'
      and c.relname <> 'admin_sessions'`);
  expect(columns.length).toBeGreaterThan(50);
  for (const { target, name } of columns)
    await database
      .query(`update ${target} set ${name} = '${time}' where ${name} is not null`)
      .catch((error: Error) =>
        expect(error.message).toMatch(/violates check|not_before|must be|out of range/),
      );
}

// JavaScript has no such time, has it only as a number, or has another form for it.
test.each(['294276-12-31 23:59:59+00', 'infinity', '4713-01-01 BC'])(
  'a stored time of %s stops no page, metric, problem or command',
  async (time) => {
    await storePageRows(database, { words: 'x', reference: 'SO-1' });
    await setAllTimes(time);

    const { visitor } = await admin();
    const pages = ['outbox', 'outbox/1', 'runs', 'schedules', 'quarantine', 'audit', 'charts'];
    const others = ['', 'metrics', 'livez', 'queues', 'order?client=default&number=SO-1'];
    for (const path of [...pages, ...others])
      expect([path, (await visitor.get(`/${path}`)).status < 500]).toEqual([path, true]);
    const config = makeConfig(database, sandbox);
    expect(
      findProblems(await readCurrentState(database.db, config), config).length,
    ).toBeGreaterThan(0);
    const env = workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' });
    for (const call of [
      ...['outbox list', 'outbox list --json', 'outbox show 1', 'quarantine list'],
      ...['quarantine show 1', 'client list', 'status', 'status --json'],
    ]) {
      const { output } = await runCommand(call.split(' '), env);
      expect(output, call).not.toMatch(/RangeError|Invalid time|unexpected|is not a function/);
    }
  },
);
