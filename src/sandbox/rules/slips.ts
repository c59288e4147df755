import { hourMs } from '../../core/time.ts';
import type { Life } from '../store/life.ts';
import type { Slip, Texts } from '../store/model.ts';
import { checkWarehouse } from './place-order.ts';
import { assertKnown, productOf } from './products.ts';

export interface SlipDraft {
  readonly expectedIn: string;
  readonly expectedOn: string;
  readonly reference: string | null;
  readonly comments: string | null;
  readonly metadata: Texts;
  readonly lines: readonly { readonly sku: string; readonly quantity: number; readonly pointer?: string }[];
}

/** Announces goods to a warehouse; a truck brings them on the day, or a little later. @throws Refusal on an unknown warehouse */
export function announceGoods(life: Life, draft: SlipDraft, nowMs: number): Slip {
  checkWarehouse(draft.expectedIn, '/data/attributes/expectedIn');
  assertKnown(life, draft.lines);
  const { lines, ...own } = draft;
  const slip: Slip = {
    ...own,
    id: life.ids.next(),
    receivedOnMs: null,
    completedOnMs: null,
    status: 'EXPECTED',
    inboundId: null,
    items: lines.map(({ sku, quantity, pointer }) => {
      const product = productOf(life, sku, null, pointer);
      return { id: life.ids.next(), sku, quantity, received: 0, productId: product.id };
    }),
  };
  life.store.addSlip(slip, nowMs);
  const lateHours = life.random.chance(0.2) ? life.random.between(24, 60) : 0;
  const dueMs = life.store.zone.atHour(draft.expectedOn, 8) + (life.random.between(0, 6) + lateHours) * hourMs;
  life.plan(Math.max(dueMs, nowMs + hourMs), { kind: 'truck', slipId: slip.id, isLast: !life.random.chance(0.25) });
  return slip;
}
