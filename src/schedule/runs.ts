import { toIdentity, type WarehouseClient } from '../../config/files.ts';
import { type JobName, jobNames } from '../../config/jobs.ts';
import { CodedError, StoppedError } from '../core/errors.ts';
import { errorFields, type Logger } from '../core/logger.ts';
import { SchemaError } from '../db/migration-files.ts';
import { isDiskFull } from '../db/transaction.ts';
import type { Processor, QueueName } from './backend.ts';
import type { Trigger } from './decide-start.ts';
import type { Jobs } from './job.ts';
import type { JobKey } from './plan-next.ts';
import { makeRun, type RunClient, type RunDeps, type RunReport, type Work } from './run.ts';

/** The parts that a run of this process needs. */
export interface RunnerDeps extends RunDeps {
  readonly jobs: Jobs;
  readonly log: Logger;
  /**
   * Warnings of the last run of each job, so that a warning that every poll repeats is logged once.
   */
  readonly reportedWarnings: Map<string, string>;
  /** Called after every run, also a skipped or failed one. */
  readonly onRun?: (client: string, job: string, report: RunReport, durationMs: number) => void;
}

/** Returns the client of the configuration with the identity of its account. */
export function toClientIdentity(client: WarehouseClient): RunClient {
  return {
    client: client.key,
    identity: toIdentity(client),
    baseUrl: client.baseUrl.href,
    zone: client.timeZone,
  };
}

/** Runs one job for one client, and logs one line about it. */
export function runJob(
  deps: RunnerDeps,
  job: JobName,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  return runWork(
    deps,
    { ...deps.jobs[job], name: job, schedule: deps.config.schedules[job] },
    client,
    trigger,
    stop,
  );
}

/** Runs any work for one client under its lease, and logs one line about it. */
export async function runWork(
  deps: RunnerDeps,
  work: Work,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const startedAtMs = performance.now();
  const jobKey = { client: client.key, job: work.name };
  const report = await makeRun(
    deps,
    work,
    toClientIdentity(client),
    trigger,
    stop,
    ({ afterAbandoned, missed }) => {
      if (afterAbandoned) deps.log.warn({ ...jobKey, event: 'run_abandoned' });
      if (missed > 0) deps.log.warn({ ...jobKey, event: 'turns_missed', missed });
    },
  );
  const durationMs = Math.round(performance.now() - startedAtMs);
  logReport(deps, jobKey, report, durationMs);
  deps.onRun?.(client.key, work.name, report, durationMs);
  return report;
}

/** Logs how a run ended: at error if it failed or was abandoned, at warn if it has new warnings. */
function logReport(
  { log, reportedWarnings }: RunnerDeps,
  jobKey: JobKey,
  report: RunReport,
  durationMs: number,
): void {
  if (report.status === 'skipped') {
    const level = report.reason === 'not_due' ? 'debug' : 'info';
    log[level]({ ...jobKey, event: 'run_skipped', reason: report.reason, dueAt: report.dueAt });
    return;
  }
  const { status, leaseKey, error } = report;
  const { warnings, ...counts } = report.totals;
  const event = { ...jobKey, event: `run_${status}`, leaseKey, durationMs, ...counts };
  const fields = warnings.length > 0 ? { ...event, warnings } : event;
  const [key, words] = [JSON.stringify(jobKey), JSON.stringify(warnings)];
  const hasNewWarnings = warnings.length > 0 && reportedWarnings.get(key) !== words;
  reportedWarnings.set(key, words);
  if (status === 'failed' || status === 'abandoned')
    log.error({ ...fields, ...errorFields(error) });
  else if (hasNewWarnings || counts.quarantined > 0) log.warn(fields);
  else log.info(fields);
}

/** Maximum number of runs of one queue that a worker makes at the same time. */
export const concurrency = 8;

/**
 * The runs of this worker. The queue delivers most of them; a sweep starts those that the queue has
 * lost.
 */
export class Runs {
  readonly #deps: RunnerDeps;
  readonly #fire: (name: string) => Promise<void>;
  readonly #stop: AbortSignal;
  readonly #onOutdated: (error: SchemaError) => void;
  readonly #slots: Readonly<Record<QueueName, RunSlots>>;
  /** The runs under way, by job and client. */
  readonly #underWay = new Map<string, Promise<boolean>>();
  /** When Postgres first and last refused a run because its disk is full; null: never. */
  #diskFull: { readonly since: Date; readonly lastMs: number } | null = null;

