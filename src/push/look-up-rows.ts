import { setImmediate as nextTurn } from 'node:timers/promises';
import { describeError, hasCode, readFailureCodes, WarehouseError } from '../core/errors.ts';
import { drawReadNo } from '../pull/sql/stream-transaction.ts';
import type { ClientHealth } from '../service/health/client-health.ts';
import { readLookUpEvidence, type ScopedEvidence } from '../service/health/evidence.ts';
import {
  type AbsenceVerdict,
  judgeAbsence,
  leaveToOperator,
  type MissedLookUp,
  measureListLagMs,
} from './judge-absence.ts';
import {
  type AnyKind,
  type JsonObject,
  type LookUpResult,
  type LookUpRule,
  PayloadError,
  type PushResult,
} from './kind.ts';
import { readPayload } from './payload.ts';
import {
  evidenceOfSuccess,
  type PushDeps,
  type PushOutcome,
  toSettlement,
  toStoredCodes,
} from './send-row.ts';
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
 * Looks up the due unknown rows of all kinds, has the outcomes settled, and stores what they show
 * about the service.
 * @returns true if there were any rows. Rows that others have locked are looked up again later, not
 *   at once.
 */
export async function lookUpDueRows(
  deps: PushDeps,
  health: ClientHealth,
  signal: AbortSignal,
  settle: (outcome: PushOutcome, kind: string) => void,
): Promise<boolean> {
  let hasLookedUp = false;
  for (const kind of deps.kinds.values()) {
    const { outcomes, evidence } = await lookUpRows(deps, kind, signal);
    hasLookedUp ||= outcomes.length > 0;
    for (const outcome of outcomes) settle(outcome, kind.name);
    await health.note([...outcomes.flatMap((row) => row.evidence), ...evidence], kind.name);
    // Ask nothing more if the credentials are refused or the service asked to wait.
    if (evidence.some(({ evidence }) => evidence !== 'ask')) break;
  }
  return hasLookedUp;
}

/** Looks up the due unknown rows of one kind, and returns the outcome of each. */
async function lookUpRows(
  deps: PushDeps,
  kind: AnyKind,
  signal: AbortSignal,
): Promise<LookUpRound> {
  if (kind.unknown.do !== 'look up') return { outcomes: [], evidence: [] };
  const { lookUp } = kind.unknown;
  const rows = await takeUnknownRows(deps.db, deps.client, kind.name, maxRows);
  if (rows.length === 0) return { outcomes: [], evidence: [] };
  const startedAtMs = performance.now();
  const readNo = await drawReadNo(deps.db);
  const read: (UnknownRow & { readonly payloadRead: unknown })[] = [];
  for (const row of rows) {
    read.push({ ...row, payloadRead: await readPayloadOrNull(deps, kind, row, signal) });
    await nextTurn();
  }
  const readable = read.filter(({ payloadRead }) => payloadRead !== null);
  const found = await lookUp.find(readable, { ...deps, signal }).catch((error: unknown) => {
    const why = `${describeError(error)}; the look-up is tried again`;
    const cause = error instanceof WarehouseError ? { cause: error } : {};
    return new Map<number, LookUpResult>(
      rows.map(({ id }) => [id, { seen: 'no answer', why, ...cause }]),
    );
  });
  const lagMs = findLongestLagMs(rows, found);
  if (lagMs !== null) await recordListLag(deps.db, deps.client, lagMs);
  // Rows of one request share one cause.
  const causes = new Set(
    [...found.values()].flatMap((seen) => (seen.seen === 'no answer' ? (seen.cause ?? []) : [])),
  );
  const durationMs = Math.round(performance.now() - startedAtMs);
  const outcomes = read.map((row): PushOutcome => {
    const why =
      row.payloadRead === null
        ? 'its payload cannot be read, now or by this version'
        : 'the look-up gave no result for it';
    const seen = found.get(row.id) ?? { seen: 'no answer' as const, why };
    const { verdict, pushed } = concludeLookUp(deps, lookUp, row, seen);
    const settlement = toSettlement(row, 'looked up', verdict, {
      durationMs,
      refusal: verdict?.status === 'unknown' ? row.refusal : null,
      refusedAs: verdict?.status === 'unknown' ? row.refusedAs : null,
      isAbsent: seen.seen === 'absent',
      ...(seen.seen === 'no answer' &&
        seen.cause !== undefined &&
        toStoredCodes(readFailureCodes(seen.cause))),
      ...(verdict === null && {
        result: pushed?.result ?? null,
        followUps: kind.followUps?.(row.payloadRead as JsonObject) ?? [],
      }),
    });
    // A row that was found was carried out: the service is slow, but reachable.
    return { settlement, pushed, readNo, evidence: seen.seen === 'there' ? evidenceOfSuccess : [] };
  });
  return { outcomes, evidence: [...causes].flatMap(readLookUpEvidence) };
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
 * Reads a payload. Returns null if it cannot be read now, or if this version does not accept it
 * although the version that sent it did.
 */
async function readPayloadOrNull(
  { client, codes, operations }: PushDeps,
  kind: AnyKind,
  row: UnknownRow,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    // A row whose check takes long must not delay look-ups.
    const owner = `look-ups of client ${client}`;
    return await readPayload(kind, row, { owner, codes, operations, signal });
  } catch (error) {
    if (error instanceof PayloadError || hasCode(error, 'payload_not_checked')) return null;
    throw error;
  }
}

