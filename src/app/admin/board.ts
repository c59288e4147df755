import helmet from '@fastify/helmet';
import type { FastifyInstance } from 'fastify';
import { openBoard } from '../../queue/board.ts';
import type { AdminDeps } from './server.ts';

const path = '/queues';

/** `/queues`: Bull Board. It brings styles inside its markup, and changes nothing here. */
export async function boardRoutes(app: FastifyInstance, { daemon }: AdminDeps): Promise<void> {
  const board = openBoard(path);
  let shown: unknown;
  await app.register(async (scope) => {
    await scope.register(helmet, {
      strictTransportSecurity: false,
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          scriptSrc: ["'self'"],
          styleSrc: ["'self'", "'unsafe-inline'"],
          imgSrc: ["'self'", 'data:'],
          fontSrc: ["'self'"],
          connectSrc: ["'self'"],
          baseUri: ["'self'"],
          frameAncestors: ["'none'"],
        },
      },
    });
    scope.addHook('onRequest', async (request, reply) => {
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return reply.code(403).send({ error: 'The queues are shown only; pause and run jobs at /schedules' });
      const now = daemon();
      if (now !== null && now !== shown) {
        board.show([...now.queues.values()]);
        shown = now;
      }
    });
    await scope.register(board.plugin, { prefix: path });
  });
}
