/**
 * This folder: the kinds of outbox rows. The file of a kind has its schema, request and result, and
 * how an unknown outcome is settled. No kind imports another: code that two share is in a separate
 * file, and so are kinds that share most of it.
 */

import { operations as builtIn, type Operations } from '../../../config/operations.ts';
import type { UnknownRule } from '../judge-outcome.ts';
import type { AnyKind } from '../kind.ts';
import { toPayloadSchema } from '../payload.ts';
import type { StoredKind } from '../sql/kinds.ts';
import { inboundPackingSlipCreate } from './inbound-packing-slip-create.ts';
import { orderCancel, orderItemCancel } from './order-cancel.ts';
import { orderAttachmentCreate, orderCreate, orderReplace } from './order-create.ts';
import { orderRelease, orderRename, orderUpdate } from './order-update.ts';
import { productSave } from './product-save.ts';
import { returnCreate, returnDelete, returnLabelCreate, returnReplace } from './returns.ts';

/**
 * Makes all kinds of outbox rows for the operations in use. Pushing is not a run with a lease:
 * every worker pushes the rows that it can claim.
 */
export const makeKinds = (operations: Operations): readonly AnyKind[] => [
  orderCreate(operations),
  orderUpdate(operations),
  orderRename,
  orderReplace(operations),
  orderCancel,
  orderRelease,
  orderItemCancel,
  orderAttachmentCreate(operations),
  returnCreate(operations),
  returnReplace(operations),
  returnDelete,
  inboundPackingSlipCreate(operations),
  productSave(operations),
  returnLabelCreate(operations),
];

const madeKinds = new WeakMap<Operations, ReadonlyMap<string, AnyKind>>();

/** Returns the kinds by their names. They are made once for the same operations. */
export function nameKinds(operations: Operations): ReadonlyMap<string, AnyKind> {
  const made =
    madeKinds.get(operations) ??
    new Map(makeKinds(operations).map((kind) => [kind.name, kind] as const));
  madeKinds.set(operations, made);
  return made;
}

/** The kinds without switches, where only what no switch changes matters, such as the names. */
export const outboxKinds = makeKinds(builtIn);

const listKinds = (rule: UnknownRule) =>
  outboxKinds.filter(({ unknown }) => unknown.do === rule).map(({ name }) => name);

/** Names of the kinds whose rows can be looked up at the service. */
export const lookedUpKinds = listKinds('look up');

/** Names of the kinds whose rows may be sent again without harm. */
export const resentKinds = listKinds('resend');

/** Returns what `migrate` stores of the kinds, so that SQL knows it. */
export const listStoredKinds = (operations: Operations): StoredKind[] =>
  makeKinds(operations).map((kind) => ({
    kind: kind.name,
    schema: toPayloadSchema(kind),
    lingers: kind.unknown.do === 'resend',
    overtakenBy: kind.overtakenBy ?? [],
    awaitsProducts: kind.awaitsProducts ?? false,
    document: kind.document ?? null,
  }));
