import { describeError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { readCursor } from '../../erp/pull/cursors.ts';
import { type RowPosition, readPositions } from '../../erp/pull/open-rows.ts';
import { couldNotBeRead, postponeRereads, removeRereads, unknownToService } from '../../erp/pull/rereads.ts';
import { drawReadNo, type RunTransaction } from '../../erp/runs/stream-transaction.ts';
import { encodeQuery, setPageCursor } from '../../warehouse/transport/query.ts';
import { type CommittedPage, commitReading, type ExtraWrites } from '../commit/commit-reading.ts';
import { decodePage } from '../reading/decode.ts';
import type { MirroredResource, Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { fetchPage, isErrorOfOnePass, pageSize } from './walk.ts';

/** Maximum number of reads that are committed together. */
const batchSize = 50;
/** A batch ends when its answers have more characters than this. */
const batchCharacters = 1_000_000;
/** This number of failures in a row counts as an outage of the service. */
const outageFailures = 3;

/** The result of one batch of reads by id. */
export interface ReadBatch extends CommittedPage {
  /** Ids that the service does not know. */
  readonly absent: readonly number[];
  readonly readNo: number;
}

/** Functions that run in the transaction of each batch. */
export interface ByIdOptions<Result> {
  /** Writes something in the transaction of each batch, which may run more than once. */
  readonly beside: (transaction: RunTransaction, batch: ReadBatch) => Promise<ExtraWrites<Result>>;
  /** Returns those of the found and decoded ids that should be read again later. */
  readonly unsettled: (transaction: RunTransaction, ids: readonly number[]) => Promise<readonly number[]>;
}

/**
 * Reads resources by id, one request for each. If one cannot be read, the others are still read; the failed one is
 * tried again later, with growing pauses.
 * @returns the results of `beside`, one for each batch, without null results
 * @throws WarehouseError if the service cannot be reached, refuses the credentials, asks to wait, or fails several
 * times in a row
 */
export async function readByIds<Result>(
  context: PullContext,
  stream: MirroredResource,
  ids: readonly number[],
  options: ByIdOptions<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let start = 0; start < ids.length; ) {
    // One number serves the whole batch, drawn before its first request. A reading may look older than it is, never
    // newer.
    const readNo = await drawReadNo(context.db);
    const batch = await readBatch(context, stream, ids.slice(start, start + batchSize));
    start += batch.tried;
    const document = { data: batch.data, included: [], escaped: batch.escaped };
    const decoded = await decodePage(document, stream.decoder(context.zone));
    const reading = { readNo, pages: 0, resources: batch.data.length, decoded };
    const { result } = await commitReading(context, stream, reading, async (transaction, committed) => {
      await updateRereads(transaction, batch, committed, options.unsettled);
      return options.beside(transaction, { ...committed, absent: batch.absent, readNo });
    });
    if (result !== null) results.push(result);
    if (batch.outage) throw batch.outage;
  }
  return results;
}

/** Removes the ids of a batch from the rereads, or postpones them. */
async function updateRereads(
  transaction: RunTransaction,
  { found, absent, failed }: FetchedBatch,
  { families }: CommittedPage,
  findUnsettled: ByIdOptions<unknown>['unsettled'],
): Promise<void> {
  const decoded = families.map(({ parent }) => parent.id);
  const undecoded = found.filter((id) => !decoded.includes(id));
  const unsettled = new Set(await findUnsettled(transaction, decoded));
  await removeRereads(
    transaction,
    decoded.filter((id) => !unsettled.has(id)),
  );
  await postponeRereads(transaction, [...undecoded, ...unsettled], 'undecodable or still open at the last read');
  await postponeRereads(transaction, absent, unknownToService);
  await postponeRereads(transaction, failed, couldNotBeRead);
}

/** The answers of one batch, before they are decoded. */
interface FetchedBatch {
  readonly data: Json[];
  escaped: boolean;
  /** Number of ids that were asked for. */
  tried: number;
  readonly found: number[];
  readonly absent: number[];
  readonly failed: number[];
  /** The last error, if several reads failed in a row: then the service fails, not the resources. Else null. */
  outage: WarehouseError | null;
}

async function readBatch(
  context: PullContext,
  stream: MirroredResource,
  ids: readonly number[],
): Promise<FetchedBatch> {
  if (stream.get === null) throw new Error(`${stream.name} has no read by id`);
  const batch: FetchedBatch = { data: [], escaped: false, tried: 0, found: [], absent: [], failed: [], outage: null };
  const query = stream.include.length > 0 ? encodeQuery({ include: stream.include }) : '';
  let [failedInARow, characters] = [0, 0];
  for (const id of ids) {
    if (characters > batchCharacters) return batch;
    batch.tried++;
    try {
      const document = await context.warehouse.get(stream.get, id, query, { signal: context.signal });
      if (document === null) {
        batch.absent.push(id);
        failedInARow = 0;
        continue;
      }
      batch.found.push(id);
      batch.data.push(...document.data.map((resource) => moveIncludedInside(resource, document.included)));
      batch.escaped ||= document.escaped;
      characters += document.size;
      failedInARow = 0;
    } catch (error) {
      if (!isErrorOfOneResource(error)) throw error;
      warn(context, `${stream.name} by id: ${error.message}; it will be tried again (sync.rereads)`);
      batch.failed.push(id);
      if (error.outcome === 'refused') continue;
      failedInARow++;
      if (failedInARow < outageFailures) continue;
      batch.outage = error;
      return batch;
    }
  }
  return batch;
}

/**
 * Moves the `included` of a document with one resource into that resource. Otherwise the documents of a batch would mix
 * their included resources.
 */
function moveIncludedInside(resource: Json, onTop: readonly Json[]): Json {
  if (onTop.length === 0 || !isObject(resource)) return resource;
  const inside = Array.isArray(resource.included) ? resource.included : [];
  return { ...resource, included: [...inside, ...onTop] };
}

/**
 * Returns true if an error may concern this resource alone. Refused credentials or an unreachable service concern all.
 */
function isErrorOfOneResource(error: unknown): error is WarehouseError {
  if (!(error instanceof WarehouseError) || error.code === 'connect_failed' || error.code === 'redirected')
    return false;
  return error.code !== 'credentials_refused' && ![401, 403, 429].includes(error.status ?? 0);
}

/** A page is read if it holds at least this number of the wanted rows. Below that, reads by id cost less. */
const minRowsPerPage = 3;
/**
 * Tolerated difference between a row's position in the list and here. A row may be listed but not stored, or the
 * reverse.
 */
const positionTolerance = 10;
/** Maximum number of pages that one poll reads in this way. A poll reads few other rows by id; the rest waits. */
const maxPages = 50;

/**
 * Reads rows by the pages of the list that hold several of them, which takes fewer requests than reads by id. The list
 * must be sorted by id. Reads nothing if the walk of the pass `new` has not yet learned the meaning of its cursors.
 * Skips a page that cannot be read.
 * @returns the ids that were found. Read the others by id.
 */
export async function readByPages(
  context: PullContext,
  stream: Stream,
  rows: readonly { readonly id: number }[],
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  if (rows.length < minRowsPerPage) return found;
  const { db, client, signal } = context;
  // This run may have moved the cursor.
  const { query, meaning } = await readCursor(db, client, stream.name, 'new');
  if (query === null || (meaning !== 'id' && meaning !== 'offset')) return found;
  const ids = rows.map(({ id }) => id);
  const wanted = new Set(ids);
  const pages = groupByPage(await readPositions(db, client, stream.tables.parent.name, ids)).slice(0, maxPages);
  for (const { first } of pages) {
    const cursor = meaning === 'id' ? first.id - 1 : Math.max(0, first.position - positionTolerance);
    try {
      const page = await fetchPage(context, stream, setPageCursor(query, cursor), signal);
      const committed = await commitReading(context, stream, page).finally(page.release);
      const { families, readById } = committed.page;
      for (const { parent } of families) if (wanted.has(parent.id) && !readById.has(parent.id)) found.add(parent.id);
    } catch (error) {
      if (!isErrorOfOnePass(error)) throw error;
      warn(context, `${stream.name}: a page could not be read (${describeError(error)}); its rows are read by id`);
    }
  }
  return found;
}

/** Groups rows into pages that hold at least `minRowsPerPage` of them each. */
function groupByPage(rows: readonly RowPosition[]): { readonly first: RowPosition; readonly rows: number }[] {
  const pages: { first: RowPosition; rows: number }[] = [];
  for (const row of [...rows].sort((a, b) => a.position - b.position)) {
    const page = pages.at(-1);
    if (page === undefined || row.position >= page.first.position + pageSize - 2 * positionTolerance)
      pages.push({ first: row, rows: 1 });
    else page.rows++;
  }
  return pages.filter((page) => page.rows >= minRowsPerPage);
}
