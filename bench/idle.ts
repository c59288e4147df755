/**
 * Measures what an idle worker costs per minute, with 1 and 50 clients on default schedules, and
 * what a poll costs that finds nothing new: `npm run --silent bench:idle -- [SECONDS]`. Counts
 * statements and WAL of Postgres, commands of Redis, requests to the service, and CPU time of the
 * worker.
 */
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { computePollCost, measureIdle, oftenSchedules } from './stand/idle-costs.ts';
import { printLine, saveResults } from './stand/measure.ts';
import { schedulesOff } from './stand/stand.ts';

const measureMs = Number(process.argv[2] ?? 60) * 1_000;

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
const found: object[] = [];
for (const clients of [1, 50])
  for (const [queue, server] of [
    ['Postgres', null],
    ['Redis', redis],
  ] as const) {
    if (queue === 'Redis' && redis === null) continue;
    const minute = await measureIdle({ clients, redis: server, measureMs });
    printLine(`${clients} clients, queue in ${queue}: ${JSON.stringify(minute)}`);
    found.push({ clients, queue, ...minute });
  }
// The difference between a worker that polls every stream every two seconds and one without polls
// is the cost of polls.
const none = await measureIdle({ clients: 1, redis: null, schedules: schedulesOff, measureMs });
const many = await measureIdle({ clients: 1, redis: null, schedules: oftenSchedules, measureMs });
const poll = computePollCost(many, none);
printLine(`a poll that finds nothing new: ${JSON.stringify(poll)}`);
await redis?.stop();
saveResults('idle', { seconds: measureMs / 1_000, found, poll, none, many });
