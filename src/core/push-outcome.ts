import { WarehouseError } from './errors.ts';
import { type PushPolicy, pushRetryDelayMs } from './retry.ts';

/**
 * How an attempt is settled whose outcome is not known: by looking whether it is there, by sending it again (it changes
 * nothing to be carried out twice), or by a person.
 */
export type UnknownRule = 'look up' | 'send again' | 'operator';

/** Why nothing of a client, or of one kind, is pushed for a while. */
export interface Hold {
  readonly code: 'breaker_open' | 'credentials_refused' | 'kind_parked' | 'retry_after';
  readonly scope: 'client' | 'kind';
  readonly reason: string;
  readonly ms: number;
  /** Afterwards one push goes first, to see whether it is over. */
  readonly probe: boolean;
}

/** What a row becomes. */
export type Verdict = (
  | { readonly status: 'dead'; readonly error: string }
  | { readonly status: 'pending'; readonly error: string; readonly delayMs: number; readonly burnt: boolean }
  /** `delayMs` until it is looked up; null: an operator decides. `refusal` is what it is dead of unless it is there. */
  | {
      readonly status: 'unknown';
      readonly error: string;
      readonly delayMs: number | null;
      readonly refusal?: string;
    }
) & {
  readonly hold?: Hold;
  /** Whether the service may have carried this attempt out. */
  readonly written?: boolean;
};

/** An attempt that failed, as far as its outcome depends on it. */
export interface FailedAttempt {
  readonly error: WarehouseError;
  /** Whether the request that makes the change may have been written; false while only reads had been. */
  readonly sent: boolean;
  readonly rule: UnknownRule;
  /** A no is not believed before a look-up (contracts: order.create, where the number may be taken by our own attempt). */
  readonly doubtsRefusal: boolean;
  /** Whether the operation that makes the change is shown in the interface description, or was carried out before. */
  readonly documented: boolean;
  /** Whether 404 of that operation can only mean that the service has no such route. */
  readonly notFoundMeansRoute: boolean;
  /** Attempts that count, this one included. */
  readonly attempts: number;
  readonly ageMs: number;
}

/** How long a client or a kind is parked before it is tried again. */
export const parkedMs = 15 * 60_000;
const readsFailedStep = 4;
/** A look-up comes this long after an attempt that went unanswered: most were carried out before the answer was lost. */
const firstLookUpMs = 1_000;

/**
 * What follows from an attempt that failed (contracts, Outcome rules).
 * @param random a number in [0, 1)
 */
export function judgeFailure(failed: FailedAttempt, policy: PushPolicy, random: number): Verdict {
  const { error } = failed;
  const parked = parkingOf(failed);
  if (parked !== null) {
    // It waits as long as all of its kind, so that another row is the one that shows whether it is over.
    const delayMs = parked.scope === 'kind' ? parked.ms : 0;
    return { status: 'pending', error: parked.reason, delayMs, burnt: false, hold: parked };
  }
  // A no to what was only read is none to what is asked for.
  const outcome = failed.sent ? error.outcome : 'not_executed';
  if (error.code === 'stopped' && !failed.sent)
    return { status: 'pending', error: error.message, delayMs: 0, burnt: false };
  if (outcome === 'refused') {
    return failed.doubtsRefusal
      ? { status: 'unknown', error: error.message, delayMs: 0, refusal: error.message }
      : { status: 'dead', error: error.message };
  }
  if (outcome === 'unknown' && failed.rule === 'look up')
    return { status: 'unknown', error: `${error.message}; being looked up`, delayMs: firstLookUpMs, written: true };
  if (outcome === 'unknown' && failed.rule === 'operator')
    return { status: 'unknown', error: `${error.message}. ${operatorChoices}`, delayMs: null, written: true };
  const written = outcome === 'unknown';
  const given = givenUp(failed, policy);
  if (given !== null) return { status: 'dead', error: `${error.message}; given up ${given}`, written };
  // What only reads stand before is not asked for as eagerly: they fail for all rows alike.
  const step = failed.sent ? failed.attempts : failed.attempts + readsFailedStep;
  const delayMs = pushRetryDelayMs(step, error.retryAfterMs, random);
  const hold = error.retryAfterMs === undefined ? {} : { hold: pauseFor(error, Math.min(error.retryAfterMs, delayMs)) };
  return { status: 'pending', error: error.message, delayMs, burnt: true, written, ...hold };
}

/** What an operator reads on a row that only a person can settle. */
export const operatorChoices =
  'It may have been carried out, and the service cannot be asked: see there, then `outbox done` if it was, or' +
  ' `outbox retry` to send it again';

/** After how many attempts, or how long, a row is given up; null where it is not yet. */
export function givenUp(
  { attempts, ageMs }: Pick<FailedAttempt, 'attempts' | 'ageMs'>,
  policy: PushPolicy,
): string | null {
  if (attempts >= policy.maxAttempts) return `after ${attempts} attempts (PUSH_MAX_ATTEMPTS)`;
  // The first attempt may come late: behind a row of its lane that was dead, or when the daemon was off.
  return attempts > 1 && ageMs >= policy.maxAgeMs
    ? `after ${Math.round(ageMs / 3_600_000)} hours (PUSH_MAX_AGE)`
    : null;
}

function parkingOf({ error, sent, documented, notFoundMeansRoute }: FailedAttempt): Hold | null {
  if (error.code === 'credentials_refused')
    return { code: 'credentials_refused', scope: 'client', reason: error.message, ms: parkedMs, probe: true };
  const { status } = error;
  const noRoute = status === 403 || status === 405 || (status === 404 && (notFoundMeansRoute || !error.jsonBody));
  if (documented || !sent || !noRoute) return null;
  const reason =
    `${error.message}: its method and path are assumed (docs/assumptions.md) and seem to be others;` +
    ' nothing of this kind is sent meanwhile. Set them with WAREHOUSE_OPERATIONS_FILE';
  return { code: 'kind_parked', scope: 'kind', reason, ms: parkedMs, probe: true };
}

function pauseFor(error: WarehouseError, ms: number): Hold {
  return { code: 'retry_after', scope: 'client', reason: `${error.message}; asked to wait`, ms, probe: false };
}

/** Whether the service itself answered: such an attempt says that it is up. */
export function isServiceAnswer(error: unknown): boolean {
  if (!(error instanceof WarehouseError)) return false;
  if (error.code === 'nok' || error.code === 'credentials_refused') return true;
  const { status, jsonBody } = error;
  return status !== undefined && status < 500 && status >= 400 && (jsonBody || [401, 425, 429].includes(status));
}
