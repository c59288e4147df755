import { afterAll, afterEach } from 'vitest';
import { SandboxControl } from '../sandbox-control.ts';
import { CliProcess } from './cli-process.ts';

async function end(processes: CliProcess[]): Promise<void> {
  for (const { child, ended } of processes.splice(0)) {
    // SIGKILL ends a stopped process too.
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  }
}

/** Starts a sandbox process of the test's own, which it may kill. */
export async function startSandbox(
  cli: (args: readonly string[]) => CliProcess,
  speed = 0,
): Promise<{ process: CliProcess; control: SandboxControl }> {
  const process = cli(['sandbox', '--port', '0', '--speed', String(speed)]);
  const line = await process.line('Sandbox at ');
  return { process, control: new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? '')) };
}

/** Starts processes. Those of a test are killed when it ends; sandboxes stay for the next test of the file. */
export function useProcesses() {
  const started: CliProcess[] = [];
  const sandboxProcesses: CliProcess[] = [];
  const sandboxes: SandboxControl[] = [];
  let lent = 0;
  afterEach(async () => {
    lent = 0;
    await end(started);
  });
  afterAll(() => end(sandboxProcesses));
  const cli = (args: readonly string[], env: Readonly<Record<string, string>> = {}, entry?: string) => {
    const process = new CliProcess(args, env, entry);
    started.push(process);
    return process;
  };
  return {
    cli,
    /** A sandbox as it is after its start. Time stands still in it, unless it is given a speed. */
    sandbox: async (speed = 0): Promise<SandboxControl> => {
      const kept = sandboxes[lent++];
      if (kept !== undefined) {
        await kept.call('POST', '/_sandbox/reset', { speed, startMs: Date.now() });
        return kept;
      }
      // Kept before it is waited for: it is ended also if it never answers.
      const sandbox = await startSandbox((args) => {
        const process = new CliProcess(args, {});
        sandboxProcesses.push(process);
        return process;
      }, speed);
      sandboxes.push(sandbox.control);
      return sandbox.control;
    },
  };
}
/** What a worker needs to serve the sandbox's client `default`. */
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
