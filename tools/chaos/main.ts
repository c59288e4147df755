/**
 * Breaks it on purpose (docs/reliability.md): `npm run chaos` plays a campaign of every fault, some ten minutes;
 * `npm run chaos -- --seeds 1-6 --faults worker-kill,postgres-crash` others. Exits with 1 where anything was wrong.
 */
import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Outcome, play, queueOf } from './campaign.ts';
import type { Fault } from './fault.ts';
import { faults } from './faults.ts';
import { Servers } from './servers.ts';
import { readOutcomes, tableOf } from './table.ts';

const usage = `npm run chaos -- [--seeds 1-6] [--faults a,b] [--lanes 2] [--hurry] [--results FILE]

  --seeds    one number or a span; 1 unless given
  --faults   names of faults; all unless given
  --lanes    campaigns at the same time, each with servers of its own; 2 unless given
  --hurry    brings the time about that an absence needs to be believed, instead of waiting for it
  --results  appends what came of each campaign to this file, a line of JSON each
  --table    prints what such a file holds as a table, and ends
  --list     says what the faults are, and ends`;

const lastsMs = 8_000;

interface Task {
  readonly fault: Fault;
  readonly seed: number;
}

function readTasks(seeds: string, names: string | undefined): Task[] {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(seeds) ?? [];
  if (first === undefined) throw new TypeError(`--seeds: ${seeds} is neither a number nor a span such as 1-6`);
  const wanted = names?.split(',') ?? faults.map(({ name }) => name);
  const chosen = wanted.map((wantedName) => {
    const fault = faults.find(({ name }) => name === wantedName);
    if (fault === undefined) throw new TypeError(`--faults: there is no ${wantedName}; see --list`);
    return fault;
  });
  if (Number(last) < Number(first)) throw new TypeError(`--seeds: ${seeds} ends before it begins`);
  const span = Array.from({ length: Number(last) - Number(first) + 1 }, (_, index) => Number(first) + index);
  return span.flatMap((seed) => chosen.map((fault) => ({ fault, seed })));
}

function tell(outcome: Outcome, place: string): void {
  const { fault, seed, queue, orders, runs, lost, doubled, recoveredMs, settledMs, problems } = outcome;
  const seconds = (ms: number | null) => (ms === null ? 'never' : `${(ms / 1_000).toFixed(1)} s`);
  process.stdout.write(
    `${place} ${fault} seed ${seed}, queue in ${queue}: ${orders} orders, ${runs} runs, lost ${lost}, doubled ${doubled}, ` +
      `recovered ${seconds(recoveredMs)}, settled ${seconds(settledMs)}${problems.length === 0 ? '' : ' FAILED'}\n`,
  );
  if (problems.length === 0) return;
  const file = join(tmpdir(), `chaos-${fault}-${seed}.log`);
  writeFileSync(file, outcome.output);
  const shown = problems.slice(0, 8).map((problem) => `    ${problem.slice(0, 500)}\n`);
  process.stdout.write(`${shown.join('')}    what the workers wrote: ${file}\n`);
}

/** Of a campaign that could not be played to its end: it counts, as one that failed. */
function failedOutcome({ fault, seed }: Task, error: unknown): Outcome {
  const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    fault: fault.name,
    seed,
    queue: queueOf(fault, seed),
    strikes: 0,
    orders: 0,
    runs: 0,
    lost: 0,
    doubled: 0,
    recoveredMs: null,
    settledMs: null,
    memoryMb: [0, 0],
    connections: [[], []],
    problems: [problem],
    output: '',
  };
}

/** Plays tasks one after the other, with servers of its own, until there are none left. */
async function playLane(tasks: Task[], total: number, hurry: boolean, onOutcome: (outcome: Outcome) => void) {
  const servers = await Servers.start();
  if (!servers.hasSmallDisk)
    process.stdout.write(
      'No disk can be mounted here: postgres-disk-full is played by statements that fail with 53100.\n',
    );
  try {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
      const place = `${total - tasks.length}/${total}`;
      const outcome = await play(servers, task.fault, task.seed, { lastsMs, patient: !hurry }).catch((error: unknown) =>
        failedOutcome(task, error),
      );
      tell(outcome, place);
      onOutcome(outcome);
    }
  } finally {
    await servers.stop();
  }
}

const options = {
  seeds: { type: 'string', default: '1' },
  faults: { type: 'string' },
  lanes: { type: 'string', default: '2' },
  hurry: { type: 'boolean', default: false },
  results: { type: 'string' },
  table: { type: 'string' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/** @throws TypeError for options or values that there are not */
function readOptions() {
  const { values } = parseArgs({ options });
  if (!/^[1-9]\d?$/.test(values.lanes)) throw new TypeError(`--lanes: ${values.lanes} is no number from 1 to 99`);
  return { ...values, tasks: readTasks(values.seeds, values.faults) };
}

async function main({
  help,
  list,
  table,
  tasks,
  lanes,
  hurry,
  results,
}: ReturnType<typeof readOptions>): Promise<void> {
  if (help) return void process.stdout.write(`${usage}\n`);
  if (list) return void process.stdout.write(faults.map(({ name, about }) => `${name.padEnd(24)} ${about}\n`).join(''));
  if (table !== undefined) return void process.stdout.write(`${tableOf(readOutcomes(readFileSync(table, 'utf8')))}\n`);
  const total = tasks.length;
  // Changes that were not committed make it another program.
  const commit = spawnSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
    encoding: 'utf8',
  }).stdout.trim();
  const outcomes: Outcome[] = [];
  if (results !== undefined) mkdirSync(dirname(results), { recursive: true });
  const keep = (outcome: Outcome) => {
    outcomes.push(outcome);
    const { output: _, ...kept } = outcome;
    const line = { ...kept, commit, belief: hurry ? 'brought about' : 'waited for' };
    if (results !== undefined) appendFileSync(results, `${JSON.stringify(line)}\n`);
  };
  process.once('SIGINT', () => {
    process.stdout.write('Ends with the campaigns under way.\n');
    tasks.splice(0);
  });
  await Promise.all(Array.from({ length: Math.min(Number(lanes), total) }, () => playLane(tasks, total, hurry, keep)));
  process.stdout.write(`\n${tableOf(outcomes)}\n`);
  if (outcomes.some(({ problems }) => problems.length > 0)) process.exitCode = 1;
}

let given: ReturnType<typeof readOptions> | undefined;
try {
  given = readOptions();
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  process.stderr.write(`${error.message}\n\n${usage}\n`);
  process.exitCode = 2;
}
if (given !== undefined) await main(given);
