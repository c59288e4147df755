/**
 * Measures first loads of 20 clients by 1, 2 and 4 workers:
 * `npm run --silent bench:scale-out -- [SHIPMENTS EACH] [ROUNDS]`.
 */
import { waitFor } from '../test/helpers/wait.ts';
import { measureByTurns, median, medianRatio, printLine, round, saveResults } from './stand/measure.ts';
import { createSettings, endProcess, openStand, schedulesOff } from './stand/stand.ts';

const each = Number(process.argv[2] ?? 1_000);
const rounds = Number(process.argv[3] ?? 5);
const clients = Array.from({ length: 20 }, (_, index) => `shop-${index + 1}`);

/** Returns the rows per second until every client's shipments are loaded. */
async function measureLoad(workers: number): Promise<number> {
  const stand = await openStand(clients);
  const { settings, close } = createSettings(stand, clients);
  try {
    for (const client of clients)
      await stand.sandbox.call('POST', '/_sandbox/seed', { client, shipments: each, items: 2, statuses: ['SHIPPED'] });
    const env = { ...schedulesOff, SCHEDULE_PULL_SHIPMENTS: '1s' };
    const started = await Promise.all(Array.from({ length: workers }, () => stand.startWorker(env, settings)));
    const done = `select from fulfilment.shipments having count(*) = ${each * clients.length}`;
    await waitFor('all of it', async () => (await stand.query(done)).length > 0, 300_000);
    const [row] = await stand.query<{ rate: number }>(
      `select ${each * clients.length * 3} / extract(epoch from max(first_seen_at) - min(first_seen_at))::float8 as rate
       from fulfilment.shipments`,
    );
    await Promise.all(started.map(endProcess));
    return row?.rate ?? Number.NaN;
  } finally {
    await stand.stop();
    close();
  }
}

const figures = await measureByTurns(rounds, {
  '1': () => measureLoad(1),
  '2': () => measureLoad(2),
  '4': () => measureLoad(4),
});
const rowsPerSecond = Object.fromEntries(
  Object.entries(figures).map(([workers, rates]) => [workers, round(median(rates))]),
);
const ratios = { '2 : 1': round(medianRatio(figures, '2', '1')), '4 : 1': round(medianRatio(figures, '4', '1')) };
printLine(`rows a second by workers: ${JSON.stringify(rowsPerSecond)}; ${JSON.stringify(ratios)}`);
saveResults('scale-out', {
  clients: clients.length,
  shipmentsEach: each,
  rounds,
  rowsPerSecond,
  ratios,
  found: figures,
});
