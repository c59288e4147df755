import type { Operations } from '../../config/operations.ts';
import { CodedError, describeError, readFailureCodes, WarehouseError } from '../core/errors.ts';
import { hourMs } from '../core/time.ts';
import type { Database } from '../db/pool.ts';
import { isLockTimeout } from '../db/transaction.ts';
import type { Warehouse } from '../service/client.ts';
import { mayBeWrongPath, type ScopedEvidence } from '../service/health/evidence.ts';
import type { ProvenRoutes } from '../service/sql/proven-routes.ts';
import { checkPayload, readPayload } from './check-payload.ts';
import { judgeFailure, type PushPolicy, readEvidence } from './judge-outcome.ts';
import {
  type AnyKind,
  type JsonObject,
  LostMembersError,
  NotFoundError,
  PayloadError,
  PostponedError,
  type PushContext,
  type PushedResources,
} from './kind.ts';
import type { SettingCodes } from './setting-codes.ts';
import {
  type ClaimedRow,
  claimMs,
  type PushTarget,
  returnClaims,
  stampSent,
} from './sql/claim-rows.ts';
import type { SentRow } from './sql/push-database.ts';
import { readSentTarget } from './sql/renames.ts';
import type { Settlement } from './sql/settle-rows.ts';

/** What the pushes of one client work with. */
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
  /** Kinds that the service has carried out before. */
  readonly proven: ProvenRoutes;
  readonly policy: PushPolicy;
  readonly timeoutMs: number;
  readonly worker: string;
  /** Rows that this process has sent last. */
  readonly sent: RecentSends;
  /** Moves committed changes to the feed, and releases lanes. It never fails. */
  readonly numberFeed: () => Promise<void>;
}

/**
 * The outcome of an attempt or look-up: what the row becomes, what is stored, what it shows of the
 * service.
 */
export interface PushOutcome {
  readonly settlement: Settlement;
  /** What it brings to the tables; null: nothing. */
  readonly pushed: PushedResources | null;
  /** Reading number of the pushed resource. */
  readonly readNo: number;
  /** What the outcome shows about the client or the kind, beyond its row. */
  readonly evidence: readonly ScopedEvidence[];
  /** An unexpected error: a defect of this program, or a database that does not answer. */
  readonly fault?: unknown;
}

/** The claim was lost to another worker: nothing is sent and nothing is settled. */
class ClaimLostError extends CodedError {
  constructor(id: number) {
    super('claim_lost', `another worker took over outbox row ${id}`);
  }
}

/**
 * Sends one claimed row. Every error becomes an outcome. Returns null only if the claim was lost.
 */
export async function sendRow(
  deps: PushDeps,
  row: ClaimedRow,
  signal: AbortSignal,
): Promise<PushOutcome | null> {
  const kind = deps.kinds.get(row.kind);
  if (kind === undefined) throw new Error(`a row of the unknown kind ${row.kind} was claimed`);
  const progress = { sent: false };
  const conclude = ({ pushed = null, evidence = [], fault, ...verdict }: AttemptOutcome) => {
    const { id, client, claimNo } = row;
    const durationMs = Math.round(performance.now() - row.claimedAtMs);
    const attempt = { id, client, claimNo, step: 'sent', durationMs } as const;
    const settlement = { ...attempt, isUnsent: !progress.sent, ...verdict };

    return { settlement, pushed, readNo: claimNo, evidence, fault };
  };

  try {
    const context = createContext(deps, row, signal, progress);
    if (await mustBeLookedUp(deps, kind, row)) {
      await readPayload(kind, row, context);
      const error =
        'an earlier attempt may have been carried out; ' +
        'it is looked up before the row is sent again';
      return conclude({ status: 'unknown', error, delayMs: 0, refund: true });
    }
    const payload = await checkPayload(kind, row, context);
    const { result, ...pushed } = await kind.push(payload, context);
    const followUps = kind.followUps?.(payload as JsonObject) ?? [];
    const evidence = evidenceOfSuccess;
    return conclude({ status: 'done', error: null, result, followUps, pushed, evidence });
  } catch (error) {
    if (error instanceof ClaimLostError) {
      // If nothing was sent, give the claim back. Otherwise the row would wait until the claim
      // expires.
      if (!progress.sent) await returnClaims(deps.db, [row]);
      return null;
    }
    return conclude(await judgeError(deps, { row, kind, ...progress }, error));
  }
}

