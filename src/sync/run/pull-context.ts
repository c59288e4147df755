import type { Transaction } from 'kysely';
import type { Database } from '../../erp/connection/pool.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Comparison } from '../../erp/mirror/tables.ts';
import type { Rescan } from '../../erp/rescan/rescans.ts';
import type { Run, Totals } from '../../erp/runs/ledger.ts';
import type { Warehouse } from '../../warehouse/client.ts';

/** What a run learns of the service's time on its way. */
export interface ServiceClock {
  /** `Date` of the first answer; null before, or where the service sends none. */
  firstMs: number | null;
  /** `Date` of the last answer. */
  lastMs: number | null;
  /** Newest date on any resource received. */
  newestSourceMs: number | null;
}

export const newServiceClock = (): ServiceClock => ({ firstMs: null, lastMs: null, newestSourceMs: null });

/** Counts of one stream, for QUARANTINE_MAX_SHARE. */
export interface Share {
  listed: number;
  undecodable: number;
}

export const newShare = (): Share => ({ listed: 0, undecodable: 0 });

/** What a run leaves for its end. */
export interface RunPlan {
  /** When the next run is due, where the run itself knows better than the schedule; null: as that says. */
  dueAt: Date | null;
  /** Written in the transaction that ends the run, if it got done. */
  record: ((trx: Transaction<DB>) => Promise<void>) | null;
}

/** What changes during a run. */
interface RunState {
  readonly totals: Totals;
  readonly plan: RunPlan;
  readonly service: ServiceClock;
  /** What was listed of one stream, and how much of it could not be decoded. */
  readonly share: Share;
}

/** What every pass of a run works with. All but `state` is fixed for the run. */
export interface PullContext {
  readonly client: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly run: Run;
  readonly state: RunState;
  readonly signal: AbortSignal;
  readonly lookbackDays: number;
  readonly quarantineMaxShare: number;
  readonly retentionDays: number;
  /** Fingerprint of the account. */
  readonly identity: string;
  /** HTTP_TIMEOUT_MS. */
  readonly timeoutMs: number;
  /** When the schedule has a run after `earliest`; just then where its turns come more often than every `gapMs`. */
  readonly dueNotBefore: (earliest: Date, gapMs: number) => Date | null;
  /** Polls hold `raw` against the tables, rescans every column. */
  readonly compare: Comparison;
  /** How far a rescan has come; not called by polls. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** The service's clock where it sends one: its dates are held against it. */
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

/** Notes something a person should know; once a run. */
export function warn(context: PullContext, warning: string): void {
  if (!context.state.totals.warnings.includes(warning)) context.state.totals.warnings.push(warning);
}
