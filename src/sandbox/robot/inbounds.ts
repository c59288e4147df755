import { dayMs, hourMs } from '../../core/time.ts';
import { soldSkus } from '../store/catalogue.ts';
import type { Life, Line } from '../store/life.ts';
import { type Inbound, type Slip, type SlipStatus, slipStatuses } from '../store/model.ts';
import { warehouseCodes } from '../store/settings.ts';

/**
 * A truck brings what a slip announced: all of it, or half and the rest some days later; now and then too little. Without
 * a slip it brings what nobody announced.
 */
export function unload(life: Life, atMs: number, slipId: number | null, isLast: boolean): void {
  const { store, random } = life;
  const slip = slipId === null ? null : (store.slips.get(slipId) ?? null);
  const lines = slip === null ? surpriseLines(life) : slipLines(life, slip, isLast);
  const inbound: Inbound = {
    id: life.ids.next(),
    reference: slip?.reference ?? null,
    status: 'PROCESSING',
    receivedIn: slip?.expectedIn ?? random.pick(warehouseCodes),
    createdOnMs: atMs,
    checkingOnMs: null,
    completedOnMs: null,
    slipId: slip?.id ?? null,
    items: [],
  };
  store.listedInbounds.add(inbound);
  if (slip !== null) {
    store.listedSlips.change(slip, () => {
      advance(slip, 'IN_PROGRESS');
      slip.receivedOnMs ??= atMs;
      slip.inboundId = inbound.id;
    });
  }
  const inboundId = inbound.id;
  life.plan(atMs + random.between(1, 4) * hourMs, { kind: 'check-inbound', inboundId });
  const parts = Math.min(lines.length, random.between(1, 3));
  for (let part = 0; part < parts; part++) {
    const share = lines.filter((_, index) => index % parts === part);
    life.plan(atMs + (5 + part * 2) * hourMs, { kind: 'count-inbound', inboundId, lines: share });
  }
  life.plan(atMs + (12 + random.between(0, 8)) * hourMs, { kind: 'complete-inbound', inboundId, isLast });
  if (slip !== null && !isLast)
    life.plan(atMs + random.between(30, 96) * hourMs, { kind: 'truck', slipId: slip.id, isLast: true });
}

/** Somebody begins to count. */
export function checkInbound(life: Life, atMs: number, inboundId: number): void {
  change(life, inboundId, (inbound, slip) => {
    inbound.status = 'CHECKING';
    inbound.checkingOnMs = atMs;
    if (slip !== null) advance(slip, 'CHECKING');
  });
}

/** Some lines are counted: the inbound has items for them, and the slip says how much was received. */
export function countInbound(life: Life, atMs: number, inboundId: number, lines: readonly Line[]): void {
  const { store, random } = life;
  const inbound = store.inbounds.get(inboundId);
  if (inbound === undefined) return;
  const items = lines.map(({ sku, quantity, slipItemId }) => {
    const product = store.products.get(sku);
    const hasLot = product?.keeping === 'lots';
    return {
      id: life.ids.next(),
      sku,
      quantity,
      lotNumber: hasLot ? `LOT${random.between(100, 999)}` : null,
      expirationDate: hasLot ? store.zone.day(atMs + random.between(365, 1_095) * dayMs) : null,
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

/** All is counted and on the shelf. A slip is complete with the last truck. */
export function completeInbound(life: Life, atMs: number, inboundId: number, isLast: boolean): void {
  const inbound = life.store.inbounds.get(inboundId);
  if (inbound === undefined) return;
  if (inbound.status !== 'CHECKED') {
    change(life, inboundId, (own) => {
      own.status = 'CHECKED';
    });
    life.plan(atMs + life.random.between(1, 6) * hourMs, { kind: 'complete-inbound', inboundId, isLast });
    return;
  }
  change(life, inboundId, (own, slip) => {
    own.status = 'COMPLETED';
    own.completedOnMs = atMs;
    if (slip === null || !isLast) return;
    advance(slip, 'COMPLETED');
    slip.completedOnMs = atMs;
    for (const { sku } of slip.items) life.onTheWay.delete(sku);
  });
  for (const { sku, quantity } of inbound.items) {
    const stock = life.store.products.get(sku)?.stock;
    if (stock !== undefined) stock[inbound.receivedIn] = (stock[inbound.receivedIn] ?? 0) + quantity;
  }
  life.wakeWaiting(atMs);
}

/** States of a slip only move forward, also where a second truck comes. */
function advance(slip: Slip, status: SlipStatus): void {
  if (slipStatuses.indexOf(status) > slipStatuses.indexOf(slip.status)) slip.status = status;
}

/** Changes an inbound and the slip it belongs to, and keeps both lists true. */
function change({ store }: Life, inboundId: number, apply: (inbound: Inbound, slip: Slip | null) => void): void {
  const inbound = store.inbounds.get(inboundId);
  if (inbound === undefined) return;
  const slip = inbound.slipId === null ? null : (store.slips.get(inbound.slipId) ?? null);
  const both = () => store.listedInbounds.change(inbound, () => apply(inbound, slip));
  if (slip === null) both();
  else store.listedSlips.change(slip, both);
}

function slipLines({ random }: Life, slip: Slip, isLast: boolean): Line[] {
  return slip.items.flatMap(({ id, sku, quantity, received }) => {
    const rest = quantity - received;
    const short = random.chance(0.05) ? 1 : 0;
    const brought = isLast ? Math.max(0, rest - short) : Math.floor(rest / 2);
    return brought > 0 ? [{ sku, slipItemId: id, quantity: brought }] : [];
  });
}

function surpriseLines({ random }: Life): Line[] {
  return [{ sku: random.pick(soldSkus), slipItemId: null, quantity: random.between(5, 40) }];
}

/** Every few days something comes that nobody announced. */
export function planSurprise(life: Life, atMs: number): void {
  life.plan(atMs + life.random.between(2 * 24, 5 * 24) * hourMs, { kind: 'truck', slipId: null, isLast: true });
}
