import { setImmediate as nextTurn } from 'node:timers/promises';
import { describeError, hasCode, WarehouseError } from '../core/errors.ts';
import { drawReadNo } from '../pull/sql/stream-transaction.ts';
import type { ClientHealth } from '../service/health/client-health.ts';
import { readLookUpEvidence, type ScopedEvidence } from '../service/health/evidence.ts';
import { readPayload } from './check-payload.ts';
import {
  judgeAbsence,
  leaveToOperator,
  type MissedLookUp,
  measureListLagMs,
  type Verdict,
} from './judge-outcome.ts';
import {
  type AnyKind,
  type FoundConclusion,
  type JsonObject,
  type LookUpContext,
  type LookUpResult,
  type LookUpRule,
  PayloadError,
  type PushedResources,
} from './kind.ts';
import { evidenceOfSuccess, type PushDeps, type PushOutcome, toStoredCodes } from './send-row.ts';
import { recordListLag, takeUnknownRows, type UnknownRow } from './sql/look-ups.ts';

/** Maximum number of rows of one kind in a round of look-ups. */
const maxRows = 200;

/** Result of the look-ups of one kind. */
interface LookUpRound {
  readonly outcomes: readonly PushOutcome[];
  /** What look-ups without an answer show about the service of the client. */
  readonly evidence: readonly ScopedEvidence[];
}

/**
 * Looks up the due unknown rows of one kind, has the outcomes settled, and stores what they show
 * about the service.
 * @returns true if there were any rows. Rows that others have locked are looked up again later, not
 *   at once.
 */
export async function lookUpDueRows(
  deps: PushDeps,
  kind: AnyKind,
  { health, signal }: { readonly health: ClientHealth; readonly signal: AbortSignal },
  settle: (outcome: PushOutcome) => void,
): Promise<boolean> {
  const { outcomes, evidence } = await lookUpRows(deps, kind, signal);
  for (const outcome of outcomes) settle(outcome);
  await health.record([...outcomes.flatMap((row) => row.evidence), ...evidence], kind.name);
  return outcomes.length > 0;
}

/** A row to look up, with its payload; null if it cannot be read. */
type ReadRow = UnknownRow & { readonly payloadRead: unknown };

/** Looks up the due unknown rows of one kind, and returns the outcome of each. */
async function lookUpRows(
  deps: PushDeps,
  kind: AnyKind,
  signal: AbortSignal,
): Promise<LookUpRound> {
  if (kind.unknown.do !== 'look up') return { outcomes: [], evidence: [] };
  const { lookUp } = kind.unknown;
  const taken = await takeUnknownRows(deps.db, deps.client, kind.name, maxRows);
  if (taken.length === 0) return { outcomes: [], evidence: [] };

  const startedAtMs = performance.now();
  const readNo = await drawReadNo(deps.db);
  const rows = await readPayloads(deps, kind, taken, signal);
  const found = await findRows(rows, lookUp, { ...deps, signal });

  const lagMs = findLongestLagMs(rows, found);
  if (lagMs !== null) await recordListLag(deps.db, deps.client, lagMs);

  const durationMs = Math.round(performance.now() - startedAtMs);
  const outcomes = rows.map((row) => {
    const seen = found.get(row.id) ?? describeMissing(row);
    const conclusion = { ...concludeLookUp(deps, lookUp, row, seen), durationMs };
    return { ...toLookUpOutcome(kind, row, seen, conclusion), readNo };
  });
  // Rows of one request share one cause.
  const causes = new Set([...found.values()].flatMap((seen) => findCause(seen) ?? []));

  return { outcomes, evidence: [...causes].flatMap(readLookUpEvidence) };
}

/** Looks up the rows whose payloads can be read. If that fails, none of them has an answer. */
async function findRows(
  rows: readonly ReadRow[],
  { find }: LookUpRule<unknown>,
  context: LookUpContext,
): Promise<ReadonlyMap<number, LookUpResult>> {
  try {
    return await find(
      rows.filter(({ payloadRead }) => payloadRead !== null),
      context,
    );
  } catch (error) {
    const why = `${describeError(error)}; the look-up is tried again`;
    const cause = error instanceof WarehouseError ? { cause: error } : {};
    return new Map(rows.map(({ id }) => [id, { seen: 'no answer', why, ...cause }]));
  }
}

/** Returns the result of a row for which the look-up gave none. */
const describeMissing = ({ payloadRead }: ReadRow): LookUpResult => ({
  seen: 'no answer',
  why:
    payloadRead === null
      ? 'its payload cannot be read, now or by this version'
      : 'the look-up gave no result for it',
});

/** Returns the failure of a look-up; undefined if it had an answer, or failed otherwise. */
const findCause = (seen: LookUpResult) => (seen.seen === 'no answer' ? seen.cause : undefined);

