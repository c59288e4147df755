import { expect, test } from 'vitest';
import { runWork } from '../../../../src/schedule/runs.ts';
import { makeDaemon, useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { done, makeConfig, runInProcess, usePuller } from '../../../helpers/puller.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const admin = useAdmin(database);
const pull = usePuller(database, sandbox);

const daemon = makeDaemon({
  runFor: (_client, work) =>
    runInProcess(makeConfig(database, sandbox), database, (deps, client) =>
      runWork(deps, work, { client, trigger: 'manual' }, new AbortController().signal),
    ),
});

test('a resource in quarantine has a page, where it is decoded again', async () => {
  await sandbox.seed(3);
  const path = ['data', 1, 'included', 0, 'attributes', 'quantity'];
  const effect = { set: [{ path, value: 'three' }] };
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
  expect(done(await pull('pull-shipments'))).toMatchObject({ quarantined: 1 });
  const { visitor } = await admin({}, undefined, {}, () => daemon);
  const [row] = await database.query<{ id: number }>('select id from sync.quarantine');
  const page = `/quarantine/${row?.id}`;
  expect(await (await visitor.get('/quarantine')).text()).toContain(`href="${page}"`);
  expect(await (await visitor.get(page)).text()).toContain('attributes.quantity');

  const replay = async () =>
    (await visitor.post(`${page}/replay`, {}, page)).headers.get('location') ?? '';
  expect(await replay()).toContain(`${page}?said=kept`);
  await database.query(
    `update sync.quarantine set document = replace(document::text, '"three"', '3')`,
  );
  expect(await replay()).toContain('/quarantine?said=released');

  expect(await database.query('select from fulfilment.shipments')).toHaveLength(3);
  expect((await visitor.get(page)).status).toBe(404);
  const audit = await database.query('select by, action, client from sync.audit');
  const entry = { by: 'page 127.0.0.1', action: 'quarantine_replayed', client: 'default' };
  expect(audit).toEqual([entry, entry]);
});
