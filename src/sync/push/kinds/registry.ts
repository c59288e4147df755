/**
 * The kinds of outbox rows. No kind imports another kind; what two kinds share has a file of its own.
 */

import { parseObject } from '../../../core/json.ts';
import type { AnyKind, FollowUp } from '../payload/kind.ts';
import { inboundPackingSlipCreate } from './inbound/inbound-packing-slip-create.ts';
import { orderAttachmentCreate } from './order/order-attachment-create.ts';
import { orderCancel } from './order/order-cancel.ts';
import { orderCreate } from './order/order-create.ts';
import { orderItemCancel } from './order/order-item-cancel.ts';
import { orderRelease } from './order/order-release.ts';
import { orderUpdate } from './order/order-update.ts';
import { productSave } from './product/product-save.ts';
import { returnCreate } from './return/return-create.ts';
import { returnDelete } from './return/return-delete.ts';
import { returnLabelCreate } from './return/return-label-create.ts';
import { returnReplace } from './return/return-replace.ts';

/** Every kind of outbox row, once. The job itself is no leased run: every worker pushes what it can claim. */
export const outboxKinds: readonly AnyKind[] = [
  orderCreate,
  orderUpdate,
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

const following = outboxKinds.filter(({ followUps }) => followUps !== undefined);

/** What follows from rows that a person marks as done. */
export const followUpRules = {
  kinds: following.map(({ name }) => name),
  of: (kind: string, payload: string): readonly FollowUp[] => {
    const read = parseObject(payload);
    return read === null ? [] : (following.find(({ name }) => name === kind)?.followUps?.(read) ?? []);
  },
};
