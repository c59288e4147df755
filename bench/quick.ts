/**
 * Compares the speed of this checkout with that of a commit, by turns on this machine: `npm run
 * --silent bench:quick -- [--against REVISION]`. The default is the last commit whose program
 * differs. Both use the dependencies, the sandbox and the Postgres of this checkout. Fails if a
 * figure is twice below 0.8 of the commit's.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { oftenSchedules, openServed } from './stand/idle-costs.ts';
import { rowsEach, seedShipments } from './stand/loads.ts';
import {
  measureByTurns,
  median,
  medianRatio,
  printLine,
  readCpuMs,
  round,
} from './stand/measure.ts';
import { checkOut, findLastOther } from './stand/other-checkout.ts';
import { pushOrders } from './stand/push-orders.ts';
import { openStand, readLastRate, schedulesOff } from './stand/stand.ts';
import { measureStatus } from './stand/status-time.ts';

/** A figure below this share of the commit's is a regression, if a second measurement agrees. */
const keptShare = 0.8;

/** A program that is ready to be measured several times. */
interface Subject {
  readonly measure: () => Promise<number>;
  readonly close: () => Promise<void>;
}

interface Figure {
  readonly name: string;
  readonly better: 'more' | 'less';
  readonly rounds: number;
  /** Prepares the program of a checkout; undefined: this one. */
  readonly open: (checkout: string | undefined) => Promise<Subject>;
}

async function openLoad(checkout: string | undefined): Promise<Subject> {
  const stand = await openStand(['default'], checkout);
  const measure = async () => {
    await seedShipments(stand, 4_000);
    await stand.run(['run', 'pull-shipments']);
    return readLastRate(stand, 'runs', rowsEach);
  };
  return { measure, close: stand.stop };
}

const openPush =
  (latencyMs: number, concurrency: number) =>
  async (checkout: string | undefined): Promise<Subject> => {
    const stand = await openStand(['default'], checkout);
    if (latencyMs > 0)
      await stand.sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: latencyMs } });
    await stand.startWorker({ ...schedulesOff, PUSH_CONCURRENCY: String(concurrency) });
    // The first orders are slower: plans and code are not compiled yet.
    await pushOrders(stand, 1_000);
    return { measure: () => pushOrders(stand, 1_000), close: stand.stop };
  };

/** Measures the CPU of a worker in ms a minute. It hardly depends on other load. */
async function openPolls(checkout: string | undefined): Promise<Subject> {
  const { worker, close } = await openServed({
    clients: 1,
    redis: null,
    schedules: oftenSchedules,
    checkout,
  });
  const seconds = 10;
  const measure = async () => {
    const before = readCpuMs(worker.pid);
    await wait(seconds * 1_000);
    return ((readCpuMs(worker.pid) - before) * 60) / seconds;
  };
  return { measure, close };
}

async function openStatus(checkout: string | undefined): Promise<Subject> {
  const { stand, settings, close } = await openServed({ clients: 20, redis: null, checkout });
  const [program = ''] = stand.program;
  return { measure: () => measureStatus(stand, settings, program), close };
}

const figures: readonly Figure[] = [
  { name: 'first load, rows a second', better: 'more', rounds: 5, open: openLoad },
  { name: 'orders a second, 0 ms, 8 at a time', better: 'more', rounds: 5, open: openPush(0, 8) },
  {
    name: 'orders a second, 20 ms, 64 at a time',
    better: 'more',
    rounds: 5,
    open: openPush(20, 64),
  },
  { name: 'five polls every 2 s, CPU in ms a minute', better: 'less', rounds: 3, open: openPolls },
  { name: 'status of 20 clients, ms', better: 'less', rounds: 3, open: openStatus },
];

/**
 * Measures one figure of both programs by turns. Returns how good this checkout is: 1 is as good as
 * the commit.
 */
async function compare({ name, better, rounds, open }: Figure, other: string): Promise<number> {
  const subjects: Subject[] = [];
  try {
    for (const checkout of [other, undefined]) subjects.push(await open(checkout));
    const [before, now] = subjects;
    const found = await measureByTurns(rounds, {
      before: async () => (await before?.measure()) ?? Number.NaN,
      now: async () => (await now?.measure()) ?? Number.NaN,
    });
    const ratio =
      better === 'more' ? medianRatio(found, 'now', 'before') : medianRatio(found, 'before', 'now');
    const [then, today] = [round(median(found.before ?? [])), round(median(found.now ?? []))];
    printLine(
      `${name.padEnd(42)} ${String(then).padStart(8)} -> ${String(today).padStart(8)}   ratio ${round(ratio)}`,
    );
    return ratio;
  } finally {
    for (const { close } of subjects) await close();
  }
}

const { values } = parseArgs({ options: { against: { type: 'string' } } });
const other = checkOut(values.against ?? findLastOther());
printLine(`${other.title} -> this checkout; a ratio above 1 is an improvement`);
const startedAtMs = performance.now();
const worse: string[] = [];
for (const figure of figures) {
  if ((await compare(figure, other.folder)) >= keptShare) continue;
  printLine(`${figure.name} is measured again, because its ratio is below ${keptShare}:`);
  if (!((await compare(figure, other.folder)) >= keptShare)) worse.push(figure.name);
}
printLine(`Measured in ${Math.round((performance.now() - startedAtMs) / 1_000)} s.`);
if (worse.length > 0) {
  printLine(`Worse than ${keptShare} of ${other.title}: ${worse.join('; ')}`);
  process.exitCode = 1;
}
