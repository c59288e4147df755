import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { toScheduleVariable } from '../../../config/jobs.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { Random } from '../../../src/sandbox/random.ts';
import type { TestDatabase } from '../database.ts';
import type { CliProcess } from '../processes/cli-process.ts';
import { startSandbox, type useProcesses } from '../processes/processes.ts';
import type { FaultRule, SandboxControl } from '../sandbox-control.ts';
import { waitFor } from '../wait.ts';
import { readFaults } from './fault-effects.ts';

const campaignClients = ['shop-a', 'shop-b', 'shop-c'];

/** Counts of what one campaign did to the product. */
export interface CampaignCounts {
  steps: number;
  kills: number;
  stops: number;
  faults: number;
}

interface CampaignOptions {
  readonly seed: number;
  readonly database: TestDatabase;
  readonly processes: ReturnType<typeof useProcesses>;
  readonly ordersPerDay: number;
}

interface Worker {
  process: CliProcess;
  stoppedUntilMs: number;
}

const garbage = [17, null, '', { a: 1 }, ['x'], 'no such thing', '\u0000', '9999-99-99', 1e300];

/** Draws fault rules: about half of the effects, each for a random operation. */
function drawFaults(random: Random): FaultRule[] {
  const index = random.between(0, 5);
  const row = (path: (string | number)[], value: unknown) => ({
    set: [{ path: ['data', index, ...path], value }],
  });
  const date = random.pick(['shippedOn', 'processedOn', 'orderedOn', 'createdOn', 'expectedOn']);
  const kinds: FaultRule['effect'][] = [
    ...readFaults(random),
    { hideRow: { index, seconds: random.between(3_600, 86_400) } },
    row(['attributes', date], random.pick(garbage)),
    row(['attributes', 'quantity'], random.pick(garbage)),
    row(['attributes', 'status'], random.pick(['LOST', null, 7])),
    row(['id'], random.pick(['x', -1, null])),
    row([], random.pick(garbage)),
    row(['relationships'], random.pick([null, 'x', 5])),
    { set: [{ path: ['data'], value: random.pick(garbage) }] },
    { set: [{ path: ['links'], value: random.pick(garbage) }] },
  ];
  return kinds
    .filter(() => random.chance(0.5))
    .map((effect) => ({
      operation: random.chance(0.3)
        ? 'v3.*'
        : random.pick(streams.flatMap(({ list, get }) => (get ? [list, get] : [list]))),
      probability: random.pick([0.02, 0.1, 0.3]),
      effect,
    }));
}

/**
 * A campaign over some days of virtual time: two workers poll three clients, and are killed and
 * stopped at random.
 */
export class Campaign {
  readonly #random: Random;
  readonly #processes: ReturnType<typeof useProcesses>;
  readonly #database: TestDatabase;
  readonly #folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-campaign-'));
  readonly #env: Record<string, string>;
  readonly #workers: Worker[] = [];
  readonly counts: CampaignCounts = { steps: 0, kills: 0, stops: 0, faults: 0 };
  readonly sandbox: SandboxControl;

  private constructor({ seed, database, processes }: CampaignOptions, sandbox: SandboxControl) {
    this.#random = new Random(seed);
    this.#processes = processes;
    this.#database = database;
    this.sandbox = sandbox;
    const clients = campaignClients.map((key) => ({
      key,
      baseUrl: sandbox.url.href,
      username: key,
      password: key,
    }));
    const file = join(this.#folder, 'clients.json');
    writeFileSync(file, JSON.stringify(clients));
    const schedules = streams.map(({ name }) => [toScheduleVariable(`pull-${name}`), '1s']);
    this.#env = {
      DATABASE_URL: database.url,
      WAREHOUSE_CLIENTS_FILE: file,
      HTTP_TIMEOUT_MS: '1000',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'fatal',
      SCHEDULE_RECONCILE: '8s',
      ...Object.fromEntries(schedules),
    };
  }

