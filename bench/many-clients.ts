/**
 * Measures many clients. `npm run --silent bench:clients` measures the statements that every worker
 * repeats for all clients, with 50, 1,000 and 10,000 clients. With `-- --workers 1,2,4 [--queues
 * Postgres,Redis] [--clients 1000] [--speed 1] [--seconds 45]`, it runs that many workers against a
 * light service with empty lists.
 */
import { parseArgs } from 'node:util';
import { measureStatements } from './stand/client-statements.ts';
import { type FleetCase, measureFleet } from './stand/fleet.ts';
import { printLine, saveResults } from './stand/measure.ts';

const { values } = parseArgs({
  options: {
    workers: { type: 'string' },
    queues: { type: 'string', default: 'Postgres,Redis' },
    clients: { type: 'string', default: '1000' },
    speed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '45' },
    name: { type: 'string', default: 'many-clients' },
  },
});

if (values.workers === undefined) await measureStatements();
else {
  const found: object[] = [];
  const [clients, speed, seconds] = [
    Number(values.clients),
    Number(values.speed),
    Number(values.seconds),
  ];
  for (const queue of values.queues.split(',') as FleetCase['queue'][])
    for (const workers of values.workers.split(',').map(Number)) {
      const figures = await measureFleet({ clients, workers, queue, speed, seconds });
      printLine(JSON.stringify(figures));
      found.push(figures);
    }
  saveResults(values.name, { found });
}
