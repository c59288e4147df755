import { CodedError, hasCode, NotYetError, WarehouseError } from '../../core/errors.ts';
import { workOnHalves } from '../../core/halves.ts';
import { unstorableReason } from '../../core/json.ts';
import { hourMs } from '../../core/time.ts';
import { inTransaction, refusesData } from '../../erp/connection/transaction.ts';
import { appendChanges } from '../../erp/mirror/feed.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { forgetOlderQuarantined, type QuarantineEntry, quarantine } from '../../erp/pull/quarantine.ts';
import { requestRereads } from '../../erp/pull/rereads.ts';
import { storeTrackTraces } from '../../erp/resources/track-trace.ts';
import { closeGate, type Gate, passGate } from '../../erp/runs/gates.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress, type Totals } from '../../erp/runs/ledger.ts';
import { decodeTrackTraces, type TrackTrace, type TrackTraceList } from '../../warehouse/decoding/track-trace.ts';
import { stateOfRefusal } from '../commit/refused.ts';
import { checkQuarantineShare } from '../reading/decode.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** From the end of a call to the next (interface.md, Limits: at most once per hour), with some seconds to spare. */
const trackTraceGapMs = 3_605_000;
/** What could not even be connected to may be tried again after this. */
const notMadeMs = 60_000;
/** A passage that took longer to be confirmed is not used: the gate was closed at its beginning, not now. Then it connects. */
const maxPassMs = 5_000;
/** A list that held this many packages is reported when it holds none. */
const worthAWord = 20;
const assumedPath =
  'the interface description does not show the path of track-trace (docs/assumptions.md): ' +
  'set the right one in WAREHOUSE_OPERATIONS_FILE, or SCHEDULE_TRACK_TRACE=off';
const name = 'track-trace';

/**
 * Asks where the packages are, at most once an hour whoever asks, and stores what came.
 * @throws NotYetError where it may not be asked yet
 */
export async function pullTrackTrace(context: PullContext): Promise<void> {
  const { warehouse, signal, zone } = context;
  const way: Way = { passage: null, readNo: 0 };
  try {
    const beforeSend = () => enter(context, way);
    const result = await warehouse.askOnce({ operation: 'v2.shipment.trackTrace' }, { signal, beforeSend });
    await store(context, decodeTrackTraces(result, zone), way);
  } catch (error) {
    if (error instanceof WarehouseError && [403, 404, 405].includes(error.status ?? 0)) warn(context, assumedPath);
    if (way.passage !== null) await leave(context, way.passage, error);
    throw error;
  }
}

/** How far a call has come. */
interface Way {
  /** Number of the passage through the gate; null before. */
  passage: number | null;
  /** Drawn before the request was sent. */
  readNo: number;
}

const gateOf = ({ identity, client }: PullContext): Gate => ({ name, identity, client });

/** Passes the gate at the last moment before the request is written. */
async function enter(context: PullContext, way: Way): Promise<void> {
  way.readNo = await drawReadNo(context.db);
  const askedAtMs = performance.now();
  const passage = await passGate(context.db, gateOf(context), hourMs + maxPassMs + 2 * context.timeoutMs);
  if (!passage.passed) {
    context.state.plan.dueAt = context.dueNotBefore(passage.opensAt, trackTraceGapMs);
    throw new NotYetError('track-trace is asked at most once an hour, whoever asks', passage.opensAt);
  }
  way.passage = passage.number;
  if (performance.now() - askedAtMs > maxPassMs)
    throw new CodedError('gate_spent', 'The database took too long to open the gate; track-trace was not asked');
}

/** A call that failed may have been received all the same, but for one without a connection. */
async function leave(context: PullContext, passage: number, error: unknown): Promise<void> {
  const made = !hasCode(error, 'connect_failed');
  const opensAt = await inTransaction(context.db, (trx) =>
    closeGate(trx, gateOf(context), passage, made ? trackTraceGapMs : notMadeMs),
  );
  if (opensAt === null) return;
  const dueAt = context.dueNotBefore(opensAt, trackTraceGapMs);
  // Asked for by hand alone, it does not come round by itself.
  context.state.plan.dueAt = made || dueAt === null ? dueAt : opensAt;
}

async function store(context: PullContext, list: TrackTraceList, way: Way): Promise<void> {
  const { rows, contradictions } = onePerPackage(list.items.filter(isStorable));
  const aside: Aside[] = [
    ...list.undecodable.map((item) => ({ shipmentId: item.shipmentId, entry: entryOf(item) })),
    ...list.items.filter((item) => !isStorable(item)).map((item) => unstorable(item, null)),
  ];
  const fetched = list.items.length + list.undecodable.length;
  const reading: TrackTraceReading = { rows, aside, fetched };
  let listedBefore: number;
  try {
    listedBefore = await write(context, reading, way);
  } catch (error) {
    if (!refusesData(error)) throw error;
    const refused = await findRefused(context, rows);
    if (refused.size === 0) throw error;
    listedBefore = await write(context, withoutRefused(reading, refused), way);
  }
  if (contradictions > 0)
    warn(context, `${contradictions} packages were listed more than once, each time otherwise; the latest counts`);
  if (fetched === 0 && listedBefore >= worthAWord)
    warn(context, `the list is empty, and held ${listedBefore} packages before`);
}

