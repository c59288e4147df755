import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { Lease } from './leases.ts';
import type { DB } from './rows.ts';

/**
 * A reading that finds a row as it is writes nothing, so the row cannot tell how lately it was seen. Where a poll and a
 * rescan read one stream at once, that would let an older reading undo what a newer one found unchanged: so, and only
 * then, what is found unchanged is noted.
 */

/** Jobs beside the polls that read streams. */
const rescanning = ['reconcile', 'backfill', 'refetch', 'replay'];

/**
 * Makes the readers of one stream commit one after the other, to the end of the transaction.
 * @returns whether another reader holds a lease, and so may come with an older reading
 */
export async function enterStream(trx: Transaction<DB>, lease: Lease, stream: string): Promise<boolean> {
  const { rows } = await sql<{ others: boolean }>`
    select exists (
      select from sync.leases where client = ${lease.client} and expires_at is not null
        and name = any(${[`pull-${stream}`, ...rescanning]}::text[]) and name <> ${lease.name}) as others
    from (select ${streamLock(lease.client, stream)}) as entered`.execute(trx);
  return rows[0]?.others ?? false;
}

/** Makes a settlement of pushes commit before or after the readers of the stream, not among them. */
export async function lockStream(trx: Transaction<DB>, client: string, stream: string): Promise<void> {
  await sql`select ${streamLock(client, stream)}`.execute(trx);
}

const streamLock = (client: string, stream: string) =>
  sql`pg_advisory_xact_lock(hashtext('fulfilment-sync rows'), hashtext(${`${client} ${stream}`}))`;

/** Notes that these rows were found as they are. */
export async function confirm(
  trx: Transaction<DB>,
  client: string,
  stream: string,
  readNo: number,
  ids: readonly number[],
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.confirmations (client, stream, read_no, ids)
    values (${client}, ${stream}, ${readNo}, ${ids}::bigint[])`.execute(trx);
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
    where c.client = ${client} and c.stream = ${stream} and c.read_no > ${readNo} and ${id} = any(c.ids))`;
}

/** Forgets what was confirmed for a client once nobody is left who could come with an older reading. */
export async function forgetConfirmations(trx: Transaction<DB>, { client, name }: Lease): Promise<void> {
  await sql`
    delete from sync.confirmations c
    where c.client = ${client} and not exists (
      select from sync.leases l
      where l.client = c.client and l.expires_at is not null and l.name <> ${name}
        and (l.name = 'pull-' || c.stream or l.name = any(${rescanning}::text[])))`.execute(trx);
}
