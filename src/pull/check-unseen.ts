import { CodedError } from '../core/errors.ts';
import { serviceNow, warn } from '../schedule/run.ts';
import { makeEmptyReading, type ReadingTransaction, unlist } from './commit-reading.ts';
import type { DayWindow, Rescan } from './sql/rescans.ts';
import { countRowsInWindows, findUnseenRows } from './sql/rows-in-windows.ts';
import { recordAbsences } from './sql/unlisted.ts';
import { type RescanContext, toAgeColumns } from './stream.ts';
import { commitProgress, readRescanByIds, recordRescanFindings } from './walk-windows.ts';

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
      `${stream}: the service's list lacks ${doubts.join(' and ')}; ` +
        'none of these was marked as unlisted. Check that this is the right account ' +
        '(WAREHOUSE_BASE_URL, WAREHOUSE_USERNAME) and that it lists everything. ' +
        'If the service has deleted the rows, run: ' +
        `fulfilment-sync reconcile ${stream} --accept-missing`,
    );
  }
}

/**
 * Checks stored rows that the list should have shown but did not. If the stream has a read by id,
 * reads them and marks those that the service does not know. Otherwise marks them after two
 * complete walks lacked them. Judges each window separately, so that one doubtful window does not
 * stop the others.
 * @param accept true if an operator confirms that all missing rows are gone
 * @returns for each window in which too many rows are missing: a description for the error message
 */
export async function checkUnseen(
  context: RescanContext,
  accept = false,
): Promise<readonly string[]> {
  const { stream, progress } = context;
  const { rescan } = progress;
  if (!rescan.fullList) {
    warn(
      context,
      `${stream.name}: the list could not be read to its end, so no row was marked as unlisted`,
    );
    return [];
  }
  // An empty list proves nothing, even if an operator accepts it.
  if (accept && rescan.fetched > 0) {
    await acceptUnseen(context);
    return [];
  }

  const doubts: string[] = [];
  const missing = new Set<number>();
  for (const window of rescan.windows ?? []) {
    const found = await findInWindow(context, rescan, window);
    if (found.unseen.length === 0) continue;
    const isBelieved = rescan.fetched > 0 && (await checkWindow(context, found, missing));
    if (!isBelieved) doubts.push(describeDoubt(found, window));
  }
  if (stream.get === null && rescan.fetched > 0) await unlistAfterTwoWalks(context, [...missing]);

  return doubts;
}

/** Rows that a window lacks. */
interface UnseenInWindow {
  /** Ids of the rows; one more than `bound` at most. */
  readonly unseen: readonly number[];
  /** Number of rows that it may lack. */
  readonly bound: number;
  /** Number of rows that are stored in it. */
  readonly stored: number;
}

/**
 * Checks the rows that one window lacks. Without a read by id, adds them to `missing`.
 * @returns false if too many are missing to believe the list
 */
async function checkWindow(
  context: RescanContext,
  { unseen, bound }: UnseenInWindow,
  missing: Set<number>,
): Promise<boolean> {
  const isWithinBound = unseen.length <= bound;
  if (context.stream.get === null) {
    if (isWithinBound) for (const id of unseen) missing.add(id);
    return isWithinBound;
  }
  if (!isWithinBound) return sampleUnseen(context, unseen);

  await readUnseen(context, unseen);
  return true;
}

function describeDoubt({ unseen, bound, stored }: UnseenInWindow, window: DayWindow): string {
  const count = `${unseen.length}${unseen.length > bound ? ' or more' : ''}`;
  return `${count} of the ${stored} rows${describeSpan(window)} that are stored here`;
}

const describeSpan = ({ after, before }: DayWindow) =>
  `${after === null ? '' : ` after ${after}`}${before === null ? '' : ` before ${before}`}`;

/**
 * Finds rows that a window lacks, and how many it may lack. Reads only as many ids as that decision
 * needs.
 */
