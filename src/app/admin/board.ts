import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import type { AdminDeps } from './admin-deps.ts';

const path = '/queues';
/** Content policy of Bull Board: its markup has inline styles and a base address. Foreign scripts stay forbidden. */
const policy =
  "default-src 'none';script-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;font-src 'self';connect-src 'self';base-uri 'self';frame-ancestors 'none'";

/** A separate server of Bull Board. The admin server hands requests over to it. */
interface Board {
  readonly answer: FastifyInstance['routing'];
  /** Shows the queues of the worker once it has started. */
  readonly refresh: () => void;
  readonly close: () => Promise<void>;
}

/**
 * Serves Bull Board at `/queues`, read only. It is loaded at the first request, so that a worker starts faster. The
 * headers of the admin server stay, except for the content policy.
 */
export function registerBoardRoutes(app: FastifyInstance, { daemon, config }: AdminDeps): void {
  let opening: Promise<Board> | undefined;
  app.addHook('onClose', async () => (await opening)?.close());
  for (const url of [path, `${path}/*`])
    app.all(url, { onRequest: refuseChanges }, async (request, reply) => {
      opening ??= openInnerServer(daemon, config.ADMIN_BASE_PATH);
      const board = await opening;
      board.refresh();
      reply.header('content-security-policy', policy);
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) reply.raw.setHeader(name, value);
      reply.hijack();
      board.answer(request.raw, reply.raw);
    });
}

/** Answers 403 to every request that could change a queue. */
async function refuseChanges({ method }: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (method === 'GET' || method === 'HEAD') return;
  await reply.code(403).send({ error: 'The queues are read-only; pause and run jobs at /schedules' });
}

/** Loads Bull Board and starts its server, which does not listen on a port. */
async function openInnerServer(daemon: AdminDeps['daemon'], basePath: string): Promise<Board> {
  const { openBoard } = await import('../../queue/board.ts');
  const { plugin, show } = openBoard(basePath, path);
  const inner = fastify({ logger: false });
  await inner.register(plugin, { prefix: path });
  await inner.ready();
  let shown: unknown;
  const refresh = () => {
    const now = daemon();
    if (now === null || now === shown) return;
    show([...now.queues.values()]);
    shown = now;
  };
  return { answer: inner.routing, refresh, close: () => inner.close() };
}
