/** Reads and checks the rows that a program sends to be inserted. */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { type Json, parseExact, ShapeError } from '../core/json.ts';
import { shorten } from '../core/quote.ts';
import { dayMs } from '../core/time.ts';
import { type FoundProblems, maxLocalLength, runInProcess } from './check-process.ts';
import { type CheckContext, checkCodes, limitProblems, maxProblems } from './kind.ts';
import { nameKinds } from './kinds/registry.ts';
import {
  type CheckTools,
  checkValue,
  describeIssues,
  maxPayloadValues,
  useHere,
} from './payload.ts';

/** Maximum number of rows in one request. */
const maxRows = 500;
/** Maximum length of a reference. */
const maxReference = 200;
/** Maximum length of a time: Postgres takes no more digits. */
const maxTimeLength = 50;
/** A little less than what the outbox takes, because of clocks that differ. */
const maxWaitMs = (100 * 365 - 1) * dayMs;
/** Maximum characters of an error of others: it may repeat what was sent. */
const maxErrorLength = 1_000;

/** A text that is not empty. */
export const textUpTo = (max: number) =>
  z.string().min(1, 'must not be empty').max(max, `must have at most ${max} characters`);

const zonedTime = z.iso
  .datetime({
    offset: true,
    error: 'must be a time with its zone, such as 2026-05-04T10:00:00+02:00',
  })
  .max(maxTimeLength, `must have at most ${maxTimeLength} characters`)
  .refine(
    (text) => !(Math.abs(Date.parse(text) - Date.now()) >= maxWaitMs),
    'must be within 100 years from now',
  );
export const newRow = z.strictObject({
  kind: textUpTo(64),
  reference: textUpTo(maxReference),
  payload: z
    .unknown()
    .default({})
    .meta({ description: 'As docs/outbox-payloads.json says for the kind' }),
  not_before: zonedTime.optional(),
  notBefore: zonedTime.optional().meta({ description: 'The same as not_before' }),
});
const oneTime = newRow.refine(
  ({ not_before, notBefore }) => not_before === undefined || notBefore === undefined,
  { path: ['notBefore'], error: 'must be left out beside not_before' },
);
const rowCount = `must have 1 to ${maxRows} rows`;
const rowList = z.array(oneTime).min(1, rowCount).max(maxRows, rowCount);
/** One row, or several. */
export const newRows = z.union([newRow, rowList]);

/** Text that cannot be read as one row or several. */
export interface RefusedBody extends FoundProblems {
  /** 400: it is no JSON; 422: it has another form. */
  readonly status: 400 | 422;
  readonly detail: string;
}

/** What was read of the rows, and what a worker would refuse of them. */
export interface CheckedRows extends FoundProblems {
  /** SHA-256 of what was sent, in hex. It does not depend on white space. */
  readonly hash: string;
  /** False if one row was sent, without a list. */
  readonly isList: boolean;
  /** The rows as `insertRows` takes them; empty if a worker would refuse any. */
  readonly rows: string;
}

/**
 * Reads and checks rows: in this process, or if they are long, in a process of its own.
 * @param body JSON of one row or of several
 * @throws what `runInProcess` or the codes throw
 */
export async function checkRows(
  body: Uint8Array,
  context: CheckContext,
): Promise<CheckedRows | RefusedBody | FoundProblems> {
  const { operations } = context;

  return checkCodes(context, async (known): Promise<CheckedRows | RefusedBody | FoundProblems> => {
    if (body.length <= maxLocalLength)
      return checkRowsHere(body, { operations, known, ...useHere(context) });
    const task = { do: 'check rows', body, operations, known } as const;
    return runInProcess<CheckedRows | RefusedBody>(task, context);
  });
}

/** Reads and checks rows in this process. */
export async function checkRowsHere(
  body: Uint8Array,
  tools: CheckTools,
): Promise<CheckedRows | RefusedBody> {
  const parsed = parseBody(body);
  if ('detail' in parsed) return parsed;

  const { value } = parsed;
  // One row more than the maximum is enough to refuse a list.
  const read = Array.isArray(value)
    ? readPart(rowList, value.slice(0, maxRows + 1))
    : readPart(oneTime, value);
  if ('problems' in read)
    return { status: 422, detail: read.problems.join('; '), problems: read.problems };

  const rows = [read.value].flat().map(({ not_before, notBefore, payload, ...row }, place) => ({
    place,
    ...row,
    payload: payload as Json,
    notBefore: not_before ?? notBefore,
  }));
  const problems = await findProblems(rows, tools);
  return {
    hash: createHash('sha256').update(JSON.stringify(read.value)).digest('hex'),
    isList: Array.isArray(value),
    rows: problems.length > 0 ? '' : JSON.stringify(rows),
    problems,
  };
}

function parseBody(body: Uint8Array): { readonly value: Json } | RefusedBody {
  if (!isUtf8(body)) return { status: 400, detail: 'The body is not text in UTF-8', problems: [] };

  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  try {
    return { value: parseExact(text, maxPayloadValues) };
  } catch (error) {
    if (error instanceof ShapeError)
      return { status: 422, detail: `The body ${error.message}`, problems: [] };
    if (!(error instanceof SyntaxError)) throw error;

    const words = shorten(error.message, maxErrorLength);
    return { status: 400, detail: `The body is not JSON that can be read: ${words}`, problems: [] };
  }
}

/** Reads a part of a request with its schema. Returns the problems in words, or the value. */
export function readPart<T>(
  schema: z.ZodType<T>,
  data: unknown,
): { readonly value: T } | FoundProblems {
  const read = schema.safeParse(data, { reportInput: true });
  if (read.success) return { value: read.data };

  const words = describeIssues(read.error.issues).map(
    ({ path, problem }) => `${path === 'payload' ? 'The request' : path} ${problem}`,
  );
  return { problems: limitProblems(words) };
}

/** Finds what a worker would refuse: the check of `outbox check`, for each row. */
async function findProblems(
  rows: readonly { kind: string; reference: string; payload: Json }[],
  tools: CheckTools,
): Promise<readonly string[]> {
  const kinds = nameKinds(tools.operations);
  const found: string[] = [];
  for (const [place, { kind: name, reference, payload }] of rows.entries()) {
    if (found.length > maxProblems) break;
    const mark = rows.length === 1 ? '' : `[${place}] `;
    const kind = kinds.get(name);
    const checked =
      kind === undefined
        ? {
            problems: [`kind: there is no kind ${name}; known are ${[...kinds.keys()].join(', ')}`],
          }
        : await checkValue(kind, payload, reference, tools);
    if ('problems' in checked)
      for (const problem of checked.problems) found.push(`${mark}${problem}`);
    await nextTurn();
  }

  return limitProblems(found);
}
