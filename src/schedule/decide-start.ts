/** Whether a run may begin. No clock and no database: all facts are passed in. */

import type { Schedule } from '../../config/schedules.ts';
import { countMissed, type JobKey, planNext, planSoon } from './plan-next.ts';

export type Trigger = 'schedule' | 'manual';

/** A job of a client with the account that this process is set up with. */
interface AccountJob extends JobKey {
  readonly identity: string;
}

/** What a run is to be started for. */
export interface StartRequest extends AccountJob {
  readonly trigger: Trigger;
  /**
   * The schedule of the job; undefined if this process has none for it: another process may have
   * one.
   */
  readonly schedule?: Schedule | undefined;
  /**
   * True if the job sends nothing to the service: a client hold does not keep it from beginning.
   */
  readonly isLocal?: boolean;
}

/** What keeps all runs of a job from beginning: its client's account, and a pause. */
export interface RefusalFacts {
  /** Fingerprint and base URL of the account that was accepted for the client. */
  readonly identity: string;
  readonly baseUrl: string;
  /** Since when an operator wants no run of the job; null: it is not paused. */
  readonly pausedSince: Date | null;
  /** True if it is paused for all clients. */
  readonly isPausedForAll: boolean | null;
}

/** What is stored about a job when a run of it is to start. */
export interface StartFacts extends RefusalFacts {
  /** Due time of the job; null if nothing makes it due. */
  readonly nextAt: Date | null;
  /** True if a run is under way. */
  readonly isLeased: boolean;
  /** Why scheduled runs of the job wait; null: they do not. */
  readonly holdReason: string | null;
  /** When they begin again, or when the service is asked whether they may. */
  readonly heldUntil: Date | null;
}

/** Why no run of a job may begin, whatever its due time. */
export interface Refusal {
  readonly reason: 'identity' | 'paused';
  /** The reason in words, with what to do. */
  readonly because: string;
}

export type StartDecision =
  | {
      readonly kind: 'start';
      /** When the job is due next; undefined: its due time stays. Null: never by itself. */
      readonly nextAt: Date | null | undefined;
      /** When it is due if something moves before; null if the schedule does not adapt. */
      readonly soonAt: Date | null;
      /** Number of turns that this run replaces. */
      readonly missed: number;
      /** True if its client or its job is held, and it asks the service. */
      readonly wasHeld: boolean;
    }
  | {
      readonly kind: 'skipped';
      readonly reason: Refusal['reason'] | 'overlap' | 'not_due' | 'held';
      readonly because: string;
      readonly nextAt: Date | null;
    };

/**
 * Decides whether a run begins. A scheduled run begins only if it is due, so that a job that is
 * started twice runs once. A run that somebody asked for begins at any time, and never changes when
 * the job is due: the schedule belongs to the workers.
 * @param now the time by the database's clock
 */
export function decideStart(request: StartRequest, facts: StartFacts, now: Date): StartDecision {
  const { nextAt, holdReason, heldUntil } = facts;
  const wasHeld = holdReason !== null && request.isLocal !== true;
  const skip = (reason: 'overlap' | 'not_due', because: string) =>
    ({ kind: 'skipped', reason, because, nextAt }) as const;

  const refusal = judgeRefusal(request, facts);
  if (refusal !== null) return { kind: 'skipped', ...refusal, nextAt };
  if (facts.isLeased) return skip('overlap', 'a run is under way');
  if (request.trigger === 'manual') return { ...startAnyTime, wasHeld };
  if (nextAt === null || nextAt > now) return skip('not_due', 'it is not due');

  if (wasHeld) return { kind: 'skipped', reason: 'held', because: holdReason, nextAt: heldUntil };
  return { ...planTurn(request, nextAt, now), wasHeld };
}

const startAnyTime = { kind: 'start', nextAt: undefined, soonAt: null, missed: 0 } as const;

/** Plans the next turn of a scheduled run that begins, and counts those that it replaces. */
function planTurn(request: StartRequest, wasDueAt: Date, now: Date) {
  const { schedule } = request;
  if (schedule === undefined || schedule.kind === 'off') return startAnyTime;

  return {
    kind: 'start' as const,
    nextAt: planNext(schedule, request, { kind: 'begin', at: now }),
    soonAt: planSoon(schedule, now),
    missed: countMissed(schedule, wasDueAt, now),
  };
}

/** Says what to do about a client whose rows come from another account. */
export const adviseParked = (client: string): string =>
  'restore the former base URL and user name, or accept the new ones: ' +
  `fulfilment-sync client accept-identity ${client} --keep-cursors if it is the same account at ` +
  'another address, without --keep-cursors if it is another account, whose ids mean other orders';

/** Returns why a job of a client may not begin at all; null if it may. */
export function judgeRefusal(
  { client, job, identity }: AccountJob,
  facts: RefusalFacts,
): Refusal | null {
  if (facts.identity !== identity)
    return {
      reason: 'identity',
      because:
        `the client is parked: its rows come from another account, at ${facts.baseUrl}; ` +
        adviseParked(client),
    };
  if (facts.pausedSince === null) return null;

  const hint = resumeHint({ job, client: facts.isPausedForAll ? null : client });
  return {
    reason: 'paused',
    because: `paused since ${facts.pausedSince.toISOString()}; resume with: ${hint}`,
  };
}

/** Returns the command that ends a pause. */
export const resumeHint = ({
  job,
  client,
}: {
  readonly job: string;
  readonly client: string | null;
}) => `fulfilment-sync resume ${job}${client === null ? '' : ` --client ${client}`}`;
