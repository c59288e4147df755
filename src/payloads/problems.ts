import type { z } from 'zod';
import { isObject, type Json } from '../core/json.ts';

/** A problem of a payload: the member it concerns, such as `items[0].quantity`, and what is wrong with it. */
interface PayloadProblem {
  readonly path: string;
  readonly problem: string;
}

/** Members that are sent unchanged. */
const passedThrough: ReadonlySet<string> = new Set(['pickUpPoint', 'metadata']);

/**
 * Turns numbers that would lose digits into texts: a decimal is then sent with all its digits, and the schema refuses a
 * whole number that is too large.
 */
export function normalizeNumbers(value: Json): Json {
  if (Array.isArray(value)) return value.map(normalizeNumbers);
  if (JSON.isRawJSON(value)) return Number.isSafeInteger(Number(value.rawJSON)) ? Number(value.rawJSON) : value.rawJSON;
  if (!isObject(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([name, member]) => [name, passedThrough.has(name) ? member : normalizeNumbers(member)]),
  );
}

/**
 * Describes what zod found wrong. The schema must have read the value with `reportInput`.
 * @param refused reasons why the schema does not have certain members, by path without places in lists
 */
export function describeIssue(
  issue: z.core.$ZodIssue,
  refused: Readonly<Record<string, string>> = {},
): PayloadProblem[] {
  const path = formatPath(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const name = [...issue.path.filter((part) => typeof part === 'string'), key].join('.');
      const problem = (Object.hasOwn(refused, name) && refused[name]) || 'is not a known member and must be removed';
      return { path: `${path === '' ? '' : `${path}.`}${key}`, problem };
    });
  }
  const place = path === '' ? 'payload' : path;
  if (issue.code === 'invalid_type')
    return [
      { path: place, problem: issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}` },
    ];
  return [{ path: place, problem: `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}` }];
}

const withArticle = (type: string) =>
  type === 'record'
    ? 'an object'
    : type === 'int'
      ? 'a whole number'
      : /^[aeio]/.test(type)
        ? `an ${type}`
        : `a ${type}`;

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`,
    '',
  );
}
