import type { Transaction } from 'kysely';
import { isObject, type Json } from '../../core/json.ts';
import { staysAccepted } from '../../erp/clients.ts';
import { lockStream } from '../../erp/confirmations.ts';
import type { Database } from '../../erp/connect.ts';
import { appendChanges, type Change } from '../../erp/feed.ts';
import { type Settled, type Settlement, settleRows } from '../../erp/outbox-settle.ts';
import { requestRereads } from '../../erp/rereads.ts';
import type { DB } from '../../erp/rows.ts';
import { inTransaction, refusesData } from '../../erp/transaction.ts';
import { markUnlisted } from '../../erp/unlisted.ts';
import { upsertFamilies } from '../../erp/upsert.ts';
import { decodePage } from '../decode.ts';
import type { Mirrored } from '../stream.ts';
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

/**
 * Settles attempts and look-ups of one client: outbox rows, what they brought for the tables, and the feed, in one
 * transaction. Where the database takes offence at one, they are settled one by one, and its resource is left to the next
 * reading.
 */
export async function settleEnded(context: SettleContext, ended: readonly Ended[]): Promise<readonly Settled[]> {
  try {
    return await inTransaction(context.db, (trx) => settleAll(trx, context, ended));
  } catch (error) {
    if (!refusesData(error)) throw error;
    const [only, ...others] = ended;
    if (only === undefined) throw error;
    if (others.length === 0) return settleEnded(context, [lessOf(only, error)]);
    const middle = Math.ceil(ended.length / 2);
    const first = await settleEnded(context, ended.slice(0, middle));
    return [...first, ...(await settleEnded(context, ended.slice(middle)))];
  }
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
    await requestRereads(trx, client, stream.name, ids, 'a push changed it');
  }
  return changes;
}

function streamsOf(ended: readonly Ended[]): Mirrored[] {
  const streams = ended.flatMap(({ pushed }) => (pushed?.reading ? [pushed.reading.stream] : []));
  return [...new Set(streams)].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Writes what the answers showed, as readings like any other: an older one never wins. What does not get in is read again. */
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
  await lockStream(trx, client, stream.name);
  const families = read.flatMap(({ page, readNo }) =>
    page.families.map((family) => ({ ...family, parent: { ...family.parent, read_no: readNo } })),
  );
  const scope = {
    client,
    stream: stream.name,
    readNo: Math.min(...read.map(({ readNo }) => readNo)),
    compare: 'raw' as const,
  };
  const written = await upsertFamilies(trx, scope, stream.tables, families);
  const stored = new Set([...written.unchanged, ...written.inserted, ...written.changed]);
  const left = read.flatMap(({ id }) => (id === null || stored.has(id) ? [] : [id]));
  await requestRereads(trx, client, stream.name, left, 'a push changed it');
  const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
  const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
  return [...written.changes, ...followUps];
}
