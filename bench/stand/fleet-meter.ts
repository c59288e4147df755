import { readdirSync, readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import type { TestRedis } from '../../test/helpers/processes/test-servers.ts';
import { readCpuMs } from './measure.ts';
import type { Stand } from './stand.ts';

/** What all processes have used since they began. */
export interface FleetMeter {
  readonly workersCpuMs: number;
  readonly postgresCpuMs: number;
  readonly redisCpuMs: number;
  readonly serviceCpuMs: number;
  readonly statements: number;
  readonly redisCommands: number;
  readonly requests: number;
  readonly runs: number;
}

/** The processes and servers that are read. */
export interface FleetProcesses {
  readonly workers: readonly (number | undefined)[];
  readonly service: number | undefined;
  readonly serviceUrl: URL;
  readonly redis: TestRedis | null;
}

/** Reads all meters. Processor times have steps of 10 ms. */
export async function readFleetMeter(stand: Stand, fleet: FleetProcesses): Promise<FleetMeter> {
  const [row] = await stand.query<{ statements: number; runs: number; pid: number }>(
    `select (select sum(calls)::float8 from pg_stat_statements) as statements, pg_backend_pid() as pid,
      (select count(*)::float8 from bench_starts) as runs`,
  );
  const redis = await readRedis(fleet.redis);
  return {
    workersCpuMs: fleet.workers.reduce<number>((sum, pid) => sum + readCpuMs(pid), 0),
    postgresCpuMs: readTreeCpuMs(readStat(row?.pid ?? 0).parent),
    redisCpuMs: redis.cpuMs,
    serviceCpuMs: readCpuMs(fleet.service),
    statements: row?.statements ?? Number.NaN,
    redisCommands: redis.commands,
    requests: Number(await (await fetch(new URL('/_count', fleet.serviceUrl))).text()),
    runs: row?.runs ?? Number.NaN,
  };
}

async function readRedis(server: TestRedis | null): Promise<{ commands: number; cpuMs: number }> {
  if (server === null) return { commands: 0, cpuMs: 0 };
  const redis = new Redis(server.url);
  const info = await redis.info();
  redis.disconnect();
  const read = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1] ?? 0);
  return {
    commands: read('total_commands_processed'),
    cpuMs: (read('used_cpu_user') + read('used_cpu_sys')) * 1_000,
  };
}

/**
 * Reads the parent and the processor time of a process, without and with its children that have
 * ended.
 */
function readStat(pid: number): { parent: number; ownMs: number; withEndedMs: number } {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const [own, ended] = [
    Number(fields[11]) + Number(fields[12]),
    Number(fields[13]) + Number(fields[14]),
  ];
  return { parent: Number(fields[1]), ownMs: own * 10, withEndedMs: (own + ended) * 10 };
}

/**
 * Returns the processor time of a process and its children, such as Postgres and its sessions, also
 * ended ones.
 */
function readTreeCpuMs(root: number): number {
  let sum = readStat(root).withEndedMs;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const { parent, ownMs } = readStat(Number(name));
      if (parent === root) sum += ownMs;
    } catch (error) {
      // A process may end while the folder is read.
      if (
        !(
          error instanceof Error &&
          'code' in error &&
          ['ENOENT', 'ESRCH'].includes(String(error.code))
        )
      )
        throw error;
    }
  }
  return sum;
}
