import { isObject, type Json } from './json.ts';

/** What people see in place of a personal value. */
export const hiddenValue = '•••';

/**
 * Masks the personal data of an erased order. It keeps only members that are known to be harmless,
 * so a member that the service adds one day is dropped.
 */

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Members that hold other members. */
const containers = words(`
  data attributes relationships items
  deliveryAddress billingAddress order orderItem orderItems orderType product
  preferredShippingMethod shipment shipmentItem shipmentItems shippingMethod
  return returnItem returnReason returnMerchandiseAuthorization
  returnMerchandiseAuthorizationItem returnMerchandiseAuthorizationItems`);

/** Members whose values are codes, states or numbers of the ERP, the service or a carrier. */
const codes = words(`
  action channelIdentifier colloNr condition contentType countryCode currency
  currentTrackTraceExceptionLevel currentTrackTraceStatus externalOrderNumber externalReference
  fulfillFrom locale lotNumber mimeType orderType packageNumber printStrategy processedIn reason
  reasonCode restockIn returnPackageNumber serialNumbers shipmentMethod shippingMethod sku status
  type warehouseCode`);

const amounts = words('numberOfColli price quantity vat');

const switches = words(`
  allowPartialDelivery isPaperlessReturnShippingMethod modified onHold paperless redeliver`);

const times = words(`
  createdOn currentTrackTraceStatusDateTime expirationDate modifiedOn orderedOn
  preferredShippingDate processedOn readyToPickOn readyToShipOn restockOn shippedOn shippingDate`);

/** Codes are short. A longer text under one of these names is no code. */
const maxCodeLength = 100;

/**
 * Returns a JSON value without personal data: a resource as received, the payload of an outbox row,
 * or its result. Of a postcode it keeps the area. It keeps nothing of a text, a number or a list
 * outside an object.
 */
export function maskJson(value: Json): Json {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) => maskMember(name, member)),
  );
}

function maskMember(name: string, value: Json): [string, Json][] {
  // Nothing of a person is in what has no content.
  const isEmpty = value === null || (Array.isArray(value) && value.length === 0);
  if (isEmpty) return isKnown(name) ? [[name, value]] : [];
  if (name === 'postcode') return [[name, toPostcodeArea(value)]];
  if (isObject(value)) return containers.has(name) ? [[name, maskJson(value)]] : [];
  if (!Array.isArray(value)) return isHarmless(name, value) ? [[name, value]] : [];
  if (value.every(isObject)) return containers.has(name) ? [[name, value.map(maskJson)]] : [];
  return value.every((entry) => isHarmless(name, entry)) ? [[name, value]] : [];
}

const isId = (name: string) => /^id$|Ids?$/.test(name);

const isKnown = (name: string) =>
  isId(name) ||
  [containers, codes, amounts, switches, times].some((known) => known.has(name)) ||
  name === 'postcode';

function isHarmless(name: string, value: Json): boolean {
  if (Array.isArray(value) || isObject(value) || value === null) return false;

  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (isId(name)) return /^\d{1,16}$/.test(text);
  if (amounts.has(name)) return /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  if (switches.has(name)) return typeof value === 'boolean';
  if (times.has(name)) return /^[\d:.TZ+ -]{1,40}$/.test(text);
  return codes.has(name) && text.length <= maxCodeLength;
}

/**
 * Returns the first two characters of a postcode, which name a region; null if it does not begin
 * with two.
 */
export function toPostcodeArea(postcode: unknown): string | null {
  return typeof postcode === 'string'
    ? (/^[A-Za-z0-9]{2}/.exec(postcode.trim())?.[0] ?? null)
    : null;
}
