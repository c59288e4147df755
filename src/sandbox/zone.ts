import { Temporal } from 'temporal-polyfill';
import { dayMs, hourMs } from '../core/time.ts';

const maxOffsets = 100_000;

/**
 * The time zone of a client's warehouses. Caches offsets by the hour: a page of shipments has
 * hundreds of times.
 */
export class Zone {
  readonly name: string;
  readonly #offsets = new Map<number, number>();
  #lastDay = { number: Number.NaN, text: '' };

  constructor(name: string) {
    this.name = name;
  }

  /** Returns the number of the local calendar day (days since 1970-01-01). */
  dayNumber(ms: number): number {
    return Math.floor((ms + this.#offsetAt(ms)) / dayMs);
  }

  /**
   * Returns the local calendar day as YYYY-MM-DD. Rows of one day share the same string, which
   * saves memory.
   */
  day(ms: number): string {
    const number = this.dayNumber(ms);
    if (number !== this.#lastDay.number) this.#lastDay = { number, text: toDayText(number) };
    return this.#lastDay.text;
  }

  /** Returns the moment at which an hour of a local day begins, in milliseconds since 1970. */
  atHour(day: string, hour: number): number {
    return Temporal.PlainDate.from(day)
      .toPlainDateTime({ hour })
      .toZonedDateTime(this.name, { disambiguation: 'compatible' }).epochMilliseconds;
  }

  /**
   * Returns the moment, or the next hour that is unambiguous: a repeated hour without a zone could
   * mean either.
   */
  skipRepeatedHour(ms: number): number {
    let moment = ms;
    while (this.#isDoubled(moment)) moment = (Math.floor(moment / hourMs) + 1) * hourMs;
    return moment;
  }

  /**
   * Writes a time of a row: local, fractional seconds, no zone (docs/interface.md, 2.1 Paths and
   * formats).
   */
  writeLocal(ms: number | null, id: number): string | null {
    if (ms === null) return null;
    return `${new Date(ms + this.#offsetAt(ms)).toISOString().slice(0, -1)}${toFraction(id)}`;
  }

  /** Returns whether the offset falls within the hour before or after a moment. */
  #isDoubled(ms: number): boolean {
    const offset = this.#offsetAt(ms);
    return this.#offsetAt(ms - hourMs) > offset || offset > this.#offsetAt(ms + hourMs);
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

/** Returns the four digits below the millisecond of the times of a row. */
const toFraction = (id: number): string => String((id * 7_919) % 10_000).padStart(4, '0');

/**
 * Returns an instant in UTC, as the service writes inbound times (docs/interface.md, 2.1 Paths and
 * formats). With the id of a row that shows the time as a local one, the instant to the microsecond
 * that a reader of that time must obtain.
 */
export function writeInstant(ms: number | null, id?: number): string | null {
  const fraction = id === undefined ? '' : toFraction(id);
  return ms === null ? null : new Date(ms).toISOString().replace('Z', `${fraction.slice(0, 3)}Z`);
}

/** Returns the calendar day YYYY-MM-DD of its number. */
export function toDayText(dayNumber: number): string {
  return new Date(dayNumber * dayMs).toISOString().slice(0, 10);
}
