import type { Operations } from '../../../../config/operations.ts';
import { isObject, type Json } from '../../../core/json.ts';
import {
  type CheckContext,
  type JsonObject,
  maxProblems,
  type PayloadDocument,
} from '../../kind.ts';
import {
  countryForm,
  listHouseNumberCountries,
  listPostcodeCountries,
  localeForm,
  type OrderPayload,
} from '../../payloads/order.ts';
import { type CodedMember, findCodeProblems, nameCode } from '../../setting-codes.ts';

export const orderTypeMember: CodedMember = {
  list: 'orderTypes',
  byCode: 'orderType',
  byId: 'orderTypeId',
  required: true,
};
export const methodMember: CodedMember = {
  list: 'mainShippingMethods',
  byCode: 'shippingMethod',
  byId: 'shippingMethodId',
  required: false,
};

/** Returns the problems of an order that the schema cannot find. */
export async function findOrderProblems(
  payload: JsonObject,
  reference: string,
  context: CheckContext,
): Promise<string[]> {
  const { externalOrderNumber: number } = payload;
  const problems: string[] = [];
  // Lanes are made of references.
  if (typeof number === 'string' && number !== reference)
    problems.push(
      `externalOrderNumber: must equal the reference of the row, ${JSON.stringify(reference)}`,
    );

  for (const member of [orderTypeMember, methodMember])
    for (const problem of await findCodeProblems(payload, member, context)) problems.push(problem);
  for (const problem of await findListProblems(payload, context)) problems.push(problem);
  for (const problem of findAddressProblems(payload.deliveryAddress, context.operations))
    problems.push(problem);

  return problems;
}

/** Returns the documents that are attached to an order. */
export const listDocuments = ({ attachments }: JsonObject): PayloadDocument[] =>
  (Array.isArray(attachments) ? attachments : []).flatMap((entry, index) =>
    isObject(entry) ? [{ path: `attachments[${index}].content`, content: entry.content }] : [],
  );

/**
 * Returns the problems of an order, or of a change, that the lists of the service show: its locale,
 * its country, and warehouses that do not offer its shipping method. Billing addresses are not
 * compared, because nothing is shipped to them.
 */
export async function findListProblems(
  order: JsonObject,
  context: CheckContext,
): Promise<string[]> {
  const { codes, signal } = context;
  const { locale, deliveryAddress } = order;
  const countryCode = isObject(deliveryAddress) ? deliveryAddress.countryCode : undefined;
  const problems: string[] = [];

  for (const [path, list, code, form] of [
    ['locale', 'languages', locale, localeForm],
    ['deliveryAddress.countryCode', 'countries', countryCode, countryForm],
  ] as const) {
    // The schema reports a code of another form.
    if (typeof code !== 'string' || !form.test(code)) continue;
    const problem = await codes.findListProblem(list, code, form, signal);
    if (problem !== null) problems.push(`${path}: ${problem}`);
  }

  return [...problems, ...(await findWarehouseProblems(order, context))];
}

/** Returns the problems of warehouses that do not offer the shipping method of an order. */
export async function findWarehouseProblems(
  order: JsonObject,
  { codes, signal }: CheckContext,
): Promise<string[]> {
  const { shippingMethod: code, shippingMethodId: id, items } = order;
  const found =
    typeof code === 'string' && code !== ''
      ? await codes.find(methodMember.list, code, methodMember.byId, signal)
      : { id };
  const named = [order, ...(Array.isArray(items) ? items : [])].flatMap((value, index) => {
    const warehouse = isObject(value) ? value.fulfillFrom : undefined;
    const path = index === 0 ? 'fulfillFrom' : `items[${index - 1}].fulfillFrom`;
    return typeof warehouse === 'string' && warehouse !== '' ? [{ path, warehouse }] : [];
  });

  if ('problem' in found || typeof found.id !== 'number' || named.length === 0) return [];
  const wanted = [...new Set(named.map(({ warehouse }) => warehouse))];
  const offered = await codes.findWarehouses(found.id, wanted, signal);
  if (offered.length === 0) return [];

  return named
    .filter(({ warehouse }) => !offered.includes(warehouse))
    .slice(0, maxProblems + 1)
    .map(({ path, warehouse }) => {
      const method = typeof code === 'string' ? nameCode(code) : found.id;
      return (
        `${path}: shipping method ${method} is not offered in ${nameCode(warehouse)} ` +
        `(offered in: ${offered.join(', ')})`
      );
    });
}

/** Matches a street that ends with a house number. The service takes the number from there. */
const endsWithNumber = /\d{1,5}(\s?[-/]?\s?[a-z]{1,4})?(\s?[-/]\s?\d{1,4}[a-z]?)?$/i;

/** Returns the problems of the delivery address. Nothing is shipped to the other addresses. */
export function findAddressProblems(lines: Json | undefined, operations: Operations): string[] {
  if (!isObject(lines)) return [];
  const { countryCode, houseNumber, street1, postcode } = lines;
  if (typeof countryCode !== 'string') return [];

  const problems: string[] = [];
  const isNumbered = !isEmpty(houseNumber) || (typeof street1 === 'string' && /\d/.test(street1));
  if (listHouseNumberCountries(operations).includes(countryCode) && !isNumbered)
    problems.push(
      `deliveryAddress.houseNumber: is required for ${countryCode}, unless street1 has it`,
    );
  if (listPostcodeCountries(operations).includes(countryCode) && isEmpty(postcode))
    problems.push(`deliveryAddress.postcode: is required for ${countryCode}`);

  return problems;
}

const isEmpty = (value: Json | undefined) =>
  value === undefined || value === null || String(value).trim() === '';

/**
 * Returns a note for an order whose house number the service may not find, because it is in the
 * street but not at its end; null if there is no such doubt (docs/interface.md, 15.3 Add order:
 * rules).
 */
export function describeAddressDoubt(
  { countryCode, houseNumber, street1 }: OrderPayload['deliveryAddress'],
  operations: Operations,
): string | null {
  const isNeeded = listHouseNumberCountries(operations).includes(countryCode ?? '');
  if (!isNeeded || !isEmpty(houseNumber) || endsWithNumber.test(street1 ?? '')) return null;
  return (
    'deliveryAddress.houseNumber is missing and street1 does not end with a number; ' +
    'check the address at the service'
  );
}
