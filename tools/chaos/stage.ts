import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { jobNames, polledStreams, toScheduleVariable } from '../../config/jobs.ts';
import { deriveSeed, Random } from '../../src/sandbox/random.ts';
import { CliProcess } from '../../test/helpers/processes/cli-process.ts';
import { SandboxControl } from '../../test/helpers/sandbox-control.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import { TcpProxy } from './proxy.ts';
import { type ChaosDatabase, queryAt, type Servers } from './servers.ts';

export const clients = ['shop-a', 'shop-b'];
/** Number of workers that run at the same time. */
export const workersAtATime = 2;
const ordersPerDay = 40;
const historyDays = 3;
/**
 * Heap of a worker. With all memory of this machine, it would grow for a long time before garbage
 * is collected.
 */
const heapMb = 160;
/** How long the campaign waits for something that must happen, on a busy machine. */
const maxWaitMs = 120_000;
const clockOff = fileURLToPath(new URL('./wrong-clock.ts', import.meta.url));

/** The servers, proxies and files of one campaign. */
interface Parts {
  readonly servers: Servers;
  readonly database: ChaosDatabase;
  readonly sandbox: SandboxControl;
  readonly sandboxProcess: CliProcess;
  readonly proxies: {
    readonly postgres: TcpProxy;
    readonly redis: TcpProxy;
    readonly service: TcpProxy;
  };
  readonly folder: string;
  readonly queue: 'postgres' | 'redis';
}

/**
 * Real workers that use a Postgres, a Redis and a sandbox through proxies. All of them can be
 * broken.
 */
export class Stage {
  /**
   * Randomness of the faults. The load has another source, so that both are the same for the same
   * seed.
   */
  readonly random: Random;
  readonly parts: Parts;
  readonly workers: CliProcess[] = [];
  readonly #env: Record<string, string>;
  readonly #ended: { readonly worker: CliProcess; readonly asked: boolean }[] = [];
  /** Exit codes or signals of workers that ended although nothing had ended them. */
  readonly fallen: string[] = [];

