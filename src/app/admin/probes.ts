import { fastify } from 'fastify';
import { CodedError } from '../../core/errors.ts';
import { sweepMs } from '../../queue/sweeper.ts';

/** A worker whose last good sweep is older than this does not do its work at present. */
const lateAfterMs = 20 * sweepMs;
/** And this old: it is no use waiting. A database that is away for a minute is no reason to start the worker anew. */
const deadAfterMs = 40 * sweepMs;

export interface ProbeServer {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Serves `/livez` and `/readyz`: 200 while the worker's sweeps get done, 503 when none did for two minutes, or for one.
 * @param sinceLastSweepMs undefined until the first sweep was done
 * @throws CodedError `admin_port_taken` that says what to do
 */
export async function startProbes(
  host: string,
  port: number,
  sinceLastSweepMs: () => number | undefined,
): Promise<ProbeServer> {
  const server = fastify({ logger: false });
  const startedAtMs = performance.now();
  server.get('/livez', async (_request, reply) => {
    const age = sinceLastSweepMs() ?? performance.now() - startedAtMs;
    const alive = age < deadAfterMs;
    return reply.code(alive ? 200 : 503).send({ alive, lastSweepSecondsAgo: Math.round(age / 1_000) });
  });
  server.get('/readyz', async (_request, reply) => {
    const age = sinceLastSweepMs();
    const ready = age !== undefined && age < lateAfterMs;
    return reply
      .code(ready ? 200 : 503)
      .send({ ready, lastSweepSecondsAgo: age === undefined ? null : Math.round(age / 1_000) });
  });
  try {
    const address = new URL(await server.listen({ host, port }));
    return { port: Number(address.port), close: () => server.close() };
  } catch (cause) {
    await server.close();
    const taken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
    if (!taken) throw cause;
    throw new CodedError(
      'admin_port_taken',
      `ADMIN_PORT ${port} is in use on ${host}; set another (0 takes any free one)`,
      { cause },
    );
  }
}
