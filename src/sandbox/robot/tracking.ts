import { dayMs, hourMs } from '../../core/time.ts';
import type { Client, TaskOf } from '../store/client.ts';
import type { Shipment, Track } from '../store/model.ts';

/** Track-trace codes of the sandbox. docs/interface.md shows none; docs/sandbox.md lists these. */
const [handedOver, sorted, outForDelivery, notAtHome] = [10, 20, 30, 35] as const;
/** Codes that end the delivery: the track-trace list no longer shows the package. */
const [atPickUpPoint, delivered, returnedToSender] = [40, 50, 60] as const;
/** A shipment is tracked for this long at most, because some packages get no final code. */
const maxTrackingMs = 30 * dayMs;

/** Hands a shipment over to a carrier and plans the reports about its packages. */
export function startTracking(client: Client, shipment: Shipment, atMs: number): void {
  const { random } = client;
  const packages = random.chance(0.12) ? 2 : 1;
  const whenMs = client.zone.skipRepeatedHour(atMs);
  shipment.tracks = Array.from({ length: packages }, (_, index) => ({
    packageNumber: random.chance(0.03) ? null : toPackageNumber(shipment, index),
    status: handedOver,
    statusOnMs: random.chance(0.05) ? null : whenMs,
    exceptionLevel: 0,
  }));
  client.inDelivery.add(shipment);

  const task = { kind: 'track', shipmentId: shipment.id } as const;
  for (let index = 0; index < packages; index++)
    planTrack(client, { ...task, index, path: drawPath(client) }, atMs);
  client.plan(atMs + maxTrackingMs, { ...task, index: -1, path: [] });
}

/** Returns the number of a package. Packages of a shipment count from 0. */
const toPackageNumber = ({ id }: Shipment, index: number): string =>
  `3S${String(id).padStart(9, '0')}${index + 1}`;

/** Returns the numbers of the packages of a shipment. Returns none before it is SHIPPED. */
export function listPackageNumbers(shipment: Shipment): string[] {
  if (shipment.status !== 'SHIPPED') return [];
  const count = Math.max(1, shipment.tracks.length);
  return Array.from({ length: count }, (_, index) => toPackageNumber(shipment, index));
}

/**
 * Returns the address at which a customer follows a package. docs/interface.md does not show it.
 */
export const toTrackingUrl = (packageNumber: string): string =>
  `https://carrier.example/track/${packageNumber}`;

/** Returns whether a package is still on its way. */
export const isInDelivery = ({ status }: Track): boolean => status < atPickUpPoint;

/**
 * Records the next code of a package and plans the one after it. Index -1 ends the tracking of the
 * shipment.
 */
export function updateTrack(client: Client, atMs: number, task: TaskOf<'track'>): void {
  const { shipmentId, index } = task;
  const [status, ...path] = task.path;
  const shipment = client.shipments.get(shipmentId);
  const track = shipment?.tracks[index];
  if (track !== undefined && status !== undefined) {
    const { random, zone } = client;
    const isTimeLess = random.chance(0.05);
    const atScanMs = !isTimeLess && random.chance(0.03) ? atMs - 2 * dayMs : atMs;
    track.status = status;
    track.statusOnMs = isTimeLess ? null : zone.skipRepeatedHour(atScanMs);
    track.exceptionLevel = status === notAtHome ? 1 : drawLevel(client);
    planTrack(client, { ...task, path }, atMs);
  }

  if (track === undefined || !shipment?.tracks.some(isInDelivery))
    client.inDelivery.delete([shipmentId]);
}

const drawLevel = ({ random }: Client) => (random.chance(0.04) ? null : 0);

function planTrack(client: Client, task: TaskOf<'track'>, fromMs: number): void {
  if (task.path.length > 0) client.plan(fromMs + client.random.between(2, 14) * hourMs, task);
}

function drawPath({ random }: Client): number[] {
  const start = [sorted, outForDelivery];
  // The package is lost: no further reports.
  if (random.chance(0.01)) return start;
  // The scans are reported in the wrong order.
  if (random.chance(0.03)) return [outForDelivery, sorted, delivered];

  if (random.chance(0.08))
    return [...start, notAtHome, random.chance(0.5) ? atPickUpPoint : delivered];
  if (random.chance(0.02)) return [...start, notAtHome, notAtHome, returnedToSender];
  return [...start, delivered];
}
