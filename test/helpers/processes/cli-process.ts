import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { waitFor } from '../wait.ts';

/**
 * Cache of compiled code. The tests start hundreds of processes, and only the first one has to
 * compile.
 */
const compileCache = fileURLToPath(
  new URL('../../../node_modules/.cache/compiled', import.meta.url),
);

/**
 * Entry of the program: in tests the bundle that global-setup.ts built, in other programs the
 * sources.
 */
const main =
  process.env.TEST_PROGRAM ?? fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

/** A command of the product in a separate process. */
export class CliProcess {
  readonly child: ChildProcess;
  readonly lines: string[] = [];
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;

  constructor(args: readonly string[], env: Readonly<Record<string, string>>, entry = main) {
    const { PATH = '', HOME = '' } = process.env;
    this.child = spawn(process.execPath, [entry, ...args], {
      env: { PATH, HOME, NODE_COMPILE_CACHE: compileCache, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.ended = once(this.child, 'close').then(([code, signal]) => ({ code, signal }));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.lines.push(line));
    }
  }

  get output(): string {
    return this.lines.join('\n');
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /**
   * Waits for a line that contains `text`. If the process ends first, throws an error with the
   * whole output.
   */
  line(text: string, deadlineMs?: number): Promise<string> {
    return waitFor(
      `a line with ${text}`,
      () => {
        const found = this.lines.find((line) => line.includes(text));
        if (found === undefined && this.child.exitCode !== null)
          throw new Error(`ended before "${text}":\n${this.output}`);
        return found;
      },
      deadlineMs,
    );
  }
}
