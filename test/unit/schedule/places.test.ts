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

describe('a place is wanted', () => {
  const full = (client: (index: number) => string) => {
    const places = new Places(8, 20);
    fill(
      places,
      Array.from({ length: 8 }, (_, index) => run(client(index))),
    );
    return places;
  };

  test('from every client if a due run finds none free', () => {
    const places = full((index) => `c${index}`);
    expect(places.isWantedFrom('c1')).toBe(false);
    places.choose([run('late')], jobs);
    expect(places.isWantedFrom('c1')).toBe(true);
  });

  test('only from its own client if a due run is over the limit of that client', () => {
    const places = new Places(8, 20);
    fill(places, [run('a', 'x'), run('a', 'y'), run('b'), run('a', 'z')]);
    expect(places.isWantedFrom('a')).toBe(true);
    expect(places.isWantedFrom('b')).toBe(false);
  });

  test('by a long run, if other long runs have their half', () => {
    const places = new Places(8, 20);
    fill(places, [...['a', 'b', 'c', 'd', 'e'].map((client) => run(client, 'x', true)), run('f')]);
    expect(places.isWantedFrom('a')).toBe(true);
  });

  test('no longer when the run that waited is no longer due', () => {
    const places = full((index) => `c${index}`);
    places.choose([run('late', 'x'), run('late', 'y')], jobs);
    places.choose([], ['x']);
    expect(places.areWanted).toBe(true);
    places.choose([], ['y']);
    expect(places.areWanted).toBe(false);
  });
});
