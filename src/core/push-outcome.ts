import { WarehouseError } from './errors.ts';
import type { Evidence } from './push-health.ts';
import { type PushPolicy, pushRetryDelayMs } from './retry.ts';
import { hourMs } from './time.ts';

/**
 * How an attempt is settled whose outcome is not known: by looking whether it is there, by sending it again (it changes
 * nothing to be carried out twice), or by a person.
 */
export type UnknownRule = 'look up' | 'resend' | 'ask operator';

/** What an attempt says of more than its row: of its client, or of rows of its kind. */
export type News =
  | { readonly of: 'client' | 'kind'; readonly evidence: Evidence }
  /** The service refuses what comes too fast. */
  | { readonly of: 'client'; readonly evidence: 'too fast' }
  /** No answer of the service came: whether it is there has to be asked first. Where it is, the row's kind failed. */
  | {
      readonly of: 'client';
      readonly evidence: 'ask';
      readonly reason: string;
      /** The row that was sent; null where none was, as in a look-up. */
      readonly row: { readonly isNew: boolean } | null;
    };

/** What a row becomes. */
export type Verdict = (
  | { readonly status: 'dead'; readonly error: string }
  /** `burnt`: it counts as an attempt. `unburnt`: it was refused for a reason that is not the row's. */
  | {
      readonly status: 'pending';
      readonly error: string;
      readonly delayMs: number;
      readonly burnt: boolean;
      readonly unburnt?: boolean;
    }
  /** `delayMs` until it is looked up; null: an operator decides. `refusal` is what it is dead of unless it is there. */
  | {
      readonly status: 'unknown';
      readonly error: string;
      readonly delayMs: number | null;
      readonly refusal?: string;
    }
) & {
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
  /** Times before this one that it was refused for a reason that is not its own, since the last attempt that counted. */
  readonly unburnt: number;
}

const readsFailedStep = 4;
/** A look-up comes this long after an attempt that went unanswered: most were carried out before the answer was lost. */
const firstLookUpMs = 1_000;

/**
 * What follows from an attempt that failed (contracts, Outcome rules).
 * @param random a number in [0, 1)
 */
