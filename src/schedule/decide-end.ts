/** What the end of a run changes. No clock and no database: all facts are passed in. */

import type { Schedule } from '../../config/schedules.ts';
import type { Failure } from '../core/errors.ts';
import type { Trigger } from './decide-start.ts';
import { type JobKey, planNext } from './plan-next.ts';

/** The numbers of a run so far. */
export interface Totals {
  pages: number;
  fetched: number;
  created: number;
  updated: number;
  removed: number;
  /** Resources that were found unchanged. */
  unchanged: number;
  stale: number;
  /** Resources that could not be decoded and were not yet in quarantine. */
  quarantined: number;
  warnings: string[];
}

export type RunEnd = (
  | { readonly status: 'done' | 'stopped' }
  /** The run could not do its work yet. */
  | { readonly status: 'skipped'; readonly reason: string; readonly opensAt: Date }
  | FailedEnd
) & {
  /** When the next run is due, if the run itself decides that. */
  readonly nextAt?: Date | null;
  /** The poll that the run has completed; it counts only if the run is done. */
  readonly poll?: CompletedPoll | null;
};

/** The end of a run that failed. */
interface FailedEnd {
  readonly status: 'failed';
  readonly failure: Failure;
  readonly retryAfterMs: number;
}

/** A complete poll of a stream. */
export interface CompletedPoll {
  readonly stream: string;
  /** Start of the poll, by the service's clock. */
  readonly beganAt: Date;
  /** Newest date on any resource that it received; null if there was none. */
  readonly newestSource: Date | null;
  /**
   * A span of days that the service no longer lists and that no poll had read; null if there is
   * none.
   */
  readonly gap: { readonly from: Date; readonly to: Date } | null;
}

/** What is stored about a job while a run of it is under way. */
export interface EndFacts {
  /** Due time of the job; null if nothing makes it due. */
  readonly nextAt: Date | null;
  /** Number of failed runs since the last success. */
  readonly failures: number;
  /** When a run last wrote a row, and when a row of the outbox was last done; null: never. */
  readonly lastChangeAt: Date | null;
  readonly lastPushAt: Date | null;
}

/** The run that ends. */
interface EndingRun extends JobKey {
  readonly trigger: Trigger;
  readonly schedule: Schedule | undefined;
}

export interface EndDecision {
  /** When the job is due next; undefined: its due time stays. Null: never by itself. */
  readonly nextAt: Date | null | undefined;
  /** Number of rows that the run wrote. */
  readonly changed: number;
  /** True if the run gets a row in the ledger. */
  readonly isEventful: boolean;
}

/**
 * Decides what the end of a run changes. Only a scheduled run changes when its job is due.
 * @param now the time by the database's clock
 */
export function decideEnd(
  run: EndingRun,
  { totals, end }: { readonly totals: Totals; readonly end: RunEnd },
  facts: EndFacts,
  now: Date,
): EndDecision {
  const changed = totals.created + totals.updated + totals.removed;
  return {
    nextAt: run.trigger === 'manual' ? undefined : findNext(run, end, { ...facts, changed }, now),
    changed,
    isEventful: end.status === 'failed' || isEventful(totals),
  };
}

/** Returns true if a run wrote or quarantined anything, or found stale readings. */
export const isEventful = ({ created, updated, removed, quarantined, stale }: Totals) =>
  created + updated + removed + quarantined + stale > 0;

function findNext(
  run: EndingRun,
  end: RunEnd,
  facts: EndFacts & { readonly changed: number },
  now: Date,
): Date | null | undefined {
  const { schedule = { kind: 'on-request' } } = run;
  const ownAt = end.nextAt ?? null;
  if (end.status === 'skipped') return ownAt ?? undefined;

  if (end.status === 'failed')
    return planNext(schedule, run, {
      kind: 'failed',
      at: now,
      turnAt: ownAt ?? facts.nextAt,
      failures: facts.failures + 1,
      retryAfterMs: end.retryAfterMs,
      isRetried: ownAt === null,
    });

  if (ownAt !== null) return findLatest(ownAt, now);
  if (end.status === 'stopped') return now;
  const movedAt = facts.changed > 0 ? now : findLatest(facts.lastChangeAt, facts.lastPushAt);
  const turn = planNext(schedule, run, { kind: 'done', at: now, turnAt: facts.nextAt, movedAt });
  // A turn that passed while the run was under way is not a missed one.
  return turn === null ? null : findLatest(turn, now);
}

function findLatest(one: Date | null, other: Date | null): Date | null {
  if (one === null || other === null) return one ?? other;
  return one > other ? one : other;
}
