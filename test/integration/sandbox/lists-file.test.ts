import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { createSandbox } from '../../../src/sandbox/server/server.ts';
import { readListsFile } from '../../../src/sandbox/store/service-lists.ts';
import { World } from '../../../src/sandbox/world.ts';
import { orderBody, ServiceClient, titles } from '../../helpers/client.ts';
import { quiet } from '../../helpers/sandbox.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));
const closers: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(closers.splice(0).map((close) => close())));

/** Writes a lists file, and returns its path. */
function write(text: string): string {
  const file = join(folder, 'lists.json');
  writeFileSync(file, text);
  return file;
}

async function serve(world: World) {
  const app = createSandbox(world);
  closers.push(() => app.close());
  const control = new SandboxControl(new URL(await app.listen({ host: '127.0.0.1', port: 0 })));
  const logIn = async (name: string) => {
    const client = new ServiceClient(control, name);
    await client.logIn();
    return client;
  };
  return { control, logIn };
}

const clients = ['shop-a', 'shop-b'];
const createWorld = (text: string, ordersPerDay = 0) =>
  new World({
    clients,
    seed: 1,
    speed: 0,
    startMs: quiet.startMs(),
    zone: 'Europe/Amsterdam',
    ordersPerDay,
    lists: readListsFile(write(text), clients),
  });

const lists = JSON.stringify({
  orderTypes: [
    { id: 501, name: 'Web shop', code: 'WEB', partialDelivery: true },
    { id: 502, name: 'Marketplace', code: 'MARKET' },
  ],
  mainShippingMethods: [
    {
      id: 601,
      name: 'Standard',
      code: 'STD',
      shippingMethods: [
        { id: 611, warehouse: 'UTR' },
        { id: 612, warehouse: 'GNT' },
      ],
    },
  ],
  returnReasons: [
    { id: 701, name: 'Wrong colour', code: 'COLOUR' },
    { id: 702, name: 'Recall', code: 'RECALL', available: false },
  ],
  languages: [{ id: 801, name: 'English', code: 'en-GB' }],
  clients: { 'shop-b': { orderTypes: [{ id: 509, name: 'Only', code: 'ONLY' }] } },
});
const orderType = (id: number) => ({
  relationships: { orderType: { data: { id, type: 'orderType' } } },
});

describe('a lists file', () => {
  test('replaces the lists that it names, for all clients or for one', async () => {
    const { logIn } = await serve(createWorld(lists));
    const [a, b] = await Promise.all(clients.map(logIn));
    const shown = (await a?.ask('common.settings.get'))?.body.result as Record<string, unknown[]>;
    expect(shown.orderTypes).toEqual([
      { id: 501, name: 'Web shop', code: 'WEB' },
      { id: 502, name: 'Marketplace', code: 'MARKET' },
    ]);
    expect(shown.returnReasons).toEqual([{ id: 701, name: 'Wrong colour', code: 'COLOUR' }]);
    expect(shown.countries).toHaveLength(3);
    expect(shown).not.toHaveProperty('warehouses');
    const own = (await b?.ask('common.settings.get'))?.body.result as Record<string, unknown[]>;
    expect(own.orderTypes).toEqual([{ id: 509, name: 'Only', code: 'ONLY' }]);
    expect(own.mainShippingMethods).toEqual(shown.mainShippingMethods);
  });

  test('decides which orders are accepted, and their defaults', async () => {
    const { logIn } = await serve(createWorld(lists));
    const client = await logIn('shop-a');
    const create = (number: string, parts: object) =>
      client.ask('v3.orders.create', { body: orderBody(number, { ...parts }) });
    expect(titles(await create('S-1', orderType(31)))).toBe('There is no order type 31');
    const web = await create('S-2', orderType(501));
    expect(web.body.data).toMatchObject({ attributes: { allowPartialDelivery: true } });
    const market = await create('S-3', { ...orderType(502), attributes: { locale: undefined } });
    expect(market.body.data).toMatchObject({
      attributes: { allowPartialDelivery: false, locale: 'en-GB' },
    });
    const elsewhere = await create('S-4', {
      ...orderType(501),
      attributes: { fulfillFrom: 'AMS' },
    });
    expect(titles(elsewhere)).toMatch(/strategy \(UTR, GNT\)/);
  });

  test('is shown in docs/sandbox.md', () => {
    const page = readFileSync(new URL('../../../docs/sandbox.md', import.meta.url), 'utf8');
    const { orderTypes } = readListsFile(
      write(/```json\n(.*?)```/s.exec(page)?.[1] ?? ''),
      clients,
    );
    expect(orderTypes).toHaveLength(1);
  });

  const country = { id: 1, name: 'A', code: 'A' };
  test.each([
    ['an unknown list', '{"orderKinds": []}', 'Unrecognized key: "orderKinds"'],
    [
      'lists of an unknown client',
      '{"clients": {"shop-c": {}}}',
      'clients.shop-c: the sandbox has only the clients shop-a, shop-b',
    ],
    [
      'two entries of the same id',
      JSON.stringify({ clients: { 'shop-b': { countries: [country, country] } } }),
      'ids and codes must be unique',
    ],
    ['broken JSON', '{"countries": [', 'lists.json cannot be used: '],
    ['too many bytes', `"${'x'.repeat(1 << 20)}"`, 'the limit is 1048576'],
  ])('with %s is refused, with its name and the member', (_what, text, expected) => {
    const read = () => readListsFile(write(text), clients);
    expect(read).toThrow(expected);
    expect(read).toThrow(join(folder, 'lists.json'));
  });
});
