/**
 * The rules of a claim: of which kinds rows may be sent, whether a due row is sent now or waits,
 * and which rows are taken. All times are milliseconds by the clock of the database.
 */

import { minuteMs } from '../core/time.ts';
import {
  clientScope,
  everyWorker,
  isHeld,
  type StoredHealth,
} from '../service/sql/service-health.ts';

/** A row whose payload has more bytes as text is large. Large rows are sent one after the other. */
export const largeBytes = 4 * 1024 * 1024;

/** Pause of a row behind another one. Usually the settlement of that one releases it earlier. */
const behindMs = 10 * minuteMs;
/**
 * First and later pauses of a row that waits for a row of another kind. A trigger releases it, but
 * not if that row was done before the wait was stored.
 */
const firstWaitMs = 20_000;
const laterWaitMs = 2 * minuteMs;

/** What the database knows of a kind, as far as claims need it. */
interface KindData {
  readonly name: string;
  /** True if an attempt whose answer was lost may take effect later, and undo later rows. */
  readonly lingers: boolean;
}

/** The facts by which a claim begins or not. */
export interface GateFacts {
  /** The kinds that both the worker and the database know. */
  readonly kinds: readonly KindData[];
  /** Health of the client and of its kinds that concerns this worker. */
  readonly health: readonly Pick<StoredHealth, 'scope' | 'worker' | 'sendWindow' | 'untilInMs'>[];
  /** Number of rows that all workers send now, by kind. Null: there is no send window. */
  readonly sending: Readonly<Record<string, number>> | null;
}

/** A kind of which rows may be claimed now. */
export interface ClaimableKind extends KindData {
  /** Number of rows that its send window leaves; null: it has none. */
  readonly room: number | null;
  /** True if a send window of the kind or of the client counts its rows. */
  readonly isWindowed: boolean;
}

/** What may be claimed now. */
export interface Gate {
  /** Number of rows that the send window of the client leaves; null: it has none. */
  readonly room: number | null;
  readonly kinds: ReadonlyMap<string, ClaimableKind>;
}

/**
 * Decides what may be claimed, from holds and send windows. The windows of the client count all of
 * its rows. What this worker alone has seen limits its own claims only.
 * @param held number of claims that this worker holds
 * @returns null if nothing may be claimed
 */
export function judgeGate({ kinds, health, sending }: GateFacts, held: number): Gate | null {
  const findHealth = (scope: string) => health.filter((one) => one.scope === scope);
  const ofClient = findHealth(clientScope);
  if (ofClient.some(isHeld)) return null;

  const all = Object.values(sending ?? {}).reduce((sum, count) => sum + count, 0);
  const room = findRoom(ofClient, ({ worker }) => (worker === everyWorker ? all : held));
  if (room !== null && room <= 0) return null;

  const open = kinds.flatMap((kind): ClaimableKind[] => {
    const own = findHealth(kind.name);
    const ownRoom = findRoom(own, () => sending?.[kind.name] ?? 0);
    if (own.some(isHeld) || (ownRoom !== null && ownRoom <= 0)) return [];
    return [{ ...kind, room: ownRoom, isWindowed: ownRoom !== null || room !== null }];
  });
  return open.length === 0 ? null : { room, kinds: new Map(open.map((kind) => [kind.name, kind])) };
}

type Windowed = GateFacts['health'][number];

/** Returns the smallest number of rows that send windows leave; null if there is no window. */
function findRoom(health: readonly Windowed[], countUsed: (one: Windowed) => number) {
  let room: number | null = null;
  for (const one of health) {
    if (one.sendWindow === null) continue;
    room = Math.min(room ?? Number.POSITIVE_INFINITY, one.sendWindow - countUsed(one));
  }
  return room;
}

