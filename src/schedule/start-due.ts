/**
 * The runs of this worker. Postgres says what is due. A firing of a scheduler, the sweep, and a run
 * that ends all call `startDue`, which begins due runs as far as places are free.
 */

import { setTimeout as wait } from 'node:timers/promises';
import { type JobName, jobNames, pushJob } from '../../config/jobs.ts';
import { StoppedError } from '../core/errors.ts';
import { errorFields } from '../core/logger.ts';
import { notifyPushers } from '../db/listener.ts';
import { SchemaError } from '../db/migration-files.ts';
import { isDiskFull } from '../db/transaction.ts';
import { askWhetherOver } from '../service/health/ask-service.ts';
import type { HealthCode } from '../service/health/judge-health.ts';
import { clientScope, noteEvidence } from '../service/sql/service-health.ts';
import { decideStart } from './decide-start.ts';
import type { Pool } from './job.ts';
import { type DueRun, Places } from './places.ts';
import type { RunClient } from './run.ts';
import { type RunnerDeps, toClientIdentity, toRequest, toWork, workOn } from './runs.ts';
import { reviveAbandoned } from './sql/due-jobs.ts';
import type { Run } from './sql/ledger.ts';
import { beginRuns, readDueRuns, type Start, type StartRow } from './sql/start-runs.ts';

/** Number of runs of each pool that a worker makes at the same time. */
const placeCount = 8;
/** A firing that comes up to this long before a run is due waits for it. */
const earlyMs = 1_000;
/** Time without a refusal after which the disk of Postgres has room again. */
const diskFreeMs = 20_000;

export class DueRuns {
  readonly #deps: RunnerDeps;
  readonly #stop: AbortSignal;
  readonly #onOutdated: (error: SchemaError) => void;
  readonly #clients: ReadonlyMap<string, RunClient>;
  readonly #jobs: readonly JobName[];
  readonly #places: Readonly<Record<Pool, Places>>;
  readonly #underWay = new Set<Promise<void>>();
  /** Clients whose services are being asked whether a hold is over. */
  readonly #asked = new Set<string>();
  /** The last look for due runs. Looks follow each other, so that none counts a place twice. */
  #last: Promise<unknown> = Promise.resolve();
  /** The look for runs of all jobs that has not begun yet. */
  #nextOfAll: Promise<number | null> | undefined;
  /** When Postgres first and last refused a run because its disk is full; null: never. */
  #diskFull: { readonly since: Date; readonly lastMs: number } | null = null;