async function findInWindow(
  context: RescanContext,
  rescan: Rescan,
  window: DayWindow,
): Promise<UnseenInWindow> {
  const { db, client, stream } = context;
  const place = { age: toAgeColumns(stream), serviceNow: serviceNow(context) };
  const asked = { ...rescan, windows: [window] };
  const unseen = await findUnseenRows(db, asked, place, { limit: toleratedExtras + 1 });
  if (unseen.length === 0) return { unseen, bound: 0, stored: 0 };

  const stored = await countRowsInWindows(db, client, place, [window]);
  const bound = Math.max(toleratedExtras, Math.floor(stored * toleratedShare));
  if (unseen.length <= toleratedExtras || bound === toleratedExtras)
    return { unseen, bound, stored };

  return { unseen: await findUnseenRows(db, asked, place, { limit: bound + 1 }), bound, stored };
}

/** Marks all rows that were not listed and that the service does not know by id either. */
async function acceptUnseen(context: RescanContext): Promise<void> {
  const { db, stream, progress } = context;
  const asked = progress.rescan;
  const place = { age: toAgeColumns(stream), serviceNow: serviceNow(context) };

  for (let afterId: number | null = null; ; ) {
    const unseen: readonly number[] = await findUnseenRows(db, asked, place, {
      limit: acceptBatchSize,
      afterId,
    });
    const last = unseen.at(-1);
    if (last === undefined) return;

    if (stream.get === null) await commitUnlisted(context, async () => unseen);
    else await readUnseen(context, unseen);
    context.onProgress?.(progress.rescan);
    afterId = last;
  }
}

/**
 * Reads a sample of unseen rows by id, because too many rows are missing to believe the list. The
 * service may return some shipments only by id (docs/interface.md, 10.6 Not shown). If it knows all
 * rows of the sample, the list is fine.
 * @returns false if the service does not know one of them; then nothing is written
 */
async function sampleUnseen(context: RescanContext, unseen: readonly number[]): Promise<boolean> {
  const sample = unseen.slice(0, toleratedExtras + 1);
  try {
    await readRescanByIds(context, sample, async (_transaction, { absent }) => {
      if (absent.length > 0) throw new SampleLackedError();
      return {};
    });
  } catch (error) {
    if (error instanceof SampleLackedError) return false;
    throw error;
  }

  warn(
    context,
    `${context.stream.name}: ${unseen.length} or more rows are not listed, ` +
      'but the service returns them by id',
  );
  return true;
}

/** Rolls back the transaction of a sample, because one of its rows is unknown to the service. */
class SampleLackedError extends CodedError {
  constructor() {
    super('sample_lacked', 'The service does not know one of the rows by id');
  }
}

/** Reads rows by id, and marks those that the service does not know as unlisted. */
const readUnseen = (context: RescanContext, unseen: readonly number[]): Promise<void> =>
  readRescanByIds(context, unseen, (transaction, { absent, readNo }) =>
    unlistAndRecord(transaction, context, absent, readNo),
  );

/**
 * Notes that this walk lacked the rows, and marks those that two complete walks in a row have
 * lacked.
 */
async function unlistAfterTwoWalks(
  context: RescanContext,
  unseen: readonly number[],
): Promise<void> {
  const { stream, progress, run } = context;
  const { startedAt, id } = progress.rescan;
  // After an interruption, rows that polls found unchanged in between are not known, and an absence
  // must not count twice.
  if (startedAt !== null && startedAt < run.startedAt) {
    if (unseen.length > 0)
      warn(
        context,
        `${stream.name}: interrupted, so no row was marked as unlisted; ` +
          'the next reconciliation checks again',
      );
    return;
  }

  await commitUnlisted(context, (transaction) =>
    recordAbsences(transaction, { pass: 'reconcile', rescanId: id }, unseen),
  );
}

/**
 * Marks rows that the list lacked. The marks have the number of the walk's first request, so later
 * readings win.
 */
async function commitUnlisted(
  context: RescanContext,
  find: (transaction: ReadingTransaction) => Promise<readonly number[]>,
): Promise<void> {
  const readNo = context.progress.rescan.readNo ?? 0;
  await commitProgress(context, makeEmptyReading(readNo), async (transaction) =>
    unlistAndRecord(transaction, context, await find(transaction), readNo),
  );
}

/** Marks rows as unlisted, and records them as findings of the rescan. */
async function unlistAndRecord(
  transaction: ReadingTransaction,
  context: RescanContext,
  ids: readonly number[],
  readNo: number,
): Promise<{ readonly extra: number }> {
  const gone = await unlist(transaction, context.stream, ids, readNo);
  await recordRescanFindings(transaction, context, 'extra', gone);

  return { extra: gone.length };
}
