import { describe, expect, test } from 'vitest';
import {
  type ClaimableKind,
  chooseRows,
  type DueRow,
  type Gate,
  type GateFacts,
  judgeGate,
  judgeRow,
  largeBytes,
} from '../../../src/push/judge-row.ts';

const nowMs = 1_000_000;
const lingerMs = 60_000;
const minute = 60_000;

const makeRow = (row: Partial<DueRow> = {}): DueRow => ({
  id: 1,
  kind: 'order.create',
  payloadBytes: 10,
  dueAt: '2026-01-01',
  notBeforeMs: null,
  replacedAtMs: null,
  writtenAtMs: null,
  absences: 0,
  hasFailed: false,
  isBlocked: false,
  lingeringSinceMs: null,
  waitsFor: null,
  hasWaited: false,
  ...row,
});

/** Judges a row; by default one that nothing keeps from being sent, of a kind that lingers. */
const judge = (row: Partial<DueRow>, lingers = true) =>
  judgeRow(makeRow(row), lingers, { nowMs, lingerMs });

const until = (untilMs: number, waitsFor: number | null = null) => ({ untilMs, waitsFor });

describe('a due row', () => {
  const replaced = { writtenAtMs: nowMs - 10_000, replacedAtMs: nowMs - 1 };

  test.each<[string, Partial<DueRow>]>([
    ['nothing else comes first', {}],
    ['its not_before has come', { notBeforeMs: nowMs }],
    ['the row of another kind that it waited for is done', { hasWaited: true }],
    ['its payload was not replaced since its last attempt', { writtenAtMs: nowMs - 10_000 }],
    [
      'its payload was replaced before its last attempt',
      { writtenAtMs: nowMs - 10_000, replacedAtMs: nowMs - 20_000 },
    ],
    ['its new payload is the first that is sent', { replacedAtMs: nowMs - 1 }],
    ['an earlier attempt in its lane has lost its effect', { lingeringSinceMs: nowMs - lingerMs }],
  ])('is sent now if %s', (_why, row) => {
    expect(judge(row)).toBeNull();
  });

  test('with a new payload is sent now if its kind does not linger', () => {
    expect(judge(replaced, false)).toBeNull();
  });

  const inAnHour = nowMs + 60 * minute;
  test.each<[string, Partial<DueRow>, ReturnType<typeof until>]>([
    ['until its not_before', { notBeforeMs: nowMs + 1 }, until(nowMs + 1)],
    ['ten minutes for its lane', { isBlocked: true }, until(nowMs + 10 * minute)],
    [
      'until its not_before although its lane is blocked',
      { notBeforeMs: inAnHour, isBlocked: true },
      until(inAnHour),
    ],
    ['20 seconds for a row of another kind', { waitsFor: 7 }, until(nowMs + 20_000, 7)],
    ['two minutes the next time', { waitsFor: 7, hasWaited: true }, until(nowMs + 2 * minute, 7)],
    [
      'for its lane before it waits for a row of another kind',
      { isBlocked: true, waitsFor: 7 },
      until(nowMs + 10 * minute),
    ],
    [
      'until an attempt with the former payload has lost its effect',
      replaced,
      until(nowMs + 50_000),
    ],
    [
      'until an attempt of an earlier row has lost its effect',
      { lingeringSinceMs: nowMs - 59_999 },
      until(nowMs + 1),
    ],
  ])('waits %s', (_how, row, expected) => {
    expect(judge(row)).toEqual(expected);
  });
});

const makeKind = (name: string, kind: Partial<ClaimableKind> = {}): ClaimableKind => ({
  name,
  lingers: false,
  room: null,
  isWindowed: false,
  ...kind,
});

type Health = GateFacts['health'][number];
const makeHealth = (health: Partial<Health>): Health => ({
  scope: 'client',
  worker: '*',
  sendWindow: null,
  untilInMs: 0,
  ...health,
});

/** Judges the gate for the kinds a and b. */
const judgeHealth = (
  health: readonly Partial<Health>[],
  { sending = {}, held = 0 }: { sending?: Record<string, number>; held?: number } = {},
) => {
  const kinds = ['a', 'b'].map((name) => ({ name, lingers: false }));
  const gate = judgeGate({ kinds, health: health.map(makeHealth), sending }, held);
  return gate && { room: gate.room, kinds: [...gate.kinds.values()] };
};

