import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { compareWithSandbox } from '../../../src/app/demo/oracle.ts';
import { scenariosFolder } from '../../../src/core/installation.ts';
import { ScenarioPlayer } from '../../../src/sandbox/scenario/player.ts';
import { findStart, listScenarios, readScenario } from '../../../src/sandbox/scenario/read-scenario.ts';
import type { Scenario } from '../../../src/sandbox/scenario/schema.ts';
import { createSandbox } from '../../../src/sandbox/server/server.ts';
import { World } from '../../../src/sandbox/world.ts';
import { Zone } from '../../../src/sandbox/zone.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';
import { setScheduleClock } from '../../helpers/schedule-clock.ts';

const zone = new Zone('Europe/Amsterdam');
const database = useDatabase();
const sandbox = new SandboxControl();
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);
let close: () => Promise<unknown> = async () => {};
afterEach(() => close());

/** A short timeout, so that a request without an answer takes a test little time. */
const short = { HTTP_TIMEOUT_MS: '400' };
const pulls = dailyJobs.filter((job) => job.startsWith('pull-') && job !== 'pull-stock');
/** The daemon works at each step, and once in each such span of virtual time while a step waits for orders. */
const strideMs = 1_800_000;

interface Progress {
  readonly now: string;
  readonly over: boolean;
  readonly next: { readonly step: number; readonly at: string; readonly waitsFor: readonly string[] | null } | null;
  readonly checks: readonly { readonly ok: boolean }[];
}

async function serve(scenario: Scenario): Promise<void> {
  const world = new World({
    clients: ['default'],
    seed: scenario.seed,
    speed: 0,
    startMs: findStart(scenario, zone),
    zone: zone.name,
    ordersPerDay: scenario.ordersPerDay,
    isScripted: scenario.warehouse === 'steps',
  });
  world.script = new ScenarioPlayer(scenario, world);
  const app = createSandbox(world);
  close = () => app.close();
  sandbox.url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
}

/** Inserts the orders that a step of the scenario expects, unless they are inserted already. */
async function insertOrders({ steps }: Scenario, { next }: Progress): Promise<void> {
  const { orders = {} } = steps[(next?.step ?? 0) - 1]?.expect ?? {};
  const known = new Set((await outbox.rows()).map(({ reference }) => reference));
  for (const number of next?.waitsFor ?? []) {
    const items = Object.entries(orders[number] ?? {}).map(([sku, quantity]) => ({ sku, quantity }));
    if (!known.has(number)) await outbox.insert('order.create', number, orderPayload(number, { items }));
  }
}

/** Makes rows and holds due now, as if their time had passed. */
async function hurry(): Promise<void> {
  await outbox.hurry();
  await database.query("update sync.push_holds set until = now() - interval '1 second'");
}

/** Lets the daemon push and pull once. Runs may fail while the service does. */
async function work(seconds: number): Promise<void> {
  await setScheduleClock(database, seconds);
  await hurry();
  await outbox.push(short);
  // No random delay before a request is repeated.
  const random = vi.spyOn(Math, 'random').mockReturnValue(0);
  for (const job of pulls) await pull(job, { env: short });
  await pull('track-trace', { env: short });
  random.mockRestore();
}

/** Lets the daemon work until nothing is open, when the service is well again. */
async function settle(): Promise<void> {
  await sandbox.clearFaults();
  for (let rounds = 0; rounds < 5 && (await outbox.rows("status <> 'done'")).length > 0; rounds++) {
    await hurry();
    await outbox.push(short);
  }
  for (const job of pulls) done(await pull(job));
}

/** Plays a scenario to its end. The daemon works at each of its moments. */
async function play(scenario: Scenario): Promise<void> {
  const read = () => sandbox.call<Progress>('GET', '/_sandbox/scenario');
  let passedSeconds = 0;
  for (let [rounds, progress] = [0, await read()]; progress.next !== null; rounds++, progress = await read()) {
    expect(rounds, 'rounds').toBeLessThan(60);
    await insertOrders(scenario, progress);
    await work(passedSeconds);
    const { next, now } = await read();
    if (next === null) return;
    const untilNextMs = Date.parse(next.at) - Date.parse(now);
    const seconds = (next.waitsFor === null ? untilNextMs : Math.min(strideMs, untilNextMs)) / 1_000;
    if (seconds > 0) await sandbox.advance(seconds);
    passedSeconds += seconds;
  }
}

test('ten scenarios come with the program', () => expect(listScenarios()).toHaveLength(10));

test.each(listScenarios())('the tables equal the sandbox after the scenario %s', async (name) => {
  const scenario = readScenario(fileURLToPath(new URL(`${name}.yaml`, scenariosFolder)), zone);
  await serve(scenario);
  await play(scenario);
  const { checks } = await sandbox.call<Progress>('GET', '/_sandbox/scenario');
  expect(checks.filter(({ ok }) => !ok)).toEqual([]);
  expect(checks.length).toBeGreaterThan(1);
  await settle();
  expect((await compareWithSandbox(database.db, sandbox.url)).slice(0, 10)).toEqual([]);
  const open = await outbox.rows("status <> 'done'");
  expect(open.map(({ reference, status, last_error }) => ({ reference, status, last_error }))).toEqual([]);
});
