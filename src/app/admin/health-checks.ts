import type { FastifyInstance } from 'fastify';
import { sweepMs } from '../../queue/sweeper.ts';
import type { LateJob } from '../health/late-jobs.ts';
import { type CurrentState, withReadTimeout } from '../health/overview.ts';
import type { AdminDeps } from './admin-deps.ts';

/** A worker is not ready if its last complete sweep is older than this, in milliseconds. */
const lateAfterMs = 20 * sweepMs;
/** A worker should be restarted if its last complete sweep is older than this. A short outage of Postgres is fine. */
const deadAfterMs = 40 * sweepMs;

/**
 * Registers the probes. `/livez` answers 503 if no sweep was completed for two minutes, `/readyz` if none was for one.
 * `/readyz` says what a worker waits for that has not started. It lists the late jobs and since when they are late; with `?stale=fail` it answers 503 if there are any.
 */
export function registerHealthChecks(
  app: FastifyInstance,
  { daemon, config }: AdminDeps,
  read: () => Promise<CurrentState>,
): void {
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
    const stale = await withReadTimeout(read()).then(
      (state) => state.stale.map(toLateJobJson),
      () => null,
    );
    const ready = age !== undefined && age < lateAfterMs;
    const isStale = request.query.stale === 'fail' && (stale?.length ?? 0) > 0;
    return reply.code(ready && !isStale ? 200 : 503).send({
      ready,
      lastSweepSecondsAgo: age === undefined ? null : Math.round(age / 1_000),
      // A worker starts when it has reached all its servers. It tries for ever.
      ...(daemon() === null && { waitsFor: stale === null || config.REDIS_URL === undefined ? 'Postgres' : 'Redis' }),
      ...(stale === null ? { database: 'cannot be read' } : { stale }),
    });
  });
}

/** Returns a late job as `/readyz` lists it. */
const toLateJobJson = ({ client, job, since, lastSuccessAt, because }: LateJob) => ({
  client,
  job,
  since: since.toISOString(),
  lastSuccessAt: lastSuccessAt?.toISOString() ?? null,
  because,
});