  static async start(settings: CampaignOptions): Promise<Campaign> {
    const { seed, processes, ordersPerDay } = settings;
    const options = ['--seed', `${seed}`, '--orders-per-day', `${ordersPerDay}`, '--late-changes'];
    const clients = ['--clients', campaignClients.join(',')];
    const campaign = new Campaign(
      settings,
      (await startSandbox(processes.cli, ...clients, ...options)).control,
    );
    await campaign.sandbox.switches({
      cursor: (['id', 'offset', 'opaque'] as const)[seed % 3] ?? 'id',
      included: seed % 2 === 0 ? 'inside' : 'top',
      emptyLastPage: seed % 5 === 0,
    });
    return campaign;
  }

  /** Advances the sandbox by some days in random steps, with faults, kills and stops. */
  async passDays(days: number): Promise<void> {
    this.#startWorker();
    this.#startWorker();
    // Otherwise all days could pass on a busy machine before a worker has started.
    const begun = 'select from sync.jobs where last_finished_at is not null limit 1';
    await waitFor('the first run', async () => (await this.#database.query(begun)).length > 0);
    for (let leftSeconds = days * 86_400; leftSeconds > 0; this.counts.steps++) {
      const random = this.#random;
      if (random.chance(0.1)) await this.#newFaults();
      const seconds = Math.min(leftSeconds, random.between(600, 40_000));
      await this.sandbox.advance(seconds);
      leftSeconds -= seconds;
      // The random wait varies how much virtual time passes between two polls.
      await wait(random.between(10, 400));
      this.#disturb();
    }
  }

  /** Ends the faults and the workers, and advances the time until hidden rows are visible. */
  async calm(): Promise<void> {
    await this.#countFaults();
    await this.sandbox.clearFaults();
    for (const { process } of this.#workers) {
      process.kill('SIGCONT');
      process.kill('SIGTERM');
    }
    await Promise.all(this.#workers.map(({ process }) => process.ended));
    await this.sandbox.advance(2 * 86_400);
    // A worker that was killed last leaves a lease that ends only by time.
    const held = 'select 1 from sync.leases where expires_at > now()';
    await waitFor('leases to run out', async () => (await this.#database.query(held)).length === 0);
  }

  /** Runs a command of the product for all clients to its end, and returns its output. */
  async command(...args: string[]): Promise<string> {
    const process = this.#processes.cli(args, this.#env);
    const { code } = await process.ended;
    if (code !== 0 || process.output.includes('skipped'))
      throw new Error(`${args.join(' ')} ended with ${code}:\n${process.output}`);
    return process.output;
  }

  close(): void {
    rmSync(this.#folder, { recursive: true });
  }

  #startWorker(): void {
    this.#workers.push({ process: this.#processes.cli(['worker'], this.#env), stoppedUntilMs: 0 });
  }

  /** Wakes, replaces, kills or stops workers at random. */
  #disturb(): void {
    const nowMs = performance.now();
    for (const worker of this.#workers) {
      const { child } = worker.process;
      if (child.exitCode !== null || child.signalCode !== null)
        worker.process = this.#processes.cli(['worker'], this.#env);
      else if (worker.stoppedUntilMs > 0) this.#wake(worker, nowMs);
      else this.#strike(worker, nowMs);
    }
  }

  #wake(worker: Worker, nowMs: number): void {
    if (worker.stoppedUntilMs > nowMs) return;
    worker.process.kill('SIGCONT');
    worker.stoppedUntilMs = 0;
  }

  #strike(worker: Worker, nowMs: number): void {
    const chance = this.#random.next();
    if (chance < 0.04) {
      worker.process.kill('SIGKILL');
      this.counts.kills++;
    } else if (chance < 0.08) {
      worker.process.kill('SIGSTOP');
      // Some stops last longer than a lease.
      worker.stoppedUntilMs = nowMs + this.#random.between(100, 13_000);
      this.counts.stops++;
    }
  }

  async #newFaults(): Promise<void> {
    await this.#countFaults();
    await this.sandbox.clearFaults();
    const rules = drawFaults(this.#random);
    if (rules.length > 0) await this.sandbox.faults(...rules);
  }

  async #countFaults(): Promise<void> {
    const rules = await this.sandbox.call<{ hits: number }[]>('GET', '/_sandbox/faults');
    for (const { hits } of rules) this.counts.faults += hits;
  }
}
