import { once } from 'node:events';
import { defaultTimeZone } from '../../../config/files.ts';
import { CodedError } from '../../core/errors.ts';
import { createSandbox } from '../../sandbox/server.ts';
import { World } from '../../sandbox/world.ts';
import { stopSignal } from '../stop-signal.ts';
import { UsageError } from '../usage.ts';

export interface SandboxOptions {
  readonly host: string;
  readonly port: number;
  readonly seed: number;
  readonly clients: string;
  readonly speed: number;
}

/** Serves the sandbox until it is stopped; to this machine alone, unless told otherwise. */
export async function sandboxCommand({ host, port, seed, clients, speed }: SandboxOptions): Promise<number> {
  const names = clients.split(',').map((name) => name.trim());
  if (names.some((name) => !/^[a-z][a-z0-9_-]{0,31}$/.test(name)) || new Set(names).size < names.length) {
    throw new UsageError('--clients takes names that match [a-z][a-z0-9_-]{0,31}, comma separated, each once');
  }
  const world = new World({ clients: names, seed, speed, startMs: Date.now(), zone: defaultTimeZone });
  const app = createSandbox(world);
  const stopped = once(stopSignal(), 'abort');
  try {
    const address = await app.listen({ host, port });
    process.stdout.write(`Sandbox at ${address} for ${names.join(', ')}; each name is user name and password.\n`);
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE')) throw cause;
    throw new CodedError('port_taken', `Port ${port} is in use; choose another with --port (0 takes any free one)`, {
      cause,
    });
  }
  await stopped;
  await app.close();
  return 0;
}
