import { z } from 'zod';
import { makeUndecodableError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { readDateTime } from '../../core/time.ts';
import { type DecodingProblem, decodeWith, idSchema } from './jsonapi.ts';
import { nameOrNumber } from './track-trace.ts';
import { convertedText } from './v3-members.ts';

function parcelSchema(zone: string) {
  return z.looseObject({
    id: idSchema,
    packageNumber: nameOrNumber,
    colloNr: nameOrNumber,
    trackAndTraceCode: nameOrNumber,
    trackAndTraceBarCode: nameOrNumber,
    returnPackageNumber: nameOrNumber,
    currentTrackTraceStatus: nameOrNumber,
    currentTrackTraceExceptionLevel: nameOrNumber,
    shippingDate: z.preprocess(
      (value) => (value === '' ? null : value),
      convertedText((value) => readDateTime(value, zone)),
    ),
  });
}

/** A package that the look-up by criteria returned (docs/interface.md, 15.7 Shipment item of the criteria lookup). */
export interface Parcel {
  readonly shipmentId: number;
  /** Empty if there is none. */
  readonly packageNumber: string;
  readonly colloNumber: string | null;
  readonly code: string | null;
  readonly barCode: string | null;
  readonly returnPackageNumber: string | null;
  readonly status: string | null;
  readonly exceptionLevel: string | null;
  readonly shippingDate: string | null;
  /** The item as received. */
  readonly raw: Json;
}

/** The packages of one answer, and its items that could not be decoded. */
export interface ParcelList {
  readonly parcels: readonly Parcel[];
  readonly undecodable: readonly (DecodingProblem & { readonly raw: Json })[];
}

/**
 * Decodes the result of the look-up by criteria, item by item. It takes each item as one package of the shipment.
 * @param zone IANA zone of its times, which have no zone designator
 * @throws WarehouseError `undecodable` if the result is not a list
 */
export function decodeParcels(result: Json, zone: string): ParcelList {
  // In other answers of this generation, null means that there is no result.
  const list = result ?? [];
  if (!Array.isArray(list)) throw makeUndecodableError('v2.shipment.search: the result is not a list');
  const schema = parcelSchema(zone);
  const parcels: Parcel[] = [];
  const undecodable: ParcelList['undecodable'][number][] = [];
  for (const raw of list) {
    const decoded = decodeWith(schema, raw);
    if ('problem' in decoded) {
      undecodable.push({ ...decoded.problem, raw });
      continue;
    }
    const item = decoded.value;
    parcels.push({
      shipmentId: item.id,
      packageNumber: item.packageNumber ?? '',
      colloNumber: item.colloNr,
      code: item.trackAndTraceCode,
      barCode: item.trackAndTraceBarCode,
      returnPackageNumber: item.returnPackageNumber,
      status: item.currentTrackTraceStatus,
      exceptionLevel: item.currentTrackTraceExceptionLevel,
      shippingDate: item.shippingDate,
      raw,
    });
  }
  return { parcels, undecodable };
}
