import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { pauses } from '../core/backoff.ts';
import { isObject, type Json } from '../core/json.ts';
import { workOnHalves } from '../core/work-on-halves.ts';
import type { DatabaseTransaction } from '../db/pool.ts';
import { inTransaction, isCancelled, isDataRefused, isLockTimeout } from '../db/transaction.ts';
import { decodePage } from '../pull/decode.ts';
import { appendChanges, type Change } from '../pull/sql/feed.ts';
import { lockStream } from '../pull/sql/stream-transaction.ts';
import { markUnlisted } from '../pull/sql/unlisted.ts';
import { findChangedIds, upsertResources } from '../pull/sql/upsert.ts';
import { requestReads } from '../pull/sql/waiting-reads.ts';
import type { MirroredResource } from '../pull/stream.ts';
import { readId } from '../service/decoding/jsonapi.ts';
import { isAcceptedUntilCommit } from '../service/sql/clients.ts';
import type { PushDeps, PushOutcome } from './send-row.ts';
import {
  bringPollsForward,
  type Settlement,
  type SettleResult,
  settleRows,
} from './sql/settle-rows.ts';

/**
 * Maximum number of answered but unsettled rows. It keeps the service busy while the database
 * commits. After a crash they have to be looked up, 100 in one request.
 */
const maxUnsettled = 256;

/** Events of the settler. */
export interface SettleEvents {
  /** Called for each attempt or look-up that settled a row. */
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  /** Called when rows will be due in this many milliseconds, or may be due now. */
  readonly onDue: (inMs: number) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** An outcome that waits to be settled. */
interface WaitingOutcome {
  readonly outcome: PushOutcome;
  readonly kind: string;
  readonly resolve: () => void;
  /**
   * Runs a function within the span of the attempt, although other attempts are settled with it.
   */
  readonly inSpan: (run: () => void) => void;
}

/**
 * Settles the outcomes of one client: all that were answered since its last commit, in one
 * transaction.
 */
export class Settler {
  readonly #deps: PushDeps;
  readonly #signal: AbortSignal;
  readonly #events: SettleEvents;
  readonly #onReleased: () => void;
  #waiting: WaitingOutcome[] = [];
  #unsettled = 0;
  #isRunning = false;

  /**
   * @param signal ends the retries while the database does not answer
   * @param onReleased called if the next rows of lanes are due now
   */
  constructor(deps: PushDeps, signal: AbortSignal, events: SettleEvents, onReleased: () => void) {
    this.#deps = deps;
    this.#signal = signal;
    this.#events = events;
    this.#onReleased = onReleased;
  }

  /** False if no further row may be sent before some are settled. */
  get hasRoom(): boolean {
    return this.#unsettled < maxUnsettled;
  }

  get isIdle(): boolean {
    return this.#unsettled === 0;
  }

  /**
   * Settles an outcome, and resolves when it is stored. An outcome whose row somebody has locked
   * waits for it.
   */
  async settle(outcome: PushOutcome, kind: string): Promise<void> {
    this.#unsettled++;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ outcome, kind, resolve, inSpan: AsyncLocalStorage.snapshot() });
    void this.#run();

    await promise;
    this.#unsettled--;
  }

  /** The settler: settles what waits, until nothing does. */
  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#settleBatch(batch);
    }
    this.#isRunning = false;
  }

  /**
   * Settles a batch. While the database does not answer, it tries again: an outcome is never given
   * up.
   */
  async #settleBatch(batch: readonly WaitingOutcome[]): Promise<void> {
    do {
      try {
        return await this.#settleOnce(batch);
      } catch (error) {
        this.#events.onError('settle', error);
        await this.#pause(pauses.settlement.firstMs);
      }
    } while (!this.#signal.aborted);

    // Other workers find the unsettled rows when the claims expire.
    for (const { resolve } of batch) resolve();
  }

  async #settleOnce(batch: readonly WaitingOutcome[]): Promise<void> {
    const outcomes = batch.map(({ outcome }) => outcome);
    const { settled, locked, hasReleased } = await settleOutcomes(this.#deps, outcomes);
    void this.#deps.numberFeed();
    if (hasReleased) this.#onReleased();

    for (const { outcome, kind, inSpan } of batch)
      if (settled.has(outcome.settlement.id)) inSpan(() => this.#report(outcome.settlement, kind));

    const isLocked = ({ outcome }: WaitingOutcome) => locked.has(outcome.settlement.id);
    void this.#settleLater(batch.filter(isLocked));
    for (const one of batch) if (!isLocked(one)) one.resolve();
  }

  #report(settlement: Settlement, kind: string): void {
    this.#events.onSettled(settlement, kind);
    if (settlement.delayMs != null) this.#events.onDue(settlement.delayMs);
  }

  async #settleLater(locked: readonly WaitingOutcome[]): Promise<void> {
    if (locked.length === 0) return;
    await this.#pause(pauses.lockedRow.firstMs);

    for (const one of locked) {
      if (this.#signal.aborted) one.resolve();
      else this.#waiting.push(one);
    }
    void this.#run();
  }

  async #pause(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}

