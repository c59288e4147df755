import { findUnstorableReason } from '../../core/json.ts';
import { dayMs, hourMs } from '../../core/time.ts';
import type { QuarantineEntry } from '../../erp/pull/quarantine.ts';
import type { DueParcelRead } from '../../erp/resources/parcel-reads.ts';
import type { ParcelAnswer } from '../../erp/resources/parcels.ts';
import type { Parcel, ParcelList } from '../../warehouse/decoding/parcels.ts';

/** Ages of a shipment at which its packages are looked up again, unless track-trace knows it. */
const rereadAgesMs = [1, 3, 7, 14, 31].map((days) => days * dayMs);
/** After this number of look-ups without an answer, the shipment is not looked up again. */
const maxUnanswered = 10;

/** A look-up of the packages of a shipment, just before it is answered. */
export interface ParcelRead extends DueParcelRead {
  readonly readNo: number;
  /** Time since the shipment was shipped, in milliseconds, by the service's clock; 0 if that is not known. */
  readonly ageMs: number;
}

/** The answer to a look-up, with the entries that could not be decoded or stored. */
export interface AnsweredRead extends ParcelAnswer {
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
  const answer = { ...toUnanswered(read, problem ?? ''), parcels: [...byNumber.values()], entries };
  return problem === null
    ? { ...answer, problem, nextInSeconds: findNextReadSeconds({ ...read, answered: true }) }
    : answer;
}

/** Returns the answer for a shipment of which the service told nothing. */
export function toUnanswered(read: ParcelRead, problem: string): AnsweredRead {
  const { shipmentId, readNo, requests } = read;
  const nextInSeconds = findNextReadSeconds({ ...read, answered: false });
  return { shipmentId, readNo, requests, parcels: [], problem, nextInSeconds, entries: [] };
}

/** Returns the answer without its packages, which the database refuses. They go to the quarantine. */
export function toRefusedByDatabase(answer: AnsweredRead): AnsweredRead {
  const problem = 'cannot be stored in Postgres';
  const entries = answer.parcels.map(({ raw }) => toEntry(answer.shipmentId, '', problem, raw));
  return { ...answer, parcels: [], problem, nextInSeconds: dayMs / 1_000, entries };
}

const toEntry = (resourceId: number, memberPath: string, reason: string, raw: Parcel['raw']): QuarantineEntry => ({
  resourceId,
  memberPath,
  reason,
  document: JSON.stringify(raw),
});

/**
 * Returns the seconds until a shipment is looked up again, if track-trace does not know it; null if it is not. A
 * shipment without an answer is asked for once a day, ten times at most.
 * @param ageMs time since it was shipped, in milliseconds
 * @param reads number of look-ups before this one
 */
export function findNextReadSeconds({
  ageMs,
  reads,
  answered,
}: {
  readonly ageMs: number;
  readonly reads: number;
  readonly answered: boolean;
}): number | null {
  if (!answered) return reads + 1 < maxUnanswered ? dayMs / 1_000 : null;
  const next = rereadAgesMs.find((age) => age > ageMs);
  return next === undefined ? null : Math.ceil(Math.max(next - ageMs, hourMs) / 1_000);
}
