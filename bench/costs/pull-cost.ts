/**
 * Tells what a page of a first load and of a rescan costs: the CPU of each process, and the
 * statements of Postgres. `node bench/costs/pull-cost.ts [SHIPMENTS] [CHECKOUT]
 * [PROFILE.cpuprofile]`. These figures depend little on other load.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { printLine, readCpuMs, round } from '../stand/measure.ts';
import { collectOutput, openStand, readLastRate, type Stand } from '../stand/stand.ts';

const [, , shipments = '20000', checkout, profile] = process.argv;
const pages = Number(shipments) / 100;

/**
 * Returns the CPU in ms of all children that a process has waited for, and of its living children.
 */
function readTreeCpuMs(pid: number): number {
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => readParent(name) === pid);
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const waited = (Number(fields[13]) + Number(fields[14])) * 10;
  return (
    readCpuMs(pid) + waited + children.reduce((sum, child) => sum + readCpuMs(Number(child)), 0)
  );
}

function readParent(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);
  } catch {
    return 0;
  }
}

async function measure(
  stand: Stand,
  name: string,
  args: readonly string[],
  ledger: 'runs' | 'rescans',
) {
  const [row] = await stand.query<{ pid: number }>(
    `select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int as pid`,
  );
  const postmaster = row?.pid ?? 0;
  await stand.query('select pg_stat_statements_reset()');
  const before = { postgres: readTreeCpuMs(postmaster), sandbox: readCpuMs(stand.sandboxPid) };
  const flags =
    profile !== undefined && ledger === 'runs'
      ? [
          '--cpu-prof',
          `--cpu-prof-name=${basename(profile)}`,
          `--cpu-prof-dir=${resolve(dirname(profile))}`,
        ]
      : [];
  const child = stand.start([...flags, ...stand.program, ...args], stand.env);
  let workerMs = 0;
  const timer = setInterval(() => {
    try {
      workerMs = readCpuMs(child.pid);
    } catch {
      clearInterval(timer);
    }
  }, 20);
  await collectOutput(child, args.join(' '));
  clearInterval(timer);
  const postgres = readTreeCpuMs(postmaster) - before.postgres;
  const sandbox = readCpuMs(stand.sandboxPid) - before.sandbox;
  const rate = await readLastRate(stand, ledger, 3);
  printLine(
    `${name}: ${round(rate)} rows/s; per page: Postgres ${round(postgres / pages)} ms, ` +
      `worker ${round(workerMs / pages)} ms, service ${round(sandbox / pages)} ms`,
  );
  const statements = await stand.query<{
    calls: number;
    plan: number;
    exec: number;
    query: string;
  }>(
    `select calls::int, total_plan_time as plan, total_exec_time as exec,
       regexp_replace(query, '\\s+', ' ', 'g') as query
     from pg_stat_statements order by total_plan_time + total_exec_time desc limit 24`,
  );
  for (const { calls, plan, exec, query } of statements)
    printLine(
      `  ${round(calls / pages)} calls, ${round(plan / pages)} ms planned, ` +
        `${round(exec / pages)} ms executed: ${query.slice(0, 110)}`,
    );
}

const stand = await openStand(
  ['default'],
  checkout === undefined || checkout === '.' ? undefined : resolve(checkout),
);
try {
  const seed = {
    client: 'default',
    shipments: Number(shipments),
    items: 2,
    statuses: ['SHIPPED'],
    spreadDays: 60,
  };
  await stand.sandbox.call('POST', '/_sandbox/seed', seed);
  await measure(stand, 'first load', ['run', 'pull-shipments'], 'runs');
  await measure(stand, 'rescan', ['backfill', 'shipments'], 'rescans');
} finally {
  await stand.stop();
}