describe('the gate of a claim', () => {
  test('opens all kinds if nothing is held', () => {
    expect(judgeHealth([])).toEqual({ room: null, kinds: [makeKind('a'), makeKind('b')] });
  });

  test('is closed if no kind is known', () => {
    expect(judgeGate({ kinds: [], health: [], sending: null }, 0)).toBeNull();
  });

  test.each([
    ['until a time', { untilInMs: 1 }],
    ['until a question is answered', { sendWindow: 0 }],
    ['for this worker only', { worker: 'w', untilInMs: 1 }],
  ])('is closed while the client is held %s', (_how, health) => {
    expect(judgeHealth([health])).toBeNull();
  });

  test('opens the other kinds while one is held', () => {
    expect(judgeHealth([{ scope: 'a', untilInMs: 1 }])?.kinds).toEqual([makeKind('b')]);
    const both = [
      { scope: 'a', sendWindow: 0 },
      { scope: 'b', untilInMs: 1 },
    ];
    expect(judgeHealth(both)).toBeNull();
  });

  test('leaves the room of a window of all workers: less what all of them send', () => {
    const gate = judgeHealth([{ sendWindow: 5 }], { sending: { a: 1, other: 2 }, held: 4 });
    expect(gate).toEqual({
      room: 2,
      kinds: [makeKind('a', { isWindowed: true }), makeKind('b', { isWindowed: true })],
    });
  });

  test('leaves the room of a window of this worker: less what it holds itself', () => {
    const gate = judgeHealth([{ worker: 'w', sendWindow: 5 }], { sending: { a: 3 }, held: 1 });
    expect(gate?.room).toBe(4);
  });

  test('leaves the smaller of both', () => {
    const health = [{ sendWindow: 5 }, { worker: 'w', sendWindow: 2 }];
    expect(judgeHealth(health, { sending: { a: 4 }, held: 0 })?.room).toBe(1);
    expect(judgeHealth(health, { sending: { a: 1 }, held: 1 })?.room).toBe(1);
  });

  test('is closed if the windows of the client are full', () => {
    expect(judgeHealth([{ sendWindow: 2 }], { sending: { other: 2 } })).toBeNull();
  });

  test('leaves the room of the window of a kind, and closes the kind if it is full', () => {
    const health = [
      { scope: 'a', sendWindow: 3 },
      { scope: 'b', sendWindow: 1 },
    ];
    const gate = judgeHealth(health, { sending: { a: 1, b: 1 } });
    expect(gate).toEqual({ room: null, kinds: [makeKind('a', { room: 2, isWindowed: true })] });
  });
});

/** Chooses rows of the kinds a, and of w and v that have windows; returns their ids. */
const choose = (
  rows: readonly (Partial<DueRow> & { id: number })[],
  { maxRows = 100, maxBytes = 1_000, room = null as number | null, ofKind = 2 } = {},
) => {
  const kinds = [
    makeKind('a'),
    makeKind('w', { room: ofKind, isWindowed: true }),
    makeKind('v', { isWindowed: true }),
  ];
  const gate: Gate = { room, kinds: new Map(kinds.map((kind) => [kind.name, kind])) };
  const ready = rows.map((row) => makeRow({ kind: 'a', ...row }));
  return chooseRows(ready, gate, { maxRows, maxBytes }).map(({ id }) => id);
};

describe('of the rows that may be sent, a claim takes', () => {
  test('those that are due longest, as many as it wants', () => {
    const rows = [{ id: 3 }, { id: 1, hasFailed: true }, { id: 2 }];
    expect(choose(rows)).toEqual([3, 1, 2]);
    expect(choose(rows, { maxRows: 2 })).toEqual([3, 1]);
  });

  test('no more than the window of the client leaves', () => {
    expect(choose([{ id: 1 }, { id: 2 }, { id: 3 }], { room: 2 })).toEqual([1, 2]);
    expect(choose([{ id: 1 }, { id: 2 }, { id: 3 }], { room: 2, maxRows: 1 })).toEqual([1]);
  });

  test('of each kind no more than its window leaves', () => {
    const rows = [1, 2, 3].map((id) => ({ id, kind: 'w' }));
    expect(choose([...rows, { id: 4, kind: 'v' }, { id: 5 }])).toEqual([1, 2, 4, 5]);
  });

  test('those of kinds with a window first', () => {
    const rows = [{ id: 1 }, { id: 2 }, { id: 3, kind: 'w' }];
    expect(choose(rows, { maxRows: 2 })).toEqual([3, 1]);
  });

  test('within a window those that never failed first', () => {
    const rows = [
      { id: 1, kind: 'w', hasFailed: true },
      { id: 2, kind: 'w', hasFailed: true },
      { id: 3, kind: 'w' },
    ];
    expect(choose(rows)).toEqual([3, 1]);
  });

  test('as many bytes as it wants, and no later row instead of one that does not fit', () => {
    const rows = [
      { id: 1, payloadBytes: 600 },
      { id: 2, payloadBytes: 600 },
      { id: 3, payloadBytes: 10 },
    ];
    expect(choose(rows)).toEqual([1]);
    expect(choose(rows, { maxBytes: 1_210 })).toEqual([1, 2, 3]);
  });

  test('one large row, whose bytes do not count', () => {
    const large = largeBytes + 1;
    const rows = [
      { id: 1, payloadBytes: large },
      { id: 2, payloadBytes: 900 },
      { id: 3, payloadBytes: large },
      { id: 4, payloadBytes: 100 },
    ];
    expect(choose(rows)).toEqual([1, 2, 4]);
  });

  test('a row of exactly the limit as one that is not large', () => {
    expect(choose([{ id: 1, payloadBytes: largeBytes }])).toEqual([]);
  });
});
