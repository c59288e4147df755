import { type RawBuilder, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import { createLock, lockingCte } from '../connection/locks.ts';
import type { StreamScope } from '../connection/stream-scope.ts';
import type { DB } from '../generated/tables.ts';
import type { Lease } from './leases.ts';

/**
 * A reading that finds a row as it is writes nothing, so the row cannot tell how lately it was seen. Where a poll and a
 * rescan read one stream at once, that would let an older reading undo what a newer one found unchanged: so, and only
 * then, what is found unchanged is noted.
 */

/** A resource, and the number of the reading that it comes from. */
export interface ReadAs {
  readonly id: number;
  readonly readNo: number;
}

/** Jobs beside the polls that read streams. */
const rescanning = ['reconcile', 'backfill', 'refetch', 'replay'];

/** What a reader finds that has entered a stream. */
export interface Entered {
  /** Another reader holds a lease, and so may come with an older reading. */
  readonly othersAtWork: boolean;
  /** Something of this stream may wait to be read by id, or be in quarantine, which a reading settles. */
  readonly waits: boolean;
}

/** Makes the readers of one stream commit one after the other, to the end of the transaction. */
export async function enterStream({ trx, stream }: StreamScope, lease: Lease): Promise<Entered> {
  const enter = () =>
    sql<{ others: boolean; waiting: boolean }>`
      with ${lockingCte(streamLock(lease.client, stream))}
      select ${othersAtWork(lease, stream)} as others, ${somethingWaits(lease.client, stream)} as waiting
        from locked`.execute(trx);
  let { rows } = await enter();
  if (rows.length === 0) {
    await createLock(trx, streamLock(lease.client, stream));
    rows = (await enter()).rows;
  }
  const { others = true, waiting = true } = rows[0] ?? {};
  // All of this was seen before the lock was had: what another reader did meanwhile does not show in it.
  return { othersAtWork: others, waits: waiting || others };
}

/** SQL: whether another reader of the stream holds a lease. */
export const othersAtWork = ({ client, name }: Lease, stream: string) => sql`exists (
  select from sync.leases l
  left join sync.jobs j on j.client = l.client and j.job = l.name
  where l.client = ${anyClient(client)} and l.expires_at is not null and l.name <> ${name}
    and (j.stream = ${stream} or l.name = any(${rescanning}::text[])))`;

/** SQL: whether anything of the stream waits to be read by id, or is in quarantine. */
export const somethingWaits = (client: string, stream: string) => sql`(
  exists (select from sync.rereads where client = ${anyClient(client)} and stream = ${stream})
  or exists (select from sync.quarantine where client = ${anyClient(client)} and stream = ${stream}))`;

/**
 * Makes a settlement of pushes commit before or after the readers of the stream, not among them.
 * @returns a number for what it writes: who asked before the answers of these pushes came has a smaller one
 */
export async function lockStream({ trx, client, stream }: StreamScope): Promise<number> {
  const name = streamLock(client, stream);
  // The number is drawn once the name is locked.
  const draw = () =>
    sql<{ readNo: number }>`with ${lockingCte(name)} select nextval('sync.read_no') as "readNo" from locked`.execute(
      trx,
    );
  let { rows } = await draw();
  if (rows.length === 0) {
    await createLock(trx, name);
    rows = (await draw()).rows;
  }
  return rows[0]?.readNo as number;
}

const streamLock = (client: string, stream: string) => `rows ${client} ${stream}`;

/** Notes that these rows were found as they are, each by its own reading. */
export async function confirm({ trx, client, stream }: StreamScope, found: readonly ReadAs[]): Promise<void> {
  if (found.length === 0) return;
  const [ids, readNos] = [found.map(({ id }) => id), found.map(({ readNo }) => readNo)];
  await sql`
    insert into sync.confirmations (client, stream, read_no, ids)
    select ${client}, ${stream}, f.read_no, array_agg(f.id)
    from unnest(${ids}::bigint[], ${readNos}::bigint[]) as f (id, read_no)
    group by f.read_no`.execute(trx);
}

/** SQL: whether a newer reading than `readNo` found the row as it is. */
export function confirmedSince(
  client: string,
  stream: string,
  readNo: number | RawBuilder<unknown>,
  id: RawBuilder<unknown>,
) {
  return sql`exists (
    select from sync.confirmations c
    where c.client = ${anyClient(client)} and c.stream = ${stream} and c.read_no > ${readNo} and ${id} = any(c.ids))`;
}

/** Forgets what was confirmed for a client once nobody is left who could come with an older reading. */
export async function forgetConfirmations(trx: Transaction<DB>, { client, name }: Lease): Promise<void> {
  await sql`
    delete from sync.confirmations c
    where c.client = ${anyClient(client)} and not exists (
      select from sync.leases l
      left join sync.jobs j on j.client = l.client and j.job = l.name
      where l.client = c.client and l.expires_at is not null and l.name <> ${name}
        and (j.stream = c.stream or l.name = any(${rescanning}::text[])))`.execute(trx);
}
