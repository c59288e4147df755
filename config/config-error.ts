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

/** Describes why a file could not be read, in one word or a few. */
export function describeFileError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? String(error.code) : error.message;
}
