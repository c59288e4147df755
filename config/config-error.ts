/** The configuration is wrong or incomplete; `problems` holds every fault, one line each. The process exits with 2. */
export class ConfigError extends Error {
  readonly code = 'config_invalid';
  readonly problems: readonly string[];
  constructor(problems: readonly string[]) {
    super(`The configuration needs mending:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}
