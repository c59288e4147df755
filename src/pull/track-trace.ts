import { pauses } from '../core/backoff.ts';
import { CodedError, hasCode, NotYetError } from '../core/errors.ts';
import { findUnstorableReason } from '../core/json.ts';
import { hourMs } from '../core/time.ts';
import type { Database } from '../db/pool.ts';
import { inTransaction, isDataRefused } from '../db/transaction.ts';
import { addCounts, type RunContext, warn } from '../schedule/run.ts';
import { recordProgress } from '../schedule/sql/ledger.ts';
import { finishTurns, readTurns, type Turn, takeTurn } from '../schedule/sql/turns.ts';
import {
  decodeTrackTraces,
  type TrackTrace,
  type TrackTraceList,
} from '../service/decoding/decode-parcels.ts';
import type { ClientAccount } from '../service/sql/clients.ts';
import { checkQuarantineShare, makeQuarantineEntry } from './decode.ts';
import { findRefused } from './find-refused.ts';
import { appendChanges } from './sql/feed.ts';
import { postponeListedParcelReads, requestParcelReads } from './sql/parcel-reads.ts';
import { storeListedParcels } from './sql/parcel-rows.ts';
import {
  type QuarantineEntry,
  quarantineResources,
  releaseOlderQuarantined,
} from './sql/quarantine.ts';
import { drawReadNo, writeStream } from './sql/stream-transaction.ts';
import { storeTrackTraces, type TrackTraceResult } from './sql/track-trace-rows.ts';
import { requestReads } from './sql/waiting-reads.ts';

/**
 * Minimum time from the end of a call to the next: once an hour (docs/interface.md, 5.1 Values),
 * plus five seconds.
 */
const trackTraceGapMs = 3_605_000;
/**
 * Maximum time to take the turn. If the database takes longer, the call is not made, because the
 * hour counts from the beginning of the turn.
 */
const maxTakeMs = 5_000;
const name = 'track-trace';

/**
 * Reads the track-trace list and stores it. All workers and commands together read it at most once
 * an hour.
 * @throws NotYetError if the hour is not over
 */
export async function pullTrackTrace(context: RunContext): Promise<void> {
  const { warehouse, signal, zone } = context;
  const call: TrackTraceCall = { turn: null, readNo: 0 };
  try {
    const beforeSend = () => beginTurn(context, call);
    const result = await warehouse.askOnce(
      { operation: 'v2.shipment.trackTrace' },
      { signal, beforeSend },
    );
    const list = decodeTrackTraces(result, zone);
    await context.health.proveMainOperation();
    await storeList(context, list, call);
  } catch (error) {
    if (call.turn !== null) await endTurn(context, call.turn, error);
    throw error;
  }
}

/** The state of one call of the track-trace list. */
interface TrackTraceCall {
  /** The turn to make the call; null before it is taken. */
  turn: Turn | null;
  /** Number of the reading, drawn before the request is sent. */
  readNo: number;
}

/**
 * Takes the turn to ask for the track-trace list of an account. Everything that asks for the list
 * takes it. It lasts for an hour, and the longest time of the call.
 * @returns the turn, or when the next one can be taken
 */
export async function takeTrackTraceTurn(
  db: Database,
  { client, identity }: ClientAccount,
  timeoutMs: number,
): Promise<Turn | Date> {
  const key = { name, scope: identity, client } as const;
  const turn = await takeTurn(db, key, hourMs + maxTakeMs + 2 * timeoutMs);
  if (turn !== null) return turn;
  const [last] = await readTurns(db, name, identity);
  return last?.nextAt ?? new Date();
}

/**
 * Records that the call of a turn is over. The next one can be made an hour later, or sooner if
 * nothing was sent.
 * @returns when the next turn can be taken; null if it was taken meanwhile
 */
export async function finishTrackTraceTurn(
  db: Parameters<typeof finishTurns>[0],
  turn: Turn,
  pauseMs = trackTraceGapMs,
): Promise<Date | null> {
  const [finished] = await finishTurns(db, name, [turn], pauseMs);
  return finished?.nextAt ?? null;
}

/**
 * Takes the turn just before the request is sent.
 * @throws NotYetError if it is too soon
 */
async function beginTurn(context: RunContext, call: TrackTraceCall): Promise<void> {
  const { db, config, state } = context;
  call.readNo = await drawReadNo(db);

  const askedAtMs = performance.now();
  const turn = await takeTrackTraceTurn(db, context, config.HTTP_TIMEOUT_MS);
  if (turn instanceof Date) {
    state.end.dueAt = context.dueNotBefore(turn, trackTraceGapMs);
    throw new NotYetError('track-trace may be requested only once an hour', turn);
  }

  call.turn = turn;
  if (performance.now() - askedAtMs > maxTakeMs)
    throw new CodedError(
      'gate_spent',
      'The database took too long to give the turn, so track-trace was not requested',
    );
}

/**
 * Ends the turn after a failed call, and sets when the next run is due. The service may have
 * received the request, unless there was no connection: then the next call may come sooner.
 */
async function endTurn(context: RunContext, turn: Turn, error: unknown): Promise<void> {
  const isReceived = !hasCode(error, 'connect_failed');
  const pauseMs = isReceived ? trackTraceGapMs : pauses.unsentTrackTrace.firstMs;
  const opensAt = await inTransaction(context.db, (trx) =>
    finishTrackTraceTurn(trx, turn, pauseMs),
  );
  if (opensAt === null) return;

  const dueAt = context.dueNotBefore(opensAt, trackTraceGapMs);
  // Without a schedule, no run is due by itself.
  context.state.end.dueAt = isReceived || dueAt === null ? dueAt : opensAt;
}

