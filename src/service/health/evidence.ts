/** What failed requests show of the service of a client. Pulls and pushes read it here. */

import { type Failure, isSilence, toFailure, WarehouseError } from '../../core/errors.ts';
import type { Evidence } from './judge-health.ts';

/**
 * Evidence about a client, or about one of its kinds. `ask`: the service did not serve a request.
 * Ask status/get first: if the service is up, the evidence is against the kind or job alone.
 */
export type ScopedEvidence =
  | { readonly of: 'client' | 'kind'; readonly evidence: Evidence }
  | {
      readonly of: 'client';
      readonly evidence: 'ask';
      readonly failure: Failure;
      /** The sent row; null if no row was sent, as in a look-up or a run. */
      readonly row: { readonly isNew: boolean } | null;
    };

/** Returns what a failed look-up, or a failed run, shows of the client's service. */
export function readLookUpEvidence(error: WarehouseError): ScopedEvidence[] {
  const failure = toFailure(error, error.message);
  if (error.code === 'credentials_refused')
    return [{ of: 'client', evidence: { seen: 'credentials_refused', failure } }];

  const wait = readWaitEvidence(error);
  if (wait.length > 0) return wait;
  return isServiceAnswer(error) ? [] : [{ of: 'client', evidence: 'ask', failure, row: null }];
}

/**
 * Returns evidence that the service asked to wait or to send less, or nothing if it did not ask.
 */
export function readWaitEvidence(error: WarehouseError): ScopedEvidence[] {
  const { status, outcome, retryAfterMs, message } = error;
  if (retryAfterMs === undefined) {
    const failure = toFailure(error, message);
    return status === 429 ? [{ of: 'client', evidence: { seen: 'too_fast', failure } }] : [];
  }
  if (outcome === 'refused') return [];

  const failure = toFailure(error, `${message}; asked to wait`);
  return [{ of: 'client', evidence: { seen: 'asked_to_wait', failure, ms: retryAfterMs } }];
}

/** Returns true if the service itself answered, which shows that it is up. */
export function isServiceAnswer(error: unknown): boolean {
  if (!(error instanceof WarehouseError)) return false;
  if (error.code === 'nok' || error.code === 'credentials_refused') return true;
  const { status, jsonBody } = error;
  return (
    status !== undefined &&
    status < 500 &&
    status >= 400 &&
    (jsonBody || [401, 425, 429].includes(status))
  );
}

/**
 * Returns true if an answer to an assumed operation may mean that the service does not have the
 * path.
 * @param namesResource true if the request names a resource: a 404 with a JSON body may then be
 *   about that resource
 */
export function mayBeWrongPath(
  { status, jsonBody, explained }: WarehouseError,
  namesResource: boolean,
): boolean {
  if (explained) return false;
  return status === 403 || status === 405 || (status === 404 && !(namesResource && jsonBody));
}

/**
 * Returns the words of a wrong path, with what to do.
 * @param held what is held: the rows of a kind, or a job
 */
export const describeWrongPath = ({ message }: WarehouseError, held: string): string =>
  `${message}: its method and path are assumed (docs/assumptions.md) and are ` +
  `probably wrong. ${held} held. Set the right method and path in ` +
  'WAREHOUSE_OPERATIONS_FILE, or confirm the assumed ones there with "documented": true';

/**
 * Returns true if a failure leaves no hope for the other requests of a run: there is no answer, the
 * credentials are refused, or the service asked to wait.
 */
export const concernsWholeClient = (error: WarehouseError): boolean =>
  error.code === 'credentials_refused' || error.retryAfterMs !== undefined || isSilence(error);