/**
 * Returns true if an earlier attempt may have been carried out, and no two look-ups missed it. An
 * order that has reached our tables since then may be what they missed, unless it is the one that
 * the row replaces.
 */
async function mustBeLookedUp(
  { db }: PushDeps,
  { unknown }: AnyKind,
  row: ClaimedRow,
): Promise<boolean> {
  if (unknown.do !== 'look up' || !row.maybeCarriedOut) return false;
  if (!row.cleared) return true;
  if (row.knownId === null || !unknown.lookUp.doubtsRefusal) return false;
  return (await readSentTarget(db, row.id))?.id !== row.knownId;
}

/**
 * Creates the context of one push. Its `send` records the attempt first.
 * @param progress tells the caller whether the request may have been written
 */
function createContext(
  { client, zone, db, warehouse, codes, operations, proven, sent }: PushDeps,
  row: ClaimedRow,
  signal: AbortSignal,
  progress: { sent: boolean },
): PushContext {
  const beforeSend = async (target: PushTarget | undefined) => {
    // A worker that was suspended must not send a row that others have taken over. For kinds that
    // can be looked up, the claim itself recorded the send.
    const isFresh = row.stamped && !progress.sent && isRecent(row);
    if (!isFresh) {
      const stampedAtMs = performance.now();
      const isHeld = await stampSent(db, row, target).catch((error: unknown) => {
        if (progress.sent || !isLockTimeout(error)) throw error;
        throw new PostponedError('row_locked', 'somebody keeps the row locked', 0);
      });
      if (!isHeld || performance.now() - stampedAtMs > claimMs / 3)
        throw new ClaimLostError(row.id);
    }

    sent.remember(row);
    progress.sent = true;
  };

  const send: PushContext['send'] = (request, target) =>
    warehouse.write(request, { signal, beforeSend: () => beforeSend(target) });

  const owner = `client ${client}`;

  return { row, owner, zone, db, warehouse, codes, signal, operations, proven, send };
}

/**
 * Returns true if a row was claimed so recently that its claim certainly lasts, by both clocks:
 * performance.now() stands still while the machine is suspended, and Date.now() jumps when somebody
 * sets the time.
 */
export function isRecent({
  claimedAtMs,
  claimedWallMs,
}: Pick<ClaimedRow, 'claimedAtMs' | 'claimedWallMs'>): boolean {
  const maxMs = claimMs / 3;
  return performance.now() - claimedAtMs < maxMs && Math.abs(Date.now() - claimedWallMs) < maxMs;
}

/** What a row shows that the service has carried out. */
export const evidenceOfSuccess: readonly ScopedEvidence[] = [
  { of: 'kind', evidence: { seen: 'success' } },
];

/** What an attempt comes to, without what all outcomes of the row have. */
type AttemptOutcome = Omit<Settlement, 'id' | 'client' | 'claimNo' | 'step'> &
  Partial<Pick<PushOutcome, 'pushed' | 'evidence' | 'fault'>>;

async function judgeError(
  deps: PushDeps,
  { row, kind, sent }: { readonly row: ClaimedRow; readonly kind: AnyKind; readonly sent: boolean },
  error: unknown,
): Promise<AttemptOutcome> {
  if (error instanceof PostponedError) {
    const { message, retryMs: delayMs } = error;
    return { status: 'pending', error: message, delayMs, refund: true, ...toStoredCodes(error) };
  }

  const isLost = error instanceof LostMembersError;
  if (isLost || error instanceof PayloadError || error instanceof NotFoundError)
    return {
      status: 'dead',
      error: error.message,
      ...toStoredCodes(error),
      ...(isLost && {
        written: true,
        evidence: evidenceOfSuccess,
        pushed: { reading: error.reading },
      }),
    };

  const failure = toWarehouseError(error);
  const failed = {
    error: failure,
    sent,
    rule: kind.unknown.do,
    doubtsRefusal: kind.unknown.do === 'look up' && kind.unknown.lookUp.doubtsRefusal,
    documented: await isKnownRoute(deps, kind, failure),
    notFoundMeansRoute: kind.notFoundMeansRoute,
    attempts: row.countedAttempts,
    ageMs: row.ageMs,
    refusedForOthers: row.refusedForOthers,
  };

  // A defect of this program or of the database shows nothing about the service.
  const isOfService = error instanceof WarehouseError;
  const { operation, ...codes } = toStoredCodes(failure);
  const isFault = !(error instanceof CodedError) || error.code === 'database_lost';

  return {
    ...judgeFailure(failed, deps.policy, Math.random()),
    ...codes,
    // Without another, the operation is that of the kind.
    operation: operation ?? (sent && isOfService ? kind.operation : null),
    evidence: isOfService ? readEvidence(failed) : [],
    fault: isFault ? error : undefined,
  };
}