async function storeList(
  context: RunContext,
  list: TrackTraceList,
  call: TrackTraceCall,
): Promise<void> {
  const { rows, contradictions } = keepLatestPerPackage(list.items.filter(isStorable));
  const quarantineItems: QuarantineItem[] = [
    ...list.undecodable.map((item) => ({
      shipmentId: item.shipmentId,
      entry: makeQuarantineEntry(null, item.raw, item),
    })),
    ...list.items.filter((item) => !isStorable(item)).map((item) => toQuarantineItem(item, null)),
  ];
  const fetched = list.items.length + list.undecodable.length;
  const reading: TrackTraceReading = { rows, quarantineItems, fetched };
  let written: Written;
  try {
    written = await writeReading(context, reading, call);
  } catch (error) {
    if (!isDataRefused(error)) throw error;
    const { client, db, run } = context;
    const refused = await findRefused(db, run.lease, rows, (trx, some) =>
      storeTrackTraces(trx, client, some, null),
    );
    if (refused.size === 0) throw error;
    written = await writeReading(context, moveRefused(reading, refused), call);
  }
  if (contradictions > 0)
    warn(
      context,
      `${contradictions} packages were listed more than once with different data; ` +
        'the latest entry is stored',
    );
  if (written.doubted > 0)
    warn(
      context,
      `the list lacks ${written.doubted} of the ${written.listedBefore} packages of the last ` +
        'one; they are marked if the next list lacks them, too',
    );
}

/** An entry for the quarantine, with the id of its shipment if that could be read. */
interface QuarantineItem {
  readonly shipmentId: number | null;
  readonly entry: QuarantineEntry;
}

/** The rows of one list, and its items for the quarantine. */
interface TrackTraceReading {
  readonly rows: readonly TrackTrace[];
  readonly quarantineItems: readonly QuarantineItem[];
  readonly fetched: number;
}

type Written = Pick<TrackTraceResult, 'listedBefore' | 'doubted'>;

/** Writes rows, quarantine, turn, ledger and feed in one transaction. */
async function writeReading(
  context: RunContext,
  reading: TrackTraceReading,
  { readNo, turn }: TrackTraceCall,
): Promise<Written> {
  const { client, db, run } = context;
  const { rows, quarantineItems, fetched } = reading;
  const entries = quarantineItems.map(({ entry }) => entry);
  checkQuarantineShare(entries.length, fetched, entries[0]);
  const presentIds = quarantineItems
    .map(({ shipmentId }) => shipmentId)
    .filter((id) => id !== null);
  const stored = await writeStream(db, run, name, async (transaction) => {
    const { trx } = transaction;
    const result = await storeTrackTraces(
      trx,
      client,
      rows,
      presentIds.length < quarantineItems.length ? null : presentIds,
    );
    const parcels = await storeListedParcels(trx, client, rows, readNo);
    await postponeListedParcelReads(
      trx,
      client,
      rows.map(({ shipmentId }) => shipmentId),
    );
    await requestParcelReads(trx, client, result.leftShipments);
    await requestReads(
      { ...transaction, stream: 'shipments' },
      result.unknownShipments,
      'tracked',
      false,
    );
    const quarantined = await quarantineResources(transaction, readNo, entries);
    await releaseOlderQuarantined(transaction, readNo);
    const { created, updated, unlisted } = result;
    const unchanged = rows.length - created - updated;
    const counts = {
      pages: 1,
      fetched,
      created,
      updated: updated + unlisted,
      unchanged,
      quarantined,
    };
    const sum = addCounts(context, counts);
    await recordProgress(transaction, sum);
    const opensAt = turn === null ? null : await finishTrackTraceTurn(trx, turn);
    await appendChanges(trx, client, [...result.changes, ...parcels.changes]);
    return { sum, opensAt, result };
  });
  Object.assign(context.state.totals, stored.sum);
  if (stored.opensAt !== null)
    context.state.end.dueAt = context.dueNotBefore(stored.opensAt, trackTraceGapMs);
  return stored.result;
}

function moveRefused(
  { rows, quarantineItems, fetched }: TrackTraceReading,
  refused: ReadonlyMap<TrackTrace, string>,
): TrackTraceReading {
  return {
    rows: rows.filter((row) => !refused.has(row)),
    quarantineItems: [
      ...quarantineItems,
      ...[...refused].map(([item, reason]) => toQuarantineItem(item, reason)),
    ],
    fetched,
  };
}

/**
 * Keeps one item for each package: the one with the latest time, or the later one in the list if
 * the times are equal. Counts the packages whose items differ.
 */
function keepLatestPerPackage(items: readonly TrackTrace[]): {
  rows: readonly TrackTrace[];
  contradictions: number;
} {
  const rows = new Map<string, TrackTrace>();
  const contradicted = new Set<string>();
  for (const item of items) {
    const key = `${item.shipmentId}:${item.packageNumber}`;
    const other = rows.get(key);
    if (other !== undefined && JSON.stringify(other.raw) !== JSON.stringify(item.raw))
      contradicted.add(key);
    if (other === undefined || readTimeMs(item) >= readTimeMs(other)) rows.set(key, item);
  }
  return { rows: [...rows.values()], contradictions: contradicted.size };
}

const readTimeMs = ({ currentTrackTraceStatusDateTime: time }: TrackTrace) =>
  time === null ? Number.NEGATIVE_INFINITY : Date.parse(time);

const isStorable = ({ raw }: TrackTrace) => findUnstorableReason(JSON.stringify(raw)) === null;

function toQuarantineItem({ shipmentId, raw }: TrackTrace, reason: string | null): QuarantineItem {
  const because = reason ?? findUnstorableReason(JSON.stringify(raw)) ?? '';
  return { shipmentId, entry: makeQuarantineEntry(null, raw, { path: '', reason: because }) };
}
