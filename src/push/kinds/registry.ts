/**
 * This folder: the kinds of outbox rows. No kind imports another kind. Code that two kinds share is
 * in a separate file.
 */

import type { Operations } from '../../../config/operations.ts';
import { type Json, parseObject } from '../../core/json.ts';
import { type AnyKind, applyOperations, type FollowUp } from '../kind.ts';
import { maxPayloadValues, toPayloadSchema } from '../payload.ts';
import { inboundPackingSlipCreate } from './inbound/inbound-packing-slip-create.ts';
import { orderAttachmentCreate } from './order/order-attachment-create.ts';
import { orderCancel } from './order/order-cancel.ts';
import { orderCreate } from './order/order-create.ts';
import { orderItemCancel } from './order/order-item-cancel.ts';
import { orderRelease } from './order/order-release.ts';
import { orderRename } from './order/order-rename.ts';
import { orderReplace } from './order/order-replace.ts';
import { orderUpdate } from './order/order-update.ts';
import { productSave } from './product/product-save.ts';
import { returnCreate } from './return/return-create.ts';
import { returnDelete } from './return/return-delete.ts';
import { returnLabelCreate } from './return/return-label-create.ts';
import { returnReplace } from './return/return-replace.ts';

/**
 * All kinds of outbox rows. Pushing is not a run with a lease: every worker pushes the rows that it
 * can claim.
 */
export const outboxKinds: readonly AnyKind[] = [
  orderCreate,
  orderUpdate,
  orderRename,
  orderReplace,
  orderCancel,
  orderRelease,
  orderItemCancel,
  orderAttachmentCreate,
  returnCreate,
  returnReplace,
  returnDelete,
  inboundPackingSlipCreate,
  productSave,
  returnLabelCreate,
];

/** Returns the JSON Schemas of all payloads, as the switches of the operations make them. */
export const listPayloadSchemas = (
  operations: Operations,
): { readonly kind: string; readonly schema: Json }[] =>
  outboxKinds.map((kind) => {
    const schema = {
      ...toPayloadSchema(applyOperations(kind, operations)),
      ...kind.notes?.(operations),
    };
    return { kind: kind.name, schema };
  });

const kindsWithFollowUps = outboxKinds.filter(({ followUps }) => followUps !== undefined);

/** The follow-ups of rows that a person marks as done. */
export const followUpRules = {
  kinds: kindsWithFollowUps.map(({ name }) => name),
  of: (kind: string, payload: string): readonly FollowUp[] => {
    const read = parseObject(payload, maxPayloadValues);
    return read === null
      ? []
      : (kindsWithFollowUps.find(({ name }) => name === kind)?.followUps?.(read) ?? []);
  },
};
