import type { FastifyInstance } from 'fastify';
import { sweepMs } from '../../queue/sweeper.ts';
import type { Standing } from '../health/overview.ts';
import type { StaleJob } from '../health/staleness.ts';
import type { AdminDeps } from './admin-deps.ts';
import { inTime } from './in-time.ts';

/** A worker whose last good sweep is older than this does not do its work at present. */
const lateAfterMs = 20 * sweepMs;
/** And this old: it is no use waiting. A database that is away for a minute is no reason to start the worker anew. */
const deadAfterMs = 40 * sweepMs;

/**
 * `/livez` and `/readyz`: 200 while the worker's sweeps get done, 503 when none did for two minutes, or for one. `/readyz`
 * also names the jobs that are late, whosever fault it is, and since when; with `?stale=fail` they make it 503 too.
 */
export function probeRoutes(app: FastifyInstance, { daemon }: AdminDeps, read: () => Promise<Standing>): void {
  const startedAtMs = performance.now();
  const open = { config: { open: true } };
  const sweepAgeMs = () => daemon()?.sinceLastSweepMs();
  app.get('/livez', open, async (_request, reply) => {
    const age = sweepAgeMs() ?? performance.now() - startedAtMs;
    const alive = age < deadAfterMs;
    return reply.code(alive ? 200 : 503).send({ alive, lastSweepSecondsAgo: Math.round(age / 1_000) });
  });
  app.get<{ Querystring: { stale?: string } }>('/readyz', open, async (request, reply) => {
    const age = sweepAgeMs();
    const stale = await inTime(read()).then(
      (standing) => standing.stale.map(named),
      () => null,
    );
    const ready = age !== undefined && age < lateAfterMs;
    const isStale = request.query.stale === 'fail' && (stale?.length ?? 0) > 0;
    return reply.code(ready && !isStale ? 200 : 503).send({
      ready,
      lastSweepSecondsAgo: age === undefined ? null : Math.round(age / 1_000),
      ...(stale === null ? { database: 'cannot be read' } : { stale }),
    });
  });
}

const named = ({ client, job, since, lastSuccessAt, because }: StaleJob) => ({
  client,
  job,
  since: since.toISOString(),
  lastSuccessAt: lastSuccessAt?.toISOString() ?? null,
  because,
});
