import type { Transaction } from 'kysely';
import { WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { couldNotBeRead, postponeRereads, settleRereads, unknownToService } from '../../erp/pull/rereads.ts';
import { encodeQuery } from '../../warehouse/transport/query.ts';
import { type Committed, commitReading } from '../commit/commit-reading.ts';
import type { Mirrored } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Maximum number of reads that are committed together. */
const batchSize = 50;
/** A batch ends when its answers have more characters than this. */
const batchCharacters = 4_000_000;
/** So many failures in a row are an outage. */
const outageAfter = 3;

export interface ByIdOptions {
  /** Runs with what was found, in the transaction that writes it. */
  readonly onRead?: (trx: Transaction<DB>, committed: Committed) => Promise<readonly Change[]>;
  /** Runs for ids the service does not know, in the transaction that notes it. */
  readonly onAbsent: (trx: Transaction<DB>, ids: readonly number[], readNo: number) => Promise<readonly Change[]>;
  /** Of ids that were found and decoded, those that are to be read again later. */
  readonly unsettled: (trx: Transaction<DB>, ids: readonly number[]) => Promise<readonly number[]>;
}

/**
 * Reads resources one by one. One that cannot be read does not keep the others from being read: it waits its turn with
 * growing pauses.
 * @throws WarehouseError where the service cannot be reached, lets nobody in, or fails several times in a row
 */
export async function readByIds(
  context: PullContext,
  stream: Mirrored,
  ids: readonly number[],
  options: ByIdOptions,
): Promise<void> {
  const { client, db } = context;
  for (let start = 0; start < ids.length; ) {
    // One number for the batch, drawn before its first request: it makes these readings older than they are, never newer.
    const readNo = await drawReadNo(db);
    const batch = await readBatch(context, stream, ids.slice(start, start + batchSize));
    start += batch.tried;
    const { data, escaped } = batch;
    const reading = { data, included: [], escaped, readNo, pages: 0 };
    await commitReading(context, stream, reading, async (trx, committed) => {
      const decoded = new Set(committed.families.map(({ parent }) => parent.id));
      const undecoded = batch.found.filter((id) => !decoded.has(id));
      const unsettled = new Set(await options.unsettled(trx, [...decoded]));
      const again = [...undecoded, ...unsettled];
      await settleRereads(
        trx,
        client,
        stream.name,
        [...decoded].filter((id) => !unsettled.has(id)),
      );
      await postponeRereads(trx, client, stream.name, again, 'not settled by the last read');
      await postponeRereads(trx, client, stream.name, batch.absent, unknownToService);
      await postponeRereads(trx, client, stream.name, batch.failed, couldNotBeRead);
      const read = (await options.onRead?.(trx, committed)) ?? [];
      return [...read, ...(await options.onAbsent(trx, batch.absent, readNo))];
    });
    if (batch.outage) throw batch.outage;
  }
}

interface Batch {
  readonly data: Json[];
  escaped: boolean;
  /** Number of ids that were asked for. */
  tried: number;
  readonly found: number[];
  readonly absent: number[];
  readonly failed: number[];
  /** Set where so many failed in a row that it is the service, not the resources. */
  outage: WarehouseError | null;
}

async function readBatch(context: PullContext, stream: Mirrored, ids: readonly number[]): Promise<Batch> {
  if (stream.get === null) throw new Error(`${stream.name} has no read by id`);
  const batch: Batch = { data: [], escaped: false, tried: 0, found: [], absent: [], failed: [], outage: null };
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
      batch.data.push(...document.data.map((resource) => withIncluded(resource, document.included)));
      batch.escaped ||= document.escaped;
      characters += document.size;
      failedInARow = 0;
    } catch (error) {
      if (!mayBeAboutThisOne(error)) throw error;
      warn(context, `${stream.name} by id: ${error.message}; it is tried again later (sync.rereads)`);
      batch.failed.push(id);
      if (error.outcome === 'refused') continue;
      failedInARow++;
      if (failedInARow < outageAfter) continue;
      batch.outage = error;
      return batch;
    }
  }
  return batch;
}

/** What came on top of a document with one resource belongs to it: it is put where the batch cannot mix it up. */
function withIncluded(resource: Json, onTop: readonly Json[]): Json {
  if (onTop.length === 0 || !isObject(resource)) return resource;
  const inside = Array.isArray(resource.included) ? resource.included : [];
  return { ...resource, included: [...inside, ...onTop] };
}

/** An answer, or the lack of one, that may be owed to this resource; not a closed door or a lost address. */
function mayBeAboutThisOne(error: unknown): error is WarehouseError {
  if (!(error instanceof WarehouseError) || error.code === 'connect_failed' || error.code === 'redirected')
    return false;
  return error.code !== 'credentials_refused' && ![401, 403, 429].includes(error.status ?? 0);
}
