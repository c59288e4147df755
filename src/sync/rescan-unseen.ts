import type { Transaction } from 'kysely';
import { CodedError } from '../core/errors.ts';
import { noteAbsences } from '../erp/absences.ts';
import type { Change } from '../erp/feed.ts';
import { findUnseen, markUnlisted, type Rescan, recordFindings, saveRescan } from '../erp/rescans.ts';
import type { DB } from '../erp/rows.ts';
import { commitReading, type PullContext, warn } from './pull.ts';
import { readAlone, serviceNow } from './rescan-walk.ts';
import { ageColumns, type Stream } from './stream.ts';

/** So many rows may be gone from the service at once, or this share of them, before it is the list that is doubted. */
const fewExtras = 20;
const extraShare = 0.01;

/** The service's list lacks more of the rows stored here than can be believed. */
export class TooManyExtrasError extends CodedError {
  constructor(stream: string, extras: number, stored: number) {
    super(
      'too_many_extras',
      `${stream}: the service's list lacks ${extras} of the ${stored} rows that it should show; none was marked. ` +
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
  const unseen = await findUnseen(context.db, rescan, ageColumns(stream), serviceNow(context));
  const stored = rescan.expected ?? 0;
  if (unseen.length > Math.max(fewExtras, stored * extraShare))
    throw new TooManyExtrasError(stream.name, unseen.length, stored);
  return stream.get === null
    ? markAfterTwoWalks(context, stream, rescan, unseen)
    : readUnseen(context, stream, rescan, unseen);
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
  let after = rescan;
  // As old as the walk's first request: whatever was read since wins.
  const nothingRead = { data: [], included: [], escaped: false, readNo: rescan.readNo ?? 0, listed: false };
  await commitReading(context, stream, nothingRead, async (trx) => {
    const scope = { client: context.client, stream: stream.name, pass: 'reconcile' } as const;
    const gone = await mark(trx, context, stream, rescan, await noteAbsences(trx, scope, unseen), nothingRead.readNo);
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
  const table = { stream: stream.name, table: stream.tables.parent.name };
  const changes = await markUnlisted(trx, context.client, table, ids, readNo);
  const gone = changes.map(({ id }) => id as number);
  await recordFindings(trx, rescan, ageColumns(stream), 'extra', gone, serviceNow(context));
  const none = { pages: 0, fetched: 0, missing: 0, stale: 0 };
  return { changes, rescan: await saveRescan(trx, rescan, { ...rescan, ...none, extra: gone.length }, []) };
}
