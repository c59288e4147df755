import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Html } from '../../core/html.ts';
import { removeQuotes } from '../../core/quote.ts';
import { adviseOperator, maskResult, toShownPayload } from '../../push/show-row.ts';
import type { OutboxDetail } from '../../push/sql/read-outbox.ts';
import { wantsJson } from '../listen.ts';
import { isUnderWay, type PayloadDraft, renderOutboxRowPage } from '../pages/outbox-page.ts';
import { maskQuotes, renderPage } from '../pages/view.ts';
import { maxPayloadBytes, toFormToken } from './access.ts';

/** The messages after an action, by a word in the address. Nothing else of the address is shown. */
const formMessages: Readonly<Record<string, string>> = {
  pause: 'The job is paused. A run under way will finish.',
  resume: 'The job is resumed. One run makes up for all missed runs.',
  all: 'Done for all selected rows.',
  some: 'Some of the selected rows were not changed: open them to see why, or tick the box.',
  released: 'The resource could be decoded. It is in the tables now.',
  kept: 'It still cannot be decoded or stored, and stays in quarantine.',
  moved: 'Accepted as moved: rows are sent again.',
  restored: 'Accepted as restored: rows that may have been sent are looked up, or wait for you.',
  copy: 'Accepted as a copy: no row or event is sent from this database.',
  run: 'The job is due now. A worker starts it within seconds, unless its client is held.',
};

const saidSchema = z.object({
  said: z.string().optional().catch(undefined),
  at: z.coerce.number().catch(0),
});
/** Milliseconds for which a message is shown: not when the page is loaded again later. */
const saidForMs = 10_000;

/** A page: its HTML, and the same data as JSON. */
export interface Page {
  readonly title: string;
  /**
   * The content. A function gets the token of the forms; null for a viewer, who gets none that
   * change something.
   */
  readonly body: Html | ((csrf: string | null) => Html);
  readonly data: unknown;
  /**
   * Seconds after which the script asks for the page again, and replaces what has changed; 5 if it
   * is absent.
   */
  readonly refreshSeconds?: number;
  /** True if a browser without script loads the page again, too: it has no form to fill in. */
  readonly isReloaded?: boolean;
}

/**
 * Sends a page as HTML or JSON, as the request prefers. A viewer gets it without words of the
 * service. The token of its forms is bound to the session.
 */
export function sendPage(request: FastifyRequest, reply: FastifyReply, page: Page): FastifyReply {
  const isViewer = request.role !== 'operator';
  reply.header('vary', 'accept');
  if (wantsJson(request.headers.accept)) {
    const text = isViewer ? toViewerJson(page.data) : JSON.stringify(page.data);
    return reply.type('application/json').send(text);
  }

  const { title, body, refreshSeconds = 5, isReloaded = false } = page;
  const csrf = toFormToken(request);
  const frame = {
    title,
    path: request.url.split('?', 1)[0] ?? '/',
    loggedIn: request.session !== '',
    message: findMessage(request),
    // A page that answers a form has no address of its own.
    refreshSeconds: request.method === 'GET' ? refreshSeconds : null,
    isReloaded,
    csrf,
    isViewer,
  };
  const content = typeof body === 'function' ? body(isViewer ? null : csrf) : body;

  const markup = renderPage(frame, content);
  return reply.type('text/html').send(isViewer ? maskQuotes(markup) : markup);
}

/** Finds the message about the action that led to this page, for a few seconds. */
function findMessage({ query }: FastifyRequest): string | undefined {
  const { said, at } = saidSchema.parse(query);
  if (said === undefined || Math.abs(Date.now() - at) >= saidForMs) return undefined;
  return Object.hasOwn(formMessages, said) ? formMessages[said] : undefined;
}

/** Returns data as JSON without words of the service. */
export const toViewerJson = (data: unknown): string =>
  JSON.stringify(data, (_name, value: unknown) =>
    typeof value === 'string' ? removeQuotes(value) : value,
  );

/** Makes the page of an outbox row. Payload and result are masked unless `isRevealed`. */
export function makeRowPage(
  found: OutboxDetail,
  isRevealed: boolean,
  draft: PayloadDraft | null = null,
): Page {
  const payload = toShownPayload(found, isRevealed, maxPayloadBytes);
  const row = {
    ...found,
    result: found.result === null || isRevealed ? found.result : maskResult(found.result),
  };

  const isFollowed = draft === null && isUnderWay(row, new Date());

  return {
    title: `Row ${row.id}`,
    body: (csrf) => renderOutboxRowPage(row, { payload, isRevealed, draft }, csrf, new Date()),
    ...(isFollowed && { refreshSeconds: 2, isReloaded: true }),
    data: { ...row, payload, advice: adviseOperator(row) },
  };
}
