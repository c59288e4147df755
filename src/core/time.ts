import { Temporal } from 'temporal-polyfill';

/** Lengths of time in milliseconds. */
export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const dateForm = /^(\d{4})-(\d{2})-(\d{2})$/;

/**
 * The two forms of ISO 8601: with separators, and without any. Minutes and seconds may be absent.
 */
const extendedForm =
  /^(\d{4}-\d{2}-\d{2})[T ](\d{2})(?::([0-5]\d)(?::([0-5]\d|60)(?:[.,](\d{1,12}))?)?)?(\D.*)?$/i;
const basicForm = /^(\d{8})T(\d{2})(?:([0-5]\d)(?:([0-5]\d|60)(?:[.,](\d{1,12}))?)?)?(\D.*)?$/i;

/** What may follow the time in both forms. */
const zoneDesignator = /^(Z|[+\u2212-]\d{2}(:?[0-5]\d)?)$/i;

/**
 * The offset of each zone and local day or hour; null if it has no single offset. The map is
 * cleared when it is full.
 */
const offsets = new Map<string, string | null>();
const maxOffsets = 50_000;

/**
 * Reads a calendar date, and returns it in a form that Postgres accepts.
 * @throws RangeError if the text is not a date in the form YYYY-MM-DD
 */
export function readDate(text: string): string {
  if (!dateForm.test(text) || text.startsWith('0000'))
    throw new RangeError('is not a date in the form YYYY-MM-DD');
  return isCalendarDay(text)
    ? text
    : Temporal.PlainDate.from(text, { overflow: 'reject' }).toString();
}

/**
 * Reads a date-time, and returns it with its offset, exact to the microsecond. Further digits are
 * cut. If the text has no zone designator, it is read in `zone` (docs/interface.md, 2.1 Paths and
 * formats). In the hour that occurs twice, the earlier instant counts. A skipped local time is
 * shifted forward.
 * @throws RangeError if the text is not an ISO 8601 date-time
 */
export function readDateTime(text: string, zone: string): string {
  const { date, hour, rest, offset: given } = readParts(text);
  const local = `${date}T${hour}:${rest}`;

  if (given !== null) {
    // This only validates date, hour and offset. The text itself is returned, so that no digit is
    // lost.
    const isUtc = given === 'Z' && hour < '24' && isCalendarDay(date);
    if (!isUtc) Temporal.Instant.from(`${local}${given}`);
    return `${local}${given}`;
  }

  const dayOffset = hour < '24' ? findDayOffset(zone, date) : null;
  const offset = dayOffset ?? findHourOffset(zone, `${date}T${hour}`);
  if (offset !== null) return `${local}${offset}`;

  const zoned = Temporal.PlainDateTime.from(local).toZonedDateTime(zone, {
    disambiguation: 'compatible',
  });
  return zoned.toInstant().toString({ fractionalSecondDigits: 6 });
}

/**
 * A date-time in parts: `2026-01-05`, `10`, `11:12.000000`, and `Z` or `+01:00`; null without a
 * zone designator.
 */
interface DateTimeParts {
  readonly date: string;
  readonly hour: string;
  readonly rest: string;
  readonly offset: string | null;
}

/** @throws RangeError if the text does not have the form of an ISO 8601 date-time */
function readParts(text: string): DateTimeParts {
  const match = extendedForm.exec(text) ?? basicForm.exec(text);
  const [, day = '', hour = '', minute = '00', second = '00', fraction = '', designator] =
    match ?? [];

  const isZoneValid = designator === undefined || zoneDesignator.test(designator);
  if (match === null || day.startsWith('0000') || !isZoneValid)
    throw new RangeError('is not an ISO 8601 date-time');

  const date = day.length === 8 ? `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}` : day;
  // A leap second counts as the second before it, as clocks of computers have none.
  const wholeSecond = second === '60' ? '59' : second;
  const rest = `${minute}:${wholeSecond}.${fraction.slice(0, 6).padEnd(6, '0')}`;

  const offset = designator === undefined ? null : toOffset(designator);
  return hour === '24' ? toNextDay({ date, hour, rest, offset }) : { date, hour, rest, offset };
}

/** Returns a zone designator as `Z` or `+01:00`. Minutes and the colon may be absent. */
function toOffset(designator: string): string {
  if (designator.length === 1) return 'Z';
  const digits = designator.slice(1).replace(':', '').padEnd(4, '0');
  return `${designator.startsWith('+') ? '+' : '-'}${digits.slice(0, 2)}:${digits.slice(2)}`;
}

