/**
 * One run of a job for one client: start, work, end. It works under a lease. A run that loses its
 * lease stops, and cannot write any more.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../config/env.ts';
import type { Schedule } from '../../config/schedules.ts';
import { longestWaitMs } from '../core/backoff.ts';
import {
  describeError,
  LeaseLostError,
  NotYetError,
  StoppedError,
  toFailure,
  toStopError,
  WarehouseError,
} from '../core/errors.ts';
import type { Database } from '../db/pool.ts';
import type { Warehouse } from '../service/client.ts';
import { type MainOperation, RunHealth } from '../service/health/run-health.ts';
import type { OfferedAccount } from '../service/sql/clients.ts';
import type { CompletedPoll, RunEnd, Totals } from './decide-end.ts';
import type { Trigger } from './decide-start.ts';
import { planNext } from './plan-next.ts';
import { endRun } from './sql/end-run.ts';
import type { LeaseKeeper } from './sql/leases.ts';
import type { Run, StoredStream } from './sql/ledger.ts';
import { type SkippedStart, startRun } from './sql/start-runs.ts';

/** Times of the service that a run has seen, in milliseconds since 1970. */
interface ServiceClock {
  /**
   * `Date` header of the first answer; null before the first answer, or if the service sends none.
   */
  firstMs: number | null;
  /** `Date` header of the last answer. */
  lastMs: number | null;
  /** Newest date of any received resource. */
  newestSourceMs: number | null;
}

/**
 * Counts of listed and undecodable resources of one stream: too large a share of undecodable ones
 * fails the run.
 */
export interface Share {
  listed: number;
  undecodable: number;
}

export const newShare = (): Share => ({ listed: 0, undecodable: 0 });

/** What the work of a run says about its end. */
interface WorkEnd {
  /** When the next run is due, if the run overrides the schedule; null: as the schedule says. */
  dueAt: Date | null;
  /** The poll that is complete; null before, and if the run polls no stream. */
  poll: CompletedPoll | null;
}

/** The mutable state of a run. */
interface RunState {
  readonly totals: Totals;
  readonly end: WorkEnd;
  readonly service: ServiceClock;
  readonly share: Share;
  /** True if the run has written anything: rows, rereads, quarantine or a cursor. */
  hasWritten: boolean;
}

const newRunState = (): RunState => ({
  totals: newTotals(),
  end: { dueAt: null, poll: null },
  service: { firstMs: null, lastMs: null, newestSourceMs: null },
  share: newShare(),
  hasWritten: false,
});

/** The context that every pass of a run works with. Only `state` changes during the run. */
export interface RunContext {
  readonly client: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly run: Run;
  readonly state: RunState;
  /** What its requests show of the service. */
  readonly health: RunHealth;
  readonly signal: AbortSignal;
  readonly config: Config;
  /** Fingerprint of the account. */
  readonly identity: string;
  /**
   * Returns the first due time of the schedule that is not before `earliest`; a time soon after
   * `earliest` if runs are due at least every `gapMs` milliseconds; null without a schedule.
   */
  readonly dueNotBefore: (earliest: Date, gapMs: number) => Date | null;
  /**
   * Ends the turn of a run that has had its place for long, if a due run has none. Call it after a
   * commit that stores how far the run has come: the next run continues there.
   * @throws StoppedError if the turn is over
   */
  readonly endTurn: () => void;
  /** Moves committed changes to the feed. It never fails. */
  readonly numberFeed: () => Promise<void>;
}

/**
 * Returns the service's time, to compare its dates with; the start of the run if the service sends
 * no Date header.
 */
export const serviceNow = ({ state: { service }, run }: RunContext) =>
  new Date(service.lastMs ?? run.startedAt.getTime());

export function newTotals(): Totals {
  const counts = {
    pages: 0,
    fetched: 0,
    created: 0,
    updated: 0,
    removed: 0,
    unchanged: 0,
    stale: 0,
    quarantined: 0,
  };
  return { ...counts, warnings: [] };
}

type Counts = Omit<Totals, 'warnings'>;

/**
 * Returns the totals of a run with these counts added. They are those of the run when the
 * transaction has committed.
 */
export function addCounts({ state: { totals } }: RunContext, counts: Partial<Counts>): Totals {
  const sum = { ...totals };
  for (const [name, count] of Object.entries(counts)) sum[name as keyof Counts] += count;
  return sum;
}

/** Adds a warning for operators to the run. The same warning is added only once. */
export function warn(context: RunContext, warning: string): void {
  if (!context.state.totals.warnings.includes(warning)) context.state.totals.warnings.push(warning);
}

/** Throws the first of these failures, if any. The others become warnings. */
export function throwFirst(context: RunContext, [first, ...others]: readonly unknown[]): void {
  for (const other of others) warn(context, describeError(other));
  if (first !== undefined) throw first;
}

/**
 * Waits between two requests; not at all if `ms` is negative.
 * @throws StoppedError if the run is to stop
 */
export async function pause(signal: AbortSignal, ms: number): Promise<void> {
  if (ms <= 0) return;
  await wait(ms, undefined, { signal }).catch(() => {
    throw toStopError(signal);
  });
}

/**
 * Returns what was stored of the stream when its poll began.
 * @throws TypeError if the run polls no stream
 */
export function readStored({ run }: Pick<RunContext, 'run'>): StoredStream {
  if (run.stored === null) throw new TypeError(`${run.lease.name} polls no stream`);
  return run.stored;
}

/**
 * Returns false if no resource of the stream waits to be reread or is in quarantine: nothing waited
 * when the run began, and the run has written nothing since. What somebody else adds meanwhile is
 * left to the next poll.
 */