  private constructor(seed: number, parts: Parts) {
    this.random = new Random(deriveSeed(seed, 'faults'));
    this.parts = parts;
    const file = join(parts.folder, 'clients.json');
    const baseUrl = parts.proxies.service.url.href;
    writeFileSync(
      file,
      JSON.stringify(clients.map((key) => ({ key, baseUrl, username: key, password: key }))),
    );
    const often = Object.keys(polledStreams).map((job) => [toScheduleVariable(job), '4s']);
    this.#env = {
      ...Object.fromEntries(jobNames.map((job) => [toScheduleVariable(job), 'off'])),
      ...Object.fromEntries(often),
      SCHEDULE_RECONCILE: '12s',
      DATABASE_URL: `${parts.proxies.postgres.url.href}`,
      ...(parts.queue === 'redis' ? { REDIS_URL: parts.proxies.redis.url.href } : {}),
      WAREHOUSE_CLIENTS_FILE: file,
      HTTP_TIMEOUT_MS: '1500',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'info',
    };
  }

  static async open(
    seed: number,
    servers: Servers,
    { queue, onSmallDisk = false }: { queue: 'postgres' | 'redis'; onSmallDisk?: boolean },
  ): Promise<Stage> {
    const options = [
      '--speed',
      '0',
      '--seed',
      `${seed}`,
      '--orders-per-day',
      `${ordersPerDay}`,
      '--late-changes',
    ];
    const sandboxProcess = new CliProcess(
      ['sandbox', '--strict', '--port', '0', '--clients', clients.join(','), ...options],
      {},
    );
    const [database, line] = await Promise.all([
      servers.createDatabase(onSmallDisk),
      sandboxProcess.line('Sandbox at '),
    ]);
    const sandbox = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
    // The sandbox accepts repeated numbers, so that an order that is sent twice is there twice.
    await sandbox.switches({
      repeatedNumbers: true,
      cursor: (['id', 'offset', 'opaque'] as const)[seed % 3] ?? 'id',
    });
    await sandbox.advance(historyDays * 86_400);
    const [postgres, redis, service] = await Promise.all([
      TcpProxy.start(new URL(database.url)),
      TcpProxy.start(new URL(servers.redis.url)),
      TcpProxy.start(sandbox.url),
    ]);
    const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-chaos-'));
    const proxies = { postgres, redis, service };
    return new Stage(seed, { servers, database, sandbox, sandboxProcess, proxies, folder, queue });
  }

  /** Executes one statement as a superuser, not through the proxy. */
  query<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    return queryAt<T>(this.parts.database.superUrl, text, values);
  }

  /** Executes one statement like `query`, and repeats it while the database cannot execute it. */
  retryQuery(text: string, values: unknown[] = []): Promise<boolean> {
    return waitFor(
      `the database to take: ${text.slice(0, 60)}`,
      async () => {
        try {
          await this.query(text, values);
          return true;
        } catch (error) {
          if (error instanceof Error && 'code' in error && isTransient(String(error.code)))
            return false;
          if (error instanceof Error && /terminated|timeout|not queryable/i.test(error.message))
            return false;
          throw error;
        }
      },
      maxWaitMs,
    );
  }

  /**
   * Starts a worker.
   * @param clockOffMs how far its clock is ahead of the clock of this machine
   */
  startWorker(clockOffMs = 0): CliProcess {
    const wrong = clockOffMs === 0 ? '' : ` --import=${clockOff}`;
    const worker = new CliProcess(['worker'], {
      ...this.#env,
      CHAOS_CLOCK_OFF_MS: String(clockOffMs),
      NODE_OPTIONS: `--max-old-space-size=${heapMb}${wrong}`,
    });
    this.workers.push(worker);
    return worker;
  }

  async startWorkers(): Promise<void> {
    const started = Array.from({ length: workersAtATime }, () => this.startWorker());
    await Promise.all(started.map((worker) => worker.line('worker_started')));
  }

  /** Picks a worker that has started. Waits for one if there is none. */
  pickWorker(): Promise<CliProcess> {
    return waitFor(
      'a worker at work',
      () => {
        const atWork = this.workers.filter(
          ({ child, output }) => !hasEnded(child) && output.includes('"worker_started"'),
        );
        return atWork.length === 0 ? null : this.random.pick(atWork);
      },
      maxWaitMs,
    );
  }

  /** Ends a worker and starts another in its place. */
  replace(worker: CliProcess, signal: 'SIGKILL' | 'SIGTERM', clockOffMs = 0): void {
    const place = this.workers.indexOf(worker);
    // If another fault has replaced the worker already, there is nothing to do.
    if (place < 0) return;
    if (hasEnded(worker.child)) this.fallen.push(describeExit(worker.child));
    worker.kill(signal);
    this.workers.splice(place, 1);
    this.#ended.push({ worker, asked: signal === 'SIGTERM' });
    this.startWorker(clockOffMs);
  }

  /** Restarts workers that ended by themselves, as a process manager would do. */
  restartEndedWorkers(): void {
    for (const worker of this.workers.filter(({ child }) => hasEnded(child)))
      this.replace(worker, 'SIGKILL');
  }

  /** Returns the largest resident memory of a worker in MB; NaN if this is not Linux. */
  readMaxMemoryMb(): number {
    if (process.platform !== 'linux') return Number.NaN;
    return Math.max(...this.workers.map(({ child }) => residentMb(child.pid ?? 0)));
  }

  /**
   * Numbers of connections that workers hold to Postgres, Redis and the service, lost ones
   * included.
   */
  get connections(): readonly [postgres: number, redis: number, service: number] {
    const { postgres, redis, service } = this.parts.proxies;
    return [postgres.connections, redis.connections, service.connections];
  }

  /**
   * Asks all workers to stop, and kills those that have not ended after `withinMs`.
   * @returns a text for each worker that was asked to stop and did not end with 0
   */
  async stopWorkers(withinMs: number): Promise<string[]> {
    const asked = [
      ...this.#ended.filter((one) => one.asked).map(({ worker }) => worker),
      ...this.workers,
    ];
    for (const worker of this.workers) worker.kill('SIGTERM');
    const timer = setTimeout(() => {
      for (const worker of asked) worker.kill('SIGKILL');
    }, withinMs);
    await Promise.all([
      ...this.#ended.map(({ worker }) => worker.ended),
      ...this.workers.map(({ ended }) => ended),
    ]);
    clearTimeout(timer);
    return asked.flatMap(({ child }) =>
      child.exitCode === 0
        ? []
        : [`a worker that was asked to stop ended with ${describeExit(child)}`],
    );
  }

  /** Everything that the workers wrote; those that have ended come first. */
  get output(): string {
    return [...this.#ended.map(({ worker }) => worker), ...this.workers]
      .map(({ output }) => output)
      .join('\n');
  }

  async close(): Promise<void> {
    const { proxies, folder, servers, database, sandboxProcess } = this.parts;
    const all = [...this.#ended.map(({ worker }) => worker), ...this.workers, sandboxProcess];
    for (const { child } of all) child.kill('SIGKILL');
    await Promise.all(all.map(({ ended }) => ended));
    await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
    rmSync(folder, { recursive: true });
    servers.freeDisk();
    await servers.dropDatabase(database.name);
  }
}

/** A kind of failure. A strike begins it, lets it last for a random time, and ends it. */
export interface Fault {
  readonly name: string;
  /** What happens, for the table of results. */
  readonly about: string;
  readonly strike: (stage: Stage) => Promise<void>;
  /** The queue that the fault needs; without it, seeds take turns. */
  readonly queue?: 'redis';
  /** True if the database must be on a disk that can be filled. */
  readonly onSmallDisk?: boolean;
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess) =>
  exitCode !== null || signalCode !== null;
const describeExit = ({ exitCode, signalCode }: ChildProcess) => String(signalCode ?? exitCode);

/**
 * Returns true for errors that end by themselves: away, stopping or starting, full, read-only, or
 * refused by a fault.
 */
function isTransient(code: string): boolean {
  return /^(ECONN.*|08.*|57P0.|53.*|25006|40.*|55000|55P03|3D000)$/.test(code);
}

function residentMb(pid: number): number {
  if (!existsSync(`/proc/${pid}/status`)) return 0;
  const [, kb = 'NaN'] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kb) / 1_024;
}
