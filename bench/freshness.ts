/**
 * Simulates how old the rows of shipments are, and how many polls a day costs: `npm run --silent
 * bench:freshness`. Three days of the sandbox's default day, in virtual time, with orders open all
 * the time; due times by `sync.slow_down`. A second case keeps only the changes between 06:00 and
 * 18:00 UTC, as in a warehouse that closes. A poll without news costs two requests.
 */
import pg from 'pg';
import { migrateDatabase } from '../src/cli/commands/migrate.ts';
import { startEmbeddedPostgres } from '../src/cli/demo/embedded-postgres.ts';
import { silentLogger } from '../src/core/logger.ts';
import { dayMs, hourMs } from '../src/core/time.ts';
import { defaultOrdersPerDay } from '../src/sandbox/options.ts';
import { simulateUntil } from '../src/sandbox/robot/robot.ts';
import { World } from '../src/sandbox/world.ts';
import { printLine, quantile } from './stand/measure.ts';

const startMs = Date.parse('2026-05-04T00:00:00Z');
const warmUpDays = 4;
const days = 3;
const requestsPerPoll = 2;

/** Returns the times at which a shipment appeared or changed its status. */
function listChanges(): number[] {
  const options = {
    clients: ['default'],
    seed: 1,
    speed: 0,
    zone: 'Europe/Amsterdam',
    ordersPerDay: defaultOrdersPerDay,
  };
  const { simulation } = new World({ ...options, startMs }).requireClient('default');
  const { store } = simulation;
  const changes: number[] = [];
  const [show, setStatus] = [store.showShipment.bind(store), store.setStatus.bind(store)];
  store.showShipment = (shipment, nowMs) => {
    changes.push(nowMs);
    show(shipment, nowMs);
  };
  store.setStatus = (shipment, status, atMs) => {
    changes.push(atMs);
    setStatus(shipment, status, atMs);
  };
  simulateUntil(simulation, startMs + (warmUpDays + days) * dayMs);
  return changes.sort((a, b) => a - b);
}

/**
 * Simulates polls. `findPauseMs` returns the time to the next poll, `idleMs` after the last change
 * that polls saw.
 */
async function simulate(
  changes: readonly number[],
  findPauseMs: (idleMs: number) => Promise<number>,
) {
  const [fromMs, toMs] = [startMs + warmUpDays * dayMs, startMs + (warmUpDays + days) * dayMs];
  const polls: number[] = [];
  let seen = 0;
  for (let atMs = fromMs - dayMs; atMs < toMs; ) {
    while ((changes[seen] ?? toMs) <= atMs) seen++;
    if (atMs >= fromMs) polls.push(atMs);
    atMs += await findPauseMs(atMs - (changes[seen - 1] ?? atMs));
  }
  const ages = polls.flatMap((atMs, index) =>
    Array.from({ length: ((polls[index + 1] ?? toMs) - atMs) / 1_000 }, (_, second) => second),
  );
  const requestsPerDay = Math.round((requestsPerPoll * polls.length) / days);
  const spread = `p50 ${quantile(ages, 0.5)} s, p99 ${quantile(ages, 0.99)} s`;
  return `age of rows ${spread}; requests a day ${requestsPerDay}`;
}

const postgres = await startEmbeddedPostgres();
await migrateDatabase(postgres.url, silentLogger);
const session = new pg.Client(postgres.url);
await session.connect();
const slowDown = async (idleMs: number, fastMs: number, slowMs: number): Promise<number> => {
  const { rows } = await session.query<{ ms: number }>(
    `select $2 + extract(epoch from sync.slow_down(at, at - make_interval(secs => $1 / 1000), $2, $3) - at)::float8 * 1000 as ms
    from sync.clock() at`,
    [idleMs, fastMs, slowMs],
  );
  return rows[0]?.ms ?? Number.NaN;
};
const changes = listChanges();
const isOpenHour = (atMs: number) => atMs % dayMs >= 6 * hourMs && atMs % dayMs < 18 * hourMs;
const cases = { 'default day': changes, 'closed at night': changes.filter(isOpenHour) };
printLine(`${Math.round(changes.length / (warmUpDays + days))} changes a day`);
for (const [name, some] of Object.entries(cases)) {
  printLine(`${name}, 2m: ${await simulate(some, async () => 120_000)}`);
  for (const [fastMs, slowMs] of [
    [30_000, 240_000],
    [60_000, 240_000],
  ] as const) {
    const result = await simulate(some, (idleMs) => slowDown(idleMs, fastMs, slowMs));
    printLine(`${name}, ${fastMs / 1_000}s-${slowMs / 1_000}s: ${result}`);
  }
}
await session.end();
await postgres.stop();
