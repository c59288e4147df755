/**
 * Simulates how old the rows of shipments are, and how many polls a day costs: `npm run --silent
 * bench:freshness`. Three days of the sandbox's default day, in virtual time, with orders open all
 * the time; due times by `planNext`. A second case keeps only the changes between 06:00 and
 * 18:00 UTC, as in a warehouse that closes. A poll without news costs two requests.
 */
import { dayMs, hourMs } from '../src/core/time.ts';
import { defaultOrdersPerDay } from '../src/sandbox/options.ts';
import { simulateUntil } from '../src/sandbox/robot/robot.ts';
import { World } from '../src/sandbox/world.ts';
import { planNext } from '../src/schedule/plan-next.ts';
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
  const client = new World({ ...options, startMs }).requireClient('default');
  const changes: number[] = [];
  const setStatus = client.setStatus.bind(client);
  client.setStatus = (shipment, status, atMs) => {
    changes.push(atMs);
    setStatus(shipment, status, atMs);
  };
  const endMs = startMs + (warmUpDays + days) * dayMs;
  simulateUntil(client, endMs);
  const shown = [...client.shipments].map(({ visibleFromMs }) => visibleFromMs);
  return [...changes, ...shown.filter((atMs) => atMs <= endMs)].sort((a, b) => a - b);
}

/**
 * Simulates polls. `findPauseMs` returns the time to the next poll, `idleMs` after the last change
 * that polls saw.
 */
function simulate(changes: readonly number[], findPauseMs: (idleMs: number) => number) {
  const [fromMs, toMs] = [startMs + warmUpDays * dayMs, startMs + (warmUpDays + days) * dayMs];
  const polls: number[] = [];
  let seen = 0;
  for (let atMs = fromMs - dayMs; atMs < toMs; ) {
    while ((changes[seen] ?? toMs) <= atMs) seen++;
    if (atMs >= fromMs) polls.push(atMs);
    atMs += findPauseMs(atMs - (changes[seen - 1] ?? atMs));
  }
  const ages = polls.flatMap((atMs, index) =>
    Array.from({ length: ((polls[index + 1] ?? toMs) - atMs) / 1_000 }, (_, second) => second),
  );
  const requestsPerDay = Math.round((requestsPerPoll * polls.length) / days);
  const spread = `p50 ${quantile(ages, 0.5)} s, p99 ${quantile(ages, 0.99)} s`;
  return `age of rows ${spread}; requests a day ${requestsPerDay}`;
}

/** Returns the pause after a poll, if nothing has moved for `idleMs`. */
const slowDown = (idleMs: number, everyMs: number, slowMs: number): number => {
  const times = { at: new Date(0), turnAt: new Date(everyMs), movedAt: new Date(-idleMs) };
  const schedule = { kind: 'every', everyMs, slowMs } as const;
  const key = { client: 'default', job: 'pull-shipments' };
  const next = planNext(schedule, key, { kind: 'done', ...times });
  return next?.getTime() ?? Number.NaN;
};
const changes = listChanges();
const isOpenHour = (atMs: number) => atMs % dayMs >= 6 * hourMs && atMs % dayMs < 18 * hourMs;
const cases = { 'default day': changes, 'closed at night': changes.filter(isOpenHour) };
printLine(`${Math.round(changes.length / (warmUpDays + days))} changes a day`);
for (const [name, some] of Object.entries(cases)) {
  printLine(`${name}, 2m: ${simulate(some, () => 120_000)}`);
  for (const [fastMs, slowMs] of [
    [30_000, 240_000],
    [60_000, 240_000],
  ] as const) {
    const result = simulate(some, (idleMs) => slowDown(idleMs, fastMs, slowMs));
    printLine(`${name}, ${fastMs / 1_000}s-${slowMs / 1_000}s: ${result}`);
  }
}
