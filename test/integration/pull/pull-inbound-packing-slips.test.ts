import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/cli/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { emptyList, lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);

const day = 86_400;
const job = 'pull-inbound-packing-slips';
const differences = () => compareWithSandbox(database.db, sandbox.url, ['inbound-packing-slips']);
const open = () =>
  database.query<{ id: number; unlisted: boolean }>(
    `select id, unlisted_since is not null as unlisted from fulfilment.inbound_packing_slips
     where status <> 'COMPLETED' order by id`,
  );

test('the slips equal the sandbox day by day; a poll with nothing new writes nothing', async () => {
  await sandbox.advance(20 * day);
  done(await pull(job));
  for (let days = 0; days < 10; days++) {
    expect(await differences()).toEqual([]);
    await sandbox.advance(day);
    done(await pull(job));
  }
  expect(await differences()).toEqual([]);
  expect(done(await pull(job))).toMatchObject({
    created: 0,
    updated: 0,
    removed: 0,
    stale: 0,
    warnings: [],
  });
});

test('an open slip on neither list is marked after two polls, until it is listed again', async () => {
  await sandbox.advance(15 * day);
  done(await pull(job));
  const [hidden] = await open();
  await sandbox.faults({
    operation: 'v3.inboundPackingSlips.list',
    count: 1,
    effect: { hideRow: { index: 0, seconds: 2 * day } },
  });
  done(await pull(job));
  expect((await open()).filter(({ unlisted }) => unlisted)).toEqual([]);
  const { warnings } = done(await pull(job));
  expect((await open()).filter(({ unlisted }) => unlisted)).toMatchObject([{ id: hidden?.id }]);
  expect(warnings).toEqual([expect.stringContaining(String(hidden?.id))]);
  expect(done(await pull(job))).toMatchObject({ updated: 0, warnings });
  await sandbox.advance(3 * day);
  expect(done(await pull(job)).warnings).toEqual([]);
  expect(await differences()).toEqual([]);
});

test('a slip that is too old to be listed is named in a warning, but never marked', async () => {
  await sandbox.advance(15 * day);
  done(await pull(job));
  const [old] = await open();
  await database.query(
    `update fulfilment.inbound_packing_slips set expected_on = '2026-01-01' where id = $1`,
    [old?.id],
  );
  await sandbox.faults({
    operation: 'v3.inboundPackingSlips.list',
    count: 1,
    effect: { hideRow: { index: 0, seconds: 9 * day } },
  });
  for (let polls = 0; polls < 3; polls++) {
    expect(done(await pull(job)).warnings).toEqual([
      expect.stringContaining('older than the 90 days'),
    ]);
  }
  expect((await open()).filter(({ unlisted }) => unlisted)).toEqual([]);
});

test('if both lists are empty, no slip is marked, and the poll warns', async () => {
  await sandbox.advance(15 * day);
  done(await pull(job));
  await sandbox.faults({ operation: 'v3.inboundPackingSlips.list', effect: emptyList });
  for (let polls = 0; polls < 3; polls++) {
    const { warnings } = done(await pull(job));
    expect(warnings).toContainEqual(
      expect.stringContaining('the lists seem incomplete, so none was marked'),
    );
  }
  expect((await open()).filter(({ unlisted }) => unlisted)).toEqual([]);
});
