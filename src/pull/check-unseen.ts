import { CodedError } from '../core/errors.ts';
import { serviceNow, warn } from '../schedule/run.ts';
import { commitReading, type ExtraWrites, makeEmptyReading, unlist } from './commit-reading.ts';
import type { PullContext } from './pull-context.ts';
import { recordFindings } from './sql/findings.ts';
import { type DayWindow, type Rescan, saveRescan, zeroCounts } from './sql/rescans.ts';
import { countRowsInWindows, findUnseenRows } from './sql/rows-in-windows.ts';
import type { RunTransaction } from './sql/stream-transaction.ts';
import { recordAbsences } from './sql/unlisted.ts';
import { type Stream, toAgeColumns } from './stream.ts';
import { readRescanByIds } from './walk-windows.ts';

/**
 * If a list lacks more rows than this, and a larger share than `toleratedShare`, we doubt the list
 * and mark no row.
 */
const toleratedExtras = 20;
const toleratedShare = 0.01;
/** Number of rows that are handled at a time when an operator accepts what is missing. */
const acceptBatchSize = 500;

/** An error for a list of the service that lacks too many of our rows to be believed. */
export class TooManyExtrasError extends CodedError {
  constructor(stream: string, doubts: readonly string[]) {
    super(
      'too_many_extras',
      `${stream}: the service's list lacks ${doubts.join(' and ')}; none of these was marked as unlisted. ` +
        'Check that this is the right account (WAREHOUSE_BASE_URL, WAREHOUSE_USERNAME) and that it lists everything. ' +
        `If the service has deleted the rows, run: fulfilment-sync reconcile ${stream} --accept-missing`,
    );
  }
}

/** The result of checking rows that were not listed. */
export interface UnseenResult {
  readonly rescan: Rescan;
  /** For each window in which too many rows are missing: a description for the error message. */
  readonly doubts: readonly string[];
}

/**
 * Checks stored rows that the list should have shown but did not. If the stream has a read by id,
 * reads them and marks those that the service does not know. Otherwise marks them after two
 * complete walks lacked them. Judges each window separately, so that one doubtful window does not
 * stop the others.
 * @param accept true if an operator confirms that all missing rows are gone
 */
export async function checkUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  accept = false,
): Promise<UnseenResult> {
  if (!rescan.fullList) {
    warn(
      context,
      `${stream.name}: the list could not be read to its end, so no row was marked as unlisted`,
    );
    return { rescan, doubts: [] };
  }
  // An empty list proves nothing, even if an operator accepts it.
  if (accept && rescan.fetched > 0)
    return { rescan: await acceptUnseen(context, stream, rescan), doubts: [] };
  const doubts: string[] = [];
  const missing = new Set<number>();
  let after = rescan;
  for (const window of rescan.windows ?? []) {
    const { unseen, bound, stored } = await findInWindow(context, stream, rescan, window);
    if (unseen.length === 0) continue;
    const count = `${unseen.length}${unseen.length > bound ? ' or more' : ''}`;
    const doubt = `${count} of the ${stored} rows${describeSpan(window)} that are stored here`;
    if (rescan.fetched === 0 || (unseen.length > bound && stream.get === null)) doubts.push(doubt);
    else if (stream.get === null) for (const id of unseen) missing.add(id);
    else if (unseen.length <= bound) after = await readUnseen(context, stream, after, unseen);
    else {
      const sampled = await sampleUnseen(context, stream, after, unseen);
      if (sampled === null) doubts.push(doubt);
      else after = sampled;
    }
  }
  if (stream.get === null && rescan.fetched > 0)
    after = await unlistAfterTwoWalks(context, stream, after, [...missing]);
  return { rescan: after, doubts };
}

const describeSpan = ({ after, before }: DayWindow) =>
  `${after === null ? '' : ` after ${after}`}${before === null ? '' : ` before ${before}`}`;

/**
 * Finds rows that a window lacks, and how many it may lack. Reads only as many ids as that decision
 * needs.
 */
