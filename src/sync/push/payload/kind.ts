/**
 * What an outbox kind declares, and how payloads are checked, shown and masked. The whole payload is checked before
 * any request is sent.
 */

import type { z } from 'zod';
import type { OperationName } from '../../../../config/operations.ts';
import { CodedError, type WarehouseError } from '../../../core/errors.ts';
import type { Json } from '../../../core/json.ts';
import type { Database } from '../../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../../erp/outbox/claim.ts';
import type { UnknownRow } from '../../../erp/outbox/look-ups.ts';
import type { Warehouse, WriteRequest } from '../../../warehouse/client.ts';
import type { Resource } from '../../../warehouse/decoding/jsonapi.ts';
import type { HttpAnswer } from '../../../warehouse/transport/http.ts';
import type { Mirrored } from '../../reading/stream.ts';
import type { SettingCodes } from './setting-codes.ts';

/** The payload cannot be sent as it is: the row is dead, with every problem named. Nothing was asked of the service for it. */
export class PayloadError extends CodedError {
  constructor(problems: readonly string[]) {
    super('payload_refused', `the payload cannot be sent: ${problems.join('; ')}`);
  }
}

/** What the row speaks of is not there, or not in a state in which it can be dealt with: the row is dead, saying so. */
export class NotThereError extends CodedError {
  constructor(message: string) {
    super('not_there', message);
  }
}

/** What a check may use. */
export interface CheckContext {
  readonly codes: SettingCodes;
  readonly signal: AbortSignal;
}

/** What one push works with. */
export interface PushContext extends CheckContext {
  readonly row: Pick<ClaimedRow, 'id' | 'client' | 'reference' | 'knownId' | 'knownCount' | 'mayBeWritten'>;
  /** Zone of the client's zone-less dates. */
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  /** Where `included` of a request stands: inside `data`, or beside it (contracts, section 7). */
  readonly included: 'inside' | 'top';
  /** Sends the request that makes the change; noted before it is written. */
  readonly send: (request: WriteRequest) => Promise<HttpAnswer>;
}

/** A resource as an answer brought it, for the tables. */
interface PushedReading {
  readonly stream: Mirrored;
  readonly resource: Resource;
  /** Whether any text of the answer was written with \\u escapes. */
  readonly escaped: boolean;
}

/** What a push that was carried out leaves behind. */
export interface Pushed {
  readonly result: { readonly [member: string]: Json };
  readonly reading?: PushedReading;
  /** Rows that the answer does not show and that are to be read again. */
  readonly reread?: { readonly stream: Mirrored; readonly id: number };
  /** A resource that is no longer there. */
  readonly gone?: { readonly stream: Mirrored; readonly id: number };
}

/** A payload as JSON, checked or not. */
export type JsonObject = { readonly [member: string]: Json };

/** A row that is put behind another in its lane. */
export interface FollowUp {
  readonly kind: string;
  readonly payload: Json;
}

/** What a look-up found of one row. */
export type LookUp =
  | { readonly seen: 'there'; readonly resource: Resource; readonly escaped: boolean }
  | { readonly seen: 'absent' }
  | { readonly seen: 'no answer'; readonly why: string; readonly cause?: WarehouseError }
  /** More than one could be it: a person has to tell. */
  | { readonly seen: 'several'; readonly why: string };

export interface LookUpContext {
  readonly client: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly signal: AbortSignal;
}

/** How rows of a kind are looked up whose outcome is not known. */
export interface LookUpRule<P> {
  readonly stream: Mirrored;
  /** Looks rows up, many at once. */
  readonly find: (
    rows: readonly (UnknownRow & { readonly payloadRead: P })[],
    context: LookUpContext,
  ) => Promise<ReadonlyMap<number, LookUp>>;
  /** Whether what was found is what the payload asks for; in words where it is not. */
  readonly differs: (payload: P, resource: Resource) => string | null;
  readonly resultOf: (resource: Resource) => Pushed['result'];
  /** What a believed absence means: it is sent again, or a person decides. */
  readonly whenAbsent: 'resend' | 'ask operator';
  /** A refusal is believed only when a look-up has not found it. */
  readonly doubtsRefusal: boolean;
}

/**
 * How an attempt is settled whose outcome is unknown: by a look-up, by sending it again (carrying it out twice changes
 * nothing), or by a person.
 */
type UnknownOutcome<P> =
  | { readonly do: 'look up'; readonly lookUp: LookUpRule<P> }
  | { readonly do: 'resend' }
  | { readonly do: 'ask operator' };

/**
 * Rows of another kind that must be through first: each entry of a list in the payload names one by its reference. A trigger
 * wakes those that wait for `product.save`; others are looked at again after 20 seconds, and then every 2 minutes.
 */
interface WaitsFor {
  readonly kind: string;
  /** As the column `family` of fulfilment.outbox has it. */
  readonly family: string;
  /** Member of the payload that holds the list, and the member of its entries that holds the reference. */
  readonly list: string;
  readonly member: string;
}

/** One kind of outbox row (contracts, section 5). Declared in a file of its own, known by its line in src/sync/push/kinds/registry.ts. */
export interface OutboxKind<P> {
  readonly name: string;
  readonly schema: z.ZodType<P>;
  /** Members that the schema does not know, with the reason a person reads. */
  readonly refused?: Readonly<Record<string, string>>;
  /** The operation that makes the change. */
  readonly operation: OperationName;
  /** 404 of that operation can only mean that there is no such route. */
  readonly notFoundMeansRoute: boolean;
  readonly unknown: UnknownOutcome<P>;
  /** Problems that the schema cannot see, in a payload that may have others: so that all are named at once. */
  readonly check?: (
    payload: { readonly [member: string]: Json },
    reference: string,
    context: CheckContext,
  ) => Promise<readonly string[]>;
  readonly push: (payload: P, context: PushContext) => Promise<Pushed>;
  /** Rows that follow in its lane once it is done, also of a payload that does not fit the schema: a person may mark it as done. */
  readonly followUps?: (payload: JsonObject) => readonly FollowUp[];
  readonly waitsFor?: WaitsFor;
}

/** A kind whose payload type is of no interest: what a list of kinds holds. */
export type AnyKind = OutboxKind<unknown>;

/** Declares a kind. Its payload is always read by its own schema before it is handed on, so the type may be forgotten. */
export function defineKind<P>(kind: OutboxKind<P>): AnyKind {
  return kind as unknown as AnyKind;
}
