/**
 * Measures the resident memory of a worker during a first load of a million rows, with the heap
 * limits of the Docker image, or without limits: `npm run --silent bench:memory -- [SHIPMENTS]
 * [unbounded]`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { printLine, readResidentMb, saveResults } from './stand/measure.ts';
import { endProcess, openStand, schedulesOff } from './stand/stand.ts';

const shipments = Number(process.argv[2] ?? 333_400);
const bounded = process.argv[3] !== 'unbounded';
/**
 * What the image gives the heap in a container with the limit of docker-compose.yml: 60 % of 1 GB.
 */
const flags = ['--max-semi-space-size=4', '--max-old-space-size=614'];
const stand = await openStand();
try {
  for (let left = shipments; left > 0; left -= 100_000)
    await stand.sandbox.call('POST', '/_sandbox/seed', {
      client: 'default',
      shipments: Math.min(left, 100_000),
      items: 2,
      statuses: ['SHIPPED'],
      spreadDays: 60,
    });
  const heap: Record<string, string> = bounded ? { NODE_OPTIONS: flags.join(' ') } : {};
  const worker = await stand.startWorker({
    ...schedulesOff,
    SCHEDULE_PULL_SHIPMENTS: '1s',
    ...heap,
  });
  const samples: { rows: number; mb: number }[] = [];
  for (let rows = 0; rows < shipments * 3; ) {
    await wait(1_000);
    const [row] = await stand.query<{ n: number }>(
      `select coalesce(sum(fetched), 0)::int * 3 as n from sync.runs`,
    );
    rows = row?.n ?? 0;
    samples.push({ rows, mb: Math.round(readResidentMb(worker.pid)) });
  }
  const quarters = [0, 1, 2, 3].map((quarter) => {
    const inQuarter = samples.filter(
      ({ rows }) => Math.min(3, Math.floor((rows / (shipments * 3)) * 4)) === quarter,
    );
    return inQuarter.length === 0 ? null : Math.max(...inQuarter.map(({ mb }) => mb));
  });
  printLine(
    `most resident memory by quarter of ${(shipments * 3).toLocaleString('en')} rows: ${quarters.join(', ')} MB`,
  );
  saveResults(bounded ? 'memory' : 'memory-unbounded', {
    flags: bounded ? flags : [],
    rows: shipments * 3,
    mostMbByQuarter: quarters,
    samples: samples.filter((_, index) => index % 5 === 0),
  });
  await endProcess(worker);
} finally {
  await stand.stop();
}
