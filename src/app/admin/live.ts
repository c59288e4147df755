import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Html } from '../../core/html.ts';
import { minuteMs } from '../../core/time.ts';
import { type Overview, withReadTimeout } from '../health/overview.ts';
import { addBasePath, eventsPath } from './access.ts';
import { renderOverviewParts } from './pages/overview.ts';
import { maskQuotes } from './pages/view.ts';

const refreshMs = 2_000;
/** Maximum milliseconds of one stream of events. The browser then connects again, which checks its session. */
const maxStreamMs = minuteMs;
const maxWatchers = 50;

/** Registers `/events`, which sends the changed parts of the overview as server-sent events. */
export function registerLiveRoutes(app: FastifyInstance, read: () => Promise<Overview>, basePath: string): void {
  const closing = new AbortController();
  let watchers = 0;
  app.addHook('preClose', async () => closing.abort());
  app.get(eventsPath, async (request, reply) => {
    if (watchers >= maxWatchers)
      return reply.code(503).send({ error: 'Too many overview pages are open; close some, or reload later' });
    watchers++;
    const gone = new AbortController();
    request.raw.socket.once('close', () => gone.abort());
    const end = AbortSignal.any([gone.signal, closing.signal, AbortSignal.timeout(maxStreamMs)]);
    reply.hijack();
    // The headers that hooks have set, such as the content policy, are sent too.
    reply.raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
    });
    const isViewer = request.role === 'viewer';
    const toText = (markup: string) => addBasePath(isViewer ? maskQuotes(markup) : markup, basePath);
    await sendChanges(reply, async () => renderOverviewParts(await read()), end, toText).finally(() => {
      watchers--;
      reply.raw.end();
    });
    return reply;
  });
}

/** Sends changed parts until `end` is aborted. */
async function sendChanges(
  reply: FastifyReply,
  readParts: () => Promise<Readonly<Record<string, Html>>>,
  end: AbortSignal,
  toText: (markup: string) => string,
): Promise<void> {
  const sent = new Map<string, string>();
  while (!end.aborted) {
    const parts = await withReadTimeout(readParts()).then(
      (found) => Object.entries(found).map(([id, { text }]) => [id, toText(text)] as const),
      // The next read may reach the database again.
      () => [['headline', '<h1 class="bad">The database cannot be reached</h1>']] as const,
    );
    const changed = parts.filter(([id, text]) => sent.get(id) !== text);
    if (!reply.raw.writableNeedDrain) for (const [id, text] of changed) sent.set(id, text);
    const message = changed.length > 0 ? `data: ${JSON.stringify(Object.fromEntries(changed))}\n\n` : ': no change\n\n';
    // A browser that does not read gets nothing until it has caught up.
    if (!end.aborted && !reply.raw.writableNeedDrain) reply.raw.write(message);
    // If the wait is aborted, the loop ends.
    await wait(refreshMs, undefined, { signal: end }).catch(() => undefined);
  }
}
