import type { AnyKind } from '../src/sync/push/kind.ts';
import { inboundPackingSlipCreate } from '../src/sync/push/kinds/inbound-packing-slip-create.ts';
import { orderAttachmentCreate } from '../src/sync/push/kinds/order-attachment-create.ts';
import { orderCancel } from '../src/sync/push/kinds/order-cancel.ts';
import { orderCreate } from '../src/sync/push/kinds/order-create.ts';
import { orderItemCancel } from '../src/sync/push/kinds/order-item-cancel.ts';
import { orderRelease } from '../src/sync/push/kinds/order-release.ts';
import { orderUpdate } from '../src/sync/push/kinds/order-update.ts';
import { productSave } from '../src/sync/push/kinds/product-save.ts';
import { returnCreate } from '../src/sync/push/kinds/return-create.ts';
import { returnDelete } from '../src/sync/push/kinds/return-delete.ts';
import { returnLabelCreate } from '../src/sync/push/kinds/return-label-create.ts';
import { returnReplace } from '../src/sync/push/kinds/return-replace.ts';

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
