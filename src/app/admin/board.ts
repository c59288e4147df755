import type { FastifyInstance } from 'fastify';
import { openBoard } from '../../queue/board.ts';
import type { AdminDeps } from './server.ts';

const path = '/queues';
/** It brings styles inside its markup, and a base of its own; scripts of elsewhere it may not run either. */
const policy =
  "default-src 'none';script-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;font-src 'self';connect-src 'self';base-uri 'self';frame-ancestors 'none'";

/** `/queues`: Bull Board. It changes nothing here. */
export async function boardRoutes(app: FastifyInstance, { daemon }: AdminDeps): Promise<void> {
  const board = openBoard(path);
  let shown: unknown;
  await app.register(async (scope) => {
    scope.addHook('onSend', async (_request, reply) => void reply.header('content-security-policy', policy));
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
