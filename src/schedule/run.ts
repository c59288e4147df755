/** What the work of a run gets, and what it says about its end. */

import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../config/env.ts';
import type { Schedule } from '../../config/schedules.ts';
import { describeError, type LeaseLostError, toStopError } from '../core/errors.ts';
import type { Database } from '../db/pool.ts';
import type { Warehouse } from '../service/client.ts';
import type { MainOperation, RunHealth } from '../service/health/run-health.ts';
import type { OfferedAccount } from '../service/sql/clients.ts';
import type { CompletedPoll, Totals } from './decide-end.ts';
import type { Run, StoredStream } from './sql/ledger.ts';
import type { SkippedStart } from './sql/start-runs.ts';

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
export interface RunState {
  readonly totals: Totals;
  readonly end: WorkEnd;
  readonly service: ServiceClock;
  readonly share: Share;
  /**
   * False while no read of the stream can be due: none waited when the run began, and the run has
   * committed nothing since. What somebody else adds meanwhile is left to the next poll.
   */
  mayHaveDueReads: boolean;
}

export const newRunState = ({ stored }: Pick<Run, 'stored'>): RunState => ({
  totals: newTotals(),
  end: { dueAt: null, poll: null },
  service: { firstMs: null, lastMs: null, newestSourceMs: null },
  share: newShare(),
  mayHaveDueReads: stored?.hasWaitingReads ?? true,
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

/** Counts to add to those of a run. */
export type Counts = Partial<Omit<Totals, 'warnings'>>;

/**
 * Returns the totals of a run with these counts added. They are those of the run when the
 * transaction has committed.
 */
export function addCounts({ state: { totals } }: RunContext, counts: Counts): Totals {
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

/** A piece of work that runs for one client under a lease. */
export interface Work {
  /** Name of the lease, and job of the run in `sync.runs`: the name of a job or of a command. */
  readonly name: string;
  /** The stream that it polls; undefined if it polls none. */
  readonly stream?: { readonly name: string };
  readonly run: (context: RunContext) => Promise<void>;
  /** The schedule of the job; undefined if it has none. Its due time then stays. */
  readonly schedule?: Schedule;
  /** True if it sends nothing to the service, so that a client hold does not stop it. */
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
  | ({ readonly status: 'skipped' } & Pick<SkippedStart, 'reason' | 'because' | 'nextAt'>)
  | (RunFacts & { readonly status: 'abandoned'; readonly error: LeaseLostError })
  | (RunFacts & { readonly status: 'done' | 'stopped' | 'failed'; readonly error?: unknown });

/** The members that all reports of a begun run share. */
interface RunFacts {
  readonly totals: Totals;
  /** Token of its lease, which identifies it in sync.runs; null if it never began. */
  readonly leaseKey: number | null;
}
