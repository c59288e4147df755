import { dayMs, hourMs } from '../../core/time.ts';
import type { Shipment, Track } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';

/** Track-trace codes of the sandbox. docs/interface.md shows none; docs/sandbox.md lists these. */
const trackCodes = {
  handedOver: 10,
  sorted: 20,
  outForDelivery: 30,
  notAtHome: 35,
  atPickUpPoint: 40,
  delivered: 50,
  returnedToSender: 60,
} as const;
/**
 * Codes that end the delivery. The track-trace list no longer shows the package (docs/interface.md, 15.5 Track-trace
 * item).
 */
const finalCodes = new Set<number>([trackCodes.atPickUpPoint, trackCodes.delivered, trackCodes.returnedToSender]);
/** A shipment is tracked for this long at most, because some packages get no final code. */
const maxTrackingMs = 30 * dayMs;

/** Hands a shipment over to a carrier and plans the reports about its packages. */
export function startTracking(simulation: Simulation, shipment: Shipment, atMs: number): void {
  const { random } = simulation;
  const packages = random.chance(0.12) ? 2 : 1;
  const whenMs = simulation.store.zone.skipRepeatedHour(atMs);
  shipment.tracks = Array.from({ length: packages }, (_, index) => ({
    packageNumber: random.chance(0.03) ? null : toPackageNumber(shipment, index),
    status: trackCodes.handedOver,
    statusOnMs: random.chance(0.05) ? null : whenMs,
    exceptionLevel: 0,
  }));
  simulation.store.inDelivery.add(shipment);
  for (let index = 0; index < packages; index++) planTrack(simulation, shipment.id, index, drawPath(simulation), atMs);
  simulation.plan(atMs + maxTrackingMs, { kind: 'track', shipmentId: shipment.id, index: -1, path: [] });
}

/** Returns the number of a package. Packages of a shipment count from 0. */
export function toPackageNumber({ id }: Shipment, index: number): string {
  return `3S${String(id).padStart(9, '0')}${index + 1}`;
}

/** Returns whether a package is still on its way. */
export function isInDelivery({ status }: Track): boolean {
  return !finalCodes.has(status);
}

/**
 * Records the next code of a package and plans the one after it. A report may lack its time or its exception level, or
 * have a wrong time. When no package is on its way any more, the shipment leaves the track-trace list.
 * @param index the package; -1 ends the tracking of the whole shipment
 */
export function updateTrack(
  simulation: Simulation,
  atMs: number,
  shipmentId: number,
  index: number,
  [status, ...rest]: readonly number[],
): void {
  const shipment = simulation.store.shipments.get(shipmentId);
  if (shipment === undefined) return;
  const track = shipment.tracks[index];
  if (track !== undefined && status !== undefined) {
    const { random } = simulation;
    track.status = status;
    track.statusOnMs = random.chance(0.05)
      ? null
      : simulation.store.zone.skipRepeatedHour(random.chance(0.03) ? atMs - 2 * dayMs : atMs);
    track.exceptionLevel = status === trackCodes.notAtHome ? 1 : random.chance(0.04) ? null : 0;
    planTrack(simulation, shipmentId, index, rest, atMs);
  }
  if (track === undefined || !shipment.tracks.some(isInDelivery)) simulation.store.inDelivery.delete(shipmentId);
}

function planTrack(
  simulation: Simulation,
  shipmentId: number,
  index: number,
  path: readonly number[],
  fromMs: number,
): void {
  if (path.length === 0) return;
  simulation.plan(fromMs + simulation.random.between(2, 14) * hourMs, { kind: 'track', shipmentId, index, path });
}

/** Draws the codes that the carrier will report for a package. */
function drawPath({ random }: Simulation): number[] {
  const { sorted, outForDelivery, notAtHome, atPickUpPoint, delivered, returnedToSender } = trackCodes;
  const start = [sorted, outForDelivery];
  // The package is lost: no further reports.
  if (random.chance(0.01)) return start;
  // The scans are reported in the wrong order.
  if (random.chance(0.03)) return [outForDelivery, sorted, delivered];
  if (random.chance(0.08)) return [...start, notAtHome, random.chance(0.5) ? atPickUpPoint : delivered];
  if (random.chance(0.02)) return [...start, notAtHome, notAtHome, returnedToSender];
  return [...start, delivered];
}
