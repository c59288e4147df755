import { describe, expect, test } from 'vitest';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { readOne, useClient } from '../../helpers/client.ts';
import { useConfigFolders } from '../../helpers/config/config-folder.ts';
import { useDatabase } from '../../helpers/database.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ...lively, ordersPerDay: 20 });
const pull = usePuller(database, sandbox);
const client = useClient(sandbox);
const makeFolder = useConfigFolders();

const day = 86_400;
const env = (more: Record<string, string> = {}) =>
  workerEnv(database.url, sandbox, { LOG_LEVEL: 'fatal', ...more });
const run = (...args: string[]) => runCommand(args, env({ LOG_LEVEL: 'silent' }));
const pollAll = async () => {
  for (const { name } of streams) done(await pull(`pull-${name}` as 'pull-shipments'));
};

describe('wrong usage ends with 2 and says what to do', () => {
  test.each<[string[], RegExp]>([
    [
      ['reconcile', 'parcels'],
      /'parcels' is invalid .*stream.*choices are shipments, return-items/,
    ],
    [['backfill', 'orders', '--from', 'May'], /--from May is not a date in the form YYYY-MM-DD/],
    [['backfill', 'orders', '--to', '2026-13-01'], /--to 2026-13-01 is not a date in the form YY/],
    [['backfill', 'orders', '--from', '2026-05-02', '--to', '2026-05-01'], /--to is before --from/],
    [
      ['refetch', 'return-items', '5'],
      /no read by id for return-items; use: backfill return-items/,
    ],
    [['refetch', 'shipments', 'x'], /x is not an id/],
    [['quarantine', 'show', 'x'], /x is not the number/],
  ])('%j', async (args, words) => {
    const { code, output } = await run(...args);
    expect(output).toMatch(words);
    expect(code).toBe(2);
  });
});

test('refetch reads a return authorization that was not pushed from here', async () => {
  await sandbox.seed(3);
  const { data } = (await client.ask('v3.shipments.list', { query: 'include=shipmentItems' })).body;
  const [shipment] = data;
  const created = await client.ask('v3.returnMerchandiseAuthorizations.create', {
    body: {
      data: {
        type: 'returnMerchandiseAuthorization',
        attributes: { externalReference: 'R-1' },
        relationships: { shipment: { data: { id: shipment?.id, type: 'shipment' } } },
        included: [
          {
            type: 'returnMerchandiseAuthorizationItem',
            attributes: { quantity: 1 },
            relationships: {
              shipmentItem: { data: { id: shipment?.included?.[0]?.id, type: 'shipmentItem' } },
              returnReason: { data: { id: 42, type: 'returnReason' } },
            },
          },
        ],
      },
    },
  });
  const id = String(readOne(created).id);
  const refetch = async (which: string) =>
    (await run('refetch', 'return-merchandise-authorizations', which)).output;
  expect(await refetch(id)).toContain('was missing in the tables; stored now');
  expect(await database.count('fulfilment.return_merchandise_authorization_items')).toBe(1);
  expect(await refetch(id)).toContain('is the same in the tables and at the service');
  expect(await refetch('999999999')).toContain('is not known to the service');
  await client.ask('v3.returnMerchandiseAuthorizations.delete', { path: { id } });
  expect(await refetch(id)).toContain('is not known to the service');
  expect(
    await database.query(
      'select unlisted_since is null as listed from fulfilment.return_merchandise_authorizations',
    ),
  ).toEqual([{ listed: false }]);
});

