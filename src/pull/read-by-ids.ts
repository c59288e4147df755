import { WarehouseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import { warn } from '../schedule/run.ts';
import { encodeQuery } from '../service/transport/query.ts';
import { type CommittedPage, commitReading } from './commit.ts';
import { decodePage } from './decode.ts';
import { drawReadNo, type RunTransaction } from './sql/stream-transaction.ts';
import { postponeReads, removeReads } from './sql/waiting-reads.ts';
import type { PullContext } from './stream.ts';

/**
 * Maximum number of reads by id per poll after the first load. It keeps a poll cheap, however many
 * rows are missing.
 */
export const readsPerPoll = 50;
/** Maximum number of reads that are committed together. */
const batchSize = 50;
/** A batch ends when its answers have more characters than this. */
const batchCharacters = 1_000_000;
/** The result of one batch of reads by id. */
export interface ReadBatch extends CommittedPage {
  /** Ids that the service does not know. */
  readonly unlisted: readonly number[];
  readonly readNo: number;
}

/** Functions that run in the transaction of each batch. */
export interface ByIdOptions<Result> {
  /** Writes something in the transaction of each batch, which may run more than once. */
  readonly write: (transaction: RunTransaction, batch: ReadBatch) => Promise<Result>;
  /** Receives the result of `write` after the commit. */
  readonly onCommit?: (result: Result) => void;
  /** Returns those of the found and decoded ids that should be read again later; default: none. */
  readonly findStillOpen?: (
    transaction: RunTransaction,
    ids: readonly number[],
  ) => Promise<readonly number[]>;
}

/**
 * Reads resources by id, one request for each. If one cannot be read, the others are still read;
 * the failed one is tried again later, with growing pauses.
 * @returns the results of `write`, one for each batch
 * @throws WarehouseError if the run must end; what was read before is committed
 */
export async function readByIds<Result>(
  context: PullContext,
  ids: readonly number[],
  { write, findStillOpen, onCommit }: ByIdOptions<Result>,
): Promise<Result[]> {
  const results: Result[] = [];

  for (let start = 0; start < ids.length; ) {
    // One number serves the whole batch, drawn before its first request. A reading may look older
    // than it is, never newer.
    const readNo = await drawReadNo(context.db);
    const batch = await readBatch(context, ids.slice(start, start + batchSize));
    start += batch.tried;

    const decoded = await decodePage(batch, context.stream.decoder(context.zone));
    const reading = { readNo, pages: 0, received: batch.data.length, decoded };
    const result = await commitReading(context, reading, async (transaction, page) => {
      const read = { ...page, unlisted: batch.unlisted, readNo };
      await updateWaitingReads(transaction, batch, read, findStillOpen);
      return write(transaction, read);
    });

    if (result !== null) {
      results.push(result);
      onCommit?.(result);
    }
    if (batch.lastError !== null) throw batch.lastError;
  }

  return results;
}

/** Removes the ids of a batch from the list of waiting reads, or postpones them. */
async function updateWaitingReads(
  transaction: RunTransaction,
  { found, failed }: FetchedBatch,
  { resources, unlisted, readNo }: ReadBatch,
  findStillOpen: ByIdOptions<unknown>['findStillOpen'],
): Promise<void> {
  const decoded = resources.map(({ parent }) => parent.id);
  const stillOpen = (await findStillOpen?.(transaction, decoded)) ?? [];

  const settled = decoded.filter((id) => !stillOpen.includes(id));
  const undecoded = found.filter((id) => !decoded.includes(id));

  await removeReads(
    transaction,
    settled.map((id) => ({ id, readNo })),
  );
  await postponeReads(transaction, undecoded, 'quarantined', readNo);
  await postponeReads(transaction, stillOpen, 'still_open', readNo);
  await postponeReads(transaction, unlisted, 'not_found', readNo);
  await postponeReads(transaction, failed, 'read_failed', readNo);
}

/** The answers of one batch, before they are decoded. */
interface FetchedBatch {
  readonly data: Json[];
  readonly included: readonly Json[];
  escaped: boolean;
  /** Number of ids that were asked for. */
  tried: number;
  readonly found: number[];
  readonly unlisted: number[];
  readonly failed: number[];
  /** The error with which the run must end; null: it goes on. */
  lastError: WarehouseError | null;
}

async function readBatch(context: PullContext, ids: readonly number[]): Promise<FetchedBatch> {
  const { stream } = context;
  if (stream.get === null) throw new Error(`${stream.name} has no read by id`);
  const batch: FetchedBatch = {
    ...{ data: [], included: [], escaped: false },
    ...{ tried: 0, found: [], unlisted: [], failed: [], lastError: null },
  };

  const query = stream.include.length > 0 ? encodeQuery({ include: stream.include }) : '';
  let characters = 0;
  for (const id of ids) {
    if (characters > batchCharacters) return batch;
    batch.tried++;

    try {
      const document = await context.warehouse.get(stream.get, id, query, {
        signal: context.signal,
      });
      context.health.noteAnswer();
      if (document === null) {
        batch.unlisted.push(id);
        continue;
      }

      batch.found.push(id);
      for (const resource of document.data)
        batch.data.push(moveIncludedInside(resource, document.included));
      batch.escaped ||= document.escaped;
      characters += document.size;
    } catch (error) {
      if (!(error instanceof WarehouseError)) throw error;
      if (await context.health.endsRun(error)) {
        batch.lastError = error;
        return batch;
      }

      warn(
        context,
        `${stream.name} by id: ${error.message}; it will be tried again (sync.waiting_reads)`,
      );
      batch.failed.push(id);
    }
  }
  return batch;
}

/**
 * Moves `included` into the resource: the documents of a batch must not mix their included
 * resources.
 */
function moveIncludedInside(resource: Json, onTop: readonly Json[]): Json {
  if (onTop.length === 0 || !isObject(resource)) return resource;
  const inside = Array.isArray(resource.included) ? resource.included : [];
  return { ...resource, included: [...inside, ...onTop] };
}
