import { pauses } from '../core/backoff.ts';
import { WarehouseError } from '../core/errors.ts';
import { dayMs, hourMs } from '../core/time.ts';
import { pause, type RunContext, serviceNow, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { decodeParcels, type ParcelList } from '../service/decoding/decode-parcels.ts';
import { readId } from '../service/decoding/jsonapi.ts';
import { commitRun, commitStorable } from './commit.ts';
import { makeQuarantineEntry } from './decode.ts';
import {
  type DueParcelRead,
  findDueParcelReads,
  type PackageRow,
  type ParcelAnswer,
  storeParcels,
  toPackageRow,
} from './sql/parcel-rows.ts';
import { type QuarantineEntry, quarantineResources, releaseQuarantined } from './sql/quarantine.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import { requestQuarantinedParcelReads } from './sql/waiting-reads.ts';

/** Ages of a shipment at which its packages are looked up again, unless track-trace knows it. */
const rereadAgesMs = [1, 3, 7, 14, 31].map((days) => days * dayMs);
/**
 * After this number of look-ups in a row without an answer, the shipment is not looked up again.
 */
const maxUnanswered = 10;

/** A look-up of the packages of a shipment, just before it is answered. */
interface ParcelRead extends DueParcelRead {
  readonly readNo: number;
  /**
   * Time since the shipment was shipped, in milliseconds, by the service's clock; null if that is
   * not known.
   */
  readonly ageMs: number | null;
}

/** The answer to a look-up, with the entries that could not be decoded or stored. */
interface AnsweredRead extends ParcelAnswer {
  readonly read: ParcelRead;
  readonly entries: readonly QuarantineEntry[];
}

/** Divides an answer into packages of the shipment and entries for the quarantine. */
function toAnswer(read: ParcelRead, list: ParcelList): AnsweredRead {
  const byNumber = new Map<string, PackageRow>();
  // An item of another shipment says nothing about this one, as for those that can be decoded.
  const entries = list.undecodable
    .filter(({ raw }) => (readId(raw) ?? read.id) === read.id)
    .map(({ raw, ...problem }) => makeQuarantineEntry(read.id, raw, problem));
  for (const parcel of list.parcels.filter(({ id }) => id === read.id)) {
    const { packageNumber, colloNr: colloNumber } = parcel;
    byNumber.set(packageNumber, toPackageRow({ ...parcel, shipmentId: read.id, colloNumber }));
  }
  // A package without a number represents the whole shipment.
  if (byNumber.size > 1) byNumber.delete('');

  const lacking =
    list.parcels.length + list.undecodable.length === 0
      ? 'it names no package'
      : 'it names only other shipments';
  const problem = entries[0]?.reason ?? (byNumber.size > 0 ? null : lacking);
  return makeAnswer(read, problem, [...byNumber.values()], entries);
}

/**
 * Returns what follows from a look-up.
 * @param problem why there is no package, or why some cannot be decoded or stored; null otherwise
 */
function makeAnswer(
  read: ParcelRead,
  problem: string | null,
  parcels: readonly PackageRow[] = [],
  entries: readonly QuarantineEntry[] = [],
): AnsweredRead {
  const isLast = read.tries + 1 >= maxUnanswered;
  const answer = { read, shipmentId: read.id, readNo: read.readNo, problem, parcels, entries };

  return problem === null
    ? { ...answer, reason: 'aging', nextInSeconds: findNextReadSeconds(read) }
    : {
        ...{ ...answer, reason: 'unanswered' },
        nextInSeconds: isLast ? null : pauses.emptyParcelRead.firstMs / 1_000,
      };
}

/** Returns the answer without the packages that the database refuses: they are quarantined. */
function withoutRefused(
  answer: AnsweredRead,
  reasons: ReadonlyMap<PackageRow, string>,
): AnsweredRead {
  const { read, parcels, entries } = answer;
  const refused = parcels.flatMap((row) => {
    const reason = reasons.get(row);
    if (reason === undefined) return [];
    return [makeQuarantineEntry(read.id, row.raw, { path: '', reason })];
  });
  const [first] = refused;
  if (first === undefined) return answer;

  const storable = parcels.filter((row) => !reasons.has(row));
  return makeAnswer(read, first.reason, storable, [...entries, ...refused]);
}

/**
 * Returns the seconds until an answered shipment is looked up again, if track-trace does not know
 * it; null if it is not.
 * @param read without a known age, the time for which it has waited counts
 */
export function findNextReadSeconds({
  ageMs,
  waitedMs,
}: Pick<ParcelRead, 'ageMs' | 'waitedMs'>): number | null {
  const age = ageMs ?? waitedMs;
  const next = rereadAgesMs.find((one) => one > age);
  return next === undefined ? null : Math.ceil(Math.max(next - age, hourMs) / 1_000);
}

const name = 'pull-parcels';
/**
 * Number of look-ups of a run that follow each other without a pause: more than are due in ordinary
 * operation.
 */
export const readsWithoutPause = 100;
/**
 * Look-ups a second after these, unless REQUESTS_PER_SECOND says what the service accepts. The
 * backlog of a first start may be thousands of requests for which nobody waits: they must not
 * provoke a 429 that also stops polls and pushes.
 */
export const parcelReadsPerSecond = 4;
/** Number of look-ups whose answers are stored in one transaction. */
const batchSize = 20;
/**
 * Looks up the packages of shipped shipments that are due, the newest shipments first
 * (docs/interface.md, 15.1 Operations). Stores them after every 20 look-ups, so an interrupted run
 * loses little.
 */
export async function pullParcels(context: RunContext): Promise<void> {
  const { db, client, warehouse, signal } = context;
  const unanswered = { count: 0, first: '' };
  let count = 0;

  for (;;) {
    const due = await findDueParcelReads(db, client, batchSize);
    if (due.length === 0) break;
    context.state.service.lastMs ??= await warehouse.readClock(signal);

    const answers: AnsweredRead[] = [];
    try {
      for (const read of due) {
        const startedMs = performance.now();
        answers.push(await lookUp(context, read));
        if (++count > readsWithoutPause && context.config.REQUESTS_PER_SECOND === undefined)
          await pause(signal, 1_000 / parcelReadsPerSecond - (performance.now() - startedMs));
      }
    } finally {
      if (!signal.aborted && !context.health.hasWrongPath) await storeAnswers(context, answers);
    }

    for (const { shipmentId, problem } of answers)
      if (problem !== null && unanswered.count++ === 0)
        unanswered.first = `${shipmentId}: ${problem}`;
    // The next run looks up what is left.
    context.endTurn();
  }

  if (unanswered.count > 0)
    warn(
      context,
      `the service gave no complete list of packages for ${unanswered.count} shipments, ` +
        `such as ${unanswered.first}`,
    );
}

/** Requests the look-ups whose answers are in quarantine. Returns their number. */
export const replayParcels = ({ db, client, run }: RunContext): Promise<number> =>
  underLease(db, run.lease, (trx) => requestQuarantinedParcelReads(trx, client, name));

/**
 * Looks up one shipment.
 * @throws WarehouseError if the run must end
 */
async function lookUp(context: RunContext, due: DueParcelRead): Promise<AnsweredRead> {
  const { health, warehouse, signal, zone, db } = context;
  const ageMs =
    due.shippedOn === null ? null : serviceNow(context).getTime() - due.shippedOn.getTime();
  const read = { ...due, ageMs, readNo: await drawReadNo(db) };

  try {
    const body = { id: due.id };
    const result = await warehouse.ask({ operation: 'v2.shipment.search', body }, { signal });
    const answer = toAnswer(read, decodeParcels(result, zone));
    health.noteAnswer();
    if (answer.parcels.length > 0) await health.proveMainOperation();
    return answer;
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    // The service may not know the packages of a shipment of today yet.
    if (await health.endsRun(error, (ageMs ?? dayMs) < dayMs)) throw error;

    const answer = makeAnswer(read, error.message);
    const isAnswered = error.outcome === 'refused' || error.code === 'undecodable';
    const nextInSeconds = pauses.failedParcelRead.firstMs / 1_000;
    return isAnswered ? answer : { ...answer, reason: 'read_failed', nextInSeconds };
  }
}

/** Stores the answers. Quarantines the packages that the database refuses. */
async function storeAnswers(context: RunContext, answers: readonly AnsweredRead[]): Promise<void> {
  if (answers.length === 0) return;

  await commitStorable(context, {
    items: answers.flatMap(({ parcels }) => parcels),
    tryOut: (trx, some) => {
      const tried = answers.map((answer) => ({
        ...answer,
        parcels: answer.parcels.filter((row) => some.includes(row)),
      }));
      return storeParcels(trx, context.client, tried);
    },
    commit: (refused) =>
      commitAnswers(
        context,
        answers.map((answer) => withoutRefused(answer, refused)),
      ),
  });
}

const commitAnswers = (context: RunContext, answers: readonly AnsweredRead[]): Promise<void> =>
  commitRun(context, name, async (transaction) => {
    const changes = await storeParcels(transaction.trx, context.client, answers);
    transaction.addChanges(changes);

    let quarantined = 0;
    for (const { entries, readNo } of answers)
      quarantined += await quarantineResources(transaction, readNo, entries);
    const decoded = answers.filter(({ problem }) => problem === null);
    await releaseQuarantined(
      transaction,
      decoded.map(({ shipmentId, readNo }) => ({ id: shipmentId, readNo })),
    );

    const fetched = answers.reduce((count, { parcels }) => count + parcels.length, 0);
    const unchanged = Math.max(0, fetched - changes.length);
    transaction.count({ pages: answers.length, fetched, unchanged, quarantined });
  });