test('reconcile prints what it found, backfill heals only its days, refetch only its row', async () => {
  await sandbox.advance(20 * day);
  await pollAll();
  await database.query(`update fulfilment.orders set email = 'damaged'`);
  const days = await database.query<{ day: string; n: number }>(
    'select ordered_on::text as day, count(*)::int as n from fulfilment.orders group by 1 order by 1',
  );
  expect(days.length).toBeGreaterThan(7);
  const inside = days.slice(4, 7).reduce((sum, { n }) => sum + n, 0);
  const damaged = `fulfilment.orders where email = 'damaged'`;
  const all = await database.count(damaged);
  const span = ['--from', days[4]?.day ?? '', '--to', days[6]?.day ?? ''];
  const backfill = await run('backfill', 'orders', ...span, '--json');
  // On a slow machine, lines about its progress come first.
  expect(JSON.parse(backfill.output.slice(backfill.output.indexOf('[')))).toMatchObject([
    { status: 'done', stale: inside, missing: 0 },
  ]);
  expect(await database.count(damaged)).toBe(all - inside);
  const refetch = async () =>
    (await run('refetch', 'orders', String((await database.ids(damaged))[0]))).output;
  expect(await refetch()).toContain('differed in the tables; healed now');
  await sandbox.faults({ operation: 'v3.orders.get', effect: { status: 500 } });
  expect(await refetch()).toContain('was not read');
  await sandbox.clearFaults();
  expect((await run('reconcile', 'orders')).output).toMatch(
    new RegExp(
      `^default reconcile orders: done: .*; missing 0, stale ${all - inside - 1}, extra 0\n  compared with the service: all since `,
      'm',
    ),
  );
  expect(await database.count(damaged)).toBe(0);
});

test('backfill in the background prints one JSON list for several clients', async () => {
  const folder = makeFolder();
  folder.clients(sandbox.url, 'north', 'south');
  const { code, output } = await runCommand(['backfill', 'orders', '--background', '--json'], {
    DATABASE_URL: database.url,
    WAREHOUSE_CLIENTS_FILE: folder.file('clients.json'),
  });
  expect(code).toBe(0);
  expect(JSON.parse(output)).toMatchObject([
    { client: 'north', stream: 'orders', rescan: expect.any(Number) },
    { client: 'south', stream: 'orders', rescan: expect.any(Number) },
  ]);
});

test('quarantine list and show name the cause; replay releases what can be decoded', async () => {
  await sandbox.advance(10 * day);
  const set = [{ path: ['data', 2, 'attributes', 'shippedOn'], value: 'soon' }];
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { set } });
  done(await pull('pull-shipments'));
  const stored = await database.count('fulfilment.shipments');
  expect((await run('quarantine', 'list')).output).toMatch(
    /default +shipments +\d+ +attributes.shippedOn +is not an ISO 8601/,
  );
  expect((await run('quarantine', 'list', '--stream', 'orders')).output).toBe(
    'Nothing is in quarantine.',
  );
  const [id] = await database.ids('sync.quarantine');
  const shown = await run('quarantine', 'show', String(id), '--json');
  expect(JSON.parse(JSON.parse(shown.output).document)).toMatchObject({
    attributes: { shippedOn: 'soon' },
  });
  expect((await run('quarantine', 'replay')).output).toContain('0 released, 1 kept');
  // Instead of an upgrade that can decode the document, the test makes the stored document
  // decodable.
  await database.query(`update sync.quarantine set document = replace(document, '"soon"', 'null')`);
  expect((await run('quarantine', 'replay', 'shipments')).output).toContain('1 released, 0 kept');
  expect(await database.count('fulfilment.shipments')).toBe(stored + 1);
});

test('replaying an older reading overwrites nothing newer', async () => {
  await sandbox.advance(10 * day);
  done(await pull('pull-shipments'));
  await database.query(`
    insert into sync.quarantine (client, stream, resource_key, resource_id, member_path, reason, document, run_worker, read_no)
    select client, 'shipments', id::text, id, 'x', 'x', (jsonb_set(raw, '{attributes,warehouseCode}', '"OLD"')
      || jsonb_build_object('included', (select jsonb_agg(i.raw) from fulfilment.shipment_items i where i.shipment_id = s.id)))::text, 'w', read_no - 1
    from fulfilment.shipments s order by s.id limit 1`);
  expect((await run('quarantine', 'replay')).output).toContain('1 released, 0 kept');
  expect(await database.count(`fulfilment.shipments where warehouse_code = 'OLD'`)).toBe(0);
});
