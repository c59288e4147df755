/**
 * Compares this checkout with another one, by turns: `node bench/against.ts OTHER [SHIPMENTS] [ORDERS] [ROUNDS]`. OTHER
 * must have its dependencies installed. Measures first loads into empty tables, and pushes with 0 and 20 ms of latency.
 */
import { resolve } from 'node:path';
import { type Figures, measureByTurns, median, medianRatio, printLine, round, saveResults } from './stand/measure.ts';
import { pushOrders } from './stand/push-orders.ts';
import { endProcess, openStand, readLastRate, schedulesOff } from './stand/stand.ts';

const [, , other = '', shipments = '20000', orders = '1000', rounds = '5'] = process.argv;
const checkouts = { before: resolve(other), after: undefined };

async function measureFirstLoad(checkout: string | undefined): Promise<number> {
  const stand = await openStand(['default'], checkout);
  try {
    const seed = { client: 'default', shipments: Number(shipments), items: 2, statuses: ['SHIPPED'], spreadDays: 60 };
    await stand.sandbox.call('POST', '/_sandbox/seed', seed);
    await stand.run(['run', 'pull-shipments']);
    return await readLastRate(stand, 'runs', 3);
  } finally {
    await stand.stop();
  }
}

async function measurePushes(checkout: string | undefined, latency: number): Promise<number> {
  const stand = await openStand(['default'], checkout);
  try {
    if (latency > 0) await stand.sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: latency } });
    const worker = await stand.startWorker({ ...schedulesOff });
    await pushOrders(stand, 200);
    const rate = await pushOrders(stand, Number(orders));
    await endProcess(worker);
    return rate;
  } finally {
    await stand.stop();
  }
}

const measured: Record<string, object> = {};
const measure = async (name: string, work: (checkout: string | undefined) => Promise<number>) => {
  const figures: Figures = await measureByTurns(Number(rounds), {
    before: () => work(checkouts.before),
    after: () => work(checkouts.after),
  });
  const [before, after] = [round(median(figures.before ?? [])), round(median(figures.after ?? []))];
  measured[name] = { before, after, ratio: round(medianRatio(figures, 'after', 'before')), found: figures };
  printLine(`${name}: ${before} before, ${after} after, ratio ${round(medianRatio(figures, 'after', 'before'))}`);
};
await measure('first load, rows a second', measureFirstLoad);
await measure('orders a second, 0 ms', (checkout) => measurePushes(checkout, 0));
await measure('orders a second, 20 ms', (checkout) => measurePushes(checkout, 20));
saveResults('against', { shipments: Number(shipments), orders: Number(orders), measured });
