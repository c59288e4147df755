import { WarehouseError } from './errors.ts';

/**
 * A client hold: why the scheduled runs of a client wait, and for how long. When the time is up, one run (the probe)
 * tries first. The other runs follow after the probe is done.
 */
export interface ClientHold {
  readonly code: 'credentials_refused' | 'asked_to_wait' | 'no_answer';
  /** Milliseconds of the first hold. */
  readonly ms: number;
  /** The hold doubles each time the probe fails, up to this number of milliseconds. */
  readonly capMs: number;
}

/** Refused credentials are tried again after this time. */
const credentialsMs = 15 * 60_000;
const outageMs = 5_000;
const outageCapMs = 120_000;
/** Maximum wait, even if the service asks for a longer one. */
export const maxWaitMs = 15 * 60_000;

/**
 * Returns the client hold that follows from the failure of a run, or null if the failure concerns that run alone. An
 * error answer to one request is not a reason to leave the other lists of the service unread.
 */
export function toClientHold(failure: unknown): ClientHold | null {
  if (!(failure instanceof WarehouseError)) return null;
  if (failure.code === 'credentials_refused')
    return { code: 'credentials_refused', ms: credentialsMs, capMs: credentialsMs };
  if (failure.retryAfterMs !== undefined) {
    const ms = Math.min(failure.retryAfterMs, maxWaitMs);
    return { code: 'asked_to_wait', ms, capMs: ms };
  }
  const isSilent = ['connect_failed', 'timeout', 'connection_lost'].includes(failure.code);
  return isSilent ? { code: 'no_answer', ms: outageMs, capMs: outageCapMs } : null;
}
