import type { AddressLines } from '../store/model.ts';

const requiredIn = new Set(['NL', 'BE', 'DE']);
const numberAtEnd = /\s(\d{1,5})$/;
const numberAndLetters = /\s(\d{1,5})[\s-]*([a-z]{1,4})$/i;

/** Fills in a missing house number from the end of the street (interface.md, Rules of the v2 add order). The street stays as it is. */
export function withHouseNumber(lines: AddressLines): AddressLines {
  if (!isHouseNumberMissing(lines)) return lines;
  const street = lines.street1?.trim() ?? '';
  const [, houseNumber, letters] = numberAtEnd.exec(street) ?? numberAndLetters.exec(street) ?? [];
  if (houseNumber === undefined) return lines;
  return { ...lines, houseNumber, houseNumberExtension: lines.houseNumberExtension ?? letters ?? null };
}

/** Whether an address needs a house number and has none. */
export function isHouseNumberMissing({ countryCode, houseNumber }: AddressLines): boolean {
  return requiredIn.has(countryCode ?? '') && (houseNumber ?? '').trim() === '';
}
