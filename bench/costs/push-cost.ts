/**
 * Measures where the time of a pushed order goes: `node bench/costs/push-cost.ts [LATENCY]
 * [AT_A_TIME] [ORDERS] [CHECKOUT] [PROFILE_FOLDER]`. Prints the orders per second, the CPU per
 * order of worker, Postgres and service, and the statements that Postgres spent most time on,
 * planning included. With a folder, the worker writes a CPU profile there.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { printLine, readCpuMs, round } from '../stand/measure.ts';
import { pushOrders } from '../stand/push-orders.ts';
import { endProcess, openStand, type Stand, schedulesOff } from '../stand/stand.ts';

const [, , latency = '0', concurrency = '8', orders = '4000', checkout, profiles] = process.argv;
const shown = 24;

/** Returns the parent of a process, and the CPU of its ended children in milliseconds. */
function readParent(pid: number): { readonly parent: number; readonly endedMs: number } {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return { parent: Number(fields[1]), endedMs: (Number(fields[13]) + Number(fields[14])) * 10 };
}

/** Returns the CPU of a Postgres with all its processes, in milliseconds. */
async function readPostgresCpuMs(stand: Stand): Promise<number> {
  const [backend] = await stand.query<{ pid: number }>('select pg_backend_pid() as pid');
  const server = readParent(backend?.pid ?? 0).parent;
  const children = readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readParent(Number(name)).parent === server;
    } catch {
      // The process has ended meanwhile.
      return false;
    }
  });
  const ms = children.map((pid) => readCpuMs(Number(pid)));
  return ms.reduce((sum, one) => sum + one, readCpuMs(server) + readParent(server).endedMs);
}

async function printStatements(stand: Stand): Promise<void> {
  const rows = await stand.query<{
    calls: number;
    plan: number;
    exec: number;
    wal: number;
    text: string;
  }>(
    `select calls::int, total_plan_time as plan, total_exec_time as exec, wal_bytes::float8 as wal,
       regexp_replace(query, '\\s+', ' ', 'g') as text
     from pg_stat_statements order by total_plan_time + total_exec_time desc limit ${shown}`,
  );
  printLine('per order: calls, ms of planning, ms of execution, bytes of WAL');
  for (const { calls, plan, exec, wal, text } of rows) {
    const each = [calls, plan, exec, wal].map((value) =>
      String(round(value / Number(orders))).padStart(8),
    );
    printLine(`${each.join(' ')}  ${text.slice(0, 150)}`);
  }
}

const stand = await openStand(['default'], checkout === '' ? undefined : checkout);
try {
  if (latency !== '0')
    await stand.sandbox.faults({
      operation: 'v3.orders.create',
      effect: { delayMs: Number(latency) },
    });
  const options =
    profiles === undefined ? {} : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profiles}` };
  const worker = await stand.startWorker({
    ...schedulesOff,
    PUSH_CONCURRENCY: concurrency,
    ...options,
  });
  await pushOrders(stand, 1_000);
  await stand.query('select pg_stat_statements_reset()');
  const readAll = async () => [
    readCpuMs(worker.pid),
    await readPostgresCpuMs(stand),
    readCpuMs(stand.sandboxPid),
  ];
  const before = await readAll();
  const rate = await pushOrders(stand, Number(orders));
  const used = (await readAll()).map((ms, index) =>
    round((ms - (before[index] ?? 0)) / Number(orders)),
  );
  printLine(
    `${round(rate)} orders/s; ms of CPU an order: worker ${used[0]}, Postgres ${used[1]}, service ${used[2]}`,
  );
  await printStatements(stand);
  await endProcess(worker);
} finally {
  await stand.stop();
}
