import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { ScenarioPlayer } from '../../../src/sandbox/scenario/player.ts';
import { findStart, readScenario } from '../../../src/sandbox/scenario/read-scenario.ts';
import { createSandbox } from '../../../src/sandbox/server/server.ts';
import { World } from '../../../src/sandbox/world.ts';
import { Zone } from '../../../src/sandbox/zone.ts';
import { address, line, orderBody, ServiceClient } from '../../helpers/client.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-scenario-'));
afterAll(() => rmSync(folder, { recursive: true }));
const closers: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(closers.splice(0).map((close) => close())));
const zone = new Zone('Europe/Amsterdam');
const hour = 3_600;

interface Progress {
  now: string;
  over: boolean;
  ok: boolean;
  next: { step: number; verb: string; at: string; waitsFor: string[] | null } | null;
  checks: { step: number; what: string; expected: string; actual: string; ok: boolean }[];
}

function read(steps: string, head = '') {
  const file = join(folder, 'day.yaml');
  writeFileSync(file, `about: A test.\nstart: 2026-05-04 08:00\n${head}\nsteps:\n${steps}`);
  return readScenario(file, zone);
}

/** Serves a scenario of these steps; its time moves only with `advance`. A last check is added. */
async function serve(steps: string, head = '') {
  const scenario = read(`${steps}\n  - check: [{ duplicates: 0 }]`, head);
  const { seed, ordersPerDay, warehouse } = scenario;
  const startMs = findStart(scenario, zone);
  const isScripted = warehouse === 'steps';
  const world = new World({ clients: ['default'], seed, speed: 0, startMs, zone: zone.name, ordersPerDay, isScripted });
  world.script = new ScenarioPlayer(scenario, world);
  const app = createSandbox(world);
  closers.push(() => app.close());
  const control = new SandboxControl(new URL(await app.listen({ host: '127.0.0.1', port: 0 })));
  const client = new ServiceClient(control, 'default');
  await client.logIn();
  const progress = () => control.call<Progress>('GET', '/_sandbox/scenario');
  const state = () => control.call('GET', '/_sandbox/state');
  return { control, client, progress, state, world };
}

const order = (number: string, ...items: unknown[]) => ({
  body: orderBody(number, { included: [...items, address('d'), address('b')] }),
});