  /**
   * @param onOutdated called with the reason when no run may start, because the database was
   *   migrated beyond this code
   */
  constructor(deps: RunnerDeps, stop: AbortSignal, onOutdated: (error: SchemaError) => void) {
    const { clients, schedules } = deps.config;
    this.#deps = deps;
    this.#stop = stop;
    this.#onOutdated = onOutdated;
    this.#clients = new Map(clients.map((client) => [client.key, toClientIdentity(client)]));
    this.#jobs = jobNames.filter((job) => schedules[job].kind !== 'off');
    this.#places = {
      poll: new Places(placeCount, clients.length),
      bulk: new Places(placeCount, clients.length),
    };
  }

  /**
   * Does what a firing of a scheduler asks for: starts the due runs of its job, or wakes the
   * pushers of all workers. Does not wait for the runs.
   */
  async fire(name: string): Promise<void> {
    if (name === pushJob.name) return notifyPushers(this.#deps.db);
    const job = this.#jobs.find((known) => known === name);
    // A worker with another configuration has set this scheduler.
    if (job === undefined) return;

    const earlyByMs = await this.startDue([job]);
    // The clock of the queue is ahead of the clock of the database, or several clients are due.
    if (earlyByMs !== null)
      this.#inBackground(async () => {
        await wait(earlyByMs, undefined, { signal: this.#stop });
        await this.startDue([job]);
      });
  }

  /** Makes jobs due that lost workers or a wrong clock left, and starts what is due. */
  async sweep(): Promise<void> {
    const { db, log } = this.#deps;
    for (const lost of await reviveAbandoned(db)) log.warn({ ...lost, event: 'run_abandoned' });
    await this.startDue();
  }

  /**
   * Begins due runs, as far as places are free. The run that is overdue longest comes first.
   * @param jobs the jobs to look at; undefined: all
   * @returns the milliseconds until the next of them is due, if that is soon; else null
   */
  startDue(jobs?: readonly JobName[]): Promise<number | null> {
    if (jobs !== undefined) return this.#queueLook(jobs);
    this.#nextOfAll ??= this.#queueLook(this.#jobs);
    return this.#nextOfAll;
  }

  #queueLook(jobs: readonly JobName[]): Promise<number | null> {
    const look = this.#last.then(() => {
      if (jobs === this.#jobs) this.#nextOfAll = undefined;
      return this.#startNow(jobs);
    });
    this.#last = look.catch(() => undefined);
    return look;
  }

  async #startNow(jobs: readonly JobName[]): Promise<number | null> {
    if (this.#stop.aborted) return null;
    const { db, jobs: known, worker } = this.#deps;
    try {
      const local = jobs.filter((job) => known[job].isLocal);
      const clients = [...this.#clients.values()];
      const rows = await readDueRuns(db, { jobs, clients, worker, local, aheadMs: earlyMs });

      const starts = rows.map((row) => this.#judge(row)).filter((start) => start !== null);
      const chosen = (['poll', 'bulk'] as const).flatMap((pool) => {
        const ofPool = starts.filter(({ request }) => known[request.job as JobName].pool === pool);
        return this.#places[pool].choose(ofPool, jobs);
      });
      for (const { run, due } of await beginRuns(db, chosen)) this.#launch(run, due);
      return findEarlyMs(rows);
    } catch (error) {
      this.noteFullDisk(error);
      if (error instanceof SchemaError) this.#onOutdated(error);
      throw error;
    }
  }

  /** Returns the start of the run that a due job asks for; null if it does not begin. */
  #judge(row: StartRow): Start | null {
    const client = this.#clients.get(row.client);
    if (client === undefined) return null;

    const work = toWork(this.#deps, row.job as JobName);
    const request = toRequest(this.#deps, client, work, 'schedule');
    const decision = decideStart(request, row, row.now);
    if (decision.kind === 'start') return { ...row, request, decision };

    // Only holds are read here of which the service is to be asked now.
    if (decision.reason === 'held' && row.holdCode !== null)
      this.#askWhetherOver(row.client, row.holdCode);
    return null;
  }

  /** Lets a run work that has begun. When it ends, its place goes to a due run that has none. */
  #launch(run: Run, due: DueRun): void {
    const places = this.#places[this.#deps.jobs[due.job as JobName].pool];
    places.take(due);

    this.#inBackground(async () => {
      await this.#work(run, places, due).finally(() => places.free(due));
      if (places.areWanted) await this.startDue();
    });
  }

  async #work(run: Run, places: Places, due: DueRun): Promise<void> {
    const { client: key, name: job } = run.lease;
    const endTurn = () => {
      if (places.isTurnOver(due)) throw new StoppedError();
    };

    try {
      const client = this.#clients.get(key) as RunClient;
      const work = { ...toWork(this.#deps, job as JobName), endTurn };
      const report = await workOn(this.#deps, work, { client, run }, this.#stop);
      if ('error' in report) this.noteFullDisk(report.error);
    } catch (error) {
      this.noteFullDisk(error);
      // A failed run would be recorded. Here the database could not store the record.
      const fields = { client: key, job, ...errorFields(error) };
      this.#deps.log.error({ event: 'run_unrecorded', ...fields });
    }
  }

  /** Asks the service of a client whether its hold is over. Then its due runs begin. */
  #askWhetherOver(client: string, code: HealthCode): void {
    const { db, warehouses, worker } = this.#deps;
    const warehouse = warehouses.get(client);
    if (warehouse === undefined || this.#asked.has(client)) return;
    this.#asked.add(client);

    this.#inBackground(async () => {
      const asker = { db, client, worker, warehouse, signal: this.#stop };
      const evidence = await askWhetherOver(asker, code).finally(() => this.#asked.delete(client));
      if (evidence === null) return;
      await noteEvidence(db, { client, worker, scope: clientScope }, evidence);
      await this.startDue();
    });
  }

  /** Does some work that nobody waits for, except a worker that stops. */
  #inBackground(work: () => Promise<unknown>): void {
    const working = work()
      .catch((error: unknown) => {
        if (this.#stop.aborted) return;
        this.#deps.log.warn({ event: 'sweep_failed', task: 'startDue', ...errorFields(error) });
      })
      .then(() => {
        this.#underWay.delete(working);
      });
    this.#underWay.add(working);
  }

  /** Resolves when all runs under way have ended. */
  async ended(): Promise<void> {
    await this.#last;
    while (this.#underWay.size > 0) {
      await Promise.all(this.#underWay);
      await this.#last;
    }
  }

  /**
   * Since when Postgres refuses runs because its disk is full; null if it has refused none for a
   * while.
   */
  get diskFullSince(): Date | null {
    if (this.#diskFull === null || performance.now() - this.#diskFull.lastMs > diskFreeMs)
      return null;
    return this.#diskFull.since;
  }

  /**
   * Remembers a full disk: while it lasts, often nothing about it can be stored. Small runs may be
   * done meanwhile.
   */
  noteFullDisk(error: unknown): void {
    if (!isDiskFull(error)) return;
    this.#diskFull = { since: this.diskFullSince ?? new Date(), lastMs: performance.now() };
  }
}

/** Returns the milliseconds until the first run is due that is not due yet; null: there is none. */
function findEarlyMs(rows: readonly StartRow[]): number | null {
  const waitMs = rows.map(({ nextAt, now }) => Number(nextAt) - Number(now));
  return waitMs.find((ms) => ms > 0) ?? null;
}
