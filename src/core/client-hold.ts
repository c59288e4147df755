import { WarehouseError } from './errors.ts';

/** Why scheduled runs of a client wait: one of them tries first when the time is up, the others follow once it got done. */
export interface ClientHold {
  readonly code: 'credentials_refused' | 'asked_to_wait' | 'no_answer';
  readonly ms: number;
  /** The span doubles each time it was in vain, up to this. */
  readonly capMs: number;
}

/** Contracts, Outcome rules: refused credentials are tried again every 15 minutes. */
const credentialsMs = 15 * 60_000;
const outageMs = 5_000;
const outageCapMs = 120_000;
/** However long a service asks to wait, it is asked again after this. */
export const maxWaitMs = 15 * 60_000;

/**
 * What the failure of a run means for the other runs of its client; null where it concerns that run alone. A service that
 * answers, whatever it says, is no reason to leave its other lists unread.
 */
export function holdAfter(failure: unknown): ClientHold | null {
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
