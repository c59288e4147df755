import type { Operations } from '../../../config/operations.ts';
import { CodedError, describeError, WarehouseError } from '../../core/errors.ts';
import { judgeFailure, mayBeNoRoute, type News, newsOf, type Verdict } from '../../core/push-outcome.ts';
import type { PushPolicy } from '../../core/retry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../erp/outbox/claim.ts';
import { claimMs, returnClaims, stampSent } from '../../erp/outbox/claims-held.ts';
import { isProven } from '../../erp/outbox/holds.ts';
import type { Settlement } from '../../erp/outbox/settle.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import {
  type AnyKind,
  type FollowUp,
  type JsonObject,
  NotThereError,
  PayloadError,
  type PushContext,
  type Pushed,
} from './payload/kind.ts';
import { checkPayload, readPayload } from './payload/payload.ts';
import { type SettingCodes, SettingsUnreadError } from './payload/setting-codes.ts';
import type { RecentSends } from './recent-sends.ts';

/** What pushes of one client work with. */
export interface PushDeps {
  readonly client: string;
  /** Fingerprint of the account. */
  readonly identity: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly codes: SettingCodes;
  readonly kinds: ReadonlyMap<string, AnyKind>;
  readonly operations: Operations;
  /** Kinds that are known to have been carried out: what is refused of them now is refused, and no matter of their path. */
  readonly proven: Set<string>;
  readonly policy: PushPolicy;
  readonly timeoutMs: number;
  readonly worker: string;
  /** Rows that this process has sent last. */
  readonly sent: RecentSends;
}

/** How an attempt ended: what the row becomes, what the tables get, and what it says of the service. */
export interface Ended {
  readonly settlement: Settlement;
  readonly pushed: Pushed | null;
  /** Reading number of what was pushed. */
  readonly readNo: number;
  /** What it says of more than its row. */
  readonly news: readonly News[];
  /** Whether the service was asked. */
  readonly asked: boolean;
  /** What should not have happened here: a fault of ours, or a database that is away. */
  readonly fault?: unknown;
}

/** The claim went to another worker: nothing is sent, and nothing of it is settled. */
class ClaimLostError extends CodedError {
  constructor(id: number) {
    super('claim_lost', `outbox row ${id} was taken over`);
  }
}

/**
 * Sends one claimed row, and says what follows. Whatever goes wrong becomes a verdict; only a lost claim gives null.
 * @param claimedAtMs when the claim was asked for, by the monotonic clock
 */
export async function attemptRow(
  deps: PushDeps,
  row: ClaimedRow,
  claimedAtMs: number,
  signal: AbortSignal,
): Promise<Ended | null> {
  const kind = deps.kinds.get(row.kind);
  const progress = { sent: false };
  const base = { startedAtMs: claimedAtMs, row };
  if (kind === undefined) {
    const known = [...deps.kinds.keys()].join(', ');
    return ended(base, dead('unknown_kind', `there is no kind ${row.kind}; known are ${known}`));
  }
  try {
    if (kind.unknown.do === 'look up' && row.mayBeWritten && !row.cleared) {
      readPayload(kind, row.payload);
      const error = 'an earlier attempt may have been carried out: looked up before it is sent again';
      return ended(base, { status: 'unknown', error, delayMs: 0, code: null });
    }
    const context = contextOf(deps, row, kind, signal, claimedAtMs, progress);
    const payload = await checkPayload(kind, row, context);
    const pushed = await kind.push(payload, context);
    const followUps = kind.followUps?.(payload as JsonObject) ?? [];
    return { ...ended(base, { status: 'done', pushed, followUps }), asked: true };
  } catch (error) {
    if (error instanceof ClaimLostError) {
      // Nothing was sent. If the claim is still ours, the row need not wait until it expires and then be doubted.
      if (!progress.sent) await returnClaims(deps.db, [row]);
      return null;
    }
    return ended(base, await failureOf(deps, row, kind, error, progress.sent));
  }
}

interface Progress {
  /** The request that makes the change may have been written. */
  sent: boolean;
}

function contextOf(
  { zone, db, warehouse, codes, operations, sent }: PushDeps,
  row: ClaimedRow,
  kind: AnyKind,
  signal: AbortSignal,
  claimedAtMs: number,
  progress: Progress,
): PushContext {
  const included = operations[kind.operation].included ?? 'inside';
  const beforeSend = async () => {
    // A worker that stood still must not send what others have taken over. The claim itself noted what can be looked up.
    const isFresh = row.stamped && !progress.sent && performance.now() - claimedAtMs < claimMs / 3;
    if (!isFresh) {
      const stampedAtMs = performance.now();
      if (!(await stampSent(db, row)) || performance.now() - stampedAtMs > claimMs / 3)
        throw new ClaimLostError(row.id);
    }
    sent.note(row);
    progress.sent = true;
  };
  return {
    row,
    zone,
    db,
    warehouse,
    codes,
    signal,
    included,
    send: (request) => warehouse.write(request, { signal, beforeSend }),
  };
}