describe('a step', () => {
  const day = `
  - at: 09:30
    place: { orders: { SO-1: { MUG-BLUE: 3, TEA-500: 1 } }, partial: true }
  - after: 1h30m
    ship: { order: SO-1, lines: { MUG-BLUE: 2 }, from: EIN }
  - at: day 2 07:00
    return: { order: SO-1, lines: { MUG-BLUE: 1 } }
  - inbound: { into: AMS, lines: { SOCKS-M: 7 }, reference: PO-1 }
  - stock: { NEW-1: { AMS: 5 } }`;

  test('happens at its moment, however time is advanced', async () => {
    const [once, often] = [await serve(day), await serve(day)];
    await once.control.advance(30 * hour);
    for (let hours = 0; hours < 30; hours++) await often.control.advance(hour);
    expect(await once.state()).toEqual(await often.state());
    const [shipment] = [...once.world.requireClient('default').simulation.store.shipments];
    expect(shipment).toMatchObject({ warehouseCode: 'EIN', shippedOnMs: Date.parse('2026-05-04T09:00:00Z') });
    const { over, next, checks } = await once.progress();
    expect({ over, next, checks }).toEqual({
      over: true,
      next: null,
      checks: [{ step: 6, what: 'duplicates', expected: '0', actual: '0', ok: true }],
    });
  });

  test('that cannot be carried out is a failed check, and the next step happens', async () => {
    const { control, progress } = await serve(`
  - ship: { order: SO-9 }
  - place: { orders: { SO-1: { MUG-BLUE: 401 } } }
  - ship: { order: SO-1, from: AMS }
  - ship: { order: SO-1, from: ROT }
  - place: { orders: { SO-1: { MUG-BLUE: 1 } } }
  - place: { orders: { SO-2: { GHOST: 1 } } }
  - return: { order: SO-1, lines: { MUG-BLUE: 1 } }`);
    await control.advance(1);
    const { checks, ok } = await progress();
    expect(ok).toBe(false);
    expect(checks.filter((check) => !check.ok).map(({ step, actual }) => `${step}: ${actual}`)).toEqual([
      '1: There is no order SO-9',
      '3: AMS has only 400 pieces of MUG-BLUE',
      '4: Warehouse ROT does not belong to the fulfilment strategy (AMS, EIN)',
      '5: An order with externalOrderNumber (SO-1) already exists',
      '6: There is no product GHOST; a stock step can add it',
      '7: Of MUG-BLUE, order SO-1 has only 0 to return',
    ]);
  });

  test('that expects orders waits for them, and later steps count from their arrival', async () => {
    const { control, client, progress } = await serve(`
  - expect: { orders: { SO-1: { MUG-BLUE: 2 }, SO-2: { TEA-500: 1 } }, within: 3h }
  - after: 1h
    ship: { order: SO-1 }`);
    await control.advance(hour);
    await client.ask('v3.orders.create', order('SO-1', line('MUG-BLUE', 2)));
    expect((await progress()).next).toMatchObject({ step: 1, verb: 'expect', waitsFor: ['SO-2'] });
    await control.advance(hour);
    await client.ask('v3.orders.create', order('SO-2', line('TEA-500', 1)));
    expect((await progress()).next).toMatchObject({ step: 2, verb: 'ship', at: '2026-05-04T09:00:00.000Z' });
    await control.advance(hour);
    expect(await progress()).toMatchObject({ over: true, ok: true });
  });

  test('that expects orders in vain, or other lines, is a failed check', async () => {
    const { control, client, progress } = await serve(`
  - expect: { orders: { SO-1: { MUG-BLUE: 2 }, SO-2: { TEA-500: 1 } }, within: 3h }`);
    await client.ask('v3.orders.create', order('SO-1', line('MUG-RED', 2)));
    await control.advance(3 * hour);
    const { checks } = await progress();
    expect(checks.filter(({ ok }) => !ok)).toEqual([
      { step: 1, what: 'orders received', expected: 'SO-1, SO-2', actual: 'SO-1', ok: false },
      { step: 1, what: 'order SO-1 lines', expected: '2 x MUG-BLUE', actual: '2 x MUG-RED', ok: false },
    ]);
  });

  test('that begins a fault ends it after its span', async () => {
    const { control, client } = await serve(`
  - after: 1h
    fault: { operation: v3.orders.list, for: 30m, effect: { status: 503 } }
  - fault: { operation: v3.inbounds.list, for: 2h, effect: { status: 503 } }
  - after: 5h
    jump: 1h`);
    const ask = async () =>
      Promise.all(['v3.orders.list', 'v3.inbounds.list'].map(async (name) => (await client.ask(name)).status));
    expect(await ask()).toEqual([200, 200]);
    await control.advance(hour);
    expect(await ask()).toEqual([503, 503]);
    await control.advance(0.5 * hour);
    expect(await ask()).toEqual([200, 503]);
    await control.advance(1.5 * hour);
    expect(await ask()).toEqual([200, 200]);
  });

  test('that jumps moves the time, and later steps count from there', async () => {
    const { control, progress } = await serve(`
  - after: 1h
    jump: 10h
  - after: 1h
    stock: { MUG-BLUE: { AMS: 1 } }`);
    await control.advance(hour);
    expect(await progress()).toMatchObject({
      now: '2026-05-04T17:00:00.000Z',
      next: { step: 2, at: '2026-05-04T18:00:00.000Z' },
    });
  });

  test('that changes the schema changes answers, and the state that they are compared with', async () => {
    const { client, state } = await serve(`
  - place: { orders: { SO-1: { MUG-BLUE: 1 } } }
  - ship: { order: SO-1, status: READY_TO_SORT }
  - schema: { type: shipment, add: { carbon: 5 }, values: { status: { READY_TO_SORT: LABELLED } } }`);
    const answer = await client.fetch('GET', '/v3/shipments');
    expect(answer.body.data[0]?.attributes).toMatchObject({ carbon: 5, status: 'LABELLED', warehouseCode: 'AMS' });
    expect(JSON.stringify(await state())).toContain('"status":"LABELLED"');
    expect((await client.fetch('GET', '/v3/orders')).body.data[0]?.attributes).not.toHaveProperty('carbon');
  });
});

