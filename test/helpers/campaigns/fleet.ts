import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jobNames, toScheduleVariable } from '../../../config/jobs.ts';
import type { CliProcess } from '../processes/cli-process.ts';
import { startSandbox, type useProcesses } from '../processes/processes.ts';
import { runCommand } from '../processes/run-command.ts';
import type { SandboxControl } from '../sandbox-control.ts';

type Processes = ReturnType<typeof useProcesses>;

/** A client of WAREHOUSE_CLIENTS_FILE. */
interface FleetClient {
  readonly key: string;
  readonly baseUrl?: string;
  readonly password?: string;
}

interface FleetOptions {
  readonly databaseUrl: string;
  readonly clients: readonly FleetClient[];
  /** Settings of the workers. All schedules are off, unless they are set here. */
  readonly env?: Record<string, string>;
  /** Orders per day of each client in the sandbox. */
  readonly ordersPerDay?: number;
}

/** Real workers for several clients of one sandbox process. */
export class Fleet {
  readonly sandbox: SandboxControl;
  readonly env: Record<string, string>;
  readonly workers: CliProcess[] = [];
  readonly #processes: Processes;
  readonly #folder: string;
  readonly #ending = new Set<CliProcess>();

  private constructor(
    processes: Processes,
    sandbox: SandboxControl,
    folder: string,
    env: Record<string, string>,
  ) {
    this.#processes = processes;
    this.sandbox = sandbox;
    this.#folder = folder;
    this.env = env;
  }

  /**
   * Starts a sandbox for the clients. Its time does not advance by itself. Workers are started
   * later.
   */
  static async start(
    processes: Processes,
    { databaseUrl, clients, env = {}, ordersPerDay = 0 }: FleetOptions,
  ): Promise<Fleet> {
    const names = clients.map(({ key }) => key);
    const options = ['--clients', names.join(','), '--orders-per-day', `${ordersPerDay}`];
    const { control: sandbox } = await startSandbox(processes.cli, ...options);
    const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-fleet-'));
    const file = join(folder, 'clients.json');
    const entries = clients.map(({ key, baseUrl = sandbox.url.href, password = key }) => ({
      key,
      baseUrl,
      username: key,
      password,
    }));
    writeFileSync(file, JSON.stringify(entries));
    return new Fleet(processes, sandbox, folder, {
      DATABASE_URL: databaseUrl,
      WAREHOUSE_CLIENTS_FILE: file,
      ADMIN_PORT: '0',
      LOG_LEVEL: 'info',
      SCHEDULE_PUSH_OUTBOX: 'off',
      ...Object.fromEntries(jobNames.map((job) => [toScheduleVariable(job), 'off'])),
      ...env,
    });
  }

  startWorker(env: Record<string, string> = {}): CliProcess {
    const worker = this.#processes.cli(['worker'], { ...this.env, ...env });
    this.workers.push(worker);
    return worker;
  }

  /** Runs a command of the product to its end. */
  command(...args: string[]): Promise<{ code: number; output: string }> {
    return runCommand(args, { ...this.env, LOG_LEVEL: 'silent' });
  }

  /** Workers that were neither killed nor asked to stop. */
  get alive(): CliProcess[] {
    return this.workers.filter((worker) => !this.#ending.has(worker));
  }

  /** Kills a worker, or asks it to stop. */
  end(worker: CliProcess, signal: 'SIGKILL' | 'SIGTERM'): void {
    this.#ending.add(worker);
    worker.kill(signal);
  }

  /**
   * Asks all workers to stop, and waits until they have. Also wakes those that a failed test left
   * stopped.
   */
  async stop(): Promise<void> {
    for (const worker of this.alive) {
      this.end(worker, 'SIGTERM');
      worker.kill('SIGCONT');
    }
    await Promise.all(this.workers.map(({ ended }) => ended));
  }

  get output(): string {
    return this.workers.map(({ output }) => output).join('\n');
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** True if campaigns run at full length (`npm run campaign:daemon`). */
export const isLong = process.env.CAMPAIGN_DAEMON !== undefined;

/** Returns `long` for campaigns at full length, else `short`. */
export const pickDuration = <T>(short: T, long: T): T => (isLong ? long : short);

/** Writes what a campaign measured to standard error. */
export function report(name: string, figures: unknown): void {
  process.stderr.write(`${name}: ${JSON.stringify(figures)}\n`);
}
