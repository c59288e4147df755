/** How long a person waits: from the start of a process until the worker works, or a command has ended. `npm run --silent bench:start-up` */
import { byTurns, keep, median, round, say } from './measure.ts';
import { end, openStand } from './stand.ts';

const rounds = Number(process.argv[2] ?? 5);
const commands = [
  '--version',
  '--help',
  'status',
  'status --json',
  'doctor',
  'migrate',
  'client list',
  'outbox list',
  'outbox show 1',
  'quarantine list',
  'pause pull-shipments',
  'resume pull-shipments',
  'run pull-shipments',
  'run push-outbox',
  'reconcile shipments',
];

const stand = await openStand();
try {
  await stand.sandbox.seed(200);
  await stand.query("insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'A', '{}')");
  for (const job of ['refresh-settings', 'pull-orders', 'pull-shipments', 'push-outbox'])
    await stand.run(['run', job]).catch(() => '');
  const timed = async (work: () => Promise<unknown>) => {
    const startedAtMs = performance.now();
    await work();
    return performance.now() - startedAtMs;
  };
  const figures = await byTurns(rounds, {
    worker: async () => {
      const startedAtMs = performance.now();
      const worker = await stand.startWorker();
      const ms = performance.now() - startedAtMs;
      await end(worker);
      return ms;
    },
    ...Object.fromEntries(
      commands.map((command) => [command, () => timed(() => stand.run(command.split(' '), {}, true))]),
    ),
  });
  const milliseconds = Object.fromEntries(Object.entries(figures).map(([name, times]) => [name, round(median(times))]));
  for (const [name, ms] of Object.entries(milliseconds)) say(`${name.padEnd(24)} ${ms} ms`);
  keep('start-up', { rounds, milliseconds });
} finally {
  await stand.stop();
}
