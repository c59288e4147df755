import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { recordListLag } from '../../../src/push/sql/look-ups.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useVerify } from '../../helpers/processes/run-verify.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';
import { useDifferingService } from '../../helpers/services/differing-service.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 20, strict: false });
const { service, differ } = useDifferingService(sandbox);
const pull = usePuller(database, service);
const outbox = usePusher(database, service);
const { verify, verifyAsJson } = useVerify(service);
const folder = mkdtempSync(join(tmpdir(), 'verify-'));
const written = join(folder, 'operations.json');

const countParcels = async () => (await database.query('select from fulfilment.parcels')).length;
const inUse = { WAREHOUSE_OPERATIONS_FILE: written };

describe('against a service as we assume it', () => {
  test('nothing differs, nothing is written, and no value of the client is shown', async () => {
    await sandbox.advance(40 * 86_400);
    const before = await sandbox.call('GET', '/_sandbox/state?lists=orders');
    const after = await sandbox.lastPlace();
    const { code, differs, unknown, holds, output } = await verifyAsJson();
    expect({ code, differs }).toEqual({ code: 0, differs: [] });
    expect(holds.length).toBeGreaterThan(17);
    expect(unknown).toEqual(['route-v2.shipment.trackTrace', 'list-lag', 'time-zone']);
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

  test('an empty service leaves open what needs data, and --ask-track-trace asks that list', async () => {
    await sandbox.call('POST', '/_sandbox/reset', { ordersPerDay: 0 });
    const { code, unknown, holds } = await verifyAsJson(['--ask-track-trace']);
    expect(code).toBe(0);
    expect(unknown).toEqual(expect.arrayContaining(['commas', 'shipment-ids', 'next-link']));
    expect(holds).toContain('route-v2.shipment.trackTrace');
  });

  test('the track-trace list is asked once an hour by workers and --ask-track-trace together', async () => {
    const withDatabase = { DATABASE_URL: database.url };
    const countCalls = async () => (await sandbox.requestsTo('/v2/shipment/tracktrace')).length;
    done(await pull('track-trace'));
    const before = await countCalls();
    expect((await verifyAsJson(['--ask-track-trace'], withDatabase)).unknown).toContain(
      'route-v2.shipment.trackTrace',
    );
    expect(await countCalls()).toBe(before);
    await setScheduleClock(database, 3_700);
    await sandbox.advance(3_700);
    expect((await verifyAsJson(['--ask-track-trace'], withDatabase)).holds).toContain(
      'route-v2.shipment.trackTrace',
    );
    expect(await pull('track-trace')).toMatchObject({ status: 'skipped', reason: 'not_yet' });
    expect(await countCalls()).toBe(before + 1);
  });

  test('the longest lag that look-ups of workers met is shown, and differs if it is too long', async () => {
    const withDatabase = { DATABASE_URL: database.url };
    const find = async () => {
      const { report } = await verifyAsJson([], withDatabase);
      return report.judgements.find(({ id }) => id === 'list-lag');
    };
    await pull('pull-orders');
    expect(await find()).toMatchObject({ verdict: 'cannot tell' });
    await recordListLag(database.db, 'default', 200_000);
    await recordListLag(database.db, 'default', 100_000);
    expect(await find()).toMatchObject({
      verdict: 'holds',
      evidence: expect.stringContaining('is 200 s, at 2'),
    });
    await recordListLag(database.db, 'default', 301_000);
    expect(await find()).toMatchObject({
      verdict: 'differs',
      evidence: expect.stringContaining('is 301 s'),
    });
  });

  test('a wrong password is tried once', async () => {
    const after = await sandbox.lastPlace();
    const password = join(folder, 'password');
    writeFileSync(password, 'wrong\n');
    const { code, holds } = await verifyAsJson(['--password-file', password]);
    expect({ code, holds }).toEqual({ code: 1, holds: [] });
    expect(await sandbox.requests(after)).toHaveLength(1);
  });
});

describe('against a service that differs', () => {
  test('contents that belong to each package are found', async () => {
    await sandbox.advance(40 * 86_400);
    await sandbox.switches({ foundContents: 'package' });
    const { differs, output } = await verifyAsJson();
    expect(differs).toEqual(['package-contents']);
    expect(output).toMatch(/of \d+ shipments with several items, 0 repeat all lines/);
  });

  test('other paths are found; packages are missing before, and come with the file', async () => {
    differ({
      routes: {
        'POST /v2/shipment/search': 'POST /v2/shipments/search',
        'GET /v2/shipment/tracktrace': 'GET /v2/shipments/track-trace',
      },
    });
    await sandbox.seed(6, { spreadDays: 5 });
    done(await pull('pull-shipments'));
    done(await pull('pull-parcels'));
    expect(await countParcels()).toBe(0);
    expect(await pull('track-trace')).toMatchObject({ status: 'failed' });
    const { code, differs, report } = await verifyAsJson([
      '--ask-track-trace',
      '--write-operations',
      written,
    ]);
    expect(code).toBe(1);
    expect(differs).toEqual(['route-v2.shipment.search', 'route-v2.shipment.trackTrace']);
    expect(report.operations).toEqual({
      'v2.shipment.search': { method: 'POST', path: '/v2/shipments/search' },
      'v2.shipment.trackTrace': { method: 'GET', path: '/v2/shipments/track-trace' },
    });
    // The gate of the list is closed for an hour.
    await setScheduleClock(database, 1.1 * 86_400);
    done(await pull('pull-parcels', { env: inUse }));
    done(await pull('track-trace', { env: inUse }));
    expect(await countParcels()).toBeGreaterThanOrEqual(6);
    expect((await verifyAsJson(['--ask-track-trace'], inUse)).differs).toEqual([]);
  });

  test('a list that requires page[size] is found; pull-inbounds fails before, and works with the file', async () => {
    differ({ requiresPageSize: true });
    await sandbox.advance(20 * 86_400);
    expect(await pull('pull-inbounds')).toMatchObject({ status: 'failed' });
    const { code, output } = await verify(['--write-operations', written]);
    expect(code).toBe(1);
    expect(output).toMatch(
      /^differs +page-size-v3.inbounds.list \(12.4\): without page\[size\] 400 .*; with page\[size\] 100 200/m,
    );
    expect(output).toContain('assumed: `returnItems` and `inbounds` may not know `page[size]`');
    expect(JSON.parse(readFileSync(written, 'utf8'))).toEqual({
      'v3.returnItems.list': { method: 'GET', path: '/v3/returnItems', pageSize: true },
      'v3.inbounds.list': { method: 'GET', path: '/v3/inbounds', pageSize: true },
    });
    done(await pull('pull-inbounds', { env: inUse }));
    done(await pull('pull-return-items', { env: inUse }));
    expect(await verify([], inUse)).toMatchObject({ code: 0 });
  });

  test('a zone in which times would lie in the future is found', async () => {
    await sandbox.advance(2 * 86_400);
    const { differs, report } = await verifyAsJson([], { WAREHOUSE_TIME_ZONE: 'America/New_York' });
    expect(differs).toEqual(['time-zone']);
    expect(report.variables).toEqual({ WAREHOUSE_TIME_ZONE: 'a zone of UTC+2 or further east' });
  });

  test('numbers that are not found or not unique, and updates that erase, are found with writes', async () => {
    await sandbox.switches({
      decodesBeforeSplit: true,
      repeatedNumbers: true,
      omittedRelationships: 'erase',
    });
    const { differs, report, output } = await verifyAsJson([
      '--allow-writes',
      '--yes',
      '--sku',
      'MUG-BLUE',
    ]);
    expect(differs).toEqual([
      'number-characters',
      'number-unique',
      'route-v3.orders.update',
      'required-members',
    ]);
    expect(output).toContain('a comma: not found; a percent sign: found');
    expect(output).toContain('erased deliveryAddress.lastName');
    expect(report.operations).toMatchObject({
      'v3.orders.update': { method: 'PATCH', path: '/v3/orders/{id}', sendsRelationships: true },
    });
  });

  test('other requests are found with writes; rows are dead before, and done with the file', async () => {
    await sandbox.switches({ changeableRelationships: true });
    differ({
      routes: { 'PATCH /v3/orders/:id': 'PUT /v3/orders/:id' },
      requiresTopIncluded: true,
      cancelAttributes: { status: 'CANCELLED' },
      contentMember: 'document',
    });
    const refused = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
    await outbox.push();
    expect(await outbox.row(refused)).toMatchObject({ status: 'dead' });
    const { code, differs, report, output } = await verifyAsJson([
      '--allow-writes',
      '--yes',
      '--sku',
      'MUG-BLUE',
      '--write-operations',
      written,
    ]);
    expect(output).toContain('This places up to 21 orders on hold');
    expect(code).toBe(1);
    expect(differs).toEqual([
      'request-included',
      'route-v3.orders.update',
      'update-takes',
      'required-members',
      'attachment',
      'item-cancel',
    ]);
    expect(report.operations).toEqual({
      'v3.orders.create': {
        method: 'POST',
        path: '/v3/orders',
        included: 'top',
        optional: ['locale', 'deliveryAddress.lastName', 'deliveryAddress.street1'],
      },
      'v3.orders.update': {
        method: 'PUT',
        path: '/v3/orders/{id}',
        included: 'top',
        takes: ['deliveryAddress', 'billingAddress', 'shippingMethod', 'orderType'],
      },
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
    const push = async (kind: string, payload: object) => {
      const id = await outbox.insert(kind, 'SO-2', payload);
      await outbox.push(inUse);
      expect([kind, await outbox.row(id)]).toMatchObject([kind, { status: 'done' }]);
    };
    await push('order.create', orderPayload('SO-2'));
    await push('order.update', {
      reference: 'changed',
      deliveryAddress: orderPayload('x').deliveryAddress,
    });
    await push('order_item.cancel', { sku: 'MUG-BLUE' });
  });
});