/** A due row that the claim has locked. */
export interface DueRow {
  readonly id: number;
  readonly kind: string;
  readonly payloadBytes: number;
  /** Its due time as Postgres writes it, with every digit. */
  readonly dueAt: string;
  /** Time before which the writer does not want it to be sent; null: none. */
  readonly notBeforeMs: number | null;
  /** When its payload was last replaced; null: never. */
  readonly replacedAtMs: number | null;
  /** When its last attempt was sent that may have been carried out; null: there is none. */
  readonly writtenAtMs: number | null;
  /** Number of look-ups since that attempt that did not find the row at the service. */
  readonly absences: number;
  /** True if an attempt of it failed, or was refused for reasons outside this row. */
  readonly hasFailed: boolean;
  /** True if its lane has an earlier row that is unfinished, or a later one that was sent. */
  readonly isBlocked: boolean;
  /** The last attempt of an earlier row of its lane that may still take effect; null: none. */
  readonly lingeringSinceMs: number | null;
  /** An open row of another kind that must be done first; null: there is none. */
  readonly waitsFor: number | null;
  /** True if it has waited for a row of another kind before. */
  readonly hasWaited: boolean;
}

/** Now, and how long a lost attempt of a kind that lingers may still take effect. */
export interface JudgeTimes {
  readonly nowMs: number;
  readonly lingerMs: number;
}

/** Until when a row waits, and for which row of another kind, if it is for one. */
export interface Wait {
  readonly untilMs: number;
  readonly waitsFor: number | null;
}

/**
 * Decides whether a due row is sent now, or until when it waits.
 * @param lingers true if a lost attempt of its kind may take effect later
 * @returns null if it is sent now
 */
export function judgeRow(
  row: DueRow,
  lingers: boolean,
  { nowMs, lingerMs }: JudgeTimes,
): Wait | null {
  // The time of the writer counts, even if the lane was released earlier.
  if (row.notBeforeMs !== null && row.notBeforeMs > nowMs) return waitUntil(row.notBeforeMs);

  if (row.isBlocked) return waitUntil(nowMs + behindMs);

  if (row.waitsFor !== null)
    return waitUntil(nowMs + (row.hasWaited ? laterWaitMs : firstWaitMs), row.waitsFor);

  // The payload from before a replacement may still take effect, and so may an earlier row.
  const { replacedAtMs, writtenAtMs } = row;
  const isReplaced = replacedAtMs !== null && writtenAtMs !== null && replacedAtMs > writtenAtMs;
  for (const sinceMs of [lingers && isReplaced ? writtenAtMs : null, row.lingeringSinceMs])
    if (sinceMs !== null && sinceMs + lingerMs > nowMs) return waitUntil(sinceMs + lingerMs);

  return null;
}

const waitUntil = (untilMs: number, waitsFor: number | null = null): Wait => ({
  untilMs,
  waitsFor,
});

/** How many rows one claim takes. */
export interface ClaimLimits {
  readonly maxRows: number;
  /** Maximum bytes of the payloads of rows that are not large. */
  readonly maxBytes: number;
}

/**
 * Chooses the rows that are sent, of those that may be. Rows of kinds with a send window come
 * first: behind a backlog of the others they would never be sent. Of them, rows that never failed
 * come first.
 * @param ready rows in the order in which they are due
 */
export function chooseRows(
  ready: readonly DueRow[],
  gate: Gate,
  { maxRows, maxBytes }: ClaimLimits,
): DueRow[] {
  const rank = ({ kind, hasFailed }: DueRow) => {
    if (gate.kinds.get(kind)?.isWindowed !== true) return 2;
    return hasFailed ? 1 : 0;
  };
  const most = Math.min(maxRows, gate.room ?? maxRows);
  const ofKind = new Map<string, number>();
  const chosen: DueRow[] = [];
  let hasLarge = false;
  let bytes = 0;

  for (const row of ready.toSorted((a, b) => rank(a) - rank(b))) {
    const place = (ofKind.get(row.kind) ?? 0) + 1;
    const room = gate.kinds.get(row.kind)?.room ?? null;
    if (room !== null && place > room) continue;
    ofKind.set(row.kind, place);

    const isLarge = row.payloadBytes > largeBytes;
    // No later small row passes one that does not fit.
    if (!isLarge) bytes += row.payloadBytes;
    const fits = isLarge ? !hasLarge : bytes <= maxBytes;
    hasLarge ||= isLarge;
    if (fits && chosen.length < most) chosen.push(row);
  }
  return chosen;
}
