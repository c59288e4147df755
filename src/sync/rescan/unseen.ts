import type { Transaction } from 'kysely';
import { CodedError } from '../../core/errors.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { noteAbsences } from '../../erp/pull/absences.ts';
import { recordFindings } from '../../erp/rescan/findings.ts';
import { type DayWindow, nothingCounted, type Rescan, saveRescan } from '../../erp/rescan/rescans.ts';
import { countInWindows, findUnseen } from '../../erp/rescan/rows-in-windows.ts';
import { type Beside, commitReading, nothingRead } from '../commit/commit-reading.ts';
import { unlist } from '../commit/unlist.ts';
import { ageColumns, type Stream } from '../reading/stream.ts';
import { type PullContext, serviceNow, warn } from '../run/pull-context.ts';
import { readAlone } from './walk-windows.ts';

/** So many rows may be gone from the service at once, or this share of them, before it is the list that is doubted. */
const fewExtras = 20;
const extraShare = 0.01;
/** Number of rows that are handled at a time when an operator accepts what is missing. */
const acceptBatchSize = 500;

/** The service's list lacks more of the rows stored here than can be believed. */
export class TooManyExtrasError extends CodedError {
  constructor(stream: string, doubts: readonly string[]) {
    super(
      'too_many_extras',
      `${stream}: the service's list lacks ${doubts.join(' and ')}; none of these was marked. ` +
        'Is this the right account (WAREHOUSE_BASE_URL, WAREHOUSE_USERNAME), and does it list everything? ' +
        `If the service has deleted them, run: fulfilment-sync reconcile ${stream} --accept-missing`,
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
 * Deals with what is stored here, should have been listed and was not: read by id where there is such a read, else marked
 * once two complete walks lacked it. Judges each window by itself, so that one doubtful window does not stop the others.
 * @param accept true if an operator confirms that all missing rows are gone
 */
export async function dealWithUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  accept = false,
): Promise<UnseenResult> {
  if (!rescan.fullList) {
    warn(context, `${stream.name}: the list was not shown to its end, so no row is taken for gone`);
    return { rescan, doubts: [] };
  }
  // An empty list proves nothing, even if an operator accepts it.
  if (accept && rescan.fetched > 0) return { rescan: await acceptUnseen(context, stream, rescan), doubts: [] };
  const doubts: string[] = [];
  const missing = new Set<number>();
  let after = rescan;
  for (const window of rescan.windows ?? []) {
    const { unseen, bound, stored } = await findInWindow(context, stream, rescan, window);
    if (unseen.length === 0) continue;
    const count = `${unseen.length}${unseen.length > bound ? ' or more' : ''}`;
    const doubt = `${count} of the ${stored} rows${spanOf(window)} that are stored here`;
    if (rescan.fetched === 0 || (unseen.length > bound && stream.get === null)) doubts.push(doubt);
    else if (stream.get === null) for (const id of unseen) missing.add(id);
    else if (unseen.length <= bound) after = await readUnseen(context, stream, after, unseen);
    else {
      const sampled = await sampleUnseen(context, stream, after, unseen);
      if (sampled === null) doubts.push(doubt);
      else after = sampled;
    }
  }
  if (stream.get === null && rescan.fetched > 0) after = await markAfterTwoWalks(context, stream, after, [...missing]);
  return { rescan: after, doubts };
}

const spanOf = ({ after, before }: DayWindow) =>
  `${after === null ? '' : ` after ${after}`}${before === null ? '' : ` before ${before}`}`;

/** Finds rows that a window lacks, and how many it may lack. Reads only as many ids as that decision needs. */
async function findInWindow(context: PullContext, stream: Stream, rescan: Rescan, window: DayWindow) {
  const { db, client } = context;
  const [age, now, asked] = [ageColumns(stream), serviceNow(context), { ...rescan, windows: [window] }];
  const unseen = await findUnseen(db, asked, age, now, { limit: fewExtras + 1 });
  if (unseen.length === 0) return { unseen, bound: 0, stored: 0 };
  const stored = await countInWindows(db, client, age, [window], now);
  const bound = Math.max(fewExtras, Math.floor(stored * extraShare));
  if (unseen.length <= fewExtras || bound === fewExtras) return { unseen, bound, stored };
  return { unseen: await findUnseen(db, asked, age, now, { limit: bound + 1 }), bound, stored };
}

/** Marks all rows that were not listed and that the service does not know by id either. */
async function acceptUnseen(context: PullContext, stream: Stream, rescan: Rescan): Promise<Rescan> {
  let after = rescan;
  for (let afterId: number | null = null; ; ) {
    const options = { limit: acceptBatchSize, afterId };
    const unseen = await findUnseen(context.db, rescan, ageColumns(stream), serviceNow(context), options);
    const last = unseen.at(-1);
    if (last === undefined) return after;
    after =
      stream.get === null
        ? await markAtOnce(context, stream, after, unseen)
        : await readUnseen(context, stream, after, unseen);
    context.onProgress?.(after);
    afterId = last;
  }
}

/**
 * More rows are not listed than may be gone. Some shipments only a direct fetch returns (interface.md, GET /v3/shipments):
 * where all of a sample are such, nothing is wrong with the list.
 * @returns null if one of them is unknown to the service; then nothing is written
 */
async function sampleUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan | null> {
  try {
    const after = await readAlone(context, stream, rescan, unseen.slice(0, fewExtras + 1), async (_trx, { absent }) => {
      if (absent.length > 0) throw new SampleLackedError();
      return null;
    });
    warn(
      context,
      `${stream.name}: ${unseen.length} or more rows are not listed, but known to the service when read by id`,
    );
    return after;
  } catch (error) {
    if (error instanceof SampleLackedError) return null;
    throw error;
  }
}

/** Rolls back the transaction of a sample. */
class SampleLackedError extends CodedError {
  constructor() {
    super('sample_lacked', 'The service does not know one of the rows by id');
  }
}

/** Found by id, a row is only not listed; unknown to the service, it is marked. */
async function readUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan> {
  return readAlone(context, stream, rescan, unseen, (trx, { absent, readNo }) =>
    mark(trx, context, stream, rescan, absent, readNo),
  );
}

async function markAfterTwoWalks(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan> {
  // Between its parts nobody noted what polls found unchanged, and an absence must not be counted twice.
  if (rescan.startedAt !== null && rescan.startedAt < context.run.startedAt) {
    if (unseen.length > 0)
      warn(context, `${stream.name}: cut short in between; the next reconciliation says what is gone`);
    return rescan;
  }
  return commitMarks(context, stream, rescan, (trx) => {
    const scope = { client: context.client, stream: stream.name, pass: 'reconcile', rescanId: rescan.id } as const;
    return noteAbsences(trx, scope, unseen);
  });
}

const markAtOnce = (context: PullContext, stream: Stream, rescan: Rescan, ids: readonly number[]) =>
  commitMarks(context, stream, rescan, async () => ids);

/** Marks rows that the list lacked. The marks are as old as the first request of the walk: later readings win. */
async function commitMarks(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  find: (trx: Transaction<DB>) => Promise<readonly number[]>,
): Promise<Rescan> {
  const readNo = rescan.readNo ?? 0;
  const { result } = await commitReading(context, stream, nothingRead(readNo), async (trx) =>
    mark(trx, context, stream, rescan, await find(trx), readNo),
  );
  return result ?? rescan;
}

async function mark(
  trx: Transaction<DB>,
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  readNo: number,
): Promise<Beside<Rescan>> {
  const changes = await unlist(trx, context.client, stream, ids, readNo);
  const gone = changes.map(({ id }) => id as number);
  await recordFindings(trx, rescan, ageColumns(stream), 'extra', gone, serviceNow(context));
  const step = { ...rescan, ...nothingCounted, extra: gone.length };
  return { changes, result: await saveRescan(trx, rescan, step, []) };
}
