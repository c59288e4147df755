import { execFileSync } from 'node:child_process';
import { appendFileSync, chownSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import * as demo from '../../../src/cli/demo/embedded-postgres.ts';

/** A temporary Postgres that can be stopped, copied and replaced. */
export type EmbeddedPostgres = Awaited<ReturnType<typeof startEmbeddedPostgres>>;

/** Starts a temporary Postgres, as the demo does. */
export async function startEmbeddedPostgres(
  ...options: Parameters<typeof demo.startEmbeddedPostgres>
) {
  const { url, folder, request, stop } = await demo.startEmbeddedPostgres(...options);
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')];

  const restart = async (downMs: number, signal: 'SIGINT' | 'SIGQUIT', meanwhile?: () => void) => {
    await request({ data: 'data', signal });
    await wait(downMs);
    meanwhile?.();
    await request({ data: 'data' });
  };

  return {
    url,
    stop,
    /** Stops Postgres and, after `downMs`, starts it again. All connections are lost. */
    restart: (downMs = 0) => restart(downMs, 'SIGINT'),
    /** The same with an immediate shutdown, so that Postgres must recover when it starts. */
    crash: (downMs = 0) => restart(downMs, 'SIGQUIT'),
    /** Stops Postgres, copies its data, and starts it again. */
    backUp: () =>
      restart(0, 'SIGINT', () => {
        rmSync(copy, { recursive: true, force: true });
        // `cp -a` keeps owners and modes.
        execFileSync('cp', ['-a', data, copy]);
      }),
    /** Starts a second Postgres with the last copy on another port, and returns its URL. */
    runCopy: () => request({ data: 'copy' }),
    /** Crashes Postgres and promotes the last copy, as if a standby with a lag took over. */
    failOver: () =>
      restart(0, 'SIGQUIT', () => {
        rmSync(data, { recursive: true });
        renameSync(copy, data);

        const signal = join(data, 'recovery.signal');
        writeFileSync(signal, '');
        const { uid, gid } = statSync(data);
        chownSync(signal, uid, gid);
        appendFileSync(join(data, 'postgresql.auto.conf'), "restore_command = 'false'\n");
      }),
  };
}
