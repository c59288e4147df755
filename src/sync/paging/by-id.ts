import type { Transaction } from 'kysely';
import { WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import type { StreamScope } from '../../erp/connection/stream-scope.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { couldNotBeRead, postponeRereads, settleRereads, unknownToService } from '../../erp/pull/rereads.ts';
import { encodeQuery } from '../../warehouse/transport/query.ts';
import { type Beside, type Committed, commitReading } from '../commit/commit-reading.ts';
import { decodePage } from '../reading/decode.ts';
import type { Mirrored } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Maximum number of reads that are committed together. */
const batchSize = 50;
/** A batch ends when its answers have more characters than this. */
const batchCharacters = 4_000_000;
/** So many failures in a row are an outage. */
const outageAfter = 3;

/** What a batch of reads by id brought. */
export interface ReadBatch extends Committed {
  /** Ids that the service does not know. */
  readonly absent: readonly number[];
  /** Number of the reading. */
  readonly readNo: number;
}

export interface ByIdOptions<Result> {
  /** Writes something in the transaction of each batch, which may run more than once. */
  readonly beside: (trx: Transaction<DB>, batch: ReadBatch) => Promise<Beside<Result>>;
  /** Of ids that were found and decoded, those that are to be read again later. */
  readonly unsettled: (trx: Transaction<DB>, ids: readonly number[]) => Promise<readonly number[]>;
}

/**
 * Reads resources one by one. One that cannot be read does not keep the others from being read: it waits its turn with
 * growing pauses.
 * @returns the results of `beside`, batch by batch, without those that are null
 * @throws WarehouseError where the service cannot be reached, lets nobody in, or fails several times in a row
 */
export async function readByIds<Result>(
  context: PullContext,
  stream: Mirrored,
  ids: readonly number[],
  options: ByIdOptions<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let start = 0; start < ids.length; ) {
    // One number for the batch, drawn before its first request: it makes these readings older than they are, never newer.
    const readNo = await drawReadNo(context.db);
    const batch = await readBatch(context, stream, ids.slice(start, start + batchSize));
    start += batch.tried;
    const document = { data: batch.data, included: [], escaped: batch.escaped };
    const decoded = await decodePage(document, stream.decoder(context.zone));
    const reading = { readNo, pages: 0, resources: batch.data.length, decoded };
    const { result } = await commitReading(context, stream, reading, async (trx, committed) => {
      await settleBatch({ trx, client: context.client, stream: stream.name }, batch, committed, options.unsettled);
      return options.beside(trx, { ...committed, absent: batch.absent, readNo });
    });
    if (result !== null) results.push(result);
    if (batch.outage) throw batch.outage;
  }
  return results;
}

/** Takes the ids of a batch from the list of those that wait, or gives them a later turn. */
async function settleBatch(
  scope: StreamScope,
  { found, absent, failed }: Batch,
  { families }: Committed,
  findUnsettled: ByIdOptions<unknown>['unsettled'],
): Promise<void> {
  const decoded = families.map(({ parent }) => parent.id);
  const undecoded = found.filter((id) => !decoded.includes(id));
  const unsettled = new Set(await findUnsettled(scope.trx, decoded));
  await settleRereads(
    scope,
    decoded.filter((id) => !unsettled.has(id)),
  );
  await postponeRereads(scope, [...undecoded, ...unsettled], 'not settled by the last read');
  await postponeRereads(scope, absent, unknownToService);
  await postponeRereads(scope, failed, couldNotBeRead);
}

interface Batch {
  readonly data: Json[];
  escaped: boolean;
  /** Number of ids that were asked for. */
  tried: number;
  readonly found: number[];
  readonly absent: number[];
  readonly failed: number[];
  /** Set when many failed in a row, which means that it is the service, not the resources. */
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
