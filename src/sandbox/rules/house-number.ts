import type { AddressLines } from '../store/model.ts';

const countriesThatRequireIt = new Set(['NL', 'BE', 'DE']);
const numberAtEnd = /\s(\d{1,5})$/;
const numberAndLetters = /\s(\d{1,5})[\s-]*([a-z]{1,4})$/i;

/**
 * Fills in a missing house number from the end of the street (docs/interface.md, 15.3 Add order: rules). The street
 * keeps the number.
 */
export function fillHouseNumber(lines: AddressLines): AddressLines {
  if (!isHouseNumberMissing(lines)) return lines;
  const street = lines.street1?.trim() ?? '';
  const [, houseNumber, letters] = numberAtEnd.exec(street) ?? numberAndLetters.exec(street) ?? [];
  if (houseNumber === undefined) return lines;
  return { ...lines, houseNumber, houseNumberExtension: lines.houseNumberExtension ?? letters ?? null };
}

/** Returns whether an address needs a house number and has none. */
export function isHouseNumberMissing({ countryCode, houseNumber }: AddressLines): boolean {
  return countriesThatRequireIt.has(countryCode ?? '') && (houseNumber ?? '').trim() === '';
}