/** What goes to quarantine, with the shipment it may be of. */
interface Aside {
  readonly shipmentId: number | null;
  readonly entry: QuarantineEntry;
}

interface TrackTraceReading {
  readonly rows: readonly TrackTrace[];
  readonly aside: readonly Aside[];
  readonly fetched: number;
}

/** Rows, quarantine, gate, ledger and feed in one transaction. @returns how many packages were listed before */
async function write(context: PullContext, reading: TrackTraceReading, { readNo, passage }: Way): Promise<number> {
  const { client, db, run, quarantineMaxShare } = context;
  const { totals } = context.state;
  const { rows, aside, fetched } = reading;
  const entries = aside.map(({ entry }) => entry);
  checkQuarantineShare(entries.length, fetched, quarantineMaxShare, entries[0]);
  const present = aside.map(({ shipmentId }) => shipmentId).filter((id) => id !== null);
  const stored = await underLease(db, run.lease, async (trx) => {
    const result = await storeTrackTraces(trx, client, rows, present.length < aside.length ? null : present);
    await requestRereads({ trx, client, stream: 'shipments' }, result.unknownShipments, 'track-trace names it', false);
    const quarantined = await quarantine(trx, name, run, readNo, entries);
    await forgetOlderQuarantined({ trx, client, stream: name }, readNo);
    const sum: Totals = {
      ...totals,
      pages: 1,
      fetched,
      created: result.created,
      updated: result.updated + result.unlisted,
      unchanged: rows.length - result.created - result.updated,
      quarantined,
    };
    await recordProgress(trx, run, sum);
    const opensAt = await closeGate(trx, gateOf(context), passage ?? 0, trackTraceGapMs);
    await appendChanges(trx, client, result.changes);
    return { sum, opensAt, listedBefore: result.listedBefore };
  });
  Object.assign(totals, stored.sum);
  if (stored.opensAt !== null) context.state.plan.dueAt = context.dueNotBefore(stored.opensAt, trackTraceGapMs);
  return stored.listedBefore;
}

/** Items that the database does not take, found by halves, with its reason. */
async function findRefused(
  context: PullContext,
  rows: readonly TrackTrace[],
): Promise<ReadonlyMap<TrackTrace, string>> {
  const { client, db, run } = context;
  const state = await stateOfRefusal(db, run.lease, (trx) => storeTrackTraces(trx, client, rows, null));
  const [only, ...others] = rows;
  if (state === null || only === undefined) return new Map();
  if (others.length === 0) return new Map([[only, `cannot be stored in Postgres (SQLSTATE ${state})`]]);
  const halves = await workOnHalves(rows, (half) => findRefused(context, half));
  return new Map(halves.flatMap((half) => [...half]));
}

function withoutRefused(
  { rows, aside, fetched }: TrackTraceReading,
  refused: ReadonlyMap<TrackTrace, string>,
): TrackTraceReading {
  return {
    rows: rows.filter((row) => !refused.has(row)),
    aside: [...aside, ...[...refused].map(([item, reason]) => unstorable(item, reason))],
    fetched,
  };
}

/** Of several items for one package the one with the latest time counts; of two with the same time the later in the list. */
function onePerPackage(items: readonly TrackTrace[]): { rows: readonly TrackTrace[]; contradictions: number } {
  const rows = new Map<string, TrackTrace>();
  const contradicted = new Set<string>();
  for (const item of items) {
    const key = `${item.shipmentId}:${item.packageNumber}`;
    const other = rows.get(key);
    if (other !== undefined && JSON.stringify(other.raw) !== JSON.stringify(item.raw)) contradicted.add(key);
    if (other === undefined || timeOf(item) >= timeOf(other)) rows.set(key, item);
  }
  return { rows: [...rows.values()], contradictions: contradicted.size };
}

const timeOf = ({ statusAt }: TrackTrace) => (statusAt === null ? Number.NEGATIVE_INFINITY : Date.parse(statusAt));

const isStorable = ({ raw }: TrackTrace) => unstorableReason(JSON.stringify(raw)) === null;

function entryOf({ path, reason, raw }: TrackTraceList['undecodable'][number]): QuarantineEntry {
  return { resourceId: null, memberPath: path, reason, document: JSON.stringify(raw) };
}

function unstorable({ shipmentId, raw }: TrackTrace, reason: string | null): Aside {
  const document = JSON.stringify(raw);
  const because = reason ?? unstorableReason(document) ?? '';
  return { shipmentId, entry: { resourceId: null, memberPath: '', reason: because, document } };
}
