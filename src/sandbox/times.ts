import { Temporal } from 'temporal-polyfill';
import { dayMs, hourMs } from '../core/time.ts';

const maxOffsets = 100_000;

/**
 * The clock on the wall of a client's warehouses. Offsets are kept by the hour, as a page of shipments writes some
 * hundreds of times.
 */
export class Zone {
  readonly name: string;
  readonly #offsets = new Map<number, number>();
  #lastDay = { number: Number.NaN, text: '' };

  constructor(name: string) {
    this.name = name;
  }

  /** Number of the calendar day here (days since 1970-01-01). */
  dayNumber(ms: number): number {
    return Math.floor((ms + this.#offsetAt(ms)) / dayMs);
  }

  /** The calendar day here, YYYY-MM-DD. Rows of one day share the text. */
  day(ms: number): string {
    const number = this.dayNumber(ms);
    if (number !== this.#lastDay.number) this.#lastDay = { number, text: dayText(number) };
    return this.#lastDay.text;
  }

  /** The moment at which a local day reaches an hour. */
  atHour(day: string, hour: number): number {
    return Temporal.PlainDate.from(day)
      .toPlainDateTime({ hour })
      .toZonedDateTime(this.name, { disambiguation: 'compatible' }).epochMilliseconds;
  }

  /**
   * The moment at which something is recorded. Hours about the one that a zone has twice are avoided: a time without a
   * zone could not say which of the two it is in.
   */
  clear(ms: number): number {
    let moment = ms;
    while (this.#isDoubled(moment)) moment = (Math.floor(moment / hourMs) + 1) * hourMs;
    return moment;
  }

  /**
   * As the service writes shipment times: seven digits of a second and no zone (interface.md, Conventions).
   * @param fraction the four digits below the millisecond, see `fractionOf`
   */
  writeLocal(ms: number | null, fraction: string): string | null {
    if (ms === null) return null;
    return `${new Date(ms + this.#offsetAt(ms)).toISOString().slice(0, -1)}${fraction}`;
  }

  #isDoubled(ms: number): boolean {
    const own = this.#offsetAt(ms);
    return this.#offsetAt(ms - hourMs) > own || own > this.#offsetAt(ms + hourMs);
  }

  #offsetAt(ms: number): number {
    const hour = Math.floor(ms / hourMs);
    const known = this.#offsets.get(hour);
    if (known !== undefined) return known;
    const zoned = Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(this.name);
    const offset = zoned.offsetNanoseconds / 1_000_000;
    if (this.#offsets.size >= maxOffsets) this.#offsets.clear();
    this.#offsets.set(hour, offset);
    return offset;
  }
}

/** Four digits below the millisecond, the same for the same resource and member. */
export function fractionOf(id: number, member: number): string {
  return String((id * 7_919 + member) % 10_000).padStart(4, '0');
}

/** The instant itself, to the microsecond: what a reader of the local time must arrive at. */
export function writeInstant(ms: number | null, fraction: string): string | null {
  return ms === null ? null : new Date(ms).toISOString().replace('Z', `${fraction.slice(0, 3)}Z`);
}

/** As the service writes inbound times: in Z (interface.md, Conventions). */
export function writeZulu(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** The calendar day of a number, YYYY-MM-DD. */
function dayText(dayNumber: number): string {
  return new Date(dayNumber * dayMs).toISOString().slice(0, 10);
}

/** The number of a calendar day YYYY-MM-DD. */
export function dayNumberOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / dayMs;
}
