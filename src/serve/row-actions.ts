/** Actions on one row of the outbox, for pages, programs, assistants and commands. */

import type { Json } from '../core/json.ts';
import type { Database } from '../db/pool.ts';
import { readSqlState } from '../db/transaction.ts';
import { findPayloadProblems } from '../push/check-payload.ts';
import type { CheckContext, PayloadProblem } from '../push/kind.ts';
import { nameKinds } from '../push/kinds/registry.ts';
import { readStoredCodes } from '../push/setting-codes.ts';
import {
  actOnOutbox,
  allowedFrom,
  findCancelProblem,
  type OutboxAction,
  replaceOutbox,
} from '../push/sql/operator-actions.ts';
import { type OutboxDetail, readOutbox } from '../push/sql/read-outbox.ts';
import { RequestError } from './request-error.ts';

/**
 * Reads a row.
 * @param client the client that it must belong to; absent: any
 * @throws RequestError if there is no such row
 */
export async function requireRow(db: Database, id: number, client?: string): Promise<OutboxDetail> {
  const row = await readOutbox(db, id);
  if (row !== null && (client ?? row.client) === row.client) return row;
  throw new RequestError(404, `There is no row ${id} in the outbox`);
}

/** How an action is carried out. */
interface ActionTerms {
  /** True if a person confirmed it. */
  readonly isSure: boolean;
  /** The result that a row gets that is marked as done. */
  readonly result?: Json;
  /** Name for the audit. */
  readonly by: string;
}

/**
 * Retries, marks as done or cancels a row, with an entry of the audit.
 * @throws RequestError if its state does not allow this, or if it needs a confirmation
 */
export async function changeRow(
  db: Database,
  { id, status, nextAttemptAt }: OutboxDetail,
  action: OutboxAction,
  { isSure, result, by }: ActionTerms,
): Promise<void> {
  const isUndecided = status === 'unknown' && nextAttemptAt === null;
  if (!isSure && (action !== 'retry' || isUndecided)) {
    const unsure = 'The box beside the button is not ticked (a tool: sure is not true)';
    throw new RequestError(400, `${unsure}. Confirm it first: this cannot be undone`);
  }

  // Acts only on the state that was checked. Meanwhile the row may have become undecided, which
  // needs the ticked box.
  const checked = { ids: [id], status, dated: nextAttemptAt !== null };
  const changedRows = await actOnOutbox(db, action, checked, { by, result });
  if (changedRows.length > 0) return;

  const problem = action === 'cancel' ? await findCancelProblem(db, id) : null;
  if (problem !== null) throw new RequestError(409, `Row ${id} cannot be cancelled: ${problem}`);

  const allowed: readonly string[] = allowedFrom[action];
  if (allowed.includes(status))
    throw new RequestError(409, `Row ${id} has changed meanwhile; reload its page and try again`);
  const possible = `this action is possible only from ${allowed.join(', ')}`;
  throw new RequestError(409, `Row ${id} is ${status}; ${possible}`);
}

/**
 * Finds why a worker would refuse another payload of a row. Codes are compared with the stored
 * lists. Finds nothing if the payload cannot be replaced at all.
 * @throws what `findPayloadProblems` throws
 */
export async function findReplacementProblems(
  db: Database,
  { kind: name, client, reference, status }: OutboxDetail,
  payload: string,
  context: Omit<CheckContext, 'codes'>,
): Promise<readonly PayloadProblem[]> {
  const kind = nameKinds(context.operations).get(name);
  if (kind === undefined || (status !== 'dead' && status !== 'pending')) return [];

  const { codes } = await readStoredCodes(db, client);
  return findPayloadProblems(kind, { payload, reference }, { ...context, codes });
}

/**
 * Replaces the payload of a dead or pending row, which keeps its place and its history.
 * @throws RequestError if its state does not allow this
 */
export async function replacePayload(
  db: Database,
  id: number,
  payload: string,
  by: string,
): Promise<void> {
  await replaceOutbox(db, id, payload, by).catch((error: unknown) => {
    if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
    throw new RequestError(409, error.message);
  });
}
