/**
 * The declaration of outbox kinds, and what several of them use. A kind is made for the operations
 * in use, whose switches change what its schema requires. The whole payload is checked before any
 * request is sent.
 */

import type { z } from 'zod';
import type { OperationName, Operations } from '../../config/operations.ts';
import { CodedError, makeUndecodableError, WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { shorten } from '../core/quote.ts';
import type { Database } from '../db/pool.ts';
import type { ServiceLists } from '../pull/sql/service-lists.ts';
import type { MirroredResource } from '../pull/stream.ts';
import type { Warehouse, WriteRequest } from '../service/client.ts';
import { decodeRow, type ResourceFields, type RowOf } from '../service/decoding/fields.ts';
import {
  addIncluded,
  type Document,
  findChildren,
  indexIncluded,
  type Resource,
} from '../service/decoding/jsonapi.ts';
import { concernsWholeClient } from '../service/health/evidence.ts';
import type { ProvenRoutes } from '../service/sql/proven-routes.ts';
import type { HttpAnswer } from '../service/transport/http.ts';
import type { AbsenceBasis } from './judge-outcome.ts';
import type { ClaimedRow, PushTarget } from './sql/claim-rows.ts';
import type { UnknownRow } from './sql/look-ups.ts';

/**
 * Maximum number of problems that are listed for a row or a request. A check that has found more
 * stops.
 */
export const maxProblems = 100;
/** Maximum number of characters of one problem, and of all of them. */
const maxProblemLength = 2_000;
const maxTextLength = 50_000;

/** What is wrong with a payload. */
export interface PayloadProblem {
  /** The member, by the names and places in lists that lead to it; empty: the whole payload. */
  readonly path: readonly (string | number)[];
  /** In words that name the member. */
  readonly text: string;
}

/** What was found wrong; nothing if it is empty. */
export interface FoundProblems {
  readonly problems: readonly PayloadProblem[];
}

/** Returns a path as people read it, such as `items[0].quantity`. */
export function formatPath(path: PayloadProblem['path']): string {
  if (path.length === 0) return 'payload';
  const parts = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`));
  return parts.join('').replace(/^\./, '');
}

/** Makes the problem of a member. */
export const problemAt = (path: PayloadProblem['path'], words: string): PayloadProblem => ({
  path,
  text: `${formatPath(path)}: ${words}`,
});

export const joinProblems = (problems: readonly PayloadProblem[]): string =>
  problems.map(({ text }) => text).join('; ');

/** Returns the first problems, cut, and says if there are more. */
export function limitProblems(found: readonly PayloadProblem[]): readonly PayloadProblem[] {
  const listed: PayloadProblem[] = [];
  let length = 0;
  for (const { path, text } of found.slice(0, maxProblems)) {
    const words = shorten(text, maxProblemLength);
    length += words.length;
    if (length > maxTextLength) break;
    listed.push({ path, text: words });
  }
  return listed.length < found.length ? [...listed, { path: [], text: 'and more' }] : listed;
}

/**
 * An error for a payload that cannot be sent. The row is marked dead with the problems. Nothing was
 * sent.
 */
export class PayloadError extends CodedError {
  constructor(problems: readonly PayloadProblem[]) {
    const words = joinProblems(limitProblems(problems));
    super('payload_refused', `the payload cannot be sent: ${words}`);
  }
}

/**
 * An error for a row whose order, shipment, item or return was not found, or is not unique. The row
 * is marked dead.
 */
export class NotFoundError extends CodedError {
  constructor(message: string) {
    super('not_there', message);
  }
}

/**
 * An error for a row that cannot be sent yet, for a reason that passes by itself. It does not count
 * as an attempt.
 */
export class PostponedError extends CodedError {
  /** Time until the row is tried again, in milliseconds. */
  readonly retryMs: number;

  constructor(
    code: 'rename_awaited' | 'row_locked' | 'settings_unread',
    message: string,
    retryMs: number,
  ) {
    super(code, message);
    this.retryMs = retryMs;
  }
}

/**
 * An error for an update that the service carried out, but that lost something. The row is marked
 * dead.
 */
export class LostMembersError extends CodedError {
  /** What was lost, in words. */
  readonly loss: string;
  /** The order as it is now. */
  readonly reading: PushedReading;

  constructor(message: string, loss: string, reading: PushedReading) {
    super('members_lost', message);
    this.loss = loss;
    this.reading = reading;
  }
}

/** Where the lists of the service come from, with which payloads are compared. */
export interface CodeLists {
  /** Returns the lists. Null: any code is taken. */
  readonly read: () => Promise<ServiceLists | null>;
  /** Reads them again, because they lack something. Without it, they cannot be newer. */
  readonly refresh?: (signal: AbortSignal) => Promise<ServiceLists>;
}

/** The lists of the service, as one check knows them. */
export interface KnownCodes {
  /** Null: any code is taken. */
  readonly lists: ServiceLists | null;
  /** True if the payload named what the lists lack: they may be out of date. */
  lacks: boolean;
}

/** What the check of a payload depends on, besides the payload. */
export interface CheckFacts {
  readonly known: KnownCodes;
  /** The operations with their switches, which change what is assumed (docs/assumptions.md). */
  readonly operations: Operations;
}

/** The context of a payload check. */
export interface CheckContext {
  readonly codes: CodeLists;
  /** The client, token or program for which the payload is checked. Owners take turns. */
  readonly owner: string;
  readonly signal: AbortSignal;
  readonly operations: Operations;
}

/**
 * Checks with the lists of the service. If they lack something, they are read again, and it is
 * checked with the new ones.
 * @throws what the codes throw
 */
export async function checkCodes<T>(
  { codes, signal }: Pick<CheckContext, 'codes' | 'signal'>,
  check: (known: KnownCodes) => T | Promise<T>,
): Promise<T> {
  const known = { lists: await codes.read(), lacks: false };
  const checked = await check(known);
  if (!known.lacks || codes.refresh === undefined) return checked;

  return check({ lists: await codes.refresh(signal), lacks: false });
}

/** A document of a payload. */
export interface PayloadDocument extends Pick<PayloadProblem, 'path'> {
  /** A pdf document in base64, if the schema takes the payload. */
  readonly content: Json | undefined;
}

/** The context of one push. */
export interface PushContext extends CheckContext {
  readonly row: Pick<
    ClaimedRow,
    | 'id'
    | 'client'
    | 'kind'
    | 'reference'
    | 'claimNo'
    | 'knownId'
    | 'knownCount'
    | 'maybeCarriedOut'
  >;
  /** IANA time zone of the client's times without a zone. */
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  /** Kinds and operations whose path is right, because the service has carried them out before. */
  readonly proven: Pick<ProvenRoutes, 'has'>;
  /**
   * Sends the request that asks for the change. The attempt is recorded before the request is sent,
   * together with the target of a kind that is looked up by it, or that must not erase anything of
   * it.
   */
  readonly send: (request: WriteRequest, target?: PushTarget) => Promise<HttpAnswer>;
}

/** A resource from an answer, to be stored in the tables. */
interface PushedReading {
  readonly stream: MirroredResource;
  readonly resource: Resource;
  /** True if the answer may hold what Postgres cannot store, so that it must be checked. */
  readonly escaped: boolean;
}

/** A resource of the service, by its id. */
interface NamedResource {
  readonly stream: MirroredResource;
  readonly id: number;
}

/** What a row brings to the tables. */
export interface PushedResources {
  readonly reading?: PushedReading;
  /** Resources that the answer does not show. They are read by id later. */
  readonly rereads?: readonly NamedResource[];
  /** A resource that the push deleted. */
  readonly gone?: NamedResource;
}

/** The result of a push that was carried out. */
export interface PushResult extends PushedResources {
  /** The `result` of the row. */
  readonly result: JsonObject;
}

/** A payload as JSON, checked or not. */
export type JsonObject = { readonly [member: string]: Json };

/** A row that is inserted into the lane of another row when that one is done. */
export interface FollowUp {
  readonly kind: string;
  readonly payload: Json;
}

/** A resource that a look-up found for a row. */
export interface FoundResource {
  readonly resource: Resource;
  readonly escaped: boolean;
  /** True if our tables had it before the row was first sent, so that the row did not create it. */
  readonly isOlder?: boolean;
  /** Another row of the outbox that created it, with another address. Null or absent: none. */
  readonly otherRow?: number | null;
  /**
   * How long ago a list first showed it, as far as is known. Absent if another way than a list
   * found it.
   */
  readonly listedAgoMs?: number;
}

/** The result of a look-up for one row. */
export type LookUpResult<Found extends FoundResource = FoundResource> =
  | (Found & { readonly seen: 'there' })
  | { readonly seen: 'absent'; readonly basis: AbsenceBasis; readonly why?: string }
  | { readonly seen: 'no answer'; readonly why: string; readonly cause?: WarehouseError }
  /** The answer does not tell whether the resource is there. */
  | { readonly seen: 'unclear'; readonly why: string }
  /** Several resources match: a person must decide. */
  | { readonly seen: 'several'; readonly why: string };

/**
 * Returns the result of a look-up whose request failed.
 * @throws any other error
 */
export function toNoAnswer(error: unknown): Extract<LookUpResult, { readonly seen: 'no answer' }> {
  if (!(error instanceof WarehouseError)) throw error;
  return { seen: 'no answer', why: `${error.message}; the look-up is tried again`, cause: error };
}

/**
 * Looks up rows one after the other. If the service does not answer at all, refuses the credentials
 * or asks to wait, the others are not looked up now. Any other failure concerns its row. A row
 * without a result is left out.
 */
export async function lookUpEach<Row extends Pick<UnknownRow, 'id'>, Found extends FoundResource>(
  rows: readonly Row[],
  lookUp: (row: Row) => Promise<LookUpResult<Found> | undefined>,
): Promise<Map<number, LookUpResult<Found>>> {
  const results = new Map<number, LookUpResult<Found>>();
  let failed: LookUpResult<Found> | undefined;

  for (const row of rows) {
    const result = failed ?? (await lookUp(row).catch(toNoAnswer));
    if (result !== undefined) results.set(row.id, result);
    const cause = result?.seen === 'no answer' ? result.cause : undefined;
    if (cause !== undefined && concernsAllRows(cause)) failed = result;
  }
  return results;
}

/** Returns true if a failure says that requests of other rows would fail, too. */
export const concernsAllRows = (error: WarehouseError) =>
  concernsWholeClient(error) || error.status === 401 || error.status === 429;

/** The context of a look-up. */
export interface LookUpContext
  extends Pick<PushContext, 'zone' | 'db' | 'warehouse' | 'operations' | 'signal'> {
  readonly client: string;
}

/** What becomes of a row whose resource was found: it is done, or dead. */
export type FoundConclusion =
  | Pick<PushResult, 'result' | 'rereads'>
  | { readonly status: 'dead'; readonly error: string };

/** The rule by which unknown rows of a kind are looked up. */
export interface LookUpRule<P, Found extends FoundResource = FoundResource> {
  readonly stream: MirroredResource;
  /** Looks up many rows at once. Returns the results by row id. */
  readonly find: (
    rows: readonly (UnknownRow & { readonly payloadRead: P })[],
    context: LookUpContext,
  ) => Promise<ReadonlyMap<number, LookUpResult<Found>>>;
  /**
   * Decides what becomes of a row whose resource was found.
   * @param isOthers true if no attempt of the row created it
   */
  readonly conclude: (found: Found, payload: P, isOthers: boolean) => FoundConclusion;
  /**
   * The next step if look-ups have not found the resource: send the row again, or let a person
   * decide.
   */
  readonly whenAbsent: 'resend' | 'ask operator';
  /**
   * True if a refusal counts only after a look-up finds nothing: an earlier attempt may have
   * created it.
   */
  readonly doubtsRefusal: boolean;
  /**
   * True if rows are looked up by the id of what they change. Then a claim alone cannot record that
   * they are sent.
   */
  readonly byTarget?: boolean;
}

/**
 * The way to settle a row whose outcome is unknown: by a look-up, by sending it again (if carrying
 * it out twice changes nothing), or by a person.
 */
type UnknownOutcome<P, Found extends FoundResource> =
  | { readonly do: 'look up'; readonly lookUp: LookUpRule<P, Found> }
  | { readonly do: 'resend' }
  | { readonly do: 'ask operator' };

/**
 * A kind of outbox row. Each kind is declared in a separate file and listed in
 * src/push/kinds/registry.ts.
 */
export interface OutboxKind<P, Found extends FoundResource = FoundResource> {
  readonly name: string;
  /** Its metadata may have reasons why it lacks certain members (`refusing`). */
  readonly schema: z.ZodType<P>;
  /** The operation that asks for the change. */
  readonly operation: OperationName;
  /** True if a 404 of that operation can only mean that the service has no such path. */
  readonly notFoundMeansRoute: boolean;
  /** The way to settle rows whose outcome is unknown. */
  readonly unknown: UnknownOutcome<P, Found>;
  /**
   * Returns problems that the schema cannot find. The payload may have others, too: all are named
   * at once.
   */
  readonly check?: (
    payload: JsonObject,
    reference: string | undefined,
    facts: CheckFacts,
  ) => readonly PayloadProblem[];
  /** Returns the documents of a payload, which must be printable. */
  readonly documents?: (payload: JsonObject) => readonly PayloadDocument[];
  /** Sends the row. */
  readonly push: (payload: P, context: PushContext) => Promise<PushResult>;
  /**
   * Returns the follow-ups of a row that is done. The payload may not fit the schema, because a
   * person may also mark a row as done that could not be sent.
   */
  readonly followUps?: (payload: JsonObject) => readonly FollowUp[];
  /**
   * True if open product.save rows of the skus of its items come first (docs/interface.md, 16.3
   * Rules). When such a row is done, a trigger releases those that wait for it; they are also
   * checked again after 20 seconds, and then every 2 minutes.
   */
  readonly awaitsProducts?: boolean;
  /**
   * Kinds that may be sent although an earlier row of this kind in their lane has failed (is dead,
   * or unknown and for a person to decide). All others wait for it.
   */
  readonly overtakenBy?: readonly string[];
  /** The document that a row of this kind makes, which is kept in `fulfilment.documents`. */
  readonly document?: KindDocument;
}

/** A document that a row makes. */
export interface KindDocument {
  readonly kind: 'return_label' | 'order_attachment';
  /** Place of the document in the payload; empty if the row is about nothing else. */
  readonly path: readonly string[];
}

/** A kind whose payload type does not matter, as lists of kinds hold it. */
export type AnyKind = OutboxKind<unknown>;

/**
 * Declares a kind. Its schema always reads the payload before `push`, and its look-up finds what it
 * concludes from, so both types can be hidden here.
 */
export const defineKind = <P, Found extends FoundResource = FoundResource>(
  kind: OutboxKind<P, Found>,
): AnyKind => kind as unknown as AnyKind;

/**
 * Returns true if a success has no body, as with 204. Then only a reading shows what it did. A kind
 * that cannot read it treats the answer like any other that it cannot read.
 */
export const isEmpty = ({ body }: Pick<HttpAnswer, 'body'>): boolean => body.trim() === '';

/**
 * Returns true for 204, by which the service itself says that it has carried the request out and
 * answers nothing. An empty answer with another status may come from a proxy.
 */
export const saysNothing = ({ status }: Pick<HttpAnswer, 'status'>): boolean => status === 204;

/** A resource of an answer, as a row and as received. */
interface AnsweredResource<Of> {
  readonly row: RowOf<Of>;
  /** The resource with those included with it. */
  readonly resource: Resource;
  readonly escaped: boolean;
}

/**
 * Reads the resources of a document.
 * @param failure beginning of the message of the error
 * @throws WarehouseError `undecodable` if one of them cannot be read; then the whole answer proves
 *   nothing
 */
export function readResources<Of extends ResourceFields>(
  document: Document,
  fields: Of,
  failure: string,
): AnsweredResource<Of>[] {
  const onTop = indexIncluded(document.included);

  return document.data.map((data) => {
    const resource = addIncluded(data, onTop);
    const read = decodeRow(fields, resource);
    if ('row' in read)
      return { row: read.row, resource: resource as Resource, escaped: document.escaped };
    throw makeUndecodableError(`${failure}: ${read.problem.path}: ${read.problem.reason}`);
  });
}

/**
 * Reads what a request changed, if its answer does not show that.
 * @throws WarehouseError with unknown outcome if it cannot be read: the change was carried out
 */
export async function readAfterChange<Changed>(
  operation: OperationName,
  read: () => Promise<Changed>,
): Promise<Changed> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    const { message, retryAfterMs } = error;
    const words = `${operation} was answered, but does not show what it changed, and ${message}`;
    throw new WarehouseError('undecodable', words, {
      ...{ outcome: 'unknown', operation, cause: error },
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    });
  }
}

/**
 * Reads the resource of an answer.
 * @throws WarehouseError `undecodable` if it cannot be read, or is not the one that was asked for
 */
export function readAnswered<Of extends ResourceFields>(
  operation: OperationName,
  document: Document,
  fields: Of,
  isAskedFor: (row: RowOf<Of>) => boolean,
): AnsweredResource<Of> {
  const [read] = readResources(document, fields, operation);
  if (read !== undefined && isAskedFor(read.row)) return read;
  throw makeUndecodableError(`${operation}: the answer describes another ${fields.type}`);
}

/**
 * Reads the included resources of one type. Skips unreadable ones.
 * @param ids the ids to read; null: all
 */
export function readIncluded<Of extends ResourceFields>(
  resource: Resource,
  fields: Of,
  ids: readonly number[] | null = null,
): RowOf<Of>[] {
  return findChildren(resource, fields.type, ids, new Map()).resources.flatMap((child) => {
    const read = decodeRow(fields, child);
    return 'row' in read ? [read.row] : [];
  });
}

/** A line of a payload or of a resource. A payload may lack members that are optional. */
interface Line {
  readonly sku?: string | null | undefined;
  readonly quantity?: number | null | undefined;
}

/**
 * Compares lines by sku and quantity. A sku whose quantity the row leaves open is compared without
 * it.
 * @returns the difference in words; null if they are equal
 */
export function describeLineDifference(
  asked: readonly Line[],
  found: readonly Line[],
): string | null {
  const isOpen = ({ quantity }: Line) => quantity === undefined || quantity === null;
  const open = new Set(asked.filter(isOpen).map(({ sku }) => sku ?? ''));
  const [wanted, seen] = [sumLines(asked, open), sumLines(found, open)];
  return wanted === seen
    ? null
    : `it has ${seen || 'no lines'}, but the row asks for ${wanted || 'no lines'}`;
}

function sumLines(lines: readonly Line[], open: ReadonlySet<string>): string {
  const sums = new Map<string, number>();
  for (const { sku, quantity } of lines)
    sums.set(sku ?? '', (sums.get(sku ?? '') ?? 0) + (quantity ?? 0));
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([sku, sum]) => (open.has(sku) ? `any x ${sku}` : `${sum} x ${sku}`))
    .join(', ');
}
