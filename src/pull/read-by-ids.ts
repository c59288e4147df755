/** Reads resources by id, in batches. */

import type { OperationName } from '../../config/operations.ts';
import { makeUndecodableError, WarehouseError } from '../core/errors.ts';
import { isObject, type Json } from '../core/json.ts';
import { warn } from '../schedule/run.ts';
import { readId } from '../service/decoding/jsonapi.ts';
import { encodeQuery } from '../service/transport/query.ts';
import { type CommittedPage, type Reading, unlist } from './commit.ts';
import { decodePage } from './decode.ts';
import { drawReadNo, type RunTransaction } from './sql/stream-transaction.ts';
import { listIds } from './sql/upsert.ts';
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

/** A batch of reads by id. It is committed before the next one is read. */
interface ReadBatch {
  readonly reading: Reading;
  /** Ids that the service does not know. */
  readonly unlisted: readonly number[];
  /**
   * Removes the ids of the batch from the list of waiting reads, or postpones them. Call it in the
   * transaction of the batch.
   * @param options `stillOpen`: those of the found ids that should be read again later; `marks`:
   *   false if those that the service does not know are not marked as unlisted
   * @returns the ids that were marked
   */
  readonly settle: (
    transaction: RunTransaction,
    page: CommittedPage,
    options?: { readonly stillOpen?: readonly number[]; readonly marks?: boolean },
  ) => Promise<readonly number[]>;
}

/**
 * Reads resources by id, one request for each, in batches. If one cannot be read, the others are
 * still read; the failed one is tried again later, with growing pauses.
 * @throws WarehouseError if the run must end; what was read before is handed over
 */
export async function* readByIds(
  context: PullContext,
  ids: readonly number[],
): AsyncGenerator<ReadBatch, void, void> {
  const { stream } = context;
  for (let start = 0; start < ids.length; ) {
    // One number serves the whole batch, drawn before its first request. A reading may look older
    // than it is, never newer.
    const readNo = await drawReadNo(context.db);
    const batch = await readBatch(context, ids.slice(start, start + batchSize));
    start += batch.tried;

    const { data, found, unlisted, failed } = batch;
    const decoded = await decodePage(batch, stream.decoder(context.zone));
    yield {
      reading: { readNo, pages: 0, received: data.length, decoded },
      unlisted,
      settle: async (transaction, { resources }, { stillOpen = [], marks = true } = {}) => {
        const stored = listIds(resources);
        const settled = stored.filter((id) => !stillOpen.includes(id));
        await removeReads(
          transaction,
          settled.map((id) => ({ id, readNo })),
        );
        const undecoded = found.filter((id) => !stored.includes(id));
        await postponeReads(transaction, undecoded, 'quarantined', readNo);
        await postponeReads(transaction, stillOpen, 'still_open', readNo);
        await postponeReads(transaction, unlisted, 'not_found', readNo);
        await postponeReads(transaction, failed, 'read_failed', readNo);

        return unlist(transaction, stream, marks ? unlisted : [], readNo);
      },
    };

    if (batch.lastError !== null) throw batch.lastError;
  }
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
  /** The error with which the run must end; null: it continues. */
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
        await noteAbsence(context, stream.get, id, batch);
        continue;
      }

      const answeredId = readId(document.data[0] ?? null);
      if (answeredId !== null && answeredId !== id)
        throw makeUndecodableError(`${stream.get}: the answer is about another id`, stream.get);

      await context.health.proveOperation(stream.get);
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
 * Notes a 404. The service does not have the resource then, unless the path of the operation is
 * assumed and has found nothing so far: then the service may not have the path.
 */
async function noteAbsence(
  context: PullContext,
  operation: OperationName,
  id: number,
  batch: FetchedBatch,
): Promise<void> {
  if (await context.health.isProven(operation)) {
    batch.unlisted.push(id);
    return;
  }

  batch.failed.push(id);
  warn(
    context,
    `${operation}: answered 404, and has found nothing so far. Its path is assumed ` +
      '(docs/assumptions.md), so nothing is marked as unlisted. Set the right path in ' +
      'WAREHOUSE_OPERATIONS_FILE, or confirm the assumed one there with "documented": true',
  );
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
