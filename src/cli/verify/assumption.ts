/** What `service verify` asks: assumptions about the service, each a row with one check. */

import type { WarehouseClient } from '../../../config/files.ts';
import type { Operations } from '../../../config/operations.ts';
import { CodedError, describeError, hasCode, WarehouseError } from '../../core/errors.ts';
import { removeQuotes } from '../../core/quote.ts';
import type { Warehouse } from '../../service/client.ts';

/** What every check gets. */
export interface VerifyContext {
  readonly client: WarehouseClient;
  readonly warehouse: Warehouse;
  readonly operations: Operations;
  /** It is never aborted: the timeouts end each request, and a stop ends only the checks. */
  readonly signal: AbortSignal;
  /**
   * Asks for the track-trace list, which the service gives once an hour, or returns in words why
   * not now. Null if it must not be asked.
   */
  readonly askTrackTrace: (<T>(ask: () => Promise<T>) => Promise<T | string>) | null;
}

/** The result of a check: what is assumed is true, is not true, or could not be found out. */
export type VerifyVerdict = 'holds' | 'differs' | 'cannot tell';

/**
 * What a check found. `evidence` holds counts, statuses and names of members, but no values of a
 * client.
 */
export interface Finding {
  readonly verdict: VerifyVerdict;
  readonly evidence: string;
}

export const fits = (evidence: string): Finding => ({ verdict: 'holds', evidence });
export const deviates = (evidence: string): Finding => ({ verdict: 'differs', evidence });
export const cannotTell = (evidence: string): Finding => ({ verdict: 'cannot tell', evidence });

/** An assumption of docs/assumptions.md. */
export interface Assumption<Context = VerifyContext> {
  /** A short name in words with hyphens. */
  readonly id: string;
  /** Section of docs/interface.md. */
  readonly section: string;
  readonly text: string;
  /** What to do if the service differs. */
  readonly remedy: string;
  readonly check: (context: Context) => Promise<Finding>;
}

/** A finding with the assumption that it is about. */
export interface CheckedAssumption extends Finding {
  readonly client: string;
  readonly id: string;
  readonly section: string;
  readonly assumption: string;
  readonly remedy: string;
}

/** Checks one assumption. A request that is refused differs; one without an answer says nothing. */
export async function judge<Context>(
  client: string,
  { id, section, text, remedy, check }: Assumption<Context>,
  context: Context,
): Promise<CheckedAssumption> {
  const finding = await check(context).catch(toFinding);
  return { client, id, section, assumption: text, remedy, ...finding };
}

/** Statuses that say nothing about the request. */
const passing = new Set([401, 408, 425, 429]);

function toFinding(error: unknown): Finding {
  if (!(error instanceof CodedError) || error.code === 'stopped') throw error;

  // An answer may repeat what belongs to a person.
  const evidence = removeQuotes(describeError(error));
  const { status = 0 } = error instanceof WarehouseError ? error : {};
  const isRefused =
    hasCode(error, 'undecodable') ||
    (hasCode(error, 'http_status') && status >= 400 && status < 500 && !passing.has(status));

  return isRefused ? deviates(evidence) : cannotTell(evidence);
}
