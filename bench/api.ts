/**
 * Measures orders posted to the API, 64 at a time, and the time from such a POST until the service
 * receives its own: `npm run --silent bench:api -- [ORDERS]`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import getPort from 'get-port';
import { postOrders, writeTokens } from '../test/helpers/campaigns/api-load.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { printLine, quantile, round, saveResults } from './stand/measure.ts';
import { endProcess, openStand, schedulesOff } from './stand/stand.ts';

const count = Number(process.argv[2] ?? 10_000);
const slots = 64;

const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-api-'));
const stand = await openStand();
try {
  const [file, port] = [join(folder, 'tokens.json'), await getPort()];
  writeTokens(file, ['bench']);
  const api = { API_TOKENS_FILE: file, API_PORT: String(port) };
  const worker = await stand.startWorker({ ...schedulesOff, ...api });
  const place = await stand.sandbox.lastPlace();
  const beganAtMs = performance.now();
  const { postedAtMs, repeats } = await postOrders({
    base: `http://127.0.0.1:${port}`,
    token: 'bench',
    count,
    slots,
  });
  const acceptedMs = performance.now() - beganAtMs;
  const posts = async () =>
    (await stand.sandbox.requests(place)).filter(
      ({ operation }) => operation === 'v3.orders.create',
    );
  await waitFor('all to be received', async () => (await posts()).length >= count, 600_000);
  // Compares the orders and the requests by their order: the log of the service does not name the
  // row.
  const sent = postedAtMs.toSorted((one, other) => one - other);
  const times = (await posts()).map(({ atMs }, index) => atMs - (sent[index] ?? 0));
  const at = (share: number) => Math.round(quantile(times, share));
  const doubled = await stand.query(
    'select reference from fulfilment.outbox group by reference having count(*) > 1',
  );
  const figures = {
    orders: count,
    slots,
    acceptedPerSecond: round((count * 1_000) / acceptedMs),
    repeats,
    received: times.length,
    doubled: doubled.length,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    most: at(1),
  };
  printLine(JSON.stringify(figures));
  saveResults('api', figures);
  await endProcess(worker);
} finally {
  await stand.stop();
  rmSync(folder, { recursive: true });
}