function toLookUpOutcome(
  kind: AnyKind,
  row: ReadRow,
  seen: LookUpResult,
  { pushed = null, ...verdict }: Conclusion & { readonly durationMs: number },
): Omit<PushOutcome, 'readNo'> {
  const { id, client, claimNo, refusal, refusedAs } = row;
  const cause = findCause(seen);
  const settlement = {
    ...({ id, client, claimNo, step: 'looked up', isAbsent: seen.seen === 'absent' } as const),
    ...verdict,
    ...(verdict.status === 'unknown' && { refusal, refusedAs }),
    ...(cause !== undefined && toStoredCodes(cause)),
    ...(verdict.status === 'done' && {
      followUps: kind.followUps?.(row.payloadRead as JsonObject) ?? [],
    }),
  };
  // A row that was found was carried out: the service is slow, but reachable.
  return { settlement, pushed, evidence: seen.seen === 'there' ? evidenceOfSuccess : [] };
}

/** Returns the longest lag of the lists that showed these rows; null if none is known. */
function findLongestLagMs(
  rows: readonly UnknownRow[],
  found: ReadonlyMap<number, LookUpResult>,
): number | null {
  let longestMs: number | null = null;
  for (const row of rows) {
    const seen = found.get(row.id);
    if (seen?.seen !== 'there' || seen.isOlder === true) continue;
    const lagMs = measureListLagMs(row, seen.listedAgoMs);
    if (lagMs !== null) longestMs = Math.max(longestMs ?? 0, lagMs);
  }

  return longestMs;
}

/**
 * Reads the payloads of rows. A payload is null if it cannot be read now, or if this version does
 * not accept it although the version that sent it did.
 */
async function readPayloads(
  { client, codes, operations }: PushDeps,
  kind: AnyKind,
  rows: readonly UnknownRow[],
  signal: AbortSignal,
): Promise<readonly ReadRow[]> {
  // Checks of rows to be sent take turns with these, so that none of them holds up a look-up.
  const context = { owner: `look-ups of client ${client}`, codes, operations, signal };
  const read: ReadRow[] = [];
  for (const row of rows) {
    const payloadRead = await readPayload(kind, row, context).catch((error: unknown) => {
      if (error instanceof PayloadError || hasCode(error, 'payload_not_checked')) return null;
      throw error;
    });
    read.push({ ...row, payloadRead });
    await nextTurn();
  }

  return read;
}

/** What a look-up comes to. */
type Conclusion = Verdict & {
  readonly result?: JsonObject;
  readonly pushed?: PushedResources | null;
};

function concludeLookUp(
  deps: PushDeps,
  rule: LookUpRule<unknown>,
  row: ReadRow,
  seen: LookUpResult,
): Conclusion {
  if (seen.seen === 'there') return concludeFound(rule, row, seen);
  const why = [row.refusal, seen.why].filter((text) => text != null).join('; ') || notFoundYet;
  // The service refused every attempt that it was asked for, so the row was not carried out.
  const isRefused = row.refusal !== null && row.sinceWrittenMs === null;
  if (seen.seen === 'several')
    return isRefused ? { status: 'dead', error: why } : leaveToOperator(why);

  const lookedUp = {
    ...row,
    whenAbsent: rule.whenAbsent,
    retryAfterMs: findCause(seen)?.retryAfterMs ?? 0,
  };
  const missed = { seen: toBasis(seen, isRefused), why };
  return judgeAbsence(lookedUp, missed, deps.timeoutMs, deps.policy);
}

/**
 * Returns what a look-up that did not find the row is worth. If the row was refused, an unclear
 * answer will do.
 */
function toBasis(seen: LookUpResult, isRefused: boolean): MissedLookUp['seen'] {
  if (seen.seen === 'absent') return seen.basis;
  return seen.seen === 'unclear' && isRefused ? 'list' : 'no answer';
}

const notFoundYet = 'not found at the service yet; looked up again';

/**
 * Concludes a look-up that found the row's resource. If an attempt of this row may have been
 * carried out, the resource is its result. Otherwise the resource must equal what the payload asks
 * for.
 */
function concludeFound(
  rule: LookUpRule<unknown>,
  row: ReadRow,
  found: LookUpResult & { readonly seen: 'there' },
): Conclusion {
  const { resource, escaped, isOlder } = found;
  const reading = { stream: rule.stream, resource, escaped };
  const isOthers = row.sinceWrittenMs === null || isOlder === true;

  const conclusion = row.replaced
    ? earlierVersion
    : rule.conclude(found, row.payloadRead, isOthers);
  if ('error' in conclusion) return { ...conclusion, pushed: { reading } };
  const { result, ...rereads } = conclusion;
  return { status: 'done', error: null, result, pushed: { ...rereads, reading } };
}

const earlierVersion: FoundConclusion = {
  status: 'dead',
  error:
    'the service carried out an earlier attempt, with the payload from before it was replaced. ' +
    'Mark the row as done, and correct the result at the service',
};
