import { z } from 'zod';
import { undecodableAnswer } from '../../core/errors.ts';
import { isObject, type Json, wholeIfKept } from '../../core/json.ts';
import { readDateTime } from '../../core/time.ts';
import { decodeWith, idSchema, type Undecodable } from './jsonapi.ts';
import { readable, text } from './v3-members.ts';

/** The data comes from carriers: a number may come as digits in a string, an absent one as an empty string. */
const code = z.preprocess(readNumber, z.int32().nullish()).transform((value) => value ?? null);
const nameOrNumber = z
  .preprocess(
    (value) => (JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : value),
    z.string().nullish(),
  )
  .transform((value) => value ?? null);

function readNumber(value: unknown): unknown {
  if (typeof value !== 'string') return wholeIfKept(value);
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
      readable((value) => readDateTime(value, zone)),
    ),
    currentTrackTraceExceptionLevel: code,
  });
}

/** Where one package is (interface.md, v2 track-trace item). */
export interface TrackTrace {
  readonly shipmentId: number;
  /** Empty where there is none. */
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
  readonly undecodable: readonly (Undecodable & { readonly raw: Json; readonly shipmentId: number | null })[];
}

/**
 * Reads the result of the track-trace list, each item by itself.
 * @param zone IANA zone of its times, which carry none
 * @throws WarehouseError `undecodable` where it is no list: of a broken answer nothing is taken
 */
export function decodeTrackTraces(result: Json, zone: string): TrackTraceList {
  // Null stands for nothing in other answers of this generation.
  const list = result ?? [];
  if (!Array.isArray(list)) throw undecodableAnswer('v2.shipment.trackTrace: the result is no list');
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