async function findInWindow(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  window: DayWindow,
) {
  const { db, client } = context;
  const [age, now, asked] = [
    toAgeColumns(stream),
    serviceNow(context),
    { ...rescan, windows: [window] },
  ];
  const unseen = await findUnseenRows(db, asked, age, now, { limit: toleratedExtras + 1 });
  if (unseen.length === 0) return { unseen, bound: 0, stored: 0 };
  const stored = await countRowsInWindows(db, client, age, [window], now);
  const bound = Math.max(toleratedExtras, Math.floor(stored * toleratedShare));
  if (unseen.length <= toleratedExtras || bound === toleratedExtras)
    return { unseen, bound, stored };
  return { unseen: await findUnseenRows(db, asked, age, now, { limit: bound + 1 }), bound, stored };
}

/** Marks all rows that were not listed and that the service does not know by id either. */
async function acceptUnseen(context: PullContext, stream: Stream, rescan: Rescan): Promise<Rescan> {
  let after = rescan;
  for (let afterId: number | null = null; ; ) {
    const options = { limit: acceptBatchSize, afterId };
    const unseen = await findUnseenRows(
      context.db,
      rescan,
      toAgeColumns(stream),
      serviceNow(context),
      options,
    );
    const last = unseen.at(-1);
    if (last === undefined) return after;
    after =
      stream.get === null
        ? await commitUnlisted(context, stream, after, async () => unseen)
        : await readUnseen(context, stream, after, unseen);
    context.onProgress?.(after);
    afterId = last;
  }
}

/**
 * Reads a sample of unseen rows by id, because too many rows are missing to believe the list. The
 * service may return some shipments only by id (docs/interface.md, 10.6 Not shown). If it knows all
 * rows of the sample, the list is fine.
 * @returns null if the service does not know one of them; then nothing is written
 */
async function sampleUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan | null> {
  try {
    const after = await readRescanByIds(
      context,
      stream,
      rescan,
      unseen.slice(0, toleratedExtras + 1),
      async (_transaction, { absent }) => {
        if (absent.length > 0) throw new SampleLackedError();
        return null;
      },
    );
    warn(
      context,
      `${stream.name}: ${unseen.length} or more rows are not listed, but the service returns them by id`,
    );
    return after;
  } catch (error) {
    if (error instanceof SampleLackedError) return null;
    throw error;
  }
}

/** Rolls back the transaction of a sample, because one of its rows is unknown to the service. */
class SampleLackedError extends CodedError {
  constructor() {
    super('sample_lacked', 'The service does not know one of the rows by id');
  }
}

/** Reads rows by id, and marks those that the service does not know as unlisted. */
async function readUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan> {
  return readRescanByIds(context, stream, rescan, unseen, (transaction, { absent, readNo }) =>
    unlistAndRecord(transaction, context, stream, rescan, absent, readNo),
  );
}

/**
 * Notes that this walk lacked the rows, and marks those that two complete walks in a row have
 * lacked.
 */
async function unlistAfterTwoWalks(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan> {
  // After an interruption, rows that polls found unchanged in between are not known, and an absence
  // must not count twice.
  if (rescan.startedAt !== null && rescan.startedAt < context.run.startedAt) {
    if (unseen.length > 0)
      warn(
        context,
        `${stream.name}: interrupted, so no row was marked as unlisted; the next reconciliation checks again`,
      );
    return rescan;
  }
  return commitUnlisted(context, stream, rescan, (transaction) =>
    recordAbsences(transaction, { pass: 'reconcile', rescanId: rescan.id }, unseen),
  );
}

/**
 * Marks rows that the list lacked. The marks have the number of the walk's first request, so later
 * readings win.
 */
async function commitUnlisted(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  find: (transaction: RunTransaction) => Promise<readonly number[]>,
): Promise<Rescan> {
  const readNo = rescan.readNo ?? 0;
  const { result } = await commitReading(
    context,
    stream,
    makeEmptyReading(readNo),
    async (transaction) =>
      unlistAndRecord(transaction, context, stream, rescan, await find(transaction), readNo),
  );
  return result ?? rescan;
}

/** Marks rows as unlisted, and records them as findings of the rescan. */
async function unlistAndRecord(
  transaction: RunTransaction,
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  readNo: number,
): Promise<ExtraWrites<Rescan>> {
  const changes = await unlist(transaction, stream, ids, readNo);
  const gone = changes.map(({ id }) => id as number);
  await recordFindings(transaction, toAgeColumns(stream), 'extra', gone, serviceNow(context));
  const step = { ...rescan, ...zeroCounts, extra: gone.length };
  return { changes, result: await saveRescan(transaction.trx, rescan, step, []) };
}
