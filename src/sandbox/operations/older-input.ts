import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { settings, warehouseOutsideStrategy, warehouses } from '../store/settings.ts';
import type { Zone } from '../times.ts';

/** A whole number; forms carry it as text. */
export const integerIn = z
  .union([z.int(), z.string().regex(/^-?\d{1,15}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int());
export const textIn = z.string().nullish();
export const decimalIn = z.union([z.number(), z.string().regex(/^-?\d{1,15}(\.\d{1,10})?$/, 'must be a decimal')]);
export const quantityIn = integerIn.pipe(z.int().min(1, 'must be at least 1').max(1_000_000));
/** A number, or a decimal as text. */
export const numberOf = (decimal: number | string | null | undefined): number | null =>
  decimal === null || decimal === undefined ? null : Number(decimal);

/** A day, or a date-time. */
export const dayIn = z
  .union([z.iso.date(), z.iso.datetime({ local: true, offset: true })], 'must be a date or a date-time')
  .nullish();

/** The day that counts of a day or date-time: where it says its zone, the one it is at the warehouses then. */
export function warehouseDay(zone: Zone, text: string | null | undefined): string | null {
  if (text === null || text === undefined) return null;
  return text.includes('T') && /(Z|[+-]\d{2}:?\d{2})$/i.test(text) ? zone.day(Date.parse(text)) : text.slice(0, 10);
}

/** The language that an id stands for. @throws Refusal where it stands for none */
export function localeOf(languageId: number): string {
  const language = settings.languages.find(({ id }) => id === languageId);
  if (language === undefined) throw ruleBroken(`There is no language ${languageId}`);
  return language.code;
}

/** The main shipping method to which a method of the older list belongs. @throws Refusal where there is none */
export function mainMethodOf(shippingMethodId: number | null | undefined): number | null {
  if (shippingMethodId === null || shippingMethodId === undefined) return null;
  const main = settings.mainShippingMethods.find(({ shippingMethods }) =>
    shippingMethods.some(({ id }) => id === shippingMethodId),
  );
  if (main === undefined) throw ruleBroken(`There is no shipping method ${shippingMethodId}`);
  return main.id;
}

/** The code of a warehouse by its v2 id. @throws Refusal where the service knows none (interface.md, Rules) */
export function warehouseOf(warehouseId: number | null | undefined): string | null {
  if (warehouseId === null || warehouseId === undefined) return null;
  const warehouse = [...warehouses, warehouseOutsideStrategy].find(({ id }) => id === warehouseId);
  if (warehouse === undefined) throw ruleBroken(`There is no warehouse ${warehouseId}`);
  return warehouse.code;
}

/** @throws Refusal where the settings hold no country like that; its id is taken as well as its code */
export function countryOf(given: string | number): string {
  const country = settings.countries.find(({ id, code }) => String(id) === String(given) || code === given);
  if (country !== undefined) return country.code;
  if (/^[A-Z]{2}$/.test(String(given))) return String(given);
  throw ruleBroken(`There is no country ${given}`);
}
