import type { Operation } from '../../../../../config/operations.ts';
import { isObject, type Json } from '../../../../core/json.ts';

/**
 * Countries that need a house number and a postcode, unless switches name others. "Most other countries" need a
 * postcode, too (docs/interface.md, 15.3 Add order: rules), but it does not say which.
 */
const defaultCountries: readonly string[] = ['NL', 'BE', 'DE'];
type AddressRules = Pick<Operation, 'postcodeCountries' | 'houseNumberCountries'>;
/** The members of a delivery address that the note needs. */
interface AddressLines {
  readonly countryCode?: string | null | undefined;
  readonly houseNumber?: string | null | undefined;
  readonly street1?: string | null | undefined;
}

/** Matches a street that ends with a house number. The service takes the number from there. */
const endsWithNumber = /\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$/i;

/**
 * Returns the problems of the delivery address. The other addresses are not checked, because nothing is shipped to
 * them.
 */
export function findAddressProblems(lines: Json | undefined, rules: AddressRules): string[] {
  const { postcodeCountries = defaultCountries, houseNumberCountries = defaultCountries } = rules;
  if (!isObject(lines)) return [];
  const { countryCode, houseNumber, street1, postcode } = lines;
  if (typeof countryCode !== 'string') return [];
  const problems: string[] = [];
  const isNumbered = !isEmpty(houseNumber) || (typeof street1 === 'string' && /\d/.test(street1));
  if (houseNumberCountries.includes(countryCode) && !isNumbered)
    problems.push(`deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`);
  if (postcodeCountries.includes(countryCode) && isEmpty(postcode))
    problems.push(`deliveryAddress.postcode: is required for ${countryCode}`);
  return problems;
}

const isEmpty = (value: Json | undefined) => value === undefined || value === null || String(value).trim() === '';

/**
 * Returns a note for an order whose house number the service may not find, because it is in the street but not at its end; null if
 * there is no such doubt (docs/interface.md, 15.3 Add order: rules).
 */
export function describeAddressDoubt(
  { countryCode, houseNumber, street1 }: AddressLines,
  { houseNumberCountries = defaultCountries }: AddressRules,
): string | null {
  const isNeeded = houseNumberCountries.includes(countryCode ?? '');
  if (!isNeeded || !isEmpty(houseNumber) || endsWithNumber.test(street1 ?? '')) return null;
  return 'deliveryAddress.houseNumber is missing and street1 does not end with a number; check the address at the service';
}