type Conclusion = { readonly verdict: AbsenceVerdict | null; readonly pushed: PushResult | null };

function concludeLookUp(
  deps: PushDeps,
  rule: LookUpRule<unknown>,
  row: UnknownRow & { readonly payloadRead: unknown },
  seen: LookUpResult,
): Conclusion {
  if (seen.seen === 'there') return concludeFound(rule, row, seen);
  const why = [row.refusal, seen.why].filter((text) => text != null).join('; ') || notFoundYet;
  // The service refused every attempt that it was asked for, so the row was not carried out.
  const isRefused = row.refusal !== null && row.sinceWrittenMs === null;
  if (seen.seen === 'several')
    return {
      verdict: isRefused ? { status: 'dead', error: why } : leaveToOperator(why),
      pushed: null,
    };
  const retryAfterMs = seen.seen === 'no answer' ? (seen.cause?.retryAfterMs ?? 0) : 0;
  const lookedUp = {
    ...row,
    attempts: row.countedAttempts,
    whenAbsent: rule.whenAbsent,
    retryAfterMs,
  };
  const missed = { seen: toBasis(seen, isRefused), why };
  return { verdict: judgeAbsence(lookedUp, missed, deps.timeoutMs, deps.policy), pushed: null };
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
  row: UnknownRow & { readonly payloadRead: unknown },
  {
    resource,
    escaped,
    isOlder,
    lost,
    alsoInResult,
    reread,
  }: LookUpResult & { readonly seen: 'there' },
): Conclusion {
  const reading = { stream: rule.stream, resource, escaped };
  const isOthers = !row.replaced && (row.sinceWrittenMs === null || isOlder === true);
  const findError = () => {
    if (row.replaced) return earlierVersionError;
    if (isOthers) return describeOthersVersion(rule.differs(row.payloadRead, resource));
    return lost ?? null;
  };

  const error = findError();
  if (error !== null)
    return { verdict: { status: 'dead', error }, pushed: { result: {}, reading } };
  return {
    verdict: null,
    pushed: {
      result: {
        ...rule.resultOf(resource, row.payloadRead, isOthers),
        ...alsoInResult,
      },
      reading,
      ...(reread === undefined ? {} : { reread: { stream: rule.stream, id: reread } }),
    },
  };
}

const earlierVersionError =
  'the service carried out an earlier attempt, with the payload from before it was replaced. ' +
  'Mark the row as done, and correct the result at the service';

const describeOthersVersion = (difference: string | null) =>
  difference === null
    ? null
    : `the service already has one that no attempt of this row created: ${difference}. ` +
      'Cancel this row; a changed one needs another number, or order.replace';
