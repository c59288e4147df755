import { describe, expect, test } from 'vitest';
import {
  type EventFact,
  type EventReceiver,
  isOldFact,
  planEvents,
  type StoredDelivery,
} from '../../../src/operate/deliveries/plan-events.ts';

const now = new Date('2026-05-04T12:00:00Z');
const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
const makeFact = (changes: Partial<EventFact> = {}): EventFact => ({
  ...{
    type: 'shipment.shipped',
    client: 'shop',
    isKnownClient: true,
    source: '',
    sourceId: 1,
    sourceKey: null,
  },
  ...{
    number: 'SO-1',
    orderId: 7,
    changedAt: now,
    happenedAt: now,
    newestAt: now,
    isRescan: false,
    isCreated: false,
  },
  hasParcels: true,
  ...changes,
});
const makeReceiver = (changes: Partial<EventReceiver> = {}): EventReceiver => ({
  ...{ name: 'all', types: null, clients: null, startedAt: daysAgo(100), isGone: false },
  ...changes,
});
const plan = (
  facts: readonly EventFact[],
  receivers = [makeReceiver()],
  stored: readonly StoredDelivery[] = [],
  lanes: Readonly<Record<string, string>> = {},
) =>
  planEvents(facts, receivers, {
    stored,
    lanes: Object.entries(lanes).map(([number, lane]) => {
      return { receiver: 'all', client: 'shop', number, lane };
    }),
  });

describe('a fact is old', () => {
  const began = daysAgo(100);

  test('if it changed before the receiver began', () => {
    expect(isOldFact(makeFact({ changedAt: daysAgo(101) }), began)).toBe(true);
  });

  test.each([
    [2.9, false],
    [3.1, true],
    [580, true],
    [25_000, true],
  ])('if a rescan found what happened %d days ago: %s', (days, isOld) => {
    expect(isOldFact(makeFact({ isRescan: true, happenedAt: daysAgo(days) }), began)).toBe(isOld);
  });

  test('if a rescan found what has no date, or happened before the receiver began', () => {
    expect(isOldFact(makeFact({ isRescan: true, happenedAt: null }), began)).toBe(true);
    expect(isOldFact(makeFact({ isRescan: true, happenedAt: daysAgo(1) }), daysAgo(0.5))).toBe(
      true,
    );
  });

  test('if a poll reads it first 30 days after it happened, not if it reads a late change', () => {
    expect(isOldFact(makeFact({ isCreated: true, happenedAt: daysAgo(31) }), began)).toBe(true);
    expect(isOldFact(makeFact({ isCreated: true, happenedAt: daysAgo(29) }), began)).toBe(false);
    expect(isOldFact(makeFact({ happenedAt: daysAgo(90) }), began)).toBe(false);
    expect(
      isOldFact(makeFact({ isCreated: true, happenedAt: new Date('0001-01-01') }), began),
    ).toBe(false);
  });
});

describe('events', () => {
  test('go to the receivers that want them; those of unknown clients share a turn', () => {
    const receivers = [
      makeReceiver({ name: 'orders', types: ['order.accepted'] }),
      makeReceiver({ name: 'other', clients: ['other'] }),
      makeReceiver({ name: 'gone', isGone: true }),
      makeReceiver(),
    ];
    const planned = plan(
      [makeFact(), makeFact({ client: 'nobody', isKnownClient: false })],
      receivers,
    );
    expect(planned.map(({ receiver, turn }) => [receiver, turn])).toEqual([
      ['all', 'shop'],
      ['all', ''],
    ]);
  });

  test('of a refused order go before those of the same number that is taken later', () => {
    const rejected = makeFact({ type: 'order.rejected', orderId: null });
    const accepted = makeFact({ type: 'order.accepted' });
    expect(plan([rejected, accepted, makeFact()]).map(({ lane }) => lane)).toEqual(
      Array(3).fill('shop number SO-1'),
    );
    expect(plan([accepted, makeFact({ number: null })]).map(({ lane }) => lane)).toEqual(
      Array(2).fill('shop order 7'),
    );
  });

  test('of one number keep their order, whichever order has it', () => {
    const accepted = makeFact({ type: 'order.accepted' });
    const rejected = makeFact({ type: 'order.rejected', orderId: null, sourceId: 2 });
    const replaced = makeFact({ type: 'order.accepted', orderId: 8, sourceId: 3 });
    const other = makeFact({ number: 'SO-2', orderId: 8 });
    expect(plan([accepted, rejected, replaced, other]).map(({ lane }) => lane)).toEqual([
      ...Array<string>(3).fill('shop order 7'),
      'shop order 8',
    ]);
    expect(plan([makeFact()], undefined, [], { 'SO-1': 'shop order 6' })[0]?.lane).toBe(
      'shop order 6',
    );
  });

  test('that belong to no order have a lane of their own', () => {
    const inbound = makeFact({ type: 'inbound.completed', source: 'inbounds 3', orderId: null });
    expect(plan([inbound])[0]?.lane).toBe('shop inbounds 3');
  });

  test('shipment.shipped waits for packages', () => {
    expect(plan([makeFact({ hasParcels: false })])[0]?.delayMs).toBe(120_000);
    expect(plan([makeFact()])[0]?.delayMs).toBe(0);
  });

  test.each(['return.processed', 'order.accepted'] as const)(
    '%s is made once for a source',
    (type) => {
      const fact = makeFact({ type });
      const ofSource = { receiver: 'all', client: 'shop', sourceId: 1 };
      const stored = { ...ofSource, type, tried: true, untried: false };
      expect(plan([fact, fact])).toHaveLength(1);
      expect(plan([fact], undefined, [stored])).toEqual([]);
    },
  );

  test('a change of tracking is told after shipment.shipped was posted, once until it is posted', () => {
    const fact = makeFact({ type: 'shipment.tracking_changed' });
    const ofShipment = { receiver: 'all', client: 'shop', sourceId: 1 };
    const shipped = { ...ofShipment, type: 'shipment.shipped', tried: true, untried: false };
    expect(plan([fact])).toEqual([]);
    expect(plan([fact], undefined, [{ ...shipped, tried: false, untried: true }])).toEqual([]);
    expect(plan([fact, fact], undefined, [shipped])).toHaveLength(1);
    const waits = { ...ofShipment, type: 'shipment.tracking_changed', tried: true, untried: true };
    expect(plan([fact], undefined, [shipped, waits])).toEqual([]);
    expect(plan([fact, fact], undefined, [shipped, { ...waits, untried: false }])).toHaveLength(1);
    const narrow = [makeReceiver({ types: ['shipment.tracking_changed'] })];
    expect(plan([fact], narrow)).toHaveLength(1);
    expect(
      plan([makeFact({ type: 'shipment.tracking_changed', hasParcels: false })], narrow),
    ).toEqual([]);
  });
});
