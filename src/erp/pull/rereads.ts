import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { StreamScope } from '../connection/stream-scope.ts';
import { anyId } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { OpenKind } from './open-rows.ts';

/** Reads by id of one run, once everything was loaded a first time (design: a poll stays cheap whatever is missing). */
export const rereadsPerRun = 50;

/** Why a read has to be made again: it failed, or it found nothing. */
export const couldNotBeRead = 'could not be read';
export const unknownToService = 'unknown to the service';
const stillOpen = 'found, and still open';

/** Says that a read settled nothing: the next one waits 1 minute, then twice as long each time, at most a day. */
export async function postponeRereads(
  { trx, client, stream }: StreamScope,
  ids: readonly number[],
  reason: string,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.rereads as r (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, 1, now() + interval '1 minute', ${reason}
    from unnest(${ids}::bigint[]) as i (id)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = r.tries + 1, last_reason = excluded.last_reason,
          next_try_at = now() + least(interval '1 day', interval '1 minute' * power(2, least(r.tries, 11)))`.execute(
    trx,
  );
}

/** Postpones rows that lists showed and that are still open. `tries` is the number of earlier attempts. */
export async function postponeStillOpen(
  { trx, client, stream }: StreamScope,
  found: readonly { readonly id: number; readonly tries: number }[],
): Promise<void> {
  const [ids, tries] = [found.map(({ id }) => id), found.map((row) => row.tries)];
  await sql`
    insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, i.tries + 1,
      now() + least(interval '1 day', interval '1 minute' * power(2, least(i.tries, 11))),
      ${stillOpen}
    from unnest(${ids}::bigint[], ${tries}::integer[]) as i (id, tries)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = excluded.tries, next_try_at = excluded.next_try_at, last_reason = excluded.last_reason`.execute(trx);
}

/**
 * Asks that these be read by id at the next occasion.
 * @param again also those that the service once did not know
 */
export async function requestRereads(
  { trx, client, stream }: StreamScope,
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
      where (${again} and r.last_reason = ${unknownToService}) or r.last_reason = ${stillOpen}`.execute(trx);
}

/** Ids whose turn to be read has come, the longest waiting first; not those that the service is known not to know. */
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

/** Ids that were asked for and not read since, or in vain for no fault of theirs; the longest waiting first. */
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

/** Of these ids, those that wait to be read, due or not. */
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
 * Forgets ids that are settled.
 * @param changed the ids whose row has changed; null: all. A row that was found and is still open is settled by a change only
 */
export async function settleRereads(
  { trx, client, stream }: StreamScope,
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
      query.where((eb) => eb.or([eb('last_reason', '<>', stillOpen), eb('id', '=', anyId(changed ?? []))])),
    )
    .execute();
}
