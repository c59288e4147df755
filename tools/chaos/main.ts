/**
 * Runs chaos campaigns (docs/reliability.md): `npm run chaos` plays one campaign per fault and each
 * failover, in about twenty minutes; with `--seeds 1-6 --faults worker-kill,postgres-crash`, only
 * selected ones. Exits with 1 if there is a problem.
 */
import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { type CampaignResult, chooseQueue, play } from './campaign.ts';
import { playFailovers } from './failover/play-failovers.ts';
import { situations } from './failover/situations.ts';
import { faults } from './faults.ts';
import { Servers } from './servers.ts';
import type { Fault } from './stage.ts';
import { formatResultTable, readResults } from './table.ts';

const usage = `npm run chaos -- [--only failover] [--seeds 1-6] [--faults a,b] [--lanes 2] [--hurry]
                 [--results FILE]

  --only     failover: nothing but failovers of a Postgres with a standby
  --seeds    one number or a span; default 1
  --faults   names of faults and failovers; default all
  --lanes    number of campaigns at the same time, each with separate servers; default 2
  --hurry    does not wait until an absence is believed, but sets the stored times back
  --results  appends the result of each campaign to this file, one line of JSON each
  --table    prints the results in such a file as a table, and ends
  --list     lists the faults, and ends`;

const lastsMs = 8_000;

interface Task {
  readonly fault: Fault;
  readonly seed: number;
}

function readTasks(seeds: string, names: readonly string[]): Task[] {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(seeds) ?? [];
  if (first === undefined)
    throw new TypeError(`--seeds: ${seeds} is neither a number nor a span such as 1-6`);
  const chosen = faults.filter(({ name }) => names.includes(name));
  if (Number(last) < Number(first)) throw new TypeError(`--seeds: ${seeds} ends before it begins`);
  const span = Array.from(
    { length: Number(last) - Number(first) + 1 },
    (_, index) => Number(first) + index,
  );
  return span.flatMap((seed) => chosen.map((fault) => ({ fault, seed })));
}

function printResult(result: CampaignResult, place: string): void {
  const { fault, seed, queue, orders, runs, lost, doubled, recoveredMs, settledMs, problems } =
    result;
  const seconds = (ms: number | null) => (ms === null ? 'never' : `${(ms / 1_000).toFixed(1)} s`);
  const verdict = problems.length === 0 ? '' : ' FAILED';
  process.stdout.write(
    `${place} ${fault} seed ${seed}, queue in ${queue}: ${orders} orders, ${runs} runs, ` +
      `lost ${lost}, doubled ${doubled}, recovered ${seconds(recoveredMs)}, ` +
      `settled ${seconds(settledMs)}${verdict}\n`,
  );
  if (problems.length === 0) return;
  const file = join(tmpdir(), `chaos-${fault}-${seed}.log`);
  writeFileSync(file, result.output);
  const shown = problems.slice(0, 8).map((problem) => `    ${problem.slice(0, 500)}\n`);
  process.stdout.write(`${shown.join('')}    what the workers wrote: ${file}\n`);
}

/** Creates the result of a campaign that ended with an error. It counts as failed. */
function createFailedResult({ fault, seed }: Task, error: unknown): CampaignResult {
  const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return {
    fault: fault.name,
    seed,
    queue: chooseQueue(fault, seed),
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

/** Plays tasks one after the other on separate servers, until none is left. */
async function playLane(
  tasks: Task[],
  total: number,
  hurry: boolean,
  onResult: (result: CampaignResult) => void,
) {
  const servers = await Servers.start();
  if (!servers.hasSmallDisk)
    process.stdout.write(
      'No disk can be mounted here, ' +
        'so postgres-disk-full makes statements fail with 53100 instead.\n',
    );
  try {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) {
      const place = `${total - tasks.length}/${total}`;
      const result = await play(servers, task.fault, task.seed, { lastsMs, patient: !hurry }).catch(
        (error: unknown) => createFailedResult(task, error),
      );
      printResult(result, place);
      onResult(result);
    }
  } finally {
    await servers.stop();
  }
}

const options = {
  only: { type: 'string' },
  seeds: { type: 'string', default: '1' },
  faults: { type: 'string' },
  lanes: { type: 'string', default: '2' },
  hurry: { type: 'boolean', default: false },
  results: { type: 'string' },
  table: { type: 'string' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

/** @throws TypeError for unknown options or values */
function readOptions() {
  const { values } = parseArgs({ options });
  if (!/^[1-9]\d?$/.test(values.lanes))
    throw new TypeError(`--lanes: ${values.lanes} is not a number from 1 to 99`);
  if (![undefined, 'failover'].includes(values.only))
    throw new TypeError(`--only: ${values.only} is not failover`);

  const failovers = situations.map(({ name }) => name);
  const all = [...(values.only === undefined ? faults.map(({ name }) => name) : []), ...failovers];
  const names = values.faults?.split(',') ?? all;
  const unknown = names.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new TypeError(`--faults: there is no ${unknown}; see --list`);

  return {
    ...values,
    failovers: failovers.filter((name) => names.includes(name)),
    tasks: readTasks(values.seeds, names),
  };
}

type Options = ReturnType<typeof readOptions>;

async function main(options: Options): Promise<void> {
  const { help, list, table, tasks } = options;

  if (help) return void process.stdout.write(`${usage}\n`);
  if (list)
    return void process.stdout.write(
      [...faults, ...situations].map(({ name, about }) => `${name.padEnd(24)} ${about}\n`).join(''),
    );
  if (table !== undefined)
    return void process.stdout.write(
      `${formatResultTable(readResults(readFileSync(table, 'utf8')))}\n`,
    );
  if (tasks.length > 0) await playCampaigns(options);
  if (options.failovers.length > 0 && !(await playFailovers(options.failovers)))
    process.exitCode = 1;
}

async function playCampaigns({ tasks, lanes, hurry, results }: Options): Promise<void> {
  const total = tasks.length;
  // `--dirty` marks results of a program with uncommitted changes.
  const described = spawnSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {
    encoding: 'utf8',
  });
  const commit = described.stdout.trim();
  const all: CampaignResult[] = [];
  if (results !== undefined) mkdirSync(dirname(results), { recursive: true });
  const keep = (result: CampaignResult) => {
    all.push(result);
    const { output: _, ...kept } = result;
    const line = { ...kept, commit, belief: hurry ? 'brought about' : 'waited for' };
    if (results !== undefined) appendFileSync(results, `${JSON.stringify(line)}\n`);
  };
  process.once('SIGINT', () => {
    process.stdout.write('Stops when the campaigns under way are over.\n');
    tasks.splice(0);
  });
  await Promise.all(
    Array.from({ length: Math.min(Number(lanes), total) }, () =>
      playLane(tasks, total, hurry, keep),
    ),
  );
  process.stdout.write(`\n${formatResultTable(all)}\n`);
  if (all.some(({ problems }) => problems.length > 0)) process.exitCode = 1;
}

let parsedOptions: Options | undefined;
try {
  parsedOptions = readOptions();
} catch (error) {
  if (!(error instanceof TypeError)) throw error;
  process.stderr.write(`${error.message}\n\n${usage}\n`);
  process.exitCode = 2;
}
if (parsedOptions !== undefined) await main(parsedOptions);