/**
 * Settles outcomes of one client in one transaction: outbox rows, the resources that they brought,
 * and the feed. It never waits for an outbox row that somebody has locked. If the database refuses
 * data of an outcome, or a resource is locked or takes too long, the outcomes are settled in parts.
 * The resource of the outcome at fault is left to the next reading.
 */
async function settleOutcomes(
  deps: PushDeps,
  outcomes: readonly PushOutcome[],
): Promise<SettleResult> {
  try {
    return await inTransaction(deps.db, (trx) => settleAll(trx, deps, outcomes), {
      waitForLocks: false,
    });
  } catch (error) {
    if (!isDataRefused(error) && !isCancelled(error) && !isLockTimeout(error)) throw error;
    const [only, ...others] = outcomes;
    if (only === undefined) throw error;
    if (others.length === 0)
      return settleOutcomes(deps, [
        isDataRefused(error) ? withoutContent(only, error) : withoutReading(only, error),
      ]);
    const [first, second] = await workOnHalves(outcomes, (half) => settleOutcomes(deps, half));
    return {
      settled: new Map([...first.settled, ...second.settled]),
      locked: new Set([...first.locked, ...second.locked]),
      hasReleased: first.hasReleased || second.hasReleased,
    };
  }
}

/**
 * Leaves out the mirror rows, which somebody has locked or which take too long, and requests that
 * they are reread.
 * @throws the error itself if the cause is elsewhere: results and follow-ups are never left out
 *   because of it
 */
function withoutReading(outcome: PushOutcome, error: unknown): PushOutcome {
  const { pushed } = outcome;
  if (pushed === null || (pushed.reading === undefined && pushed.gone === undefined)) throw error;
  const { reading, gone, rereads = [] } = pushed;
  const id = reading === undefined ? null : readId(reading.resource);
  const left = reading === undefined || id === null ? [] : [{ stream: reading.stream, id }];
  return {
    ...outcome,
    pushed: { rereads: [...rereads, ...(gone === undefined ? [] : [gone]), ...left] },
  };
}

/**
 * Leaves out content that Postgres refused: first what the mirror would get, then the texts and the
 * result, which then says so.
 * @throws the error itself if nothing is left to leave out
 */
function withoutContent(outcome: PushOutcome, error: unknown): PushOutcome {
  if (outcome.pushed !== null) return { ...outcome, pushed: null };
  const { settlement } = outcome;
  const { result = null } = settlement;
  if (settlement.error === unstorable || (settlement.error === null && !hasContent(result)))
    throw error;

  const texts = settlement.error === null ? {} : { error: unstorable };
  const refusal = settlement.refusal == null ? {} : { refusal: unstorable };

  return {
    ...outcome,
    settlement: {
      ...settlement,
      ...texts,
      ...refusal,
      ...(result !== null && { result: { note: unstorable } }),
      followUps: [],
    },
  };
}

const unstorable = 'the answer of the service cannot be stored in Postgres';
const hasContent = (result: Json | null) =>
  isObject(result) && Object.keys(result).length > 0 && result.note !== unstorable;

async function settleAll(
  trx: DatabaseTransaction,
  deps: PushDeps,
  all: readonly PushOutcome[],
): Promise<SettleResult> {
  const { client, worker } = deps;
  // Lock the identity before the rows, as accept-identity does: the other order would deadlock.
  const isAccepted = await isAcceptedUntilCommit(trx, deps);
  const result = await settleRows(trx, worker, pickOnePerRow(all));
  const outcomes = all.filter(({ settlement }) => !result.locked.has(settlement.id));
  // If another account was accepted meanwhile, the resources do not belong to the client's rows.
  if (isAccepted) {
    const changes: Change[] = [];
    // Always use the same order: two settlements that wait for each other's streams would deadlock.
    for (const stream of findStreams(outcomes))
      for (const change of await writeReadings(trx, deps, stream, outcomes)) changes.push(change);
    for (const change of await markAndReread(trx, client, outcomes)) changes.push(change);
    if ([...result.settled.values()].includes('done')) await bringPollsForward(trx, client);
    await appendChanges(trx, client, changes);
  }

  return result;
}

