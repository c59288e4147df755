import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jobNames, scheduleVariable } from '../../../config/jobs.ts';
import type { CliProcess } from '../processes/cli-process.ts';
import type { useProcesses } from '../processes/processes.ts';
import { runCommand } from '../processes/run-command.ts';
import { SandboxControl } from '../sandbox-control.ts';

type Processes = ReturnType<typeof useProcesses>;

/** A client as it stands in WAREHOUSE_CLIENTS_FILE. */
export interface FleetClient {
  readonly key: string;
  readonly baseUrl?: string;
  readonly password?: string;
}

/** Real workers for several clients of one sandbox process. */
export class Fleet {
  readonly sandbox: SandboxControl;
  readonly env: Record<string, string>;
  readonly workers: CliProcess[] = [];
  readonly #processes: Processes;
  readonly #folder: string;
  readonly #ending = new Set<CliProcess>();

  private constructor(processes: Processes, sandbox: SandboxControl, folder: string, env: Record<string, string>) {
    this.#processes = processes;
    this.sandbox = sandbox;
    this.#folder = folder;
    this.env = env;
  }

  /**
   * @param env on top of all schedules off
   * @param ordersPerDay of each client's shop in the sandbox; its time stands still
   */
  static async start(
    processes: Processes,
    databaseUrl: string,
    clients: readonly FleetClient[],
    env: Record<string, string> = {},
    ordersPerDay = 0,
  ): Promise<Fleet> {
    const names = clients.map(({ key }) => key);
    const args = ['--port', '0', '--speed', '0', '--clients', names.join(','), '--orders-per-day', `${ordersPerDay}`];
    const line = await processes.cli(['sandbox', ...args]).line('Sandbox at ');
    const sandbox = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
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
      ...Object.fromEntries(jobNames.map((job) => [scheduleVariable(job), 'off'])),
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

  /** Those that were neither killed nor asked to end. */
  get alive(): CliProcess[] {
    return this.workers.filter((worker) => !this.#ending.has(worker));
  }

  /** Ends a worker, at once or as it is asked to. */
  end(worker: CliProcess, signal: 'SIGKILL' | 'SIGTERM'): void {
    this.#ending.add(worker);
    worker.kill(signal);
  }

  /** Asks all workers to stop, and waits until they have. */
  async stop(): Promise<void> {
    for (const worker of this.alive) this.end(worker, 'SIGTERM');
    await Promise.all(this.workers.map(({ ended }) => ended));
  }

  get output(): string {
    return this.workers.map(({ output }) => output).join('\n');
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Whether campaigns are played at full length (`npm run campaign:daemon`). */
export const isLong = process.env.CAMPAIGN_DAEMON !== undefined;

/** How long a campaign lasts: short with the other tests, `long` where it is asked for. */
export const lasting = <T>(short: T, long: T): T => (isLong ? long : short);

/** Says what a campaign measured, for the record. */
export function report(name: string, figures: unknown): void {
  process.stderr.write(`${name}: ${JSON.stringify(figures)}\n`);
}
