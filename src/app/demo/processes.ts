import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { removeVariables } from '../../../config/env.ts';
import { programs } from '../../core/installation.ts';

const endWithinMs = 3_000;

/** A command of this program in a child process. It ends when this process ends, however that happens. */
export class DemoProcess {
  readonly #child: ChildProcess;
  readonly #onLine: (line: string) => void;
  readonly name: string;

  /** @param onLine receives each line that the process writes */
  constructor(args: readonly string[], env: Readonly<Record<string, string>>, onLine: (line: string) => void) {
    this.name = args[0] ?? '';
    this.#onLine = onLine;
    // Settings of this process are not passed on: they may name a real database. The child is detached, so that Ctrl-C
    // reaches only this process, which then ends the others in the right order.
    this.#child = fork(programs.main, args, {
      detached: true,
      env: { ...removeVariables(), ...env },
      execArgv: [],
      silent: true,
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#onLine(line));
    }
  }

  /** Waits until the process ends, and rejects then. For processes that must not end by themselves. */
  async failOnExit(): Promise<never> {
    const [code, signal] = await once(this.#child, 'exit');
    throw new Error(`The ${this.name} process ended by itself (${signal ?? `exit code ${code}`})`);
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit').then(() => true);
    this.#child.kill('SIGTERM');
    if (await Promise.race([ended, wait(endWithinMs, false, { ref: false })])) return;
    this.#child.kill('SIGKILL');
    await ended;
  }
}

/** Starts a sandbox on a free port, and returns its address. */
export async function startSandbox(speed: number, started: DemoProcess[]): Promise<URL> {
  return new Promise((resolve, reject) => {
    const sandbox = new DemoProcess(
      ['sandbox', '--strict', '--port', '0', '--late-changes', '--speed', String(speed)],
      {},
      (line) => {
        const address = /^Sandbox at (\S+)/.exec(line)?.[1];
        if (address !== undefined) resolve(new URL(address));
        else process.stderr.write(`sandbox: ${line}\n`);
      },
    );
    started.push(sandbox);
    sandbox.failOnExit().catch(reject);
  });
}
