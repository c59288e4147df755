import { makeUndecodableError } from '../../core/errors.ts';
import { isObject, type Json, toWholeNumber } from '../../core/json.ts';
import {
  count,
  decodeStorable,
  type Field,
  type Fields,
  ownId,
  text,
  time,
  toDigits,
  toKeyText,
  type ValueOf,
} from './fields.ts';
import { type DecodingProblem, toId } from './jsonapi.ts';

/**
 * A number from a carrier. It may come as a text of digits; an empty text means that it is absent.
 */
const code: Field<number | null> = {
  ...count,
  read: (value, zone) => {
    const digits = typeof value === 'string' ? value.trim() : value;
    if (digits === '') return null;

    const isNumber = typeof digits === 'string' && /^-?\d{1,10}$/.test(digits);
    return count.read(isNumber ? Number(digits) : value, zone);
  },
};

/** A text that may come as a number. */
const nameOrNumber: Field<string | null> = {
  ...text,
  read: (value, zone) => text.read(toDigits(value), zone),
};

/** The number of a package; empty if there is none. */
const packageNumber: Field<string> = {
  ...text,
  read: (value, zone) => toKeyText(nameOrNumber.read(value, zone) ?? ''),
};

/** A time whose empty text means that it is absent. */
const timeOrEmpty: Field<string | null> = {
  ...time,
  read: (value, zone) => time.read(value === '' ? null : value, zone),
};

/** An item of a list: its members, and the item as received. */
type Item<Of extends Fields> = { readonly [Member in keyof Of]: ValueOf<Of[Member]> } & {
  readonly raw: Json;
};

const trackTraceFields = {
  shipmentId: ownId,
  externalOrderNumber: text,
  packageNumber,
  shipmentMethod: text,
  currentTrackTraceStatus: code,
  currentTrackTraceStatusDateTime: timeOrEmpty,
  currentTrackTraceExceptionLevel: code,
};

/** The track-trace state of one package (docs/interface.md, 15.5 Track-trace item). */
export type TrackTrace = Item<typeof trackTraceFields>;

export interface TrackTraceList {
  readonly items: readonly TrackTrace[];
  readonly undecodable: readonly (DecodingProblem & {
    readonly raw: Json;
    /** Null if it cannot be read. */
    readonly shipmentId: number | null;
    /** Null if it cannot be read, or if there is none. */
    readonly packageNumber: string | null;
  })[];
}

/**
 * Decodes the result of the track-trace list, item by item.
 * @param zone IANA zone of its times, which have no zone designator
 * @throws WarehouseError `undecodable` if the result is not a list; then nothing of it is used
 */
export function decodeTrackTraces(result: Json, zone: string): TrackTraceList {
  const operation = 'v2.shipment.trackTrace';
  const { items, undecodable } = decodeItems(operation, result, trackTraceFields, zone);

  return {
    items,
    undecodable: undecodable.map((problem) => {
      const members = isObject(problem.raw) ? problem.raw : {};
      const number = toDigits(members.packageNumber);
      // Postgres stores no NUL and no lone surrogate.
      const isNumber = typeof number === 'string' && /^[^\0]+$/.test(number);
      const packageNumber = isNumber && number.isWellFormed() ? number : null;
      return { ...problem, shipmentId: toId(members.shipmentId), packageNumber };
    }),
  };
}

/** Its type is not shown, so what is neither a whole number nor digits counts as absent. */
const numberOfColli: Field<number | null> = {
  ...count,
  read: (value) => {
    const digits = toDigits(toWholeNumber(value));
    return typeof digits === 'string' && /^\d{1,9}$/.test(digits) ? Number(digits) : null;
  },
};

/**
 * The lines of the whole shipment, with the members that the interface names; null if it names
 * none.
 */
const shipmentItems: Field<Json> = {
  sql: 'jsonb',
  read: (value) => {
    if (!Array.isArray(value)) return null;

    const lines = value.filter(isObject);
    return lines.map(
      ({ shipmentItemId = null, quantity = null, sku = null, lotNumber = null }) => ({
        shipmentItemId,
        quantity,
        sku,
        lotNumber,
      }),
    );
  },
};

const parcelFields = {
  id: ownId,
  packageNumber,
  colloNr: nameOrNumber,
  trackAndTraceCode: nameOrNumber,
  trackAndTraceBarCode: nameOrNumber,
  returnPackageNumber: nameOrNumber,
  currentTrackTraceStatus: nameOrNumber,
  currentTrackTraceExceptionLevel: nameOrNumber,
  shippingDate: timeOrEmpty,
  numberOfColli,
  trackingNumber: nameOrNumber,
  shipmentItems,
};

/**
 * A package that the look-up by criteria returned, with the id of its shipment (docs/interface.md,
 * 15.7 Shipment item of the criteria lookup).
 */
type Parcel = Item<typeof parcelFields>;

/** The packages of one answer, and its items that could not be decoded. */
export interface ParcelList {
  readonly parcels: readonly Parcel[];
  readonly undecodable: readonly (DecodingProblem & { readonly raw: Json })[];
}

/**
 * Decodes the result of the look-up by criteria, item by item. It takes each item as one package of
 * the shipment.
 * @param zone IANA zone of its times, which have no zone designator
 * @throws WarehouseError `undecodable` if the result is not a list
 */
export function decodeParcels(result: Json, zone: string): ParcelList {
  const { items, undecodable } = decodeItems('v2.shipment.search', result, parcelFields, zone);
  return { parcels: items, undecodable };
}

/** Decodes the items of a list one by one. */
function decodeItems<Of extends Fields>(operation: string, result: Json, fields: Of, zone: string) {
  // In other answers of this generation, null means that there is no result.
  const list = result ?? [];
  if (!Array.isArray(list))
    throw makeUndecodableError(`${operation}: the result is not a list`, operation);

  const items: Item<Of>[] = [];
  const undecodable: (DecodingProblem & { readonly raw: Json })[] = [];
  for (const raw of list) {
    const decoded = decodeStorable(fields, raw, zone);
    if ('problem' in decoded) undecodable.push({ ...decoded.problem, raw });
    else items.push({ ...decoded.value, raw });
  }

  return { items, undecodable };
}
