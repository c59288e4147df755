/**
 * Checks a payload as a worker does before it sends a row, for `outbox check` and the page of a
 * row.
 */

import { findUnstorableReason, isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import type { Database } from '../db/pool.ts';
import { readServiceLists } from '../pull/sql/service-lists.ts';
import { type FoundProblems, maxLocalLength, runInProcess } from './check-process.ts';
import { type AnyKind, type CheckContext, type CodeLists, PayloadError } from './kind.ts';
import { type CheckTools, checkValue, maxPayloadValues, useHere } from './payload.ts';
import { anyCode } from './setting-codes.ts';

/** Maximum size of a payload: the INSERT refuses more. */
const maxBytes = 16 * 1024 * 1024;

/** Reads the stored codes of a client; `unchecked` says why any code is taken. */
export async function readStoredCodes(
  db: Database,
  client: string,
): Promise<{ codes: CodeLists; unchecked: string | null }> {
  const lists = await readServiceLists(db, client);
  if (lists.options.length === 0)
    return {
      codes: anyCode,
      unchecked: `no service lists are stored for the client ${client}; run refresh-settings first`,
    };

  return { codes: { read: async () => lists, refresh: async () => lists }, unchecked: null };
}

/**
 * Finds the problems of a payload. Without a reference, the number in the payload is taken for it.
 * @throws what `runInProcess` or the codes throw
 */
export async function findPayloadProblems(
  kind: AnyKind,
  payload: string,
  reference: string | undefined,
  context: CheckContext,
): Promise<readonly string[]> {
  if (payload.length <= maxLocalLength)
    return findProblemsHere(kind, { payload, reference }, useHere(context));

  const { operations } = context;
  const { problems } = await runInProcess<FoundProblems>(
    { do: 'find problems', kind: kind.name, payload, reference, operations },
    context,
  );
  return problems;
}

/** Finds the problems of a payload in this process. */
export async function findProblemsHere(
  kind: AnyKind,
  { payload, reference }: { readonly payload: string; readonly reference: string | undefined },
  tools: CheckTools,
): Promise<readonly string[]> {
  const value = parse(payload);
  if ('problem' in value) return [`payload: ${value.problem}`];

  return findValueProblems(kind, value.read, reference ?? guessReference(value.read), tools);
}

/** Finds the problems of a parsed payload: the first ones, if there are many. */
export async function findValueProblems(
  kind: AnyKind,
  value: Json,
  reference: string,
  tools: CheckTools,
): Promise<readonly string[]> {
  const payload = JSON.stringify(value);
  const bytes = Buffer.byteLength(payload);
  if (bytes > maxBytes)
    return [`payload: has ${bytes} bytes; at most ${maxBytes} (16 MB) are taken`];

  const unstorable = findUnstorableReason(payload);
  if (unstorable !== null) return [`payload: ${unstorable}`];

  try {
    await checkValue(kind, value, reference, tools);
    return [];
  } catch (error) {
    if (error instanceof PayloadError) return error.problems;
    throw error;
  }
}

function parse(text: string): { read: Json } | { problem: string } {
  try {
    return { read: parseExact(text, maxPayloadValues) };
  } catch (error) {
    if (error instanceof ShapeError) return { problem: error.message };
    if (!(error instanceof SyntaxError)) throw error;
    const place = describePlace(text, error.message);
    return {
      problem: `is not JSON that can be read: ${error.message}${place}`,
    };
  }
}

/** Without --reference, the reference is the order number of the payload, or any text. */
function guessReference(payload: Json): string {
  const number = isObject(payload) ? payload.externalOrderNumber : undefined;
  return typeof number === 'string' && number.trim() !== '' ? number : 'any';
}

/** Names the line and column of an error, unless its message has them. */
function describePlace(text: string, message: string): string {
  if (/line \d+/.test(message)) return '';
  if (text.length > maxLocatedLength) return '';
  const before = text.slice(0, findBadToken(text)).split('\n');
  return ` (line ${before.length} column ${(before.at(-1) ?? '').length + 1})`;
}

/** Maximum length of a text in which a bad token is located: it is parsed some 20 times. */
const maxLocatedLength = 1_000_000;

/**
 * Finds the place of a token that JSON does not allow: JSON.parse names it without its position.
 * Every beginning that ends before it only lacks an end, so that the shortest one with the same
 * error ends with it.
 */
function findBadToken(text: string): number {
  let [good, bad] = [0, text.length + 1];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (hasBadToken(text.slice(0, middle))) bad = middle;
    else good = middle;
  }
  return good;
}

function hasBadToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return error instanceof SyntaxError && error.message.startsWith('Unexpected token');
  }
}
