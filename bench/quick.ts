/**
 * Guards the speed: measures the figures of docs/performance.md in small, prints each beside its last accepted value, and
 * fails if one is much worse: `npm run --silent bench:quick -- [--accept]`. It takes less than three minutes.
 * `--accept` writes bench/results/accepted.json.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildBundle } from '../test/helpers/processes/bundle.ts';
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { type Figure, formatFigures, isWorse, readAccepted, writeAccepted } from './stand/accepted.ts';
import { computePollCost, measureIdle, oftenSchedules, openServed } from './stand/idle-costs.ts';
import { type LoadWay, measureLoads } from './stand/loads.ts';
import { describeMachine, medianRatio, printLine, round } from './stand/measure.ts';
import { type Cell, measureCell } from './stand/push-cell.ts';
import { openStand } from './stand/stand.ts';
import { measureStatus } from './stand/status-time.ts';

const { values: options } = parseArgs({ options: { accept: { type: 'boolean', default: false } } });
const rounds = 3;

/** Programs to compare with, and the package that each needs. */
const packages = {
  'stripe-sync-engine': '@supabase/stripe-sync-engine',
  'pg-boss': 'pg-boss',
  'graphile-worker': 'graphile-worker',
};
const isInstalled = (rival: string) => {
  const name = packages[rival as keyof typeof packages];
  return name === undefined || existsSync(fileURLToPath(new URL(`node_modules/${name}`, import.meta.url)));
};
const missing = Object.keys(packages).filter((rival) => !isInstalled(rival));

async function measurePulls(): Promise<Figure[]> {
  const rivals = ['stripe-sync-engine', 'bulk upsert alone'] as const satisfies LoadWay[];
  const stand = await openStand();
  try {
    const ways = ['product', ...rivals.filter(isInstalled)] as const;
    const figures = await measureLoads(stand, { shipments: 4_000, rounds, ways });
    return rivals.map((rival) => toRatio('pull', rival, '', figures));
  } finally {
    await stand.stop();
  }
}

async function measurePushes(cell: Cell, rivals: readonly string[], redisUrl: string): Promise<Figure[]> {
  const figures = await measureCell(cell, { rounds, rivals: rivals.filter(isInstalled), redisUrl });
  const where = `, ${cell.latencyMs} ms, ${cell.concurrency} at a time`;
  return rivals.map((rival) => toRatio('push', rival, where, figures));
}

/** Returns the ratio of the product to a rival; null if the rival was not measured. */
function toRatio(what: string, rival: string, where: string, figures: Parameters<typeof medianRatio>[0]): Figure {
  const value = figures[rival] === undefined ? null : round(medianRatio(figures, 'product', rival));
  return { name: `${what} : ${rival}${where}`, value, better: 'more' };
}

/** Measures idle workers. Their processor time hardly depends on each other, so they are measured at the same time. */
async function measureRest(): Promise<Figure[]> {
  const sample = { clients: 1, redis: null, settleMs: 8_000, measureMs: 25_000 };
  const [idle, often] = await Promise.all([measureIdle(sample), measureIdle({ ...sample, schedules: oftenSchedules })]);
  return [
    { name: 'CPU of a poll with nothing new, ms', value: computePollCost(often, idle).cpuMs, better: 'less' },
    { name: 'CPU of an idle worker, ms a minute', value: idle.cpuMs, better: 'less' },
  ];
}

async function measureStatusOfMany(): Promise<Figure> {
  const [served, bundle] = [await openServed({ clients: 50, redis: null }), await buildBundle()];
  try {
    const value = round(await measureStatus(served.stand, served.settings, bundle.program));
    return { name: 'status, 50 clients, ms', value, better: 'less' };
  } finally {
    bundle.remove();
    await served.close();
  }
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
const startedAtMs = performance.now();
const figures: Figure[] = [];
try {
  figures.push(...(await measurePulls()));
  figures.push(...(await measurePushes({ latencyMs: 20, concurrency: 64, orders: 1_500 }, ['bare'], '')));
  figures.push(
    ...(await measurePushes({ latencyMs: 0, concurrency: 8, orders: 1_000 }, ['pg-boss', 'graphile-worker'], '')),
  );
  const bullmq = { latencyMs: 0, concurrency: 64, orders: 1_500 };
  if (redis !== null) figures.push(...(await measurePushes(bullmq, ['bullmq'], redis.url)));
  else figures.push(toRatio('push', 'bullmq', ', 0 ms, 64 at a time', {}));
  figures.push(...(await measureRest()));
  figures.push(await measureStatusOfMany());
} finally {
  await redis?.stop();
}

const accepted = readAccepted();
const machine = describeMachine();
printLine('');
for (const line of formatFigures(figures, accepted)) printLine(line);
printLine(`Measured in ${Math.round((performance.now() - startedAtMs) / 1_000)} s on ${machine}.`);
if (missing.length > 0) printLine(`Not installed: ${missing.join(', ')}. Run: npm install --prefix bench`);
if (redis === null) printLine('There is no redis-server on the PATH, so BullMQ was not measured.');
if (accepted === null) printLine('No values were accepted before. Accept these: npm run bench:quick -- --accept');
else if (accepted.machine !== machine)
  printLine(`The accepted values are from another machine (${accepted.machine}); ratios still compare, times do not.`);
const worse = figures.filter((figure) => isWorse(figure, accepted?.values[figure.name]));
if (options.accept) {
  writeAccepted(figures, accepted, { at: new Date().toISOString().slice(0, 16), machine });
  printLine('Accepted in bench/results/accepted.json.');
} else if (worse.length > 0) {
  printLine(`${worse.length} worse than 0.8 of the accepted value: ${worse.map(({ name }) => name).join('; ')}`);
  process.exitCode = 1;
}