/**
 * Returns one settlement for each row. Of a late answer and a look-up of the same row, the answer
 * counts.
 */
function pickOnePerRow(outcomes: readonly PushOutcome[]): Settlement[] {
  const settlements = outcomes.map(({ settlement }) => settlement);
  const sorted = settlements.toSorted(
    (a, b) => Number(a.step === 'sent') - Number(b.step === 'sent'),
  );
  return [...new Map(sorted.map((settlement) => [settlement.id, settlement])).values()];
}

/**
 * Marks deleted resources as unlisted, and requests rereads of rows that the answers do not show.
 */
async function markAndReread(
  trx: DatabaseTransaction,
  client: string,
  outcomes: readonly PushOutcome[],
): Promise<readonly Change[]> {
  const changes: Change[] = [];
  const gone = outcomes.flatMap(({ pushed, readNo }) =>
    pushed?.gone ? [{ ...pushed.gone, readNo }] : [],
  );

  for (const [stream, marks] of Map.groupBy(gone, (mark) => mark.stream)) {
    const ids = marks.map(({ id }) => id);
    // A deleted resource does not come back, so the newest reading number serves for all.
    const readNo = marks.reduce((latest, mark) => Math.max(latest, mark.readNo), 0);
    const place = { trx, client, stream: stream.name };
    for (const change of await markUnlisted(place, stream, ids, readNo)) changes.push(change);
  }

  const rereads = outcomes.flatMap(({ pushed }) => pushed?.rereads ?? []);
  for (const [stream, marks] of Map.groupBy(rereads, (mark) => mark.stream)) {
    const ids = [...new Set(marks.map(({ id }) => id))];
    await requestReads({ trx, client, stream: stream.name }, ids, 'pushed');
  }

  return changes;
}

function findStreams(outcomes: readonly PushOutcome[]): MirroredResource[] {
  const streams = outcomes.flatMap(({ pushed }) =>
    pushed?.reading ? [pushed.reading.stream] : [],
  );
  return [...new Set(streams)].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Writes the resources that the answers showed. If a poll that asked between the claim and now has
 * written a row, it is not known which of both is newer: the row is reread at once. The reading
 * number that is written is drawn now, so that a poll that asked before cannot overwrite the pushed
 * resource.
 */
async function writeReadings(
  trx: DatabaseTransaction,
  { client, zone }: PushDeps,
  stream: MirroredResource,
  outcomes: readonly PushOutcome[],
): Promise<readonly Change[]> {
  const answers = outcomes.flatMap(({ pushed, readNo }) =>
    pushed?.reading?.stream === stream ? [{ ...pushed.reading, readNo }] : [],
  );
  const read = await Promise.all(
    answers.map(async ({ resource, escaped, readNo }) => {
      const page = await decodePage(
        { data: [resource], included: [], escaped },
        stream.decoder(zone),
      );
      return {
        page,
        readNo,
        id: page.resources[0]?.parent.id ?? page.quarantined[0]?.resourceId ?? null,
      };
    }),
  );
  const transaction = { trx, client, stream: stream.name };
  const age = {
    readNo: await lockStream(transaction),
    compare: 'raw' as const,
    readNoAtRequest: new Map(
      read.flatMap(({ page, readNo }) => page.resources.map(({ parent }) => [parent.id, readNo])),
    ),
  };

  const resources = read.flatMap(({ page }) => page.resources);
  const written = await upsertResources(transaction, age, stream.tables, resources);
  const stored = new Set([...written.unchanged, ...written.inserted, ...written.changed]);
  const left = read.flatMap(({ id }) => (id === null || stored.has(id) ? [] : [id]));
  await requestReads(transaction, left, 'pushed');
  if (left.length > 0) await bringPollsForward(trx, client, [stream.name]);

  await stream.afterChanges?.(transaction, findChangedIds(stream.tables, written.changes));

  return written.changes;
}
