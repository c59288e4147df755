import { pauses } from '../../core/backoff.ts';
import { findUnstorableReason } from '../../core/json.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import type { QuarantineEntry } from '../../erp/pull/quarantine.ts';
import type { DueParcelRead } from '../../erp/resources/parcel-reads.ts';
import type { ParcelAnswer } from '../../erp/resources/parcel-rows.ts';
import type { Parcel, ParcelList } from '../../warehouse/decoding/decode-parcels.ts';

/** Ages of a shipment at which its packages are looked up again, unless track-trace knows it. */
const rereadAgesMs = [1, 3, 7, 14, 31].map((days) => days * dayMs);
/** After this number of look-ups in a row without an answer, the shipment is not looked up again. */
const maxUnanswered = 10;

/** A look-up of the packages of a shipment, just before it is answered. */
export interface ParcelRead extends DueParcelRead {
  readonly readNo: number;
  /** Time since the shipment was shipped, in milliseconds, by the service's clock; null if that is not known. */
  readonly ageMs: number | null;
}

/** The answer to a look-up, with the entries that could not be decoded or stored. */
export interface AnsweredRead extends ParcelAnswer {
  readonly read: ParcelRead;
  readonly entries: readonly QuarantineEntry[];
}

/** Divides an answer into packages of the shipment and entries for the quarantine. */
export function toAnswer(read: ParcelRead, list: ParcelList): AnsweredRead {
  const { shipmentId } = read;
  const byNumber = new Map<string, Parcel>();
  const entries = list.undecodable.map(({ path, reason, raw }) => toEntry(shipmentId, path, reason, raw));
  for (const parcel of list.parcels.filter((one) => one.shipmentId === shipmentId)) {
    const reason = findUnstorableReason(JSON.stringify(parcel.raw));
    if (reason === null) byNumber.set(parcel.packageNumber, parcel);
    else entries.push(toEntry(shipmentId, '', reason, parcel.raw));
  }
  // A package without a number represents the whole shipment.
  if (byNumber.size > 1) byNumber.delete('');
  const missing = list.parcels.length === 0 ? 'it names no package' : 'it names only other shipments';
  const problem = entries[0]?.reason ?? (byNumber.size > 0 ? null : missing);
  const parcels = [...byNumber.values()];
  if (problem !== null) return { ...toUnanswered(read, problem), parcels, entries };
  return { ...toUnanswered(read, ''), parcels, problem, isUnanswered: false, nextInSeconds: findNextReadSeconds(read) };
}

/** Returns the answer for a shipment whose look-up the service refused. */
export function toUnanswered(read: ParcelRead, problem: string): AnsweredRead {
  const { shipmentId, readNo, requests } = read;
  const nextInSeconds = read.unanswered + 1 < maxUnanswered ? pauses.emptyParcelRead.firstMs / 1_000 : null;
  return { read, shipmentId, readNo, requests, parcels: [], problem, isUnanswered: true, nextInSeconds, entries: [] };
}

/** Returns the answer for a shipment whose look-up failed, as by a timeout. */
export function toFailed(read: ParcelRead, problem: string): AnsweredRead {
  return {
    ...toUnanswered(read, problem),
    isUnanswered: false,
    nextInSeconds: pauses.failedParcelRead.firstMs / 1_000,
  };
}

/** Returns the answer without its packages, which the database refuses. They go to the quarantine. */
export function toRefusedByDatabase({ read, parcels, entries }: AnsweredRead): AnsweredRead {
  const problem = 'cannot be stored in Postgres';
  const refused = parcels.map(({ raw }) => toEntry(read.shipmentId, '', problem, raw));
  return { ...toUnanswered(read, problem), entries: [...entries, ...refused] };
}

const toEntry = (resourceId: number, memberPath: string, reason: string, raw: Parcel['raw']): QuarantineEntry => ({
  resourceId,
  memberPath,
  reason,
  document: JSON.stringify(raw),
});

/**
 * Returns the seconds until an answered shipment is looked up again, if track-trace does not know it; null if it is not.
 * @param read without a known age, each look-up counts as the one at the next age
 */
export function findNextReadSeconds({ ageMs, reads }: Pick<ParcelRead, 'ageMs' | 'reads'>): number | null {
  const age = ageMs ?? rereadAgesMs[Math.min(reads, rereadAgesMs.length) - 1] ?? 0;
  const next = rereadAgesMs.find((one) => one > age);
  return next === undefined ? null : Math.ceil(Math.max(next - age, hourMs) / 1_000);
}
