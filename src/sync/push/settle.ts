import type { Transaction } from 'kysely';
import { workOnHalves } from '../../core/halves.ts';
import { isObject, type Json } from '../../core/json.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { inTransaction, isLockTimeout, refusesData } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { appendChanges, type Change } from '../../erp/mirror/feed.ts';
import { markUnlisted } from '../../erp/mirror/unlisted.ts';
import { upsertFamilies } from '../../erp/mirror/upsert.ts';
import { lockForSettling, type Settled, type Settlement, settleRows } from '../../erp/outbox/settle.ts';
import { requestRereads } from '../../erp/pull/rereads.ts';
import { holdIdentity, staysAccepted } from '../../erp/runs/clients.ts';
import { lockStream } from '../../erp/runs/confirmations.ts';
import { bringPollForward } from '../../erp/runs/due-jobs.ts';
import { readId } from '../../warehouse/decoding/jsonapi.ts';
import { decodePage } from '../reading/decode.ts';
import type { Mirrored } from '../reading/stream.ts';
import type { Ended } from './attempt.ts';

/** Whose rows are settled, and by whom. */
export interface SettleContext {
  readonly db: Database;
  readonly client: string;
  /** Fingerprint of the account. */
  readonly identity: string;
  readonly zone: string;
  readonly worker: string;
}

/** What a settlement reached. */
export interface SettleResult {
  readonly settled: readonly Settled[];
  /** Those whose row somebody else has locked: nothing of them was written. Settle them again with `settleFree`. */
  readonly busy: readonly Ended[];
}

/**
 * Settles attempts and look-ups of one client: outbox rows, what they brought for the tables, and the feed, in one
 * transaction. If the database refuses one of them, they are settled one by one, and its resource is left to the next
 * reading. Rows that an ERP transaction has locked are left out after one lock_timeout, so that the others are settled.
 */
export async function settleEnded(context: SettleContext, ended: readonly Ended[]): Promise<SettleResult> {
  try {
    const settled = await inTransaction(context.db, (trx) => settleAll(trx, context, ended), { waitForLocks: false });
    return { settled, busy: [] };
  } catch (error) {
    if (isLockTimeout(error)) return settleFree(context, ended);
    if (!refusesData(error)) throw error;
    return settleInParts(context, ended, error, settleEnded);
  }
}

/** Settles as `settleEnded` does, but waits for no row that somebody has locked. */
export async function settleFree(context: SettleContext, ended: readonly Ended[]): Promise<SettleResult> {
  try {
    return await inTransaction(
      context.db,
      async (trx) => {
        // The identity is locked before the rows, as accept-identity does it: the other order would deadlock.
        await holdIdentity(trx, context.client);
        const ids = ended.map(({ settlement }) => settlement.id);
        const locked = await lockForSettling(trx, ids);
        const busy = ended.filter(({ settlement }) => locked.has(settlement.id));
        const free = ended.filter(({ settlement }) => !locked.has(settlement.id));
        return { settled: free.length === 0 ? [] : await settleAll(trx, context, free), busy };
      },
      { waitForLocks: false },
    );
  } catch (error) {
    // The lock is on what one of them brought for the tables.
    if (!refusesData(error) && !isLockTimeout(error)) throw error;
    return settleInParts(context, ended, error, settleFree);
  }
}

/** Settles the halves by themselves; the last one that still fails is settled with less of it. */
async function settleInParts(
  context: SettleContext,
  ended: readonly Ended[],
  error: unknown,
  settle: typeof settleEnded,
): Promise<SettleResult> {
  const [only, ...others] = ended;
  if (only === undefined) throw error;
  if (others.length === 0)
    return settle(context, [isLockTimeout(error) ? withoutReading(only, error) : lessOf(only, error)]);
  const [first, second] = await workOnHalves(ended, (half) => settle(context, half));
  return { settled: [...first.settled, ...second.settled], busy: [...first.busy, ...second.busy] };
}

/**
 * Leaves the mirror rows, which somebody has locked, to a later reading, and asks for it.
 * @throws the error itself if the lock is elsewhere: result and follow-up rows are never left out for a lock
 */
function withoutReading(ended: Ended, error: unknown): Ended {
  const { pushed } = ended;
  if (pushed === null || (pushed.reading === undefined && pushed.gone === undefined)) throw error;
  const { reading, gone, reread, result } = pushed;
  const id = reading === undefined ? null : readId(reading.resource);
  const later = reread ?? gone ?? (reading === undefined || id === null ? undefined : { stream: reading.stream, id });
  return { ...ended, pushed: { result, ...(later === undefined ? {} : { reread: later }) } };
}

/**
 * What Postgres took offence at, with less of it: without what it brought for the tables; then without its words.
 * @throws the error itself where nothing is left to leave out
 */
