import { hourMs } from '../../core/time.ts';
import type { Slip, Texts } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import { checkWarehouse } from './orders.ts';
import { findProducts } from './products.ts';

export interface SlipDraft {
  readonly expectedIn: string;
  readonly expectedOn: string;
  readonly reference: string | null;
  readonly comments: string | null;
  readonly metadata: Texts;
  readonly lines: readonly { readonly sku: string; readonly quantity: number; readonly pointer?: string }[];
}

/**
 * Announces goods to a warehouse. A truck brings them on the expected day or a few days later.
 * @throws Refusal if the warehouse is not part of the strategy, or if a product is unknown and refused
 */
export function announceGoods(simulation: Simulation, draft: SlipDraft, nowMs: number): Slip {
  checkWarehouse(simulation.store.lists, draft.expectedIn, '/data/attributes/expectedIn');
  const { lines, ...attributes } = draft;
  const products = findProducts(simulation, lines);
  const slip: Slip = {
    ...attributes,
    id: simulation.ids.next(),
    receivedOnMs: null,
    completedOnMs: null,
    status: 'EXPECTED',
    inboundId: null,
    items: lines.map(({ sku, quantity }, index) => ({
      id: simulation.ids.next(),
      sku,
      quantity,
      received: 0,
      productId: products[index]?.id ?? 0,
    })),
  };
  simulation.store.addSlip(slip, nowMs);
  const lateHours = simulation.random.chance(0.2) ? simulation.random.between(24, 60) : 0;
  const dueMs =
    simulation.store.zone.atHour(draft.expectedOn, 8) + (simulation.random.between(0, 6) + lateHours) * hourMs;
  simulation.plan(Math.max(dueMs, nowMs + hourMs), {
    kind: 'truck',
    slipId: slip.id,
    isLast: !simulation.random.chance(0.25),
  });
  return slip;
}
