import { describe, expect, test } from 'vitest';
import { type DueRun, Places } from '../../../src/schedule/places.ts';

const jobs = ['x', 'y', 'z'];
const run = (client: string, job = 'x', isLong = false): DueRun => ({ client, job, isLong });
const fill = (places: Places, due: readonly DueRun[]) => {
  const chosen = places.choose(due, jobs);
  for (const one of chosen) places.take(one);
  return chosen;
};

test('one of several clients gets a quarter of the places', () => {
  const places = new Places(8, 3);
  const [first, second, third, other] = [run('a', 'x'), run('a', 'y'), run('a', 'z'), run('b')];
  expect(fill(places, [first, second, third, other])).toEqual([first, second, other]);
  expect(places.areWanted).toBe(true);
  places.free(first);
  expect(fill(places, [third])).toEqual([third]);
  expect(places.areWanted).toBe(false);
});

test('a single client may use all places, also for long runs; each of many may use one', () => {
  const due = Array.from({ length: 9 }, (_, index) => run('a', `${index}`, true));
  expect(new Places(8, 1).choose(due, jobs)).toHaveLength(8);
  expect(new Places(2, 5).choose([run('a')], jobs)).toHaveLength(1);
});

test('long runs get half of the places; the first ones of the others get the rest', () => {
  const places = new Places(8, 20);
  const long = ['a', 'b', 'c', 'd', 'e'].map((client) => run(client, 'x', true));
  const short = ['f', 'g', 'h', 'i', 'j'].map((client) => run(client));
  expect(fill(places, [...long, ...short])).toEqual([...long.slice(0, 4), ...short.slice(0, 4)]);
});

test('before any other run was due, long runs get all places', () => {
  const long = Array.from({ length: 9 }, (_, index) => run(`c${index}`, 'x', true));
  expect(new Places(8, 20).choose(long, jobs)).toHaveLength(8);
});

test('clients whose runs have become slow leave half of the places to eight others', () => {
  let nowMs = 0;
  const places = new Places(8, 12, () => nowMs);
  fill(
    places,
    ['a', 'b', 'c', 'd'].map((client) => run(client, 'x')),
  );
  nowMs = 5_001;
  const more = ['a', 'b', 'c', 'd'].map((client) => run(client, 'y'));
  const others = Array.from({ length: 8 }, (_, index) => run(`other-${index}`));
  expect(fill(places, [...more, ...others])).toEqual(others.slice(0, 4));
});

describe('a turn of 30 s is over', () => {
  let nowMs = 0;
  const open = (taken: readonly DueRun[]) => {
    nowMs = 0;
    const places = new Places(8, 20, () => nowMs);
    fill(places, taken);
    nowMs = 30_001;
    return places;
  };
  const eight = Array.from({ length: 8 }, (_, index) => run(`c${index}`));
  const [first] = eight as [DueRun];

  test('for every client if a due run finds no place, and not before 30 s', () => {
    const places = open(eight);
    expect(places.isTurnOver(first)).toBe(false);
    places.choose([run('late')], jobs);
    expect(places.isTurnOver(first)).toBe(true);
    nowMs = 30_000;
    expect(places.isTurnOver(first)).toBe(false);
  });

  test('only for its own client if a due run is over the limit of that client', () => {
    const [own, other] = [run('a', 'x'), run('b')];
    const places = open([own, run('a', 'y'), other, run('a', 'z')]);
    expect(places.isTurnOver(own)).toBe(true);
    expect(places.isTurnOver(other)).toBe(false);
  });

  test('for a long run, if other long runs have their half', () => {
    const long = ['a', 'b', 'c', 'd', 'e'].map((client) => run(client, 'x', true));
    expect(open([...long, run('f')]).isTurnOver(long[0] as DueRun)).toBe(true);
  });

  test('no longer when the run that waited is no longer due', () => {
    const places = open(eight);
    places.choose([run('late', 'x'), run('late', 'y')], jobs);
    places.choose([], ['x']);
    expect(places.isTurnOver(first)).toBe(true);
    places.choose([], ['y']);
    expect(places.isTurnOver(first)).toBe(false);
    expect(places.areWanted).toBe(false);
  });
});
