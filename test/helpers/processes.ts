import { afterEach } from 'vitest';
import { CliProcess } from './cli-process.ts';
import { SandboxControl } from './sandbox-control.ts';

/** Starts processes that the end of the test kills if they are still there. */
export function useProcesses() {
  const started: CliProcess[] = [];
  afterEach(async () => {
    for (const { child, ended } of started.splice(0)) {
      // SIGKILL ends a stopped process too.
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await ended;
    }
  });
  const cli = (args: readonly string[], env: Readonly<Record<string, string>> = {}, entry?: string) => {
    const process = new CliProcess(args, env, entry);
    started.push(process);
    return process;
  };
  return {
    cli,
    /** The one that was started last. */
    latest: (): CliProcess => {
      const process = started.at(-1);
      if (process === undefined) throw new Error('no process was started');
      return process;
    },
    /** A sandbox in which time stands still, unless it is given a speed. */
    sandbox: async (speed = 0): Promise<SandboxControl> => {
      const line = await cli(['sandbox', '--port', '0', '--speed', String(speed)]).line('Sandbox at ');
      return new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
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
