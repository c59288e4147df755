import { longestWaitMs, makeFixedPause, type Pause, pauses } from '../../core/backoff.ts';
import { isSilence, WarehouseError } from '../../core/errors.ts';

/**
 * A client hold: why the scheduled runs of a client wait, and for how long. When the time is up,
 * one run (the probe) tries first. The other runs follow after the probe is done.
 */
export interface ClientHold {
  readonly code: 'credentials_refused' | 'asked_to_wait' | 'no_answer';
  /** The span of the hold. It grows each time the probe fails. */
  readonly pause: Pause;
}

/**
 * Returns the client hold that follows from the failure of a run, or null if the failure concerns
 * that run alone. An error answer to one request is not a reason to leave the other lists of the
 * service unread.
 */
export function toClientHold(failure: unknown): ClientHold | null {
  if (!(failure instanceof WarehouseError)) return null;
  if (failure.code === 'credentials_refused')
    return { code: 'credentials_refused', pause: pauses.refusedCredentials };
  if (failure.retryAfterMs !== undefined)
    return {
      code: 'asked_to_wait',
      pause: makeFixedPause(Math.min(failure.retryAfterMs, longestWaitMs)),
    };
  return isSilence({ code: failure.code })
    ? { code: 'no_answer', pause: pauses.silentService }
    : null;
}
