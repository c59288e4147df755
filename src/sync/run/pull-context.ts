import type { Config } from '../../../config/env.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { Comparison } from '../../erp/mirror/mirror-tables.ts';
import type { Rescan } from '../../erp/rescan/rescans.ts';
import type { CompletedPoll, Totals } from '../../erp/runs/ledger.ts';
import type { Run, StoredStream } from '../../erp/runs/start-run.ts';
import type { Warehouse } from '../../warehouse/client.ts';

/** Times of the service that a run has seen, in milliseconds since 1970. */
export interface ServiceClock {
  /** `Date` header of the first answer; null before the first answer, or if the service sends none. */
  firstMs: number | null;
  /** `Date` header of the last answer. */
  lastMs: number | null;
  /** Newest date of any received resource. */
  newestSourceMs: number | null;
}

/** Counts of listed and undecodable resources of one stream: too large a share of undecodable ones fails the run. */
export interface Share {
  listed: number;
  undecodable: number;
}

export const newShare = (): Share => ({ listed: 0, undecodable: 0 });

/** What the work of a run says about its end. */
export interface WorkEnd {
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

export const newRunState = (): RunState => ({
  totals: newTotals(),
  end: { dueAt: null, poll: null },
  service: { firstMs: null, lastMs: null, newestSourceMs: null },
  share: newShare(),
  hasWritten: false,
});

/** The context that every pass of a run works with. Only `state` changes during the run. */
export interface PullContext {
  readonly client: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly run: Run;
  readonly state: RunState;
  readonly signal: AbortSignal;
  readonly config: Config;
  /** Fingerprint of the account. */
  readonly identity: string;
  /**
   * Returns the first due time of the schedule that is not before `earliest`; a time soon after `earliest` if runs are
   * due at least every `gapMs` milliseconds; null without a schedule.
   */
  readonly dueNotBefore: (earliest: Date, gapMs: number) => Date | null;
  /** Polls compare `raw` with the tables, rescans every column. */
  readonly compare: Comparison;
  /** Receives the progress of a rescan. Polls do not call it. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** Returns the service's time, to compare its dates with; the start of the run if the service sends no Date header. */
export const serviceNow = ({ state: { service }, run }: PullContext) =>
  new Date(service.lastMs ?? run.startedAt.getTime());

export function newTotals(): Totals {
  return {
    pages: 0,
    fetched: 0,
    created: 0,
    updated: 0,
    removed: 0,
    unchanged: 0,
    stale: 0,
    quarantined: 0,
    warnings: [],
  };
}

/** Adds a warning for operators to the run. The same warning is added only once. */
export function warn(context: PullContext, warning: string): void {
  if (!context.state.totals.warnings.includes(warning)) context.state.totals.warnings.push(warning);
}

/**
 * Returns what was stored of the stream when its poll began.
 * @throws TypeError if the run polls no stream
 */
export function readStored({ run }: Pick<PullContext, 'run'>): StoredStream {
  if (run.stored === null) throw new TypeError(`${run.lease.name} polls no stream`);
  return run.stored;
}

/**
 * Returns false if no resource of the stream waits to be reread or is in quarantine: nothing waited when the run began,
 * and the run has written nothing since. What somebody else adds meanwhile is left to the next poll.
 */
export const mayWait = (context: PullContext): boolean => readStored(context).isWaiting || context.state.hasWritten;
