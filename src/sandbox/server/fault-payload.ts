import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import type { FaultEffect } from '../faults.ts';

/**
 * Returns a copy of an answer with the changes that a fault asks for.
 * @param selfUrl the URL of the request
 */
export function changePayload(payload: unknown, effect: FaultEffect, selfUrl: string): unknown {
  if (typeof payload !== 'object' || payload === null) return payload;
  const changed = structuredClone(payload) as Record<string, unknown>;
  const next = effect.repeatNext
    ? selfUrl
    : effect.nextOrigin
      ? `${effect.nextOrigin}${new URL(selfUrl).pathname}?stolen=1`
      : null;
  if (next !== null) changed.links = { next };
  for (const rows of ['data', 'result'])
    if (Array.isArray(changed[rows])) changed[rows] = changeRows(changed[rows], effect);
  for (const { path, value } of effect.set ?? []) setMember(changed, path, value);
  return changed;
}

/** Returns a stream that sends a body in pieces. */
export function streamInPieces(body: string, { bytes, everyMs }: NonNullable<FaultEffect['drip']>): Readable {
  const all = Buffer.from(body);
  async function* pieces() {
    for (let start = 0; start < all.length; start += bytes) {
      if (start > 0) await wait(everyMs);
      yield all.subarray(start, start + bytes);
    }
  }
  return Readable.from(pieces(), { objectMode: false });
}

function changeRows(rows: readonly unknown[], { duplicateRow, reverseRows, hideRow }: FaultEffect): unknown[] {
  const shown = rows.filter((_, index) => index !== hideRow?.index);
  if (duplicateRow && shown.length > 0) shown.push(shown[0]);
  return reverseRows ? shown.reverse() : shown;
}

function setMember(root: unknown, path: readonly (string | number)[], value: unknown): void {
  const last = path.at(-1);
  let target = root;
  for (const member of path.slice(0, -1)) target = (target as Record<string | number, unknown> | undefined)?.[member];
  if (typeof target !== 'object' || target === null || last === undefined) return;
  if (value === undefined) delete (target as Record<string | number, unknown>)[last];
  else (target as Record<string | number, unknown>)[last] = value;
}
