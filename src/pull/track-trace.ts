import { pauses } from '../core/backoff.ts';
import { CodedError, hasCode, NotYetError } from '../core/errors.ts';
import { hourMs } from '../core/time.ts';
import type { Database } from '../db/pool.ts';
import { inTransaction } from '../db/transaction.ts';
import { type RunContext, warn } from '../schedule/run.ts';
import { finishTurns, readTurns, type Turn, takeTurn } from '../schedule/sql/turns.ts';
import {
  decodeTrackTraces,
  type TrackTrace,
  type TrackTraceList,
} from '../service/decoding/decode-parcels.ts';
import type { ClientAccount } from '../service/sql/clients.ts';
import { commitRun, commitStorable, countChanges } from './commit.ts';
import { checkQuarantineShare, makeQuarantineEntry } from './decode.ts';
import {
  type PresentPackages,
  postponeListedParcelReads,
  storeListedParcels,
  storeTrackTraces,
  type TrackTraceResult,
  toPackageRow,
} from './sql/parcel-rows.ts';
import { quarantineResources, releaseOlderQuarantined } from './sql/quarantine.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import { requestParcelReads, requestReads } from './sql/waiting-reads.ts';

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
  const nextAt = await inTransaction(context.db, (trx) => finishTrackTraceTurn(trx, turn, pauseMs));
  if (nextAt === null) return;

  const dueAt = context.dueNotBefore(nextAt, trackTraceGapMs);
  // Without a schedule, no run is due by itself.
  context.state.end.dueAt = isReceived || dueAt === null ? dueAt : nextAt;
}

/** The rows of one list, and its items for the quarantine. */
interface TrackTraceReading {
  readonly rows: readonly TrackTrace[];
  readonly refused: readonly RefusedItem[];
}

/** An item that could not be decoded or stored, with what names its package, if it can be read. */
type RefusedItem = TrackTraceList['undecodable'][number];

/** Stores a list. Quarantines the items that the database refuses. */
async function storeList(
  context: RunContext,
  { items, undecodable }: TrackTraceList,
  call: TrackTraceCall,
): Promise<void> {
  const { rows, contradictions } = keepLatestPerPackage(items);
  const fetched = items.length + undecodable.length;

  const { doubted, listedBefore } = await commitStorable(context, {
    items: rows,
    tryOut: (trx, some) => storeTrackTraces(trx, context.client, some.map(toPackageRow), null),
    commit: (found) => {
      const refused = [...found].map(([item, reason]) => ({ ...item, path: '', reason }));
      const reading = {
        rows: rows.filter((row) => !found.has(row)),
        refused: [...undecodable, ...refused],
      };
      return commitList(context, reading, fetched, call);
    },
  });

  if (contradictions > 0)
    warn(
      context,
      `${contradictions} packages were listed more than once with different data; ` +
        'the latest entry is stored',
    );
  if (doubted > 0)
    warn(
      context,
      `the list lacks ${doubted} of the ${listedBefore} packages of the last ` +
        'one; they are marked if the next list lacks them, too',
    );
}

/** Writes rows, waiting reads, quarantine, turn, ledger and feed in one transaction. */
async function commitList(
  context: RunContext,
  { rows, refused }: TrackTraceReading,
  fetched: number,
  { readNo, turn }: TrackTraceCall,
): Promise<TrackTraceResult> {
  const { client } = context;
  const entries = refused.map(({ raw, ...problem }) => makeQuarantineEntry(null, raw, problem));
  checkQuarantineShare(entries.length, fetched, entries[0]);
  const present = findPresent(refused);
  const packages = rows.map(toPackageRow);

  const committed = await commitRun(context, name, async (transaction) => {
    const { trx } = transaction;
    const stored = await storeTrackTraces(trx, client, packages, present);
    transaction.addChanges(stored.changes);
    transaction.addChanges(await storeListedParcels(trx, client, packages, readNo));

    const listed = rows.map(({ shipmentId }) => shipmentId);
    await postponeListedParcelReads(trx, client, listed);
    await requestParcelReads(trx, client, stored.unlistedShipments);
    const ofShipments = { ...transaction, stream: 'shipments' };
    await requestReads(ofShipments, stored.unknownShipments, 'tracked');

    const quarantined = await quarantineResources(transaction, readNo, entries);
    await releaseOlderQuarantined(transaction, readNo);

    const nextAt = turn === null ? null : await finishTrackTraceTurn(trx, turn);
    const written = stored.changes.filter(({ operation }) => operation !== 'unlisted').length;
    const unchanged = rows.length - written;
    // Its packages are also rows of parcels: they count once.
    const counted = countChanges(stored.changes);
    transaction.count({ ...counted, pages: 1, fetched, unchanged, quarantined });
    return { nextAt, stored };
  });

  const { nextAt, stored } = committed;
  if (nextAt !== null) context.state.end.dueAt = context.dueNotBefore(nextAt, trackTraceGapMs);
  return stored;
}

/**
 * Finds the packages that the refused items may be: all of a shipment, or else all with a number;
 * null if an item may be any package.
 */
function findPresent(refused: readonly RefusedItem[]): PresentPackages | null {
  const unnamed = refused.filter(({ shipmentId }) => shipmentId === null);
  const numbers = unnamed.map(({ packageNumber }) => packageNumber).filter((no) => no !== null);
  if (numbers.length < unnamed.length) return null;

  const shipmentIds = refused.map(({ shipmentId }) => shipmentId).filter((id) => id !== null);
  return { shipmentIds, numbers };
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
