import type { EventType } from '../../../config/events.ts';
import { dayMs, minuteMs } from '../../core/time.ts';
import type { NewDelivery } from '../sql/delivery-lanes.ts';

/** A change of the feed that may be an event. */
export interface EventFact {
  readonly type: EventType;
  readonly client: string;
  /** True if a worker has had the client. */
  readonly isKnownClient: boolean;
  /** Table and key of what changed; empty if the number of its order is known. */
  readonly source: string;
  readonly sourceId: number | null;
  readonly sourceKey: string | null;
  readonly number: string | null;
  readonly orderId: number | null;
  readonly changedAt: Date;
  /** When it happened by the service; null if it does not say. */
  readonly happenedAt: Date | null;
  /** Newest date of the stream by the service; null if it has none. */
  readonly newestAt: Date | null;
  /** True if a reconciliation, backfill, refetch or replay found it. */
  readonly isRescan: boolean;
  /** True if the row was not stored before. */
  readonly isCreated: boolean;
  /**
   * shipment.shipped: true if packages are stored. shipment.tracking_changed: true if it is SHIPPED
   * for a while, and news.
   */
  readonly hasParcels: boolean;
}

/** A receiver of events. */
export interface EventReceiver {
  readonly name: string;
  readonly types: readonly string[] | null;
  readonly clients: readonly string[] | null;
  readonly startedAt: Date;
  /** True if it has been away for 7 days: no events are made for it. */
  readonly isGone: boolean;
}

/** Deliveries about a source that a receiver has already. */
export interface StoredDelivery {
  readonly receiver: string;
  readonly client: string;
  readonly type: string;
  readonly sourceId: number;
  /** True if one of them was tried. */
  readonly tried: boolean;
  /** True if one of them waits and was never tried. */
  readonly untried: boolean;
}

/** The lane in which the newest delivery about an order number waits. */
export interface NumberLane {
  readonly receiver: string;
  readonly client: string;
  readonly number: string;
  readonly lane: string;
}

/** Time that shipment.shipped waits for the packages of its shipment. */
export const parcelWaitMs = 2 * minuteMs;
/** What a reconciliation, backfill, refetch or replay finds is old if it happened longer ago. */
export const rescanHorizonMs = 3 * dayMs;
/**
 * What a poll reads for the first time is old if it happened this long before the newest date of
 * its stream.
 */
const pollHorizonMs = 30 * dayMs;

/**
 * Returns true if a fact is too old to be an event. A poll that reads a change late makes an event
 * of it: only what is read for the first time may be old, for example a resource that waited in
 * quarantine.
 */
export function isOldFact(fact: EventFact, startedAt: Date): boolean {
  const { changedAt, happenedAt, newestAt, isRescan, isCreated } = fact;
  if (changedAt < startedAt) return true;

  if (isRescan) {
    const earliestMs = Math.max(startedAt.getTime(), changedAt.getTime() - rescanHorizonMs);
    return happenedAt === null || happenedAt.getTime() < earliestMs;
  }

  if (!isCreated || happenedAt === null || newestAt === null) return false;
  return happenedAt.getTime() > 0 && happenedAt.getTime() < newestAt.getTime() - pollHorizonMs;
}

const isWanted = ({ type, client }: EventFact, { types, clients }: EventReceiver) =>
  (types === null || types.includes(type)) && (clients === null || clients.includes(client));

/** Events that one source has at most once. */
const onceOnly: ReadonlySet<EventType> = new Set(['order.accepted', 'return.processed']);

/** Events that depend on what was planned for their source before, and what they depend on. */
export const storedTypes: readonly EventType[] = [
  ...onceOnly,
  'shipment.shipped',
  'shipment.tracking_changed',
];

/**
 * Returns true if the receiver gets the event besides those that it has. A change of tracking is
 * told only after shipment.shipped: what is posted first has the packages of that moment.
 */
function isNews(
  fact: EventFact,
  receiver: EventReceiver,
  stored: (type: EventType) => StoredDelivery | undefined,
) {
  if (onceOnly.has(fact.type)) return stored(fact.type) === undefined;
  if (fact.type !== 'shipment.tracking_changed') return true;

  if (stored('shipment.tracking_changed')?.untried) return false;
  const getsShipped = receiver.types === null || receiver.types.includes('shipment.shipped');
  return getsShipped ? stored('shipment.shipped')?.tried === true : fact.hasParcels;
}

/** Events whose number is not that of an order. */
const otherNumbers: ReadonlySet<EventType> = new Set(['inbound.completed', 'stock.changed']);

/** Returns the number of the order of a fact; null if it is of none, or its number is not known. */
export const toOrderNumber = ({ type, number }: Pick<EventFact, 'type' | 'number'>) =>
  otherNumbers.has(type) ? null : number;

/**
 * Returns the lane of a fact: that of its order, which is known by its number only until it is
 * stored.
 */
function toLane({ client, orderId, number, source }: EventFact): string {
  if (orderId !== null) return `${client} order ${orderId}`;
  return source === '' ? `${client} number ${number}` : `${client} ${source}`;
}

const toKey = (receiver: string, client: string, ...parts: readonly (string | number | null)[]) =>
  JSON.stringify([receiver, client, ...parts]);

/** What the receivers have already. */
interface ReceivedEvents {
  readonly stored: readonly StoredDelivery[];
  readonly lanes: readonly NumberLane[];
}

/** Plans the deliveries of facts, in the order of the feed. */
export function planEvents(
  facts: readonly EventFact[],
  receivers: readonly EventReceiver[],
  { stored, lanes }: ReceivedEvents,
): NewDelivery[] {
  const known = new Map(
    stored.map((one) => [toKey(one.receiver, one.client, one.type, one.sourceId), one]),
  );
  // Events of one number stay in one lane while any of them waits, whichever order has the number.
  const numberLanes = new Map(
    lanes.map(({ receiver, client, number, lane }) => [toKey(receiver, client, number), lane]),
  );
  const planned: NewDelivery[] = [];

  for (const fact of facts)
    for (const receiver of receivers.filter((one) => !one.isGone && isWanted(fact, one))) {
      const { name } = receiver;
      const { type, client, sourceId } = fact;
      const findStored = (of: EventType) => known.get(toKey(name, client, of, sourceId));
      if (isOldFact(fact, receiver.startedAt) || !isNews(fact, receiver, findStored)) continue;

      const number = toOrderNumber(fact);
      const waiting = number === null ? undefined : numberLanes.get(toKey(name, client, number));
      const lane = waiting ?? toLane(fact);
      planned.push(toDelivery(fact, name, lane));

      // Later facts see this delivery as one that waits.
      if (number !== null) numberLanes.set(toKey(name, client, number), lane);
      if (sourceId !== null) {
        const tried = findStored(type)?.tried ?? false;
        const added = { receiver: name, client, type, sourceId, tried, untried: true };
        known.set(toKey(name, client, type, sourceId), added);
      }
    }

  return planned;
}

function toDelivery(fact: EventFact, receiver: string, lane: string): NewDelivery {
  const { type, client, isKnownClient, sourceId, sourceKey, number, changedAt, hasParcels } = fact;
  return {
    receiver,
    lane,
    type,
    client,
    turn: isKnownClient ? client : '',
    sourceId,
    sourceKey,
    number,
    happenedAt: changedAt,
    delayMs: type === 'shipment.shipped' && !hasParcels ? parcelWaitMs : 0,
  };
}