  /**
   * @param fire called with the name of a scheduler when it fires
   * @param onOutdated called with the reason when no run may start, because the database was
   *   migrated beyond this code
   */
  constructor(
    deps: RunnerDeps,
    fire: (name: string) => Promise<void>,
    stop: AbortSignal,
    onOutdated: (error: SchemaError) => void,
  ) {
    this.#deps = deps;
    this.#fire = fire;
    this.#stop = stop;
    this.#onOutdated = onOutdated;
    const clients = deps.config.clients.length;
    this.#slots = {
      poll: new RunSlots(concurrency, clients),
      bulk: new RunSlots(concurrency, clients, true),
    };
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

  /** The function that the queue calls with a firing of a scheduler, or with a run that is due. */
  readonly process: Processor = async ({ name, data: { client } }, _token, cancelled) => {
    if (client === undefined) return this.#fire(name);
    // `sync.runs` has the reason. BullMQ only shows that the job failed.
    if (!(await this.#start({ client, job: name }, cancelled)))
      throw new CodedError('run_failed', `${name} failed; see sync.runs`);
  };

  /** Starts runs that are due, as far as slots are free, and does not wait for their ends. */
  start(due: readonly JobKey[]): void {
    for (const run of due) void this.#start(run);
  }

  /** Resolves when all runs under way have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  /** Makes one run, unless it is under way here. Returns false if it failed. */
  #start(run: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const key = `${run.job} ${run.client}`;
    if (this.#stop.aborted || this.#underWay.has(key)) return Promise.resolve(true);
    const running = this.#run(run, cancelled).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, running);
    return running;
  }

  async #run({ client: key, job: name }: JobKey, cancelled?: AbortSignal): Promise<boolean> {
    const { log, config } = this.#deps;
    const job = jobNames.find((known) => known === name);
    const client = config.clients.find((known) => known.key === key);
    // A worker of another configuration queued it. That worker runs it.
    if (job === undefined || client === undefined || config.schedules[job].kind === 'off')
      return true;
    const room = new AbortController();
    const makeRoom = () => {
      log.info({ event: 'run_makes_room', client: key, job });
      room.abort(new StoppedError());
    };
    const { queue, savesProgress = false } = this.#deps.jobs[job];
    const giveSlot = this.#slots[queue].take({ client: key, job }, savesProgress ? makeRoom : null);
    // Without a slot the job stays due. It starts when another run ends.
    if (giveSlot === null) return true;
    let hasEnded = true;
    try {
      const signal = AbortSignal.any([
        this.#stop,
        room.signal,
        ...(cancelled === undefined ? [] : [cancelled]),
      ]);
      const report = await runJob(this.#deps, job, client, 'schedule', signal);
      if ('error' in report) this.noteFullDisk(report.error);
      hasEnded = report.status !== 'stopped';
      return report.status !== 'failed' && report.status !== 'abandoned';
    } catch (error) {
      this.noteFullDisk(error);
      // A failed run would be recorded. Here the database could not store the record.
      log.error({ event: 'run_unrecorded', client: key, job, ...errorFields(error) });
      if (error instanceof SchemaError) this.#onOutdated(error);
      return false;
    } finally {
      this.start(giveSlot(hasEnded));
    }
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

/**
 * Time without a refusal after which the disk of Postgres has room again. Sweeps try due runs every
 * 3 s.
 */
const diskFreeMs = 20_000;

/** Maximum share of a worker's slots that one client may use, if there are several clients. */
const maxClientShare = 0.25;
/** Maximum share of the slots that long runs may use together. The rest is left to short runs. */
const maxLongShare = 0.5;
/** A run counts as long after this time. */
export const shortMs = 10_000;
/** If another long run waits, a long run gives up its slot after this time. */
export const longTurnMs = 300_000;
/**
 * If a waiting run does not ask for a slot again within this time, it is no longer due. Sweeps try
 * due runs every 3 s.
 */
const maxWaitMs = 120_000;

/**
 * Ends the use of a slot.
 * @param hasEnded false if the run was asked to make room and must continue later
 * @returns runs that found no slot before, and may find one now
 */
export type GiveSlot = (hasEnded: boolean) => readonly JobKey[];

/**
 * Decides which runs a worker executes at the same time. One client cannot use all slots, and long
 * runs, such as first loads, cannot use all slots either: if a run becomes long while no slot for a
 * long run is free, it is asked to make room. Its pages stay committed, it is due at once, and it
 * continues when a long run ends.
 */
export class RunSlots {
  readonly #slots: number;
  readonly #maxPerClient: number;
  readonly #maxLong: number;
  /** Number of runs of each client. */
  readonly #running = new Map<string, number>();
  /** Runs that found no slot, in the order in which they came. */
  readonly #refused = new Map<string, JobKey>();
  /**
   * Runs that made room, by client and job. They start again when a slot for a long run is free.
   */
  readonly #waiting = new Map<string, JobKey & { readonly askedAtMs: number }>();
  #taken = 0;
  #long = 0;

  /**
   * @param slots maximum number of runs at the same time
   * @param forLongWork true for a queue of long work only, which has no short runs to protect
   */
  constructor(slots: number, clients: number, forLongWork = false) {
    this.#slots = slots;
    this.#maxPerClient = clients > 1 ? Math.max(1, Math.floor(slots * maxClientShare)) : slots;
    this.#maxLong =
      clients > 1 && !forLongWork ? Math.max(1, Math.floor(slots * maxLongShare)) : slots;
  }

  /**
   * Takes a slot for a run. Returns null if none is free for it, and then remembers the run.
   * @param makeRoom called once if the run must stop; null if the run would lose its progress
   */
  take(run: JobKey, makeRoom: (() => void) | null): GiveSlot | null {
    const { client, job } = run;
    const key = `${client} ${job}`;
    const running = this.#running.get(client) ?? 0;
    const isLong = this.#waiting.has(key);
    const mustWait = isLong && this.#long >= this.#maxLong;
    if (mustWait) this.#waiting.set(key, { ...run, askedAtMs: performance.now() });
    const isFull = this.#taken >= this.#slots || running >= this.#maxPerClient;
    if (isFull) this.#refused.set(key, run);
    if (isFull || mustWait) return null;
    this.#waiting.delete(key);
    this.#refused.delete(key);
    this.#running.set(client, running + 1);
    this.#taken++;
    const endWatch = this.#watch(key, run, isLong, makeRoom);
    return (hasEnded) => {
      const wasLong = endWatch();
      if (wasLong) this.#long--;
      if (hasEnded) this.#waiting.delete(key);
      this.#taken--;
      this.#running.set(client, (this.#running.get(client) ?? 1) - 1);
      return [...(wasLong ? this.#waiting.values() : []), ...this.#takeRefused()];
    };
  }

  /**
   * Asks a run to make room when it takes too long. Returns a function that ends this, and tells if
   * the run was long.
   */
  #watch(key: string, run: JobKey, resumes: boolean, makeRoom: (() => void) | null): () => boolean {
    let isLong = resumes;
    if (isLong) this.#long++;
    const endTurn = () => {
      if (makeRoom === null || !this.#hasWaitingRun()) timer = setTimeout(endTurn, shortMs);
      else leave(makeRoom);
    };
    const leave = (stop: () => void) => {
      this.#waiting.set(key, { ...run, askedAtMs: performance.now() });
      stop();
    };
    const becomeLong = () => {
      if (makeRoom !== null && this.#long >= this.#maxLong) return leave(makeRoom);
      this.#long++;
      isLong = true;
      timer = setTimeout(endTurn, longTurnMs);
    };
    let timer = isLong ? setTimeout(endTurn, longTurnMs) : setTimeout(becomeLong, shortMs);
    return () => {
      clearTimeout(timer);
      return isLong;
    };
  }

  /** Returns true if a long run waits for a slot. Forgets runs that are no longer due. */
  #hasWaitingRun(): boolean {
    const earliestMs = performance.now() - maxWaitMs;
    for (const [key, { askedAtMs }] of this.#waiting)
      if (askedAtMs < earliestMs) this.#waiting.delete(key);
    return this.#waiting.size > 0;
  }

  /** Returns the first refused run whose client is below its limit. */
  #takeRefused(): readonly JobKey[] {
    for (const [key, run] of this.#refused) {
      if ((this.#running.get(run.client) ?? 0) >= this.#maxPerClient) continue;
      this.#refused.delete(key);
      return [run];
    }
    return [];
  }
}
