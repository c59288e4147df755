import { fileURLToPath } from 'node:url';
import { type Figures, measureByTurns } from './measure.ts';
import { computeRate, pushOrders } from './push-orders.ts';
import { collectOutput, endProcess, openStand, type Stand, schedulesOff } from './stand.ts';

/**
 * One measurement: its latency, its number of requests at the same time, and its orders per round.
 */
export interface Cell {
  readonly latencyMs: number;
  readonly concurrency: number;
  readonly orders: number;
}

interface CellOptions {
  readonly rounds: number;
  /** Programs of bench/rivals that send the same orders. */
  readonly rivals: readonly string[];
  /** For BullMQ. */
  readonly redisUrl: string;
}

let batch = 0;

async function measureRival(
  stand: Stand,
  name: string,
  { concurrency, orders }: Cell,
  redisUrl: string,
): Promise<number> {
  const place = await stand.sandbox.lastPlace();
  const program = fileURLToPath(new URL(`../rivals/push-${name}.ts`, import.meta.url));
  const args = [
    stand.sandbox.url.href,
    concurrency,
    `R${++batch}`,
    orders,
    stand.url,
    redisUrl,
  ].map(String);
  await collectOutput(stand.start([program, ...args]), name);
  return computeRate(stand, place, orders);
}

/**
 * Measures one cell on a new Postgres and a new sandbox, so that earlier cells do not affect it.
 * Returns orders per second of the product and its rivals.
 */
export async function measureCell(
  cell: Cell,
  { rounds, rivals, redisUrl }: CellOptions,
): Promise<Figures> {
  const { latencyMs, concurrency, orders } = cell;
  const stand = await openStand();
  if (latencyMs > 0)
    await stand.sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: latencyMs } });
  const worker = await stand.startWorker({
    ...schedulesOff,
    PUSH_CONCURRENCY: String(concurrency),
    LOG_LEVEL: 'info',
  });
  try {
    return await measureByTurns(rounds, {
      product: () => pushOrders(stand, orders),
      ...Object.fromEntries(
        rivals.map((name) => [name, () => measureRival(stand, name, cell, redisUrl)]),
      ),
    });
  } finally {
    await endProcess(worker);
    await stand.stop();
  }
}