export function judgeFailure(failed: FailedAttempt, policy: PushPolicy, random: number): Verdict {
  const { error } = failed;
  const closed = isClosedDoor(failed);
  if (closed !== null) {
    // What holds all of them makes it wait; its own pause makes way for rows that were not tried.
    const delayMs = pushRetryDelayMs(failed.unburnt + 1, error.retryAfterMs, random);
    return { status: 'pending', error: closed, delayMs, burnt: false, unburnt: true };
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
  if (outcome === 'unknown' && failed.rule === 'ask operator')
    return { status: 'unknown', error: `${error.message}. ${operatorChoices}`, delayMs: null, written: true };
  const written = outcome === 'unknown';
  const given = givenUp(failed, policy);
  if (given !== null) return { status: 'dead', error: `${error.message}; given up ${given}`, written };
  // What only reads stand before is not asked for as eagerly: they fail for all rows alike.
  const step = failed.sent ? failed.attempts : failed.attempts + readsFailedStep;
  const delayMs = pushRetryDelayMs(step, error.retryAfterMs, random);
  return { status: 'pending', error: error.message, delayMs, burnt: true, written };
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
  return attempts > 1 && ageMs >= policy.maxAgeMs ? `after ${Math.round(ageMs / hourMs)} hours (PUSH_MAX_AGE)` : null;
}

/** Why a row was refused for a reason that is not its own, so that it burns no attempt; null where it was not. */
function isClosedDoor(failed: FailedAttempt): string | null {
  const { error } = failed;
  if (error.code === 'credentials_refused' || error.status === 401 || error.status === 429) return error.message;
  return isWrongRoute(failed) ? wrongRoute(error) : null;
}

const wrongRoute = (error: WarehouseError) =>
  `${error.message}: its method and path are assumed (docs/assumptions.md) and seem to be others;` +
  ' nothing of this kind is sent meanwhile. Set them with WAREHOUSE_OPERATIONS_FILE, or say there that they are right:' +
  ' "documented": true';

/** Whether an answer may mean that the service has no such route: of an operation that was never carried out. */
function isWrongRoute({ error, sent, documented, notFoundMeansRoute }: FailedAttempt): boolean {
  return !documented && sent && mayBeNoRoute(error, notFoundMeansRoute);
}

/** Whether an answer to an assumed operation leaves it open whether the service has such a route. */
export function mayBeNoRoute({ status, jsonBody, explained }: WarehouseError, notFoundMeansRoute: boolean): boolean {
  if (explained) return false;
  return status === 403 || status === 405 || (status === 404 && (notFoundMeansRoute || !jsonBody));
}

/** However long a service asks to wait, it is asked again after this. */
const maxWaitMs = 15 * 60_000;

/** What a failed attempt says of its client, or of all rows of its kind. */
export function newsOf(failed: FailedAttempt): News[] {
  const { error } = failed;
  const reason = error.message;
  // That it failed before says nothing of other rows.
  const isNew = failed.attempts <= 1 && failed.unburnt === 0;
  if (error.code === 'credentials_refused')
    return [{ of: 'client', evidence: { seen: 'credentials refused', reason } }];
  if (isWrongRoute(failed)) return [{ of: 'kind', evidence: { seen: 'no route', reason: wrongRoute(error) } }];
  if (error.code === 'token_refused') return [{ of: 'kind', evidence: { seen: 'failure', reason, isNew } }];
  return [...waitOf(error), ...newsOfAnswer(failed, isNew)];
}

/** That the service asked to wait, whatever else it said. */
function waitOf({ outcome, retryAfterMs, message }: WarehouseError): News[] {
  if (retryAfterMs === undefined || outcome === 'refused') return [];
  const ms = Math.min(retryAfterMs, maxWaitMs);
  return [{ of: 'client', evidence: { seen: 'asked to wait', reason: `${message}; asked to wait`, ms } }];
}

/** A row that is refused as too fast for the fourth time says nothing of the others: it is another matter with it. */
const refusalsThatTell = 3;

function newsOfAnswer({ error, sent, unburnt }: FailedAttempt, isNew: boolean): News[] {
  const { status, outcome, retryAfterMs } = error;
  // Who says how long to wait is taken at his word; what rate fits has to be found out only where nobody says.
  if (status === 401 || status === 425 || (retryAfterMs !== undefined && outcome !== 'refused')) return [];
  if (status === 429) return unburnt < refusalsThatTell ? [{ of: 'client', evidence: 'too fast' }] : [];
  if (!isServiceAnswer(error)) return [{ of: 'client', evidence: 'ask', reason: error.message, row: { isNew } }];
  return sent ? [{ of: 'kind', evidence: { seen: 'success' } }] : [];
}

/** Whether more than the row at hand may have to wait for what is found out about this: the client, its kind, or nothing. */
export function doubtOf(news: readonly News[]): 'client' | 'kind' | null {
  const bad = news.filter(({ evidence }) => typeof evidence === 'string' || evidence.seen !== 'success');
  if (bad.length === 0) return null;
  return bad.some(({ of }) => of === 'client') ? 'client' : 'kind';
}

/** What a look-up that failed says of the client's service. */
export function newsOfLookUp(error: WarehouseError): News[] {
  const { code, status, message: reason, retryAfterMs } = error;
  if (code === 'credentials_refused') return [{ of: 'client', evidence: { seen: 'credentials refused', reason } }];
  if (status === 429 && retryAfterMs === undefined) return [{ of: 'client', evidence: 'too fast' }];
  const wait = waitOf(error);
  if (wait.length > 0) return wait;
  return isServiceAnswer(error) ? [] : [{ of: 'client', evidence: 'ask', reason, row: null }];
}

/** Whether the service itself answered: such an attempt says that it is up. */
export function isServiceAnswer(error: unknown): boolean {
  if (!(error instanceof WarehouseError)) return false;
  if (error.code === 'nok' || error.code === 'credentials_refused') return true;
  const { status, jsonBody } = error;
  return status !== undefined && status < 500 && status >= 400 && (jsonBody || [401, 425, 429].includes(status));
}