test('checks name what they expect and what is there', async () => {
  const { control, client, progress } = await serve(`
  - place: { orders: { SO-1: { MUG-BLUE: 3 }, SO-2: { TEA-500: 1 } } }
  - ship: { order: SO-1, lines: { MUG-BLUE: 2 } }
  - after: 4h
    check:
      - order: { number: SO-1, received: 2, shipped: { MUG-BLUE: 3 }, shipments: 1, lines: { MUG-BLUE: 3 } }
      - orders: { min: 2, max: 2 }
      - shipments: 2
      - stock: { MUG-BLUE: { AMS: 398 }, GHOST: { AMS: 1 } }
      - requests: { operation: v3.orders.list, per: 1h, count: { max: 1 } }
      - requests: { operation: v3.*, status: 200, count: { min: 3 } }
      - disturbed: { min: 1 }`);
  for (const seconds of [1, hour, hour - 1, 1]) {
    await client.ask('v3.orders.list');
    await control.advance(seconds);
  }
  await control.advance(2 * hour);
  const { checks } = await progress();
  expect(
    checks.map(({ what, expected, actual, ok }) => `${what}: ${expected} / ${actual} ${ok ? 'ok' : 'failed'}`),
  ).toEqual([
    'order SO-1 received: 2 / 1 failed',
    'order SO-1 lines: 3 x MUG-BLUE / 3 x MUG-BLUE ok',
    'order SO-1 shipped: 3 x MUG-BLUE / 2 x MUG-BLUE failed',
    'order SO-1 shipments: 1 / 1 ok',
    'orders: at least 2, at most 2 / 2 ok',
    'shipments: 2 / 1 failed',
    'stock of MUG-BLUE: 398 x AMS / 398 x AMS ok',
    'stock of GHOST: 1 x AMS / none failed',
    'requests v3.orders.list within 1 h: at most 1 / 2 failed',
    'requests v3.* answered 200: at least 3 / 4 ok',
    'disturbed: at least 1 / 0 failed',
    'duplicates: 0 / 0 ok',
  ]);
});

test('orders with the same number are duplicates', async () => {
  const { control, client, progress } = await serve(
    '  - { after: 1h, jump: 1s }',
    'switches: { repeatedNumbers: true }',
  );
  for (let times = 0; times < 2; times++) await client.ask('v3.orders.create', order('SO-1', line('MUG-BLUE')));
  await control.advance(hour);
  expect((await progress()).checks).toMatchObject([{ what: 'duplicates', expected: '0', actual: '1', ok: false }]);
});

test('a reset plays the scenario again', async () => {
  const { control, progress, world } = await serve(
    '  - place: { orders: { SO-1: { MUG-BLUE: 1 } } }',
    'switches: { repeatedNumbers: true }',
  );
  await control.advance(hour);
  expect((await progress()).over).toBe(true);
  await control.call('POST', '/_sandbox/reset', {});
  expect(world.switches.repeatedNumbers).toBe(true);
  expect(await progress()).toMatchObject({ over: true, ok: true });
  expect(world.requireClient('default').simulation.store.orders.size).toBe(1);
});

describe('a scenario file', () => {
  const check = '\n  - check: [{ orders: 0 }]';
  test.each([
    ['two verbs', '  - { jump: 1h, stock: { A: { AMS: 1 } } }', 'step 1: needs exactly one verb of place'],
    ['no verb', '  - { after: 1h }', 'step 1: needs exactly one verb'],
    ['an unknown verb', '  - { jump: 1h }\n  - { explode: now }', 'step 2: '],
    ['an unknown member', '  - { ship: { order: A, colour: red } }', 'step 1, ship: '],
    ['a wrong span', '  - { after: soon, jump: 1h }', 'step 1, after: must be a span'],
    ['a wrong time', '  - { at: 25:00, jump: 1h }', 'step 1, at: must be a time'],
    ['at and after', '  - { at: 09:00, after: 1h, jump: 1h }', 'step 1: has at and after'],
    ['a time in the past', '  - { at: 09:00, jump: 2h }\n  - { at: 10:00, jump: 1h }', 'step 2, at: is before step 1'],
    [
      'an unknown operation',
      '  - { fault: { operation: v9.x, effect: { reset: true } } }',
      'step 1: v9.x matches no operation',
    ],
    [
      'a wrong effect',
      '  - { fault: { operation: "*", effect: { afterEffect: true } } }',
      'step 1, fault.effect: afterEffect',
    ],
    ['an empty order', '  - { place: { orders: { A: {} } } }', 'step 1, place.orders.A: must not be empty'],
    ['two checks in one', '  - check: [{ orders: 0, slips: 0 }]', 'step 1, check.0: needs exactly one check'],
    ['a wrong number', '  - check: [{ orders: many }]', 'step 1, check.0.orders: must be a number or {min, max}'],
    ['too many steps', '  - { jump: 1s }\n'.repeat(500), 'steps: '],
  ])('with %s is refused, with the step and the member', (_what, steps, expected) => {
    expect(() => read(steps + check)).toThrow(expected);
  });

  test('with a wrong switch is refused', () => {
    expect(() => read(check.slice(1), 'switches: { cursor: none }')).toThrow('switches.cursor: ');
    expect(() => read(check.slice(1), 'switches: { colour: red }')).toThrow('colour');
  });

  test('must end with a check, and is found by its path or its name', () => {
    expect(() => read('  - { jump: 1h }')).toThrow('steps: the last step must be a check');
    expect(readScenario('dst-night', zone).name).toBe('dst-night');
    expect(() => readScenario('no-such', zone)).toThrow(
      /no-such cannot be used: .*\(big-first-load, .*split-shipment\)/,
    );
  });
});
