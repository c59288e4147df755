import { Temporal } from 'temporal-polyfill';

/** A moment with the four digits below the millisecond that the service's shipment times show. */
export interface Moment {
  readonly ms: number;
  readonly digits: string;
}

const hourMs = 3_600_000;

/**
 * The moment at which something is recorded. The hour that a zone has twice is avoided: a time without a zone could not
 * say which of the two it is in.
 */
export function momentAt(ms: number, digits: number, zone: string): Moment {
  const local = localOf(ms, zone);
  const first = local.toZonedDateTime(zone, { disambiguation: 'earlier' }).epochMilliseconds;
  const second = local.toZonedDateTime(zone, { disambiguation: 'later' }).epochMilliseconds;
  const clear = first === second ? ms : Math.floor(second / hourMs + 2) * hourMs;
  return { ms: clear, digits: String(digits % 10_000).padStart(4, '0') };
}

/** As the service writes shipment times: seven digits of a second and no zone (interface.md, Conventions). */
export function writeLocal(moment: Moment | null, zone: string): string | null {
  if (moment === null) return null;
  return `${localOf(moment.ms, zone).toString({ fractionalSecondDigits: 3 })}${moment.digits}`;
}

/** The instant itself, to the microsecond: what a reader of the local time must arrive at. */
export function writeInstant(moment: Moment | null): string | null {
  if (moment === null) return null;
  return new Date(moment.ms).toISOString().replace('Z', `${moment.digits.slice(0, 3)}Z`);
}

/** The calendar day in a zone, YYYY-MM-DD. */
export function dayOf(ms: number, zone: string): string {
  return localOf(ms, zone).toPlainDate().toString();
}

function localOf(ms: number, zone: string): Temporal.PlainDateTime {
  return Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone).toPlainDateTime();
}