function lessOf(ended: Ended, error: unknown): Ended {
  if (ended.pushed !== null) return { ...ended, pushed: null };
  const { settlement } = ended;
  if (settlement.error === unstorable || (settlement.error === null && isEmpty(settlement.result))) throw error;
  const words = settlement.error === null ? {} : { error: unstorable };
  const refusal = settlement.refusal === null ? {} : { refusal: unstorable };
  return {
    ...ended,
    settlement: { ...settlement, ...words, ...refusal, result: settlement.result === null ? null : {}, followUps: [] },
  };
}

const unstorable = 'what the service said cannot be stored';
const isEmpty = (result: Json | null) => result === null || (isObject(result) && Object.keys(result).length === 0);

async function settleAll(
  trx: Transaction<DB>,
  context: SettleContext,
  ended: readonly Ended[],
): Promise<readonly Settled[]> {
  const { client, worker } = context;
  // First, as whoever accepts an account locks it before the rows.
  const isOurs = await staysAccepted(trx, context);
  const settled = await settleRows(trx, worker, oneEach(ended));
  // Another service was accepted while they were under way: what they brought is not of the client's rows.
  if (!isOurs) return settled;
  const changes: Change[] = [];
  // Always in one order: two settlements that wait for each other's streams would never end.
  for (const stream of streamsOf(ended)) changes.push(...(await writeReadings(trx, context, stream, ended)));
  changes.push(...(await leaveMarks(trx, client, ended)));
  await appendChanges(trx, client, changes);
  return settled;
}

/** Of two settlements of one row, a late answer and a look-up, the answer counts. */
function oneEach(ended: readonly Ended[]): Settlement[] {
  const settlements = ended.map(({ settlement }) => settlement);
  const sorted = settlements.toSorted((a, b) => Number(a.step === 'sent') - Number(b.step === 'sent'));
  return [...new Map(sorted.map((settlement) => [settlement.id, settlement])).values()];
}

/** What is gone is marked, and what an answer does not show is asked for. */
async function leaveMarks(trx: Transaction<DB>, client: string, ended: readonly Ended[]): Promise<readonly Change[]> {
  const changes: Change[] = [];
  const gone = ended.flatMap(({ pushed, readNo }) => (pushed?.gone ? [{ ...pushed.gone, readNo }] : []));
  for (const [stream, marks] of Map.groupBy(gone, (mark) => mark.stream)) {
    const table = { stream: stream.name, table: stream.tables.parent.name };
    const ids = marks.map(({ id }) => id);
    // What was deleted does not come back: the newest of the numbers serves for all.
    const readNo = Math.max(...marks.map((mark) => mark.readNo));
    changes.push(...(await markUnlisted(trx, client, table, ids, readNo)));
  }
  const rereads = ended.flatMap(({ pushed }) => (pushed?.reread ? [pushed.reread] : []));
  for (const [stream, marks] of Map.groupBy(rereads, (mark) => mark.stream)) {
    const ids = [...new Set(marks.map(({ id }) => id))];
    await requestRereads({ trx, client, stream: stream.name }, ids, 'a push changed it');
  }
  return changes;
}

function streamsOf(ended: readonly Ended[]): Mirrored[] {
  const streams = ended.flatMap(({ pushed }) => (pushed?.reading ? [pushed.reading.stream] : []));
  return [...new Set(streams)].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Writes what the answers showed. An answer was made after its claim, and before now: where a poll has written a row that it
 * asked for in between, which of both is the newer cannot be known, and the row is read again, at once. The number that is
 * written is drawn now, so that a poll which asked before cannot overwrite what was pushed.
 */
async function writeReadings(
  trx: Transaction<DB>,
  { client, zone }: SettleContext,
  stream: Mirrored,
  ended: readonly Ended[],
): Promise<readonly Change[]> {
  const answers = ended.flatMap(({ pushed, readNo }) =>
    pushed?.reading?.stream === stream ? [{ ...pushed.reading, readNo }] : [],
  );
  const read = await Promise.all(
    answers.map(async ({ resource, escaped, readNo }) => {
      const page = await decodePage({ data: [resource], included: [], escaped }, stream.decoder(zone));
      return { page, readNo, id: page.families[0]?.parent.id ?? page.quarantined[0]?.resourceId ?? null };
    }),
  );
  const scope = {
    client,
    stream: stream.name,
    readNo: await lockStream({ trx, client, stream: stream.name }),
    compare: 'raw' as const,
    askedBy: new Map(read.flatMap(({ page, readNo }) => page.families.map(({ parent }) => [parent.id, readNo]))),
  };
  const families = read.flatMap(({ page }) => page.families);
  const written = await upsertFamilies(trx, scope, stream.tables, families);
  const stored = new Set([...written.unchanged, ...written.inserted, ...written.changed]);
  const left = read.flatMap(({ id }) => (id === null || stored.has(id) ? [] : [id]));
  await requestRereads({ trx, client, stream: stream.name }, left, 'a push changed it');
  if (left.length > 0) await bringPollForward(trx, client, stream.name);
  const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
  const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
  return [...written.changes, ...followUps];
}