/** Returns the codes of a failure as a settlement has them. */
export function toStoredCodes(error: unknown) {
  const { code: errorCode, httpStatus, operation } = readFailureCodes(error);
  return { errorCode, httpStatus, operation };
}

/** Returns true if a kind's method and path are known to be right, or the answer is no doubt. */
async function isKnownRoute(
  { operations, proven }: PushDeps,
  kind: AnyKind,
  error: WarehouseError,
): Promise<boolean> {
  if (!mayBeWrongPath(error, !kind.notFoundMeansRoute)) return true;
  // Without the database nothing is known of the path. The answer must not be lost: the kind is
  // treated as not proven.
  return proven.has(kind.name, operations[kind.operation]).catch(() => false);
}

/** Records for all workers that the method and path of a kind are right. */
export async function proveKind(deps: PushDeps, name: string): Promise<void> {
  const kind = deps.kinds.get(name);
  if (kind !== undefined) await deps.proven.add(name, deps.operations[kind.operation]);
}

/**
 * Converts any other error, such as a lost database connection, into an error with unknown outcome.
 */
function toWarehouseError(error: unknown): WarehouseError {
  if (error instanceof WarehouseError) return error;
  const code = error instanceof CodedError ? error.code : 'unexpected';
  return new WarehouseError(code, describeError(error), { outcome: 'unknown', cause: error });
}

/** Minimum number of rows that are remembered. */
const minRows = 1_000;
/**
 * A row is remembered at least this long, however many are sent after it: they may have been
 * claimed before it, and waited for a slot.
 */
const keptMs = 10_000;
/**
 * A row is forgotten after this time: a standby does not lag that long, and old rows may be deleted
 * by retention.
 */
const maxAgeMs = hourMs;

/**
 * Remembers the rows that this process has sent last. After a failover they show whether the new
 * primary has lost something: Postgres loses the newest commits first.
 */
export class RecentSends {
  readonly #maxRows: number;
  readonly #rows = new Map<string, SentRow & { readonly sentAtMs: number }>();

  /**
   * @param concurrency number of rows that are sent at the same time; the order of their commits is
   * not known
   */
  constructor(concurrency: number) {
    this.#maxRows = Math.max(minRows, concurrency);
  }

  get rows(): readonly SentRow[] {
    const earliestMs = performance.now() - maxAgeMs;
    return [...this.#rows.values()].filter(({ sentAtMs }) => sentAtMs > earliestMs);
  }

  /** Forgets all rows. Call it when an operator has accepted another database. */
  clear(): void {
    this.#rows.clear();
  }

  /** Forgets a row that the service certainly did not carry out, because it may be sent again. */
  forget({ id, claimNo }: Pick<ClaimedRow, 'id' | 'claimNo'>): void {
    this.#rows.delete(`${id} ${claimNo}`);
  }

  /** Remembers a row whose request may be written from now on. */
  remember({ id, claimNo, attempts }: ClaimedRow): void {
    const nowMs = performance.now();
    this.#rows.set(`${id} ${claimNo}`, { id, claimNo, attempts, sentAtMs: nowMs });
    for (const [key, { sentAtMs }] of this.#rows) {
      if (this.#rows.size <= this.#maxRows || sentAtMs > nowMs - keptMs) break;
      this.#rows.delete(key);
    }
  }
}
