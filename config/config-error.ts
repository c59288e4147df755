import type { z } from 'zod';

/**
 * The error of an invalid or incomplete configuration. `problems` has one line per problem. The
 * process exits with 2.
 */
export class ConfigError extends Error {
  readonly code = 'config_invalid';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const lines = problems.map((problem) => `  - ${problem}`).join('\n');
    super(`The configuration is invalid. Correct these problems:\n${lines}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Why a file cannot be read, by the code of the system. */
const fileErrors: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'a part of its path is not a folder',
  EISDIR: 'it is a folder',
  EACCES: 'this user may not read it',
};

/** Describes why a file could not be read, in a few words. */
export function describeFileError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!('code' in error)) return error.message;
  const code = String(error.code);
  return fileErrors[code] ?? code;
}

/** Says in plain words what is wrong with a value, where its schema has no words of its own. */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is required'
        : `must be ${typeWords[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `must be ${issue.values
        .map(String)
        .join(', ')
        .replace(/, (?=[^,]*$)/, ' or ')}`;
    case 'unrecognized_keys':
      return `has members that are not known: ${issue.keys.join(', ')}`;
    case 'too_small':
      return describeBound(issue.origin, 'at least', issue.minimum);
    case 'too_big':
      return describeBound(issue.origin, 'at most', issue.maximum);
    default:
      return undefined;
  }
}

/** What a value must be, by the name of its type. */
const typeWords: Readonly<Record<string, string>> = {
  string: 'a text',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a number',
  array: 'a list',
  object: 'a JSON object',
  record: 'a JSON object',
};

function describeBound(origin: string, bound: string, count: number | bigint): string {
  if (origin === 'string' && count === 1) return 'must not be empty';
  if (origin === 'string') return `must have ${bound} ${count} characters`;
  return origin === 'array' ? `must name ${bound} ${count}` : `must be ${bound} ${count}`;
}
