import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useVerify } from '../../helpers/processes/run-verify.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';
import { useDifferingService } from '../../helpers/services/differing-service.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 20, strict: false });
const { service, differ } = useDifferingService(sandbox);
const pull = usePuller(database, service);
const { verifyAsJson } = useVerify(service);
const folder = mkdtempSync(join(tmpdir(), 'verify-'));
const written = join(folder, 'operations.json');
const writeOperations = (entries: object) => writeFileSync(written, JSON.stringify(entries));

const mug = ['--yes', '--sku', 'MUG-BLUE'];
const countParcels = async () => (await database.query('select from fulfilment.parcels')).length;
const inUse = { WAREHOUSE_OPERATIONS_FILE: written };

describe('against a service as we assume it', () => {
  test('nothing differs, nothing is written, and no value of the client is shown', async () => {
    await sandbox.advance(40 * 86_400);
    const before = await sandbox.call('GET', '/_sandbox/state?lists=orders');
    const after = await sandbox.lastPlace();
    const { code, differs, unknown, holds, output } = await verifyAsJson();
    expect({ code, differs }).toEqual({ code: 0, differs: [] });
    expect(holds.length).toBe(10);
    expect(unknown).toEqual(['track-trace', 'time-zone']);
    const requests = await sandbox.requests(after);
    const changing = requests.filter(({ method }) => method !== 'GET');
    const posted = new Set(changing.map(({ method, operation }) => `${method} ${operation}`));
    expect([...posted].sort()).toEqual([
      'POST common.token',
      'POST oldest.product.search',
      'POST v2.shipment.search',
    ]);
    expect(requests.filter(({ operation }) => operation === 'v2.shipment.trackTrace')).toEqual([]);
    expect(await sandbox.call('GET', '/_sandbox/state?lists=orders')).toEqual(before);
    const state = JSON.stringify(before);
    const values = [
      ...state.matchAll(/"(?:externalOrderNumber|lastName|email|street1)":"([^"]+)"/g),
    ];
    expect(values.length).toBeGreaterThan(50);
    for (const [, value = ''] of values) expect(output).not.toContain(value);
  });

  test('the track-trace list is asked once an hour by workers and --ask-track-trace together', async () => {
    const withDatabase = { DATABASE_URL: database.url };
    const countCalls = async () => (await sandbox.requestsTo('/v2/shipment/tracktrace')).length;
    done(await pull('track-trace'));
    const before = await countCalls();
    expect((await verifyAsJson(['--ask-track-trace'], withDatabase)).unknown).toContain(
      'track-trace',
    );
    expect(await countCalls()).toBe(before);
    await setScheduleClock(database, 3_700);
    await sandbox.advance(3_700);
    expect((await verifyAsJson(['--ask-track-trace'], withDatabase)).holds).toContain(
      'track-trace',
    );
    expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
    expect(await countCalls()).toBe(before + 1);
  });

  test('a wrong password is tried once, and nothing else is asked', async () => {
    const after = await sandbox.lastPlace();
    const { code, holds } = await verifyAsJson([], { WAREHOUSE_PASSWORD: 'wrong' });
    expect({ code, holds }).toEqual({ code: 1, holds: [] });
    const asked = (await sandbox.requests(after)).map(({ operation }) => operation);
    expect(asked).toEqual(['common.status.get', 'common.token']);
  });
});

describe('against a service that differs', () => {
  test('another path differs, and the file that names it is enough for verify and pulls', async () => {
    differ({ routes: { 'POST /v2/shipment/search': 'POST /v2/shipments/search' } });
    await sandbox.seed(6, { spreadDays: 5 });
    done(await pull('pull-shipments'));
    expect(await pull('pull-parcels')).toMatchObject({ status: 'failed' });
    expect(await countParcels()).toBe(0);
    const { code, differs, report } = await verifyAsJson();
    expect(code).toBe(1);
    expect(differs).toEqual(['shipment-ids', 'one-item-per-package']);
    expect(report.judgements.find(({ id }) => id === 'shipment-ids')).toMatchObject({
      evidence: expect.stringContaining('answered 404'),
      remedy: expect.stringContaining('correct the path of v2.shipment.search'),
    });
    writeOperations({ 'v2.shipment.search': { method: 'POST', path: '/v2/shipments/search' } });
    await setScheduleClock(database, 1.1 * 86_400);
    done(await pull('pull-parcels', { env: inUse }));
    expect(await countParcels()).toBeGreaterThanOrEqual(6);
    expect((await verifyAsJson([], inUse)).differs).toEqual([]);
  });

  test('a list that requires page[size] differs, and its setting is named', async () => {
    differ({ requiresPageSize: true });
    await sandbox.advance(10 * 86_400);
    const { differs, report } = await verifyAsJson();
    expect(differs).toContain('list-inbounds');
    expect(report.judgements.find(({ id }) => id === 'list-inbounds')).toMatchObject({
      evidence: expect.stringContaining('v3.inbounds.list: answered 400'),
      remedy: expect.stringContaining('set "pageSize": true for this list'),
    });
  });

  test('an update that erases what it omits differs', async () => {
    await sandbox.switches({ omittedRelationships: 'erase' });
    const { differs, output } = await verifyAsJson(['--allow-writes', ...mug]);
    expect(differs).toContain('order-update');
    expect(output).toContain('erased deliveryAddress.lastName');
    expect(output).toContain('\\"sendsRelationships\\"');
  });

  test.each([
    ['order-create', { requiresTopIncluded: true }],
    ['order-update', { routes: { 'PATCH /v3/orders/:id': 'PUT /v3/orders/:id' } }],
    ['attachment', { contentMember: 'document' }],
    ['item-cancel', { cancelAttributes: { status: 'CANCELLED' } }],
  ])('%s is not confirmed by a service with %j', async (id, differences) => {
    differ(differences);
    const { holds, report } = await verifyAsJson(['--allow-writes', ...mug]);
    expect(holds).not.toContain(id);
    for (const words of report.left) expect(words).toContain('is cancelled');
  });

  test('with the entries that it names, a service that differs holds', async () => {
    differ({
      routes: { 'PATCH /v3/orders/:id': 'PUT /v3/orders/:id' },
      requiresTopIncluded: true,
      cancelAttributes: { status: 'CANCELLED' },
      contentMember: 'document',
    });
    writeOperations({
      'v3.orders.create': { method: 'POST', path: '/v3/orders', included: 'top' },
      'v3.orders.update': { method: 'PUT', path: '/v3/orders/{id}', included: 'top' },
      'v3.orderAttachments.create': {
        method: 'POST',
        path: '/v3/orderAttachments',
        contentMember: 'document',
      },
      'v3.orderItems.cancel': {
        method: 'PATCH',
        path: '/v3/orderItems/{id}',
        attributes: { status: 'CANCELLED' },
      },
    });
    const { differs, holds } = await verifyAsJson(['--allow-writes', ...mug], inUse);
    expect(differs).toEqual([]);
    expect(holds).toEqual(expect.arrayContaining(['order-create', 'attachment', 'item-cancel']));
  });
});
