import { type Kysely, sql } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import { anyClient, anyId, toPauseSpan } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';
import type { OpenKind } from './open-rows.ts';

/** Maximum number of reads by id per run after the first load. It keeps a poll cheap, however many rows are missing. */
export const rereadsPerRun = 50;

/** Reasons for a reread: the read failed, it found nothing, or the row it found is still open. */
export const couldNotBeRead = 'could not be read';
export const unknownToService = 'unknown to the service';
const foundStillOpen = 'found, and still open';

/** Postpones rereads that were without result. */
export async function postponeRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: string,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.rereads as r (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, 1, now() + ${toPauseSpan(pauses.reread, sql`1`)}, ${reason}
    from unnest(${ids}::bigint[]) as i (id)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = r.tries + 1, last_reason = excluded.last_reason,
          next_try_at = now() + ${toPauseSpan(pauses.reread, sql`r.tries + 1`)}`.execute(trx);
}

/** Postpones rereads of rows that lists showed and that are still open. `tries` is the number of earlier attempts. */
export async function postponeStillOpen(
  { trx, client, stream }: StreamTransaction,
  found: readonly { readonly id: number; readonly tries: number }[],
): Promise<void> {
  const [ids, tries] = [found.map(({ id }) => id), found.map((row) => row.tries)];
  await sql`
    insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, i.tries + 1,
      now() + ${toPauseSpan(pauses.reread, sql`i.tries + 1`)},
      ${foundStillOpen}
    from unnest(${ids}::bigint[], ${tries}::integer[]) as i (id, tries)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = excluded.tries, next_try_at = excluded.next_try_at, last_reason = excluded.last_reason`.execute(trx);
}

/**
 * Requests rereads of these ids. They are due at once.
 * @param again true: also of ids that the service did not know at an earlier read
 */
export async function requestRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: string,
  again = true,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.rereads as r (client, stream, id, tries, next_try_at, last_reason)
    select distinct ${client}, ${stream}, i.id, 0, now(), ${reason}
    from unnest(${ids}::bigint[]) as i (id)
    on conflict (client, stream, id) do update
      set tries = 0, next_try_at = excluded.next_try_at, last_reason = excluded.last_reason
      where (${again} and r.last_reason = ${unknownToService}) or r.last_reason = ${foundStillOpen}`.execute(trx);
}

/** Finds the ids whose reread is due, the longest waiting first. Leaves out unlisted rows. */
export async function findRereadsDue(db: Kysely<DB>, client: string, kind: OpenKind): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id
    from sync.rereads r
    where r.client = ${anyClient(client)} and r.stream = ${kind.stream} and r.next_try_at <= now()
      and not exists (
        select from ${sql.table(`fulfilment.${kind.table}`)} s
        where s.client = r.client and s.id = r.id and s.unlisted_since is not null)
    order by r.next_try_at, r.id`.execute(db);
  return rows.map(({ id }) => id);
}

/** Finds the ids whose requested reread was not tried yet, or failed and is due again; the longest waiting first. */
export async function findRequestedRereads(db: Kysely<DB>, client: string, stream: string): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.rereads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where((eb) =>
      eb.or([
        eb('tries', '=', 0),
        eb.and([eb('last_reason', '=', couldNotBeRead), eb('next_try_at', '<=', sql<Date>`now()`)]),
      ]),
    )
    .orderBy('next_try_at')
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}

/** Finds the ids among these that wait for a reread, due or not. */
export async function findRereads(
  db: Kysely<DB>,
  client: string,
  stream: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.rereads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('id', '=', anyId(ids))
    .execute();
  return rows.map(({ id }) => id);
}

/**
 * Removes the rereads of ids that were read.
 * @param changed the ids whose row has changed; null: all. The reread of a row that was found still open is removed
 *   only if the row changed.
 */
export async function removeRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  changed: readonly number[] | null = null,
): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .deleteFrom('sync.rereads')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('id', '=', anyId(ids))
    .$if(changed !== null, (query) =>
      query.where((eb) => eb.or([eb('last_reason', '<>', foundStillOpen), eb('id', '=', anyId(changed ?? []))])),
    )
    .execute();
}
