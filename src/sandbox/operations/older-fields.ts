import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import type { AddressLines } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Zone } from '../zone.ts';

/** A whole number. In a form it is a text. */
export const integerIn = z
  .union([z.int(), z.string().regex(/^-?\d{1,15}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int());
export const decimalIn = z.union([
  z.number(),
  z.string().regex(/^-?\d{1,15}(\.\d{1,10})?$/, 'must be a decimal'),
]);
export const piecesIn = integerIn.pipe(z.int().min(1, 'must be at least 1').max(1_000_000));
/** Returns a decimal as a number. */
export const toNumber = (decimal: number | string | null | undefined): number | null =>
  decimal === null || decimal === undefined ? null : Number(decimal);

/** A date or a date-time. */
export const dayIn = z
  .union(
    [z.iso.date(), z.iso.datetime({ local: true, offset: true }).meta({ format: 'date-time' })],
    'must be a date or a date-time',
  )
  .nullish();

/** Returns the day of a date or date-time: the local day at the warehouses, if it has a zone. */
export function toWarehouseDay(zone: Zone, text: string | null | undefined): string | null {
  if (!text) return null;
  return /T.*(Z|[+-]\d{2}:?\d{2})$/i.test(text) ? zone.day(Date.parse(text)) : text.slice(0, 10);
}

/**
 * Returns the members of a body with a prefix, by the rest of their names; null if none has a
 * value.
 */
export function readPrefixedMembers(
  body: object,
  prefix: string,
): Readonly<Record<string, unknown>> | null {
  const entries = Object.entries(body)
    .filter(([name, value]) => name.startsWith(prefix) && (value ?? '') !== '')
    .map(([name, value]) => [lowerFirst(name.slice(prefix.length)), value]);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

/** Returns a name with a small first letter. */
export const lowerFirst = (name: string): string =>
  `${name.charAt(0).toLowerCase()}${name.slice(1)}`;

type Id = number | null | undefined;

/** Returns an entry that a request names. Refuses the request if there is none. */
function requireEntry<T>(found: T | undefined, name: string): T {
  if (found === undefined) throw ruleBroken(`There is no ${name}`);
  return found;
}

/** Returns the locale of a language id. */
export const findLocale = ({ languages }: ServiceLists, languageId: number): string =>
  requireEntry(languages.find(({ id }) => id === languageId)?.code, `language ${languageId}`);

/** Returns the id of the main shipping method that a method of the older list belongs to. */
export function findMainMethodId({ mainShippingMethods }: ServiceLists, methodId: Id) {
  if ((methodId ?? null) === null) return null;
  const main = mainShippingMethods.find(({ shippingMethods }) =>
    shippingMethods.some(({ id }) => id === methodId),
  );
  return requireEntry(main?.id, `shipping method ${methodId}`);
}

/** Returns the code of a warehouse by its v2 id (docs/interface.md, 15.3 Add order: rules). */
export function findWarehouseCode(lists: ServiceLists, warehouseId: Id): string | null {
  if (warehouseId === null || warehouseId === undefined) return null;
  return requireEntry(lists.findWarehouseCode(warehouseId), `warehouse ${warehouseId}`);
}

/**
 * Returns the code of a country, by its id or code. Accepts two-letter codes that the service lists
 * do not contain.
 */
export function findCountryCode({ countries }: ServiceLists, given: string | number): string {
  const text = String(given);
  const country = countries.find(({ id, code }) => String(id) === text || code === text);
  const isCode = /^[A-Z]{2}$/.test(text);
  return country?.code ?? requireEntry(isCode ? text : undefined, `country ${given}`);
}

/** The lines of an address, by the suffix of their names in the older generations. */
const addressSuffixes = {
  firstName: 'FirstName',
  lastName: 'LastName',
  prefix: 'Insertion',
  street1: 'Street',
  postcode: 'PostalCode',
  houseNumber: 'HouseNumber',
  houseNumberExtension: 'HouseNumberAddition',
  city: 'CityName',
} as const;

/**
 * Reads the lines of an address, whose names in the body begin with a prefix. Numbers become texts,
 * as in v3.
 */
export function readAddress(
  body: object,
  prefix: string,
  countryCode: string | null,
): AddressLines {
  const given = body as Readonly<Record<string, unknown>>;
  const lines = Object.entries(addressSuffixes).map(([line, suffix]) => [
    line,
    String(given[`${prefix}${suffix}`] ?? '') || null,
  ]);
  return { ...Object.fromEntries(lines), countryCode };
}
