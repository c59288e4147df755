import { findUnstorableReason, parseExact } from '../core/json.ts';
import { findPayloadProblems } from '../payloads/payloads.ts';
import type { Queryable } from './connection.ts';
import type { OutboxKind, Payloads } from './generated/payloads.ts';

/** A problem of a payload: the member it concerns, such as `items[0].quantity`, and what is wrong with it. */
export interface PayloadProblem {
  readonly path: string;
  readonly problem: string;
}

/** The error of a payload that a worker would not send. Nothing was inserted. */
export class PayloadRefusedError extends Error {
  readonly code = 'payload_refused';
  readonly problems: readonly PayloadProblem[];
  constructor(kind: string, problems: readonly PayloadProblem[]) {
    const words = problems.map(({ path, problem }) => `${path}: ${problem}`).join('; ');
    super(`the payload of ${kind} cannot be sent: ${words}`);
    this.name = 'PayloadRefusedError';
    this.problems = problems;
  }
}

/** A row for the outbox. The type of the payload follows from the kind. */
export type OutboxRequest = {
  readonly [K in OutboxKind]: {
    readonly kind: K;
    /** External order number, return reference, slip reference or sku: rows of one reference are sent in order. */
    readonly reference: string;
    readonly payload: Payloads[K];
    /** Key of the account at the service; `default` if absent. */
    readonly client?: string;
  };
}[OutboxKind];

export interface InsertOptions {
  /**
   * `schema` (default) compares the payload with the schema of this version. `database` compares it with the schema
   * that the workers have, which WAREHOUSE_OPERATIONS_FILE may change. `none` leaves all checks to the workers.
   */
  readonly check?: 'schema' | 'database' | 'none';
}

/**
 * Inserts a row into fulfilment.outbox. Call it in the transaction that books the request.
 * @returns the id of the row
 * @throws PayloadRefusedError with every problem at once
 */
export async function insertOutboxRow(
  db: Queryable,
  request: OutboxRequest,
  { check = 'schema' }: InsertOptions = {},
): Promise<number> {
  const { kind, reference, payload, client = 'default' } = request;
  const text = JSON.stringify(payload);
  const problems =
    check === 'schema'
      ? checkPayload(request)
      : check === 'database'
        ? ((await db.query('select path, problem from fulfilment.outbox_check($1, $2)', [kind, text]))
            .rows as PayloadProblem[])
        : [];
  if (problems.length > 0) throw new PayloadRefusedError(kind, problems);
  const { rows } = await db.query(
    'insert into fulfilment.outbox (client, kind, reference, payload) values ($1, $2, $3, $4) returning id::float8 as id',
    [client, kind, reference, text],
  );
  return (rows[0] as { readonly id: number }).id;
}

/**
 * Returns the problems of a payload, without a database. Workers check more: codes, addresses, documents, and what
 * exists at the service.
 */
export function checkPayload({ kind, reference, payload }: OutboxRequest): PayloadProblem[] {
  const text = JSON.stringify(payload);
  const unstorable = findUnstorableReason(text);
  if (unstorable !== null) return [{ path: 'payload', problem: unstorable }];
  return findPayloadProblems(kind, reference, parseExact(text));
}
