import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Overview } from '../health/overview.ts';
import { addBasePath } from './access/base-path.ts';
import { inTime } from './in-time.ts';
import { maskQuotes } from './pages/html.ts';
import { overviewParts } from './pages/overview.ts';

const everyMs = 2_000;
/** A browser asks anew by itself; so that nobody watches for longer than his session lasts. */
const longestMs = 15 * 60_000;
const mostWatchers = 50;

/** `/events`: the parts of the overview that changed, as server-sent events. */
export function liveRoutes(app: FastifyInstance, read: () => Promise<Overview>, basePath: string): void {
  const closing = new AbortController();
  let watchers = 0;
  app.addHook('preClose', async () => closing.abort());
  app.get('/events', async (request, reply) => {
    if (watchers >= mostWatchers) return reply.code(503).send({ error: 'Too many pages are open; reload later' });
    watchers++;
    const gone = new AbortController();
    request.raw.socket.once('close', () => gone.abort());
    const end = AbortSignal.any([gone.signal, closing.signal, AbortSignal.timeout(longestMs)]);
    reply.hijack();
    // What hooks set so far (the policy for content among it) goes along.
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
    });
    const isViewer = request.role === 'viewer';
    const toText = (markup: string) => addBasePath(isViewer ? maskQuotes(markup) : markup, basePath);
    await tell(reply, read, end, toText).finally(() => {
      watchers--;
      reply.raw.end();
    });
    return reply;
  });
}

async function tell(
  reply: FastifyReply,
  read: () => Promise<Overview>,
  end: AbortSignal,
  toText: (markup: string) => string,
): Promise<void> {
  const sent = new Map<string, string>();
  while (!end.aborted) {
    const parts = await inTime(read()).then(
      (overview) => Object.entries(overviewParts(overview)).map(([id, { text }]) => [id, toText(text)] as const),
      // The page says so; the next look may find the database again.
      () => [['headline', '<h1 class="bad">The database cannot be read at present</h1>']] as const,
    );
    const changed = parts.filter(([id, text]) => sent.get(id) !== text);
    if (!reply.raw.writableNeedDrain) for (const [id, text] of changed) sent.set(id, text);
    const message =
      changed.length > 0 ? `data: ${JSON.stringify(Object.fromEntries(changed))}\n\n` : ': still here\n\n';
    // Who does not read is left out until he has caught up.
    if (!end.aborted && !reply.raw.writableNeedDrain) reply.raw.write(message);
    // Ended in the middle of the wait: the loop sees it.
    await wait(everyMs, undefined, { signal: end }).catch(() => undefined);
  }
}
