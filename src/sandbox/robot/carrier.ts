import { dayMs, hourMs } from '../../core/time.ts';
import type { Life } from '../store/life.ts';
import type { Shipment, Track } from '../store/model.ts';

/** Track-trace codes of the sandbox; the interface shows none (docs/sandbox.md lists them). */
const trackCodes = {
  handedOver: 10,
  sorted: 20,
  outForDelivery: 30,
  notAtHome: 35,
  atPickUpPoint: 40,
  delivered: 50,
  returnedToSender: 60,
} as const;
/** Delivered in the broad sense: no longer on the track-trace list (interface.md, v2 operations). */
const ends = new Set<number>([trackCodes.atPickUpPoint, trackCodes.delivered, trackCodes.returnedToSender]);
/** A carrier that says nothing more is followed no longer than this. */
const givenUpAfterMs = 30 * dayMs;

/** A carrier has taken the parcel: it is followed until it is delivered. */
export function follow(life: Life, shipment: Shipment, atMs: number): void {
  const { random } = life;
  const packages = random.chance(0.12) ? 2 : 1;
  const whenMs = life.store.zone.clear(atMs);
  shipment.tracks = Array.from({ length: packages }, (_, index) => ({
    packageNumber: random.chance(0.03) ? null : packageNumber(shipment, index),
    status: trackCodes.handedOver,
    statusOnMs: random.chance(0.05) ? null : whenMs,
    exceptionLevel: 0,
  }));
  life.store.inDelivery.add(shipment);
  for (let index = 0; index < packages; index++) planTrack(life, shipment.id, index, pathOf(life), atMs);
  life.plan(atMs + givenUpAfterMs, { kind: 'track', shipmentId: shipment.id, index: -1, path: [] });
}

export function packageNumber({ id }: Shipment, index: number): string {
  return `3S${String(id).padStart(9, '0')}${index + 1}`;
}

/** Whether a package is still in trackable delivery. */
export function isInDelivery({ status }: Track): boolean {
  return !ends.has(status);
}

/** The carrier tells of one package; sometimes what it tells is missing a part, or wrong. */
export function track(
  life: Life,
  atMs: number,
  shipmentId: number,
  index: number,
  [status, ...rest]: readonly number[],
): void {
  const shipment = life.store.shipments.get(shipmentId);
  if (shipment === undefined) return;
  const own = shipment.tracks[index];
  if (own !== undefined && status !== undefined) {
    const { random } = life;
    own.status = status;
    own.statusOnMs = random.chance(0.05) ? null : life.store.zone.clear(random.chance(0.03) ? atMs - 2 * dayMs : atMs);
    own.exceptionLevel = status === trackCodes.notAtHome ? 1 : random.chance(0.04) ? null : 0;
    planTrack(life, shipmentId, index, rest, atMs);
  }
  if (own === undefined || !shipment.tracks.some(isInDelivery)) life.store.inDelivery.delete(shipmentId);
}

function planTrack(life: Life, shipmentId: number, index: number, path: readonly number[], fromMs: number): void {
  if (path.length === 0) return;
  life.plan(fromMs + life.random.between(2, 14) * hourMs, { kind: 'track', shipmentId, index, path });
}

function pathOf({ random }: Life): number[] {
  const { sorted, outForDelivery, notAtHome, atPickUpPoint, delivered, returnedToSender } = trackCodes;
  const start = [sorted, outForDelivery];
  // Lost: nobody hears of it again.
  if (random.chance(0.01)) return start;
  // Out of order: a later scan is told before an earlier one.
  if (random.chance(0.03)) return [outForDelivery, sorted, delivered];
  if (random.chance(0.08)) return [...start, notAtHome, random.chance(0.5) ? atPickUpPoint : delivered];
  if (random.chance(0.02)) return [...start, notAtHome, notAtHome, returnedToSender];
  return [...start, delivered];
}
