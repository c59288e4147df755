import type { Transaction } from 'kysely';
import { WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import type { Change } from '../erp/feed.ts';
import { postponeRereads } from '../erp/rereads.ts';
import type { DB } from '../erp/rows.ts';
import { drawReadNo } from '../erp/upsert.ts';
import { commitReading, type PullContext, type Stream, warn } from './pull.ts';

/** So many reads are committed together. */
const batchSize = 50;

export interface ByIdOptions {
  readonly query: string;
  /** Runs for ids the service does not know, in the transaction that notes it. */
  readonly onAbsent: (trx: Transaction<DB>, ids: readonly number[], readNo: number) => Promise<readonly Change[]>;
  /** Of ids that were found and decoded, those that are to be read again later. */
  readonly unsettled: (trx: Transaction<DB>, ids: readonly number[]) => Promise<readonly number[]>;
}

/**
 * Reads resources one by one. One that the service refuses does not keep the others from being read: it waits its turn
 * with growing pauses.
 * @throws WarehouseError where the service cannot be reached or lets nobody in
 */
export async function readByIds(
  context: PullContext,
  stream: Stream,
  ids: readonly number[],
  options: ByIdOptions,
): Promise<void> {
  const { client, db } = context;
  for (let start = 0; start < ids.length; start += batchSize) {
    // One number for the batch, drawn before its first request: it makes these readings older than they are, never newer.
    const readNo = await drawReadNo(db);
    const batch = await readBatch(context, stream, ids.slice(start, start + batchSize), options.query);
    const reading = { data: batch.data, included: batch.included, escaped: batch.escaped, readNo };
    await commitReading(context, stream, reading, async (trx, { families }) => {
      const decoded = new Set(families.map(({ parent }) => parent.id));
      const undecoded = batch.found.filter((id) => !decoded.has(id));
      const again = [...undecoded, ...(await options.unsettled(trx, [...decoded]))];
      await postponeRereads(trx, client, stream.name, again, 'not settled by the last read');
      await postponeRereads(trx, client, stream.name, batch.absent, 'unknown to the service');
      await postponeRereads(trx, client, stream.name, batch.refused, 'refused by the service');
      return options.onAbsent(trx, batch.absent, readNo);
    });
  }
}

interface Batch {
  readonly data: Json[];
  readonly included: Json[];
  escaped: boolean;
  readonly found: number[];
  readonly absent: number[];
  readonly refused: number[];
}

async function readBatch(
  { warehouse, signal, ...context }: PullContext,
  stream: Stream,
  ids: readonly number[],
  query: string,
): Promise<Batch> {
  const batch: Batch = { data: [], included: [], escaped: false, found: [], absent: [], refused: [] };
  for (const id of ids) {
    try {
      const document = await warehouse.get(stream.get, id, query, { signal });
      if (document === null) {
        batch.absent.push(id);
        continue;
      }
      batch.found.push(id);
      batch.data.push(...document.data);
      batch.included.push(...document.included);
      batch.escaped ||= document.escaped;
    } catch (error) {
      if (!isAboutThisOne(error)) throw error;
      warn({ warehouse, signal, ...context }, `${stream.name} ${id}: ${error.message}; it is tried again later`);
      batch.refused.push(id);
    }
  }
  return batch;
}

/** A refusal that says something of this resource, not of the service or of our access to it. */
function isAboutThisOne(error: unknown): error is WarehouseError {
  return error instanceof WarehouseError && error.outcome === 'refused' && ![401, 403].includes(error.status ?? 401);
}
