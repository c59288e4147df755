import type { FastifyInstance } from 'fastify';
import type { AdminDeps } from './admin-deps.ts';

/** Registers `/metrics`, in the format of Prometheus. */
export function registerMetricsRoute(app: FastifyInstance, { metrics }: AdminDeps): void {
  app.get('/metrics', async (_request, reply) =>
    metrics.read(async (registry) => reply.type(registry.contentType).send(await registry.metrics())),
  );
}
