import { Temporal } from 'temporal-polyfill';

/** Milliseconds. */
export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const dateForm = /^(\d{4})-(\d{2})-(\d{2})$/;
const dateTimeForm = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}):([0-5]\d):([0-5]\d)(?:[.,](\d{1,12}))?(Z|[+-]\d{2}:?\d{2})?$/i;

/** Offsets by zone and local hour, where the whole hour has one offset. Bounded; cleared when full. */
const offsets = new Map<string, string | null>();
const maxOffsets = 50_000;

/**
 * A calendar date as Postgres takes it.
 * @throws RangeError where the text is no date in the form YYYY-MM-DD
 */
export function readDate(text: string): string {
  if (!dateForm.test(text) || text.startsWith('0000')) throw new RangeError('is no date in the form YYYY-MM-DD');
  return Temporal.PlainDate.from(text, { overflow: 'reject' }).toString();
}

/**
 * A date-time as an instant with its offset, exact to the microsecond (further digits are cut).
 * A designator in the text counts; without one it is read in `zone` (interface.md: shipment times carry none).
 * In the hour that occurs twice the earlier instant is taken; a time that was skipped is shifted forward.
 * @throws RangeError where the text is no ISO 8601 date-time
 */
export function readDateTime(text: string, zone: string): string {
  const match = dateTimeForm.exec(text);
  const [, date = '', hour = '', minute = '', second = '', fraction = '', designator] = match ?? [];
  if (match === null || date.startsWith('0000')) throw new RangeError('is no ISO 8601 date-time');
  const micros = fraction.slice(0, 6).padEnd(6, '0');
  const local = `${date}T${hour}:${minute}:${second}.${micros}`;
  if (designator !== undefined) {
    // Validates date, hour and offset; the text itself is kept, so no digit is lost.
    Temporal.Instant.from(`${local}${designator}`);
    return `${local}${designator.toUpperCase()}`;
  }
  const offset = hourOffset(zone, `${date}T${hour}`);
  if (offset !== null) return `${local}${offset}`;
  const zoned = Temporal.PlainDateTime.from(local).toZonedDateTime(zone, { disambiguation: 'compatible' });
  return zoned.toInstant().toString({ fractionalSecondDigits: 6 });
}

/** The one offset of a local hour, or null where it changes within it or the hour is skipped or doubled. */
function hourOffset(zone: string, localHour: string): string | null {
  const key = `${zone} ${localHour}`;
  const known = offsets.get(key);
  if (known !== undefined) return known;
  const [first, last] = [`${localHour}:00:00`, `${localHour}:59:59.999999`].map((text) => {
    const plain = Temporal.PlainDateTime.from(text, { overflow: 'reject' });
    const earlier = plain.toZonedDateTime(zone, { disambiguation: 'earlier' });
    const later = plain.toZonedDateTime(zone, { disambiguation: 'later' });
    return earlier.epochNanoseconds === later.epochNanoseconds ? earlier.offset : null;
  });
  const offset = first !== undefined && first === last ? first : null;
  if (offsets.size >= maxOffsets) offsets.clear();
  offsets.set(key, offset);
  return offset;
}

/** The calendar day `days` after (or before) `date`, both YYYY-MM-DD. */
export function addDays(date: string, days: number): string {
  return Temporal.PlainDate.from(date).add({ days }).toString();
}

/** Days from one calendar date to a later one, both YYYY-MM-DD; negative where it is earlier. */
export function daysBetween(from: string, to: string): number {
  return Temporal.PlainDate.from(from).until(to, { largestUnit: 'days' }).days;
}

/** The calendar day that an instant falls on in `zone`. */
export function localDay(instant: string, zone: string): string {
  return Temporal.Instant.from(instant).toZonedDateTimeISO(zone).toPlainDate().toString();
}

/** The UTC calendar day of a moment in milliseconds since 1970. */
export function utcDay(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10);
}

/** A span for people: `4s`, `12m`, `3h`, `2d`; a dash where there is none. */
export function formatSpan(seconds: number | null): string {
  if (seconds === null) return '-';
  const [divisor, unit] =
    seconds < 100 ? [1, 's'] : seconds < 6_000 ? [60, 'm'] : seconds < 172_800 ? [3_600, 'h'] : [86_400, 'd'];
  return `${Math.max(0, Math.round(seconds / divisor))}${unit}`;
}
