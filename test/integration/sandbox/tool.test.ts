import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Validator } from '@seriousme/openapi-schema-validator';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { operations } from '../../../src/sandbox/operations/all.ts';
import { createSandbox } from '../../../src/sandbox/server/server.ts';
import { loadWorld, saveWorld } from '../../../src/sandbox/state-file.ts';
import { World } from '../../../src/sandbox/world.ts';
import { orderBody, ServiceClient, useClient } from '../../helpers/client.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';

const sandbox = useSandbox(['default', 'other'], lively);
const client = useClient(sandbox);
const text = async (path: string) => (await fetch(new URL(path, sandbox.url))).text();
const startMs = lively.startMs();
const described = operations.filter((operation) => operation.described);

test('paths match in any case; an unknown route is 404 and logged without an operation', async () => {
  expect((await client.fetch('GET', '/V3/SHIPMENTS')).status).toBe(200);
  expect((await client.fetch('GET', '/v4/parcels')).status).toBe(404);
  const { path, operation, status, client: who } = (await sandbox.requests()).at(-1) ?? {};
  expect({ path, operation, status, who }).toEqual({
    path: '/v4/parcels',
    operation: null,
    status: 404,
    who: 'default',
  });
  expect((await client.fetch('POST', '/v4/orders', { body: '{"broken' })).status).toBe(404);
  expect((await client.fetch('GET', '/v3/orders/%zz')).status).toBe(400);
  const unexpected = (await sandbox.requests()).filter((row) => row.operation === null);
  expect(unexpected.map((row) => row.status)).toEqual([404, 404, 400]);
});

describe('the OpenAPI document', () => {
  test('is valid and has every operation of the interface', async () => {
    const document = JSON.parse(await text('/openapi.json'));
    const checked = await new Validator().validate(document);
    expect(checked.errors ?? []).toEqual([]);
    expect([checked.valid, document.openapi]).toEqual([true, '3.1.0']);
    const ids = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap(
      (methods) => Object.values(methods).map(({ operationId }) => operationId),
    );
    expect(ids.sort()).toEqual(described.map(({ name }) => name).sort());
    expect(document.paths['/v3/shipments'].get.parameters).toContainEqual(
      expect.objectContaining({
        name: 'page[size]',
        schema: expect.objectContaining({ maximum: 100, default: 100 }),
      }),
    );
    expect(
      document.paths['/v2/order/add'].post.requestBody.content['application/json'].schema
        .properties,
    ).toHaveProperty('DeliveryAddressCityName');
  });
});

describe('a state file', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sandbox-state-'));
    file = join(folder, 'state.json');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const zone = 'Europe/Amsterdam';
  const options = {
    clients: ['default', 'other'],
    seed: 4,
    speed: 0,
    startMs,
    zone,
    ordersPerDay: 6,
  };
  const readState = async (
    world: World,
    change?: (control: SandboxControl) => Promise<unknown>,
  ) => {
    const app = createSandbox(world);
    try {
      const control = new SandboxControl(new URL(await app.listen({ host: '127.0.0.1', port: 0 })));
      await change?.(control);
      return [
        await control.call('GET', '/_sandbox/state'),
        await control.call('GET', '/_sandbox/faults'),
      ];
    } finally {
      await app.close();
    }
  };
  const changeWorld = async (control: SandboxControl) => {
    await control.advance(9 * 86_400);
    await control.switches({ cursor: 'offset' });
    const other = new ServiceClient(control, 'default');
    await other.logIn();
    await other.ask('v3.orders.create', { body: orderBody('A\u2028B') });
    await control.faults({
      operation: 'v3.shipments.list',
      count: 1,
      effect: { hideRow: { index: 0, seconds: 1e9 } },
    });
    await other.ask('v3.shipments.list');
    await control.faults({
      operation: 'v3.inbounds.list',
      probability: 0.5,
      effect: { status: 500 },
    });
  };

  test('restores a world that continues exactly like the saved one', async () => {
    const world = new World(options);
    const before = await readState(world, changeWorld);
    saveWorld(world, file);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const again = loadWorld(file);
    expect(await readState(again)).toEqual(before);
    expect(again.switches.cursor).toBe('offset');
    const readHidden = (of: World) => [...of.requireClient('default').visibility.hiddenUntilMs];
    expect(readHidden(again)).toEqual(readHidden(world));
    expect(readHidden(again)).toHaveLength(1);
    const advance = (control: SandboxControl) => control.advance(90 * 86_400);
    expect(await readState(again, advance)).toEqual(await readState(world, advance));
  });
});
