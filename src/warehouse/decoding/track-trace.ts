import { z } from 'zod';
import { makeUndecodableError } from '../../core/errors.ts';
import { isObject, type Json, toWholeNumber } from '../../core/json.ts';
import { readDateTime } from '../../core/time.ts';
import { type DecodingProblem, decodeWith, idSchema } from './jsonapi.ts';
import { convertedText, text } from './v3-members.ts';

/** A number from a carrier. It may come as a string of digits; an empty string means that it is absent. */
const code = z.preprocess(readNumber, z.int32().nullish()).transform((value) => value ?? null);
/** A text that may come as a number. */
export const nameOrNumber = z
  .preprocess(
    (value) => (JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : value),
    z.string().nullish(),
  )
  .transform((value) => value ?? null);

function readNumber(value: unknown): unknown {
  if (typeof value !== 'string') return toWholeNumber(value);
  if (value.trim() === '') return null;
  return /^-?\d{1,10}$/.test(value.trim()) ? Number(value) : value;
}

function trackTraceSchema(zone: string) {
  return z.looseObject({
    shipmentId: idSchema,
    externalOrderNumber: text,
    packageNumber: nameOrNumber,
    shipmentMethod: text,
    currentTrackTraceStatus: code,
    currentTrackTraceStatusDateTime: z.preprocess(
      (value) => (value === '' ? null : value),
      convertedText((value) => readDateTime(value, zone)),
    ),
    currentTrackTraceExceptionLevel: code,
  });
}

/** The track-trace state of one package (docs/interface.md, 15.5 Track-trace item). */
export interface TrackTrace {
  readonly shipmentId: number;
  /** Empty if there is none. */
  readonly packageNumber: string;
  readonly externalOrderNumber: string | null;
  readonly shipmentMethod: string | null;
  readonly status: number | null;
  readonly statusAt: string | null;
  readonly exceptionLevel: number | null;
  /** The item as received. */
  readonly raw: Json;
}

export interface TrackTraceList {
  readonly items: readonly TrackTrace[];
  readonly undecodable: readonly (DecodingProblem & { readonly raw: Json; readonly shipmentId: number | null })[];
}

/**
 * Decodes the result of the track-trace list, item by item.
 * @param zone IANA zone of its times, which have no zone designator
 * @throws WarehouseError `undecodable` if the result is not a list; then nothing of it is used
 */
export function decodeTrackTraces(result: Json, zone: string): TrackTraceList {
  // In other answers of this generation, null means that there is no result.
  const list = result ?? [];
  if (!Array.isArray(list)) throw makeUndecodableError('v2.shipment.trackTrace: the result is not a list');
  const schema = trackTraceSchema(zone);
  const items: TrackTrace[] = [];
  const undecodable: TrackTraceList['undecodable'][number][] = [];
  for (const raw of list) {
    const decoded = decodeWith(schema, raw);
    if ('problem' in decoded) {
      const shipmentId = isObject(raw) ? (idSchema.safeParse(raw.shipmentId).data ?? null) : null;
      undecodable.push({ ...decoded.problem, raw, shipmentId });
      continue;
    }
    const { shipmentId, packageNumber, externalOrderNumber, shipmentMethod, ...current } = decoded.value;
    items.push({
      shipmentId,
      packageNumber: packageNumber ?? '',
      externalOrderNumber,
      shipmentMethod,
      status: current.currentTrackTraceStatus,
      statusAt: current.currentTrackTraceStatusDateTime,
      exceptionLevel: current.currentTrackTraceExceptionLevel,
      raw,
    });
  }
  return { items, undecodable };
}
