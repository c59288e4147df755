import { hourMs } from '../../core/time.ts';
import { addStock, soldSkus } from '../rules/products.ts';
import { type Inbound, type Slip, type SlipStatus, slipStatuses } from '../store/model.ts';
import type { Simulation, TaskOf, TruckLine } from '../store/simulation.ts';
import { drawLot } from './fulfil.ts';

/**
 * Creates the inbound of a truck, which brings all, half or too little of a slip's goods, or
 * unannounced goods.
 */
export function unloadTruck(
  simulation: Simulation,
  atMs: number,
  { slipId, isLast }: TaskOf<'truck'>,
): void {
  const { store, random } = simulation;
  const slip = slipId === null ? null : (store.slips.get(slipId) ?? null);
  const drawLine = () => ({
    sku: random.pick(soldSkus),
    slipItemId: null,
    quantity: random.between(5, 40),
  });
  const lines = slip === null ? [drawLine()] : drawSlipLines(simulation, slip, isLast);
  const { id: inboundId } = createInbound(simulation, atMs, slip);
  simulation.plan(atMs + random.between(1, 4) * hourMs, { kind: 'check-inbound', inboundId });
  const parts = Math.min(lines.length, random.between(1, 3));
  for (let part = 0; part < parts; part++) {
    const share = lines.filter((_, index) => index % parts === part);
    simulation.plan(atMs + (5 + part * 2) * hourMs, {
      kind: 'count-inbound',
      inboundId,
      lines: share,
    });
  }
  simulation.plan(atMs + (12 + random.between(0, 8)) * hourMs, {
    kind: 'complete-inbound',
    inboundId,
    isLast,
  });
  if (slip !== null && !isLast)
    simulation.plan(atMs + random.between(30, 96) * hourMs, {
      kind: 'truck',
      slipId: slip.id,
      isLast: true,
    });
}

/** Creates an inbound and links it with its slip. Without a slip, it arrives in any warehouse. */
function createInbound(
  { store, ids, random }: Simulation,
  atMs: number,
  slip: Slip | null,
): Inbound {
  const inbound: Inbound = {
    id: ids.next(),
    reference: slip?.reference ?? null,
    status: 'PROCESSING',
    receivedIn: slip?.expectedIn ?? random.pick(store.lists.warehouseCodes),
    createdOnMs: atMs,
    checkingOnMs: null,
    completedOnMs: null,
    slipId: slip?.id ?? null,
    items: [],
  };
  store.listedInbounds.add(inbound);
  if (slip === null) return inbound;
  store.listedSlips.change(slip, () => {
    advanceSlip(slip, 'IN_PROGRESS');
    slip.receivedOnMs ??= atMs;
    slip.inboundId = inbound.id;
  });
  return inbound;
}

/** Starts the check of an inbound. */
export function checkInbound(
  simulation: Simulation,
  atMs: number,
  { inboundId }: TaskOf<'check-inbound'>,
): void {
  changeInbound(simulation, inboundId, (inbound, slip) => {
    inbound.status = 'CHECKING';
    inbound.checkingOnMs = atMs;
    if (slip !== null) advanceSlip(slip, 'CHECKING');
  });
}

/**
 * Counts some lines of an inbound: adds items to the inbound and received quantities to its slip.
 */
export function countInbound(
  simulation: Simulation,
  atMs: number,
  task: TaskOf<'count-inbound'>,
): void {
  const { inboundId, lines } = task;
  const { store } = simulation;
  const inbound = store.inbounds.get(inboundId);
  if (inbound === undefined) return;
  const items = lines.map(({ sku, quantity, slipItemId }) => {
    const product = store.products.get(sku);
    const id = simulation.ids.next();
    return {
      id,
      sku,
      quantity,
      ...drawLot(simulation, product, atMs),
      productId: product?.id ?? 0,
      slipItemId,
    };
  });
  inbound.items = [...inbound.items, ...items];
  for (const item of items) store.inboundOfItem.set(item.id, inbound);
  const slip = inbound.slipId === null ? undefined : store.slips.get(inbound.slipId);
  for (const { slipItemId, quantity } of lines) {
    const expected = slip?.items.find(({ id }) => id === slipItemId);
    if (expected !== undefined) expected.received += quantity;
  }
}

/**
 * Marks an inbound as checked or, some hours later, as completed. Only then its goods become stock.
 */
export function completeInbound(
  simulation: Simulation,
  atMs: number,
  task: TaskOf<'complete-inbound'>,
): void {
  const { inboundId, isLast } = task;
  changeInbound(simulation, inboundId, (inbound, slip) => {
    if (inbound.status !== 'CHECKED') {
      inbound.status = 'CHECKED';
      simulation.plan(atMs + simulation.random.between(1, 6) * hourMs, task);
      return;
    }
    inbound.status = 'COMPLETED';
    inbound.completedOnMs = atMs;
    for (const { sku, quantity } of inbound.items)
      addStock(simulation, sku, inbound.receivedIn, quantity);
    simulation.retryWaitingOrders(atMs);
    // A further truck may bring more of the slip.
    if (slip === null || !isLast) return;
    advanceSlip(slip, 'COMPLETED');
    slip.completedOnMs = atMs;
    for (const { sku } of slip.items) simulation.onTheWay.delete(sku);
  });
}

/**
 * Sets the state of a slip, unless the slip is already further. A second truck does not move it
 * back.
 */
function advanceSlip(slip: Slip, status: SlipStatus): void {
  if (slipStatuses.indexOf(status) > slipStatuses.indexOf(slip.status)) slip.status = status;
}

/** Changes an inbound and its slip, and keeps the indexes of both lists correct. */
function changeInbound(
  { store }: Simulation,
  inboundId: number,
  apply: (inbound: Inbound, slip: Slip | null) => void,
): void {
  const inbound = store.inbounds.get(inboundId);
  if (inbound === undefined) return;
  const slip = inbound.slipId === null ? null : (store.slips.get(inbound.slipId) ?? null);
  const applyToBoth = () => store.listedInbounds.change(inbound, () => apply(inbound, slip));
  if (slip === null) applyToBoth();
  else store.listedSlips.change(slip, applyToBoth);
}

function drawSlipLines({ random }: Simulation, slip: Slip, isLast: boolean): TruckLine[] {
  return slip.items.flatMap(({ id, sku, quantity, received }) => {
    const rest = quantity - received;
    const short = random.chance(0.05) ? 1 : 0;
    const brought = isLast ? Math.max(0, rest - short) : Math.floor(rest / 2);
    return brought > 0 ? [{ sku, slipItemId: id, quantity: brought }] : [];
  });
}

/** Plans the next truck with goods that nobody announced, two to five days later. */
export function planUnannouncedTruck(simulation: Simulation, atMs: number): void {
  const arrivesMs = atMs + simulation.random.between(2 * 24, 5 * 24) * hourMs;
  simulation.plan(arrivesMs, { kind: 'truck', slipId: null, isLast: true });
}