/** Returns the hour 24, which is the end of a day, as the begin of the next one. */
function toNextDay({ date, rest, offset }: DateTimeParts): DateTimeParts {
  const next = addDays(readDate(date), 1);
  if (rest !== '00:00.000000' || next.length !== 10)
    throw new RangeError('is not an ISO 8601 date-time');
  return { date: next, hour: '00', rest, offset };
}

/**
 * Returns whether a text in the form YYYY-MM-DD is a day of the calendar. Temporal says the same,
 * but takes longer.
 */
function isCalendarDay(date: string): boolean {
  const year = Number(date.slice(0, 4));
  const month = Number(date.slice(5, 7));
  const day = Number(date.slice(8));
  return month >= 1 && month <= 12 && day >= 1 && day <= countDays(year, month);
}

function countDays(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;

  const isLeapYear = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return isLeapYear ? 29 : 28;
}

/**
 * Returns the offset of a local day; null if the offset changes within it, or if there is no such
 * day.
 */
function findDayOffset(zone: string, date: string): string | null {
  const key = `${zone} ${date}`;
  const known = offsets.get(key);
  if (known !== undefined) return known;

  const offset = isCalendarDay(date) ? computeDayOffset(zone, date) : null;
  keepOffset(key, offset);

  return offset;
}

function computeDayOffset(zone: string, date: string): string | null {
  const day = Temporal.PlainDate.from(date);
  const start = day.toZonedDateTime(zone);
  const end = day.add({ days: 1 }).toZonedDateTime(zone);

  // The day before the start counts too: its last hour may occur twice and reach into this day.
  const change = start.subtract({ hours: 24 }).getTimeZoneTransition('next');
  const isStable =
    change === null || change.epochNanoseconds > end.add({ hours: 24 }).epochNanoseconds;

  return isStable ? start.offset : null;
}

/**
 * Returns the offset of a local hour, or null if the offset changes within it, or the hour is
 * skipped or occurs twice.
 */
function findHourOffset(zone: string, localHour: string): string | null {
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
  keepOffset(key, offset);

  return offset;
}

function keepOffset(key: string, offset: string | null): void {
  if (offsets.size >= maxOffsets) offsets.clear();
  offsets.set(key, offset);
}

/**
 * A date of the service before this day means that there is none, as `0001-01-01`. SQL has
 * `sync.real_day`.
 */
export const firstRealDay = '1970-01-01';

/**
 * Returns true if a date or time of the service, both beginning with YYYY-MM-DD, means a day, not
 * that there is none.
 */
export const isRealDay = (text: string): boolean => text >= firstRealDay;

/**
 * Returns the calendar day that is `days` after `date`, or before it if `days` is negative. Dates
 * are YYYY-MM-DD.
 */
export function addDays(date: string, days: number): string {
  return Temporal.PlainDate.from(date).add({ days }).toString();
}

/**
 * Returns the days from one calendar date to another, both YYYY-MM-DD; negative if `to` is earlier.
 */
export function daysBetween(from: string, to: string): number {
  return Temporal.PlainDate.from(from).until(to, { largestUnit: 'days' }).days;
}

/** Returns the calendar day of an instant in `zone`. */
export function toLocalDay(instant: string, zone: string): string {
  return Temporal.Instant.from(instant).toZonedDateTimeISO(zone).toPlainDate().toString();
}

/** Returns the UTC calendar day of a moment in milliseconds since 1970. */
export function toUtcDay(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10);
}

const [earliestMs, latestMs] = [
  Date.parse('0001-01-01T00:00:00Z'),
  Date.parse('9999-12-31T23:59:59.999Z'),
];

/** Returns true if a moment in milliseconds since 1970 is in the years 1 to 9999. */
export const isOrdinaryTime = (epochMs: number): boolean =>
  epochMs >= earliestMs && epochMs <= latestMs;

/**
 * Returns the Date of a moment in milliseconds since 1970. A moment before the year 1 or after
 * 9999, also an infinite one, becomes the first or last of these years, so that every Date can be
 * formatted and calculated with.
 */
export const toOrdinaryTime = (epochMs: number): Date =>
  new Date(Math.min(latestMs, Math.max(earliestMs, epochMs)));

/** Formats a span for people: `4s`, `12m`, `3h`, `2d`. Returns a dash for null. */
export function formatSpan(seconds: number | null): string {
  if (seconds === null) return '-';

  const write = (length: number, unit: string) =>
    `${Math.max(0, Math.round(seconds / length))}${unit}`;

  if (seconds < 100) return write(1, 's');
  if (seconds < 6_000) return write(60, 'm');
  if (seconds < 172_800) return write(3_600, 'h');
  return write(86_400, 'd');
}
