import type { Transaction } from 'kysely';
import { CodedError } from '../core/errors.ts';
import { noteAbsences } from '../erp/absences.ts';
import { findUnseen } from '../erp/age.ts';
import type { Change } from '../erp/feed.ts';
import { recordFindings } from '../erp/findings.ts';
import { type Rescan, saveRescan } from '../erp/rescans.ts';
import type { DB } from '../erp/rows.ts';
import { commitReading, nothingRead } from './pull.ts';
import { type PullContext, serviceNow, warn } from './pull-context.ts';
import { readAlone } from './rescan-walk.ts';
import { ageColumns, type Stream } from './stream.ts';
import { unlist } from './unlist.ts';

/** So many rows may be gone from the service at once, or this share of them, before it is the list that is doubted. */
const fewExtras = 20;
const extraShare = 0.01;

/** The service's list lacks more of the rows stored here than can be believed. */
export class TooManyExtrasError extends CodedError {
  constructor(stream: string, atLeast: number, stored: number) {
    super(
      'too_many_extras',
      `${stream}: the service's list lacks ${atLeast} or more of the ${stored} rows that it should show; none was marked. ` +
        'Is this the right account (WAREHOUSE_BASE_URL, WAREHOUSE_USERNAME), and does it list everything?',
    );
  }
}

/**
 * Deals with what is stored here, should have been listed and was not: read by id where there is such a read, else marked
 * once two complete walks lacked it.
 * @throws TooManyExtrasError where it is the list that cannot be right
 */
export async function dealWithUnseen(context: PullContext, stream: Stream, rescan: Rescan): Promise<Rescan> {
  if (!rescan.fullList) {
    warn(context, `${stream.name}: the list was not shown to its end, so no row is taken for gone`);
    return rescan;
  }
  const stored = rescan.expected ?? 0;
  const bound = Math.max(fewExtras, Math.floor(stored * extraShare));
  // No more than has to be known: a list that shows nothing must not bring every row here into memory.
  const unseen = await findUnseen(context.db, rescan, ageColumns(stream), serviceNow(context), bound + 1);
  if (unseen.length === 0) return stream.get === null ? markAfterTwoWalks(context, stream, rescan, unseen) : rescan;
  if (rescan.fetched === 0 || (unseen.length > bound && stream.get === null))
    throw new TooManyExtrasError(stream.name, unseen.length, stored);
  if (unseen.length > bound) return sampleUnseen(context, stream, rescan, unseen, stored);
  return stream.get === null
    ? markAfterTwoWalks(context, stream, rescan, unseen)
    : readUnseen(context, stream, rescan, unseen);
}

/**
 * More rows are not listed than may be gone. Some shipments only a direct fetch returns (interface.md, GET /v3/shipments):
 * where all of a sample are such, nothing is wrong with the list.
 */
async function sampleUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
  stored: number,
): Promise<Rescan> {
  const after = await readAlone(context, stream, rescan, unseen.slice(0, fewExtras + 1), async (_trx, absent) => {
    if (absent.length > 0) throw new TooManyExtrasError(stream.name, unseen.length, stored);
    return [];
  });
  warn(
    context,
    `${stream.name}: ${unseen.length} or more rows are not listed, but known to the service when read by id`,
  );
  return after;
}

/** Found by id, a row is only not listed; unknown to the service, it is marked. */
async function readUnseen(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  unseen: readonly number[],
): Promise<Rescan> {
  let marked: Rescan | null = null;
  const read = await readAlone(context, stream, rescan, unseen, async (trx, ids, readNo) => {
    const gone = await mark(trx, context, stream, rescan, ids, readNo);
    marked = gone.rescan;
    return gone.changes;
  });
  return marked ?? read;
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
  let after = rescan;
  // As old as the walk's first request: whatever was read since wins.
  const readNo = rescan.readNo ?? 0;
  await commitReading(context, stream, nothingRead(readNo), async (trx) => {
    const scope = { client: context.client, stream: stream.name, pass: 'reconcile', rescanId: rescan.id } as const;
    const gone = await mark(trx, context, stream, rescan, await noteAbsences(trx, scope, unseen), readNo);
    after = gone.rescan;
    return gone.changes;
  });
  return after;
}

async function mark(
  trx: Transaction<DB>,
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  readNo: number,
): Promise<{ rescan: Rescan; changes: readonly Change[] }> {
  const changes = await unlist(trx, context.client, stream, ids, readNo);
  const gone = changes.map(({ id }) => id as number);
  await recordFindings(trx, rescan, ageColumns(stream), 'extra', gone, serviceNow(context));
  const none = { pages: 0, fetched: 0, missing: 0, stale: 0 };
  return { changes, rescan: await saveRescan(trx, rescan, { ...rescan, ...none, extra: gone.length }, []) };
}
