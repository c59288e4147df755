import type { Transaction } from 'kysely';
import type { Database } from '../../erp/connection/pool.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Comparison } from '../../erp/mirror/tables.ts';
import type { StreamPollEnd } from '../../erp/pull/quiet-poll.ts';
import type { Rescan } from '../../erp/rescan/rescans.ts';
import type { Run, Totals } from '../../erp/runs/ledger.ts';
import type { CursorPass } from '../../erp/runs/stored-stream.ts';
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

export const newServiceClock = (): ServiceClock => ({ firstMs: null, lastMs: null, newestSourceMs: null });

/** Counts of listed and undecodable resources of one stream: too large a share of undecodable ones fails the run. */
export interface Share {
  listed: number;
  undecodable: number;
}

export const newShare = (): Share => ({ listed: 0, undecodable: 0 });

/** What a run plans for its end. */
export interface RunPlan {
  /** When the next run is due, if the run overrides the schedule; null: as the schedule says. */
  dueAt: Date | null;
  /** Writes something in the transaction that ends the run, if the run is done. */
  record: ((trx: Transaction<DB>) => Promise<void>) | null;
  /** The end of a poll, if `record` writes nothing else; otherwise null. */
  poll: StreamPollEnd | null;
}

/** The mutable state of a run. */
interface RunState {
  readonly totals: Totals;
  readonly plan: RunPlan;
  readonly service: ServiceClock;
  readonly share: Share;
  /** The passes that have begun with their cursor of `run.stored`. */
  readonly begun: Set<CursorPass>;
}

/** The context that every pass of a run works with. Only `state` changes during the run. */
export interface PullContext {
  readonly client: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly run: Run;
  readonly state: RunState;
  readonly signal: AbortSignal;
  readonly lookbackDays: number;
  readonly retentionDays: number;
  /** PERSONAL_DATA_DAYS; null: personal data is kept. */
  readonly personalDataDays: number | null;
  /** Fingerprint of the account. */
  readonly identity: string;
  /** REQUESTS_PER_SECOND; null: without a limit. */
  readonly requestsPerSecond: number | null;
  /** HTTP_TIMEOUT_MS. */
  readonly timeoutMs: number;
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
