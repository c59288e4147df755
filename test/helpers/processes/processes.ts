import { afterAll, afterEach } from 'vitest';
import { jobNames, toScheduleVariable } from '../../../config/jobs.ts';
import { SandboxControl } from '../sandbox-control.ts';
import { CliProcess } from './cli-process.ts';

async function end(processes: CliProcess[]): Promise<void> {
  for (const { child, ended } of processes.splice(0)) {
    // SIGKILL ends a stopped process too.
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  }
}

/** Starts a sandbox process that the test may kill. Its time does not advance by itself. */
export async function startSandbox(
  cli: (args: readonly string[]) => CliProcess,
  ...options: readonly string[]
): Promise<{ process: CliProcess; control: SandboxControl }> {
  const process = cli(['sandbox', '--strict', '--port', '0', '--speed', '0', ...options]);
  const line = await process.line('Sandbox at ');
  return {
    process,
    control: new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? '')),
  };
}

/**
 * Starts processes and kills them at the end of each test. Sandboxes are kept for the next test of
 * the file.
 */
export function useProcesses() {
  const started: CliProcess[] = [];
  const sandboxProcesses: CliProcess[] = [];
  const sandboxes: SandboxControl[] = [];
  let borrowed = 0;
  afterEach(async () => {
    borrowed = 0;
    await end(started);
  });
  afterAll(() => end(sandboxProcesses));
  const cli = (
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    entry?: string,
  ) => {
    const process = new CliProcess(args, env, entry);
    started.push(process);
    return process;
  };
  return {
    cli,
    /** Returns a sandbox in its initial state. Its time does not advance by itself. */
    sandbox: async (): Promise<SandboxControl> => {
      const kept = sandboxes[borrowed++];
      if (kept !== undefined) {
        await kept.call('POST', '/_sandbox/reset', { speed: 0, startMs: Date.now() });
        return kept;
      }
      // The process is registered before the wait, so that it is ended even if it never answers.
      const sandbox = await startSandbox((args) => {
        const process = new CliProcess(args, {});
        sandboxProcesses.push(process);
        return process;
      });
      sandboxes.push(sandbox.control);
      return sandbox.control;
    },
  };
}

/** Options of Node with which a process sends its traces. */
export const tracingOptions = `--import=${new URL('../../../deploy/otel/tracing.mjs', import.meta.url).href}`;

/** Returns the settings of a worker that serves the client `default` of a sandbox. */
export function workerEnv(
  databaseUrl: string,
  sandbox: SandboxControl,
  more: Record<string, string> = {},
): Record<string, string> {
  return {
    DATABASE_URL: databaseUrl,
    WAREHOUSE_BASE_URL: sandbox.url.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    ADMIN_PORT: '0',
    LOG_LEVEL: 'debug',
    ...more,
  };
}

/** Settings of a worker that runs no job by itself, unless it is set, too. */
export const schedulesOff: Readonly<Record<string, string>> = Object.fromEntries(
  jobNames.map((job) => [toScheduleVariable(job), 'off']),
);

/** Returns the port of the admin server of a worker. */
export async function readAdminPort(worker: CliProcess): Promise<number> {
  return (JSON.parse(await worker.line('admin_listening')) as { port: number }).port;
}