type Judged =
  | { readonly status: 'done'; readonly pushed: Pushed; readonly followUps: readonly FollowUp[] }
  | (Verdict & {
      readonly code: string | null;
      readonly error: string;
      readonly cause?: unknown;
      readonly news?: readonly News[];
    });

const dead = (code: string, error: string): Judged => ({ status: 'dead', error, code });

async function failureOf(
  deps: PushDeps,
  row: ClaimedRow,
  kind: AnyKind,
  error: unknown,
  sent: boolean,
): Promise<Judged> {
  if (error instanceof PayloadError) return dead(error.code, error.message);
  if (error instanceof NotThereError) return { status: 'dead', error: error.message, code: error.code, cause: error };
  if (error instanceof SettingsUnreadError) {
    const { code, message, retryMs } = error;
    return { status: 'pending', error: message, delayMs: retryMs, burnt: false, code, cause: error };
  }
  const failure = asWarehouseError(error);
  const failed = {
    error: failure,
    sent,
    rule: kind.unknown.do,
    doubtsRefusal: kind.unknown.do === 'look up' && kind.unknown.lookUp.doubtsRefusal,
    documented: await isKnownRoute(deps, kind, failure),
    notFoundMeansRoute: kind.notFoundMeansRoute,
    attempts: row.boundedAttempts,
    ageMs: row.ageMs,
    unburnt: row.unburnt,
  };
  // A fault of ours, or a database that is away, says nothing of the service.
  const news = error instanceof WarehouseError ? newsOf(failed) : [];
  return { ...judgeFailure(failed, deps.policy, Math.random()), code: failure.code, cause: error, news };
}

/** Whether the method and path of a kind are known to be right; asked of the database only where an answer leaves it open. */
async function isKnownRoute(deps: PushDeps, kind: AnyKind, error: WarehouseError): Promise<boolean> {
  const { documented, method, path } = deps.operations[kind.operation];
  if (documented || deps.proven.has(kind.name) || !mayBeNoRoute(error, kind.notFoundMeansRoute)) return true;
  const proof = { client: deps.client, kind: kind.name, method, path };
  // While the database is away nothing is known of it. The answer itself must not be lost: the kind waits.
  const isKnown = await isProven(deps.db, proof).catch(() => false);
  if (isKnown) deps.proven.add(kind.name);
  return isKnown;
}

/** Anything else, such as a database that is away or a fault of ours, leaves it open what became of the request. */
function asWarehouseError(error: unknown): WarehouseError {
  if (error instanceof WarehouseError) return error;
  const code = error instanceof CodedError ? error.code : 'unexpected';
  return new WarehouseError(code, describeError(error), { outcome: 'unknown', cause: error });
}

function ended({ startedAtMs, row }: { startedAtMs: number; row: ClaimedRow }, judged: Judged): Ended {
  const verdict = judged.status === 'done' ? null : judged;
  const pushed = judged.status === 'done' ? judged.pushed : null;
  const cause = verdict !== null && 'cause' in verdict ? verdict.cause : undefined;
  // Where only the payload was looked at, or the door was closed, it was no attempt.
  const burnt = verdict === null || (cause !== undefined && !(verdict.status === 'pending' && !verdict.burnt));
  const settlement: Settlement = {
    id: row.id,
    client: row.client,
    claimNo: row.claimNo,
    step: 'sent',
    status: judged.status,
    error: verdict?.error ?? null,
    errorCode: verdict?.code ?? null,
    delayMs: verdict !== null && 'delayMs' in verdict ? verdict.delayMs : null,
    result: pushed?.result ?? null,
    written: verdict?.written ?? false,
    refusal: (verdict?.status === 'unknown' ? verdict.refusal : undefined) ?? null,
    refund: !burnt,
    unburnt: verdict?.status === 'pending' && verdict.unburnt === true,
    absenceCounts: false,
    durationMs: Math.round(performance.now() - startedAtMs),
    followUps: judged.status === 'done' ? judged.followUps : [],
  };
  return {
    settlement,
    pushed,
    readNo: row.claimNo,
    news: verdict === null ? [{ of: 'kind', evidence: { seen: 'success' } }] : (verdict.news ?? []),
    asked: cause instanceof NotThereError || cause instanceof WarehouseError,
    ...(cause === undefined || (cause instanceof CodedError && cause.code !== 'database_lost') ? {} : { fault: cause }),
  };
}
