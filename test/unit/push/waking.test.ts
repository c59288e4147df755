import { describe, expect, test } from 'vitest';
import { awakeMs, Waking } from '../../../src/push/pusher.ts';

/** Notifies this often, and looks. */
function look(waking: Waking, notifications: number, busy: readonly string[], nowMs: number) {
  for (let count = 0; count < notifications; count++) waking.notify(nowMs);
  return waking.look(busy, busy.length > 0, nowMs);
}

describe('a pusher', () => {
  test('leaves it to notifications while they do not come close together', () => {
    const waking = new Waking();
    for (let nowMs = 0; nowMs < 1_000; nowMs += 5) expect(waking.notify(nowMs)).toBe(false);
    expect(waking.look(['a'], true, 1_000)).toEqual([]);
    expect(waking.isAwake(1_000)).toBe(false);
  });

  test('is awake once they do, for the clients with due rows', () => {
    const waking = new Waking();
    waking.notify(0);
    waking.notify(4);
    expect(waking.notify(9)).toBe(true);
    expect(waking.look(['a', 'b'], true, 10)).toEqual(['a', 'b']);
    expect(waking.isAwake(10 + awakeMs - 1)).toBe(true);
    expect(waking.isAwake(10 + awakeMs)).toBe(false);
  });

  test('does not wake for rows that others have taken', () => {
    expect(look(new Waking(), 10, [], 0)).toEqual([]);
  });

  test('renews its promise while half of its looks find due rows', () => {
    const waking = new Waking();
    look(waking, 3, ['a'], 0);
    for (let nowMs = 5; nowMs < 500; nowMs += 5) {
      const due = nowMs % 10 === 0 ? ['a'] : [];
      expect(look(waking, 0, due, nowMs)).toEqual([]);
    }
    expect(look(waking, 0, ['a'], 500)).toEqual(['a']);
    expect(waking.isAwake(500 + awakeMs - 1)).toBe(true);
  });

  test('falls asleep if fewer looks find due rows', () => {
    const waking = new Waking();
    look(waking, 3, ['a'], 0);
    for (let nowMs = 5; nowMs < awakeMs; nowMs += 5) {
      const due = nowMs % 15 === 0 ? ['a'] : [];
      expect(look(waking, 0, due, nowMs)).toEqual([]);
    }
    expect(waking.isAwake(awakeMs)).toBe(false);
  });
});