export const mayHaveWaitingReads = (context: RunContext): boolean =>
  readStored(context).hasWaitingReads || context.state.hasWritten;

/** The parts that a run needs. */
export interface RunDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly numberFeed: RunContext['numberFeed'];
}

/** A piece of work that runs for one client under a lease. */
export interface Work {
  /** Name of the lease, and job of the run in `sync.runs`: the name of a job or of a command. */
  readonly name: string;
  /** The stream that it polls; undefined if it polls none. */
  readonly stream?: { readonly name: string };
  readonly run: (context: RunContext) => Promise<void>;
  /** The schedule of the job; undefined if it has none. Its due time then stays. */
  readonly schedule?: Schedule;
  /** True if it sends no request to the service. */
  readonly isLocal?: boolean;
  readonly operation?: MainOperation;
  /** See RunContext; undefined if the run keeps its place as long as it needs. */
  readonly endTurn?: () => void;
}

/** A client for which a run is made. */
export interface RunClient extends OfferedAccount {
  /** Zone of the service's times without a zone. */
  readonly zone: string;
}

/** The result of a run, for the log and the command line. */
export type RunReport =
  | ({ readonly status: 'skipped' } & Pick<SkippedStart, 'reason' | 'because' | 'dueAt'>)
  | (RunFacts & { readonly status: 'abandoned'; readonly error: LeaseLostError })
  | (RunFacts & { readonly status: 'done' | 'stopped' | 'failed'; readonly error?: unknown });

/** The members that all reports of a begun run share. */
interface RunFacts {
  readonly totals: Totals;
  /** Token of its lease, which identifies it in sync.runs; null if it never began. */
  readonly leaseKey: number | null;
}

/**
 * Starts a run that somebody asked for, works, and records how it ended.
 * @param onStart called when the run has begun
 */
export async function makeRun(
  deps: RunDeps,
  { work, client, trigger }: { work: Work; client: RunClient; trigger: Trigger },
  stop: AbortSignal,
  onStart: (run: Run) => void,
): Promise<RunReport> {
  if (stop.aborted) return { status: 'stopped', totals: newTotals(), leaseKey: null };
  const { name: job, stream, schedule, isLocal = false } = work;
  const start = await startRun(deps.db, {
    ...client,
    job,
    stream: stream?.name ?? null,
    worker: deps.worker,
    trigger,
    schedule,
    isLocal,
  });
  if (start.kind === 'skipped') return { ...start, status: 'skipped' };

  onStart(start.run);
  return finishRun(deps, work, { client, run: start.run }, stop);
}

/**
 * Works for a run that has begun, and records how it ended. An error of the work is reported, not
 * thrown. Throws only if the database could not take the record; then the lease expires and the run
 * counts as abandoned.
 */
export async function finishRun(
  deps: RunDeps,
  work: Work,
  { client, run }: { readonly client: RunClient; readonly run: Run },
  stop: AbortSignal,
): Promise<RunReport> {
  const { db, keeper } = deps;
  const signal = AbortSignal.any([stop, keeper.keep(run.lease)]);
  try {
    const context = makeContext(deps, work, { client, run }, signal);
    const { totals } = context.state;
    const facts = { totals, leaseKey: run.lease.key };
    const failure: unknown = await work.run(context).catch((error: unknown) => error);
    if (failure instanceof LeaseLostError) return { ...facts, status: 'abandoned', error: failure };

    const evidence = run.isLocal ? [] : await context.health.findEvidence(failure, run.wasHeld);
    const end = { ...toRunEnd(failure, context.state.end), evidence };
    const lost = await endRun(db, run, totals, end).catch(keepLeaseLost);
    if (lost !== undefined) return { ...facts, status: 'abandoned', error: lost };
    if (end.status === 'skipped')
      return { status: 'skipped', reason: 'not_yet', because: end.reason, dueAt: end.opensAt };
    return { ...facts, status: end.status, ...(failure === undefined ? {} : { error: failure }) };
  } finally {
    keeper.drop(run.lease);
  }
}

/** Returns the error if it says that the lease is lost. Throws any other. */
function keepLeaseLost(error: unknown): LeaseLostError {
  if (error instanceof LeaseLostError) return error;
  throw error;
}

function makeContext(
  { config, db, warehouses, numberFeed }: RunDeps,
  { name: job, schedule, operation, endTurn = () => undefined }: Work,
  { client: { client, identity, zone }, run }: { readonly client: RunClient; readonly run: Run },
  signal: AbortSignal,
): RunContext {
  const warehouse = warehouses.get(client);
  if (warehouse === undefined) throw new TypeError(`client ${client} has no service`);
  return {
    ...{ client, identity, zone, config, db, warehouse, run, signal, endTurn, numberFeed },
    dueNotBefore: (earliest, gapMs) =>
      schedule === undefined
        ? null
        : planNext(schedule, { client, job }, { kind: 'own-pace', earliest, gapMs }),
    state: newRunState(),
    health: new RunHealth({ db, client, job, operation, warehouse, signal }),
  };
}

function toRunEnd(failure: unknown, { dueAt, poll }: WorkEnd): RunEnd {
  if (failure === undefined) return { status: 'done', dueAt, poll };
  if (failure instanceof StoppedError) return { status: 'stopped', dueAt };
  if (failure instanceof NotYetError)
    return { status: 'skipped', reason: failure.message, opensAt: failure.dueAt, dueAt };
  return {
    status: 'failed',
    failure: toFailure(failure),
    retryAfterMs:
      failure instanceof WarehouseError ? Math.min(failure.retryAfterMs ?? 0, longestWaitMs) : 0,
    dueAt,
  };
}
