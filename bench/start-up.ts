/**
 * Measures the time and the CPU time from the start of a process until the worker works, or until a command has ended:
 * `npm run --silent bench:start-up -- [rounds] [program …]`. Several programs are measured by turns.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureByTurns, median, printLine, round, saveResults } from './stand/measure.ts';
import { endProcess, openStand } from './stand/stand.ts';

const rounds = Number(process.argv[2] ?? 10);
const programs = process.argv.length > 3 ? process.argv.slice(3) : ['dist/main.js'];
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
/** Clock ticks of /proc per second on Linux. */
const ticksPerSecond = 100;

const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-start-up-'));
const usageFile = join(folder, 'usage');
/** Code that is loaded before the program. When the process ends, it writes the used CPU microseconds to a file. */
const meter = `data:text/javascript,${encodeURIComponent(
  `import { writeFileSync } from 'node:fs';
   process.on('exit', () => {
     const { user, system } = process.cpuUsage();
     writeFileSync(${JSON.stringify(usageFile)}, String(user + system));
   });`,
)}`;

/** Returns the CPU seconds that a running process has used. */
function readCpuSeconds(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

const stand = await openStand();
const cpuSeconds = new Map<string, number[]>();
const recordCpu = (name: string, seconds: number) => cpuSeconds.set(name, [...(cpuSeconds.get(name) ?? []), seconds]);
try {
  await stand.sandbox.seed(200);
  await stand.query("insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'A', '{}')");
  for (const job of ['refresh-settings', 'pull-orders', 'pull-shipments', 'push-outbox'])
    await stand.run(['run', job]).catch(() => '');
  const subjects = programs.flatMap((program) => [
    [
      `${program} worker`,
      async () => {
        const startedAtMs = performance.now();
        const worker = await stand.startWorker({}, undefined, program);
        const ms = performance.now() - startedAtMs;
        recordCpu(`${program} worker`, readCpuSeconds(worker.pid));
        await endProcess(worker);
        return ms;
      },
    ] as const,
    ...commands.map(
      (command) =>
        [
          `${program} ${command}`,
          async () => {
            const startedAtMs = performance.now();
            await stand.run(command.split(' '), { NODE_OPTIONS: `--import=${meter}` }, true, program);
            const ms = performance.now() - startedAtMs;
            recordCpu(`${program} ${command}`, Number(readFileSync(usageFile, 'utf8')) / 1_000_000);
            return ms;
          },
        ] as const,
    ),
  ]);
  const figures = await measureByTurns(rounds, Object.fromEntries(subjects));
  const results = Object.fromEntries(
    Object.entries(figures).map(([name, times]) => [
      name,
      { milliseconds: round(median(times)), cpuSeconds: round(median(cpuSeconds.get(name) ?? [])) },
    ]),
  );
  for (const [name, { milliseconds, cpuSeconds: used }] of Object.entries(results))
    printLine(`${name.padEnd(44)} ${milliseconds} ms  ${used} CPU seconds`);
  saveResults('start-up', { rounds, results });
} finally {
  await stand.stop();
  rmSync(folder, { recursive: true, force: true });
}
