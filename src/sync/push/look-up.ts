import { describeError, WarehouseError } from '../../core/errors.ts';
import { type AbsenceVerdict, judgeAbsence } from '../../core/look-up.ts';
import { type News, newsOfLookUp, operatorChoices } from '../../core/push-outcome.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { takeUnknown, type UnknownRow } from '../../erp/outbox/look-ups.ts';
import type { Settlement } from '../../erp/outbox/settle.ts';
import type { Resource } from '../../warehouse/decoding/jsonapi.ts';
import type { Ended, PushDeps } from './attempt.ts';
import type { ClientHealth } from './client-health.ts';
import {
  type AnyKind,
  type FollowUp,
  type JsonObject,
  type LookUp,
  type LookUpRule,
  PayloadError,
  type Pushed,
} from './payload/kind.ts';
import { readPayload } from './payload/payload.ts';
import type { SettleQueue } from './settle-queue.ts';

/** Rows of one look-up round. */
const maxRows = 200;

/** What a round of look-ups came to. */
interface LookedUpRows {
  readonly ended: Ended[];
  /** What a look-up that got no answer says of the client's service. */
  readonly news: readonly News[];
}

/**
 * Looks up the rows of all kinds whose turn has come, settles what follows, and notes what that says of the service.
 * @returns whether there were any: rows that somebody has locked are looked at again, but not at once
 */
export async function lookUpAll(
  deps: PushDeps,
  settlements: SettleQueue,
  health: ClientHealth,
  signal: AbortSignal,
): Promise<boolean> {
  let looked = false;
  for (const kind of deps.kinds.values()) {
    const { ended, news } = await lookUpRows(deps, kind, signal);
    looked ||= ended.length > 0;
    await settlements.settleAll(ended, kind.name);
    for (const one of [...ended.flatMap((row) => row.news), ...news]) await health.note([one], kind.name);
    // Who is not let in, or was asked to wait, does not ask on.
    if (news.some(({ evidence }) => evidence !== 'ask')) break;
  }
  return looked;
}

/** Looks up the rows of one kind whose turn has come, and says what follows for each. */
async function lookUpRows(deps: PushDeps, kind: AnyKind, signal: AbortSignal): Promise<LookedUpRows> {
  if (kind.unknown.do !== 'look up') return { ended: [], news: [] };
  const { lookUp } = kind.unknown;
  const rows = await takeUnknown(deps.db, deps.client, kind.name, maxRows);
  if (rows.length === 0) return { ended: [], news: [] };
  const startedAtMs = performance.now();
  const readNo = await drawReadNo(deps.db);
  const read = rows.map((row) => ({ ...row, payloadRead: readOrNull(kind, row.payload) }));
  const readable = read.filter(({ payloadRead }) => payloadRead !== null);
  const found = await lookUp.find(readable, { ...deps, signal }).catch((error: unknown) => {
    const why = `${describeError(error)}; the look-up is tried again`;
    const cause = error instanceof WarehouseError ? { cause: error } : {};
    return new Map<number, LookUp>(rows.map(({ id }) => [id, { seen: 'no answer', why, ...cause }]));
  });
  // Rows of one request failed for one cause.
  const causes = new Set([...found.values()].flatMap((seen) => (seen.seen === 'no answer' ? (seen.cause ?? []) : [])));
  const ended = read.map((row): Ended => {
    const why = row.payloadRead === null ? 'its payload cannot be read any more' : 'the look-up said nothing of it';
    const seen = found.get(row.id) ?? { seen: 'no answer' as const, why };
    const { verdict, pushed } = conclude(deps, lookUp, row, seen);
    const durationMs = Math.round(performance.now() - startedAtMs);
    // What is there was carried out: the service is slow, not away.
    const news: News[] = seen.seen === 'there' ? [{ of: 'kind', evidence: { seen: 'success' } }] : [];
    const followUps = verdict === null ? (kind.followUps?.(row.payloadRead as JsonObject) ?? []) : [];
    return {
      settlement: settlementOf(row, verdict, pushed, followUps, durationMs),
      pushed,
      readNo,
      news,
      asked: false,
    };
  });
  return { ended, news: [...causes].flatMap(newsOfLookUp) };
}

/** A payload was read before it was sent; null only where another version of this code takes it no longer. */
function readOrNull(kind: AnyKind, payload: string): unknown {
  try {
    return readPayload(kind, payload);
  } catch (error) {
    if (error instanceof PayloadError) return null;
    throw error;
  }
}

type Concluded = { readonly verdict: AbsenceVerdict | null; readonly pushed: Pushed | null };

function conclude(
  deps: PushDeps,
  rule: LookUpRule<unknown>,
  row: UnknownRow & { readonly payloadRead: unknown },
  seen: LookUp,
): Concluded {
  if (seen.seen === 'there') return concludeFound(rule, row, seen);
  if (seen.seen === 'several') return { verdict: leftToOperator(seen.why), pushed: null };
  const why = seen.seen === 'absent' ? (row.refusal ?? 'not at the service so far; looked up again') : seen.why;
  const looked = { ...row, attempts: row.boundedAttempts, whenAbsent: rule.whenAbsent };
  const retryAfterMs = seen.seen === 'no answer' ? (seen.cause?.retryAfterMs ?? 0) : 0;
  return {
    verdict: judgeAbsence({ ...looked, retryAfterMs }, seen.seen, why, deps.timeoutMs, deps.policy),
    pushed: null,
  };
}

/** What is there after an attempt of ours that may have been carried out is ours. Otherwise it has to be what was asked for. */
function concludeFound(
  rule: LookUpRule<unknown>,
  row: UnknownRow & { readonly payloadRead: unknown },
  { resource, escaped }: LookUp & { readonly seen: 'there' },
): Concluded {
  const reading = { stream: rule.stream, resource, escaped };
  const error = row.replaced ? earlierVersion : row.sinceWrittenMs === null ? othersVersion(rule, row, resource) : null;
  if (error !== null) return { verdict: { status: 'dead', error }, pushed: { result: {}, reading } };
  return {
    verdict: null,
    pushed: { result: rule.resultOf(resource), reading },
  };
}

const earlierVersion =
  'an attempt from before its payload was replaced was carried out: the service holds that version. Mark the row as done,' +
  ' and change what is there';

function othersVersion(
  rule: LookUpRule<unknown>,
  { payloadRead }: { readonly payloadRead: unknown },
  resource: Resource,
) {
  const difference = rule.differs(payloadRead, resource);
  return difference === null ? null : `there is one already, and not by an attempt of this row: ${difference}`;
}

const leftToOperator = (why: string): AbsenceVerdict => ({
  status: 'unknown',
  error: `${why}. ${operatorChoices}`,
  delayMs: null,
});

function settlementOf(
  row: UnknownRow,
  verdict: AbsenceVerdict | null,
  pushed: Pushed | null,
  followUps: readonly FollowUp[],
  durationMs: number,
): Settlement {
  return {
    id: row.id,
    client: row.client,
    claimNo: row.claimNo,
    step: 'looked up',
    status: verdict?.status ?? 'done',
    error: verdict?.error ?? null,
    errorCode: null,
    delayMs: verdict !== null && 'delayMs' in verdict ? verdict.delayMs : null,
    result: verdict === null ? (pushed?.result ?? null) : null,
    written: false,
    refusal: verdict?.status === 'unknown' ? row.refusal : null,
    refund: false,
    unburnt: false,
    absenceCounts: verdict?.counts ?? false,
    durationMs,
    followUps,
  };
}
