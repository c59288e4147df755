/**
 * A generator of random numbers (mulberry32). The same seed gives the same numbers on every
 * machine.
 */
export class Random {
  /**
   * The position in the series. A generator that is created with it continues with the next number.
   */
  state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  /** Returns a number from 0 (included) to 1 (excluded). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = this.state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** Returns a whole number from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** Returns true with a probability of `share`. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  /** Returns one of the choices. */
  pick<T>(choices: readonly T[]): T {
    const choice = choices[Math.floor(this.next() * choices.length)];
    if (choice === undefined) throw new RangeError('There is nothing to choose from');
    return choice;
  }
}

/**
 * Returns the seed of one client, derived from the seed of the world. Clients thus do not influence
 * each other.
 */
export function deriveSeed(seed: number, name: string): number {
  let hash = seed >>> 0;
  for (const character of name)
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return hash;
}
