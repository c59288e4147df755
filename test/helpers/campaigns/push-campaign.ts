import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { jobNames, toScheduleVariable } from '../../../config/jobs.ts';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Random } from '../../../src/sandbox/random.ts';
import type { CliProcess } from '../processes/cli-process.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../processes/embedded-postgres.ts';
import { memoryFolder } from '../processes/memory-folder.ts';
import { startSandbox, type useProcesses } from '../processes/processes.ts';
import { postgresBin } from '../processes/test-servers.ts';
import type { SandboxControl } from '../sandbox-control.ts';
import { waitFor } from '../wait.ts';

interface CampaignParts {
  readonly seed: number;
  readonly processes: ReturnType<typeof useProcesses>;
  readonly postgres: EmbeddedPostgres;
  readonly sandbox: SandboxControl;
  readonly env: Record<string, string>;
}

interface Worker {
  process: CliProcess;
  stoppedUntilMs: number;
}

interface DisturbOptions {
  readonly everyMs: number;
  readonly isOver: () => Promise<boolean>;
  readonly deadlineMs: number;
}

/**
 * A campaign with its own Postgres and sandbox: real workers push, and are killed and stopped at
 * random.
 */
export class PushCampaign {
  readonly #random: Random;
  readonly #processes: ReturnType<typeof useProcesses>;
  readonly #postgres: EmbeddedPostgres;
  readonly #workers: Worker[] = [];
  readonly env: Record<string, string>;
  readonly sandbox: SandboxControl;
  readonly counts = { kills: 0, stops: 0 };

  private constructor({ seed, processes, postgres, sandbox, env }: CampaignParts) {
    this.#random = new Random(seed);
    this.#processes = processes;
    this.#postgres = postgres;
    this.sandbox = sandbox;
    const off = jobNames.map((job) => [toScheduleVariable(job), 'off']);
    this.env = {
      DATABASE_URL: postgres.url,
      WAREHOUSE_BASE_URL: sandbox.url.href,
      WAREHOUSE_USERNAME: 'default',
      WAREHOUSE_PASSWORD: 'default',
      HTTP_TIMEOUT_MS: '2000',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'error',
      ...Object.fromEntries(off),
      ...env,
    };
  }

  static async start(
    processes: ReturnType<typeof useProcesses>,
    { seed, env = {} }: { seed: number; env?: Record<string, string> },
  ): Promise<PushCampaign> {
    const postgres = await startEmbeddedPostgres({}, memoryFolder(), postgresBin);
    await migrateDatabase(postgres.url, silentLogger);
    const { control: sandbox } = await startSandbox(
      processes.cli,
      '--seed',
      `${seed}`,
      '--orders-per-day',
      '0',
    );
    return new PushCampaign({ seed, processes, postgres, sandbox, env });
  }

  /** Runs one statement on a new connection, because Postgres may be restarted at any time. */
  async query<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    const client = new pg.Client(this.#postgres.url);
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  startWorkers(count: number): void {
    for (let index = 0; index < count; index++)
      this.#workers.push({ process: this.#processes.cli(['worker'], this.env), stoppedUntilMs: 0 });
  }

  restartPostgres(): Promise<void> {
    return this.#postgres.restart();
  }

  /**
   * Kills or stops a random worker every `everyMs`, until `isOver` returns true. Fails after
   * `deadlineMs`.
   */
  async disturb({ everyMs, isOver, deadlineMs }: DisturbOptions): Promise<void> {
    const endMs = performance.now() + deadlineMs;
    while (!(await isOver())) {
      if (performance.now() > endMs) throw new Error(`Not over after ${deadlineMs} ms`);
      const nowMs = performance.now();
      const worker = this.#random.pick(this.#workers);
      if (this.#random.chance(0.5)) this.#strike(worker, nowMs);
      else this.#kill(worker);
      for (const other of this.#workers)
        if (other.stoppedUntilMs > 0 && other.stoppedUntilMs < nowMs) this.#wake(other);
      // This is the interval of the disturbances. It waits for no condition.
      await wait(everyMs);
    }
  }

  /** Wakes all stopped workers. */
  calm(): void {
    for (const worker of this.#workers) this.#wake(worker);
  }

  async stopWorkers(): Promise<void> {
    this.calm();
    for (const { process } of this.#workers) process.kill('SIGTERM');
    await Promise.all(this.#workers.map(({ process }) => process.ended));
  }

  async close(): Promise<void> {
    await this.#postgres.stop();
  }

  /** Returns true if no row waits for anything but a person. */
  async isSettled(): Promise<boolean> {
    const open = `
      select from fulfilment.outbox
      where status in ('pending', 'sending') or (status = 'unknown' and next_attempt_at is not null) limit 1`;
    return (await this.query(open)).length === 0;
  }

  waitUntilSettled(deadlineMs: number): Promise<boolean> {
    return waitFor('all rows to be settled', () => this.isSettled(), deadlineMs);
  }

  #strike(worker: Worker, nowMs: number): void {
    if (worker.stoppedUntilMs > 0) return;
    worker.process.kill('SIGSTOP');
    // Some stops last longer than a claim.
    worker.stoppedUntilMs = nowMs + this.#random.between(100, 13_000);
    this.counts.stops++;
  }

  #kill(worker: Worker): void {
    worker.process.kill('SIGKILL');
    worker.process = this.#processes.cli(['worker'], this.env);
    worker.stoppedUntilMs = 0;
    this.counts.kills++;
  }

  #wake(worker: Worker): void {
    worker.process.kill('SIGCONT');
    worker.stoppedUntilMs = 0;
  }
}
