import type { FastifyReply, FastifyRequest } from 'fastify';
import { html } from '../../core/html.ts';
import { isForm } from '../form.ts';
import { renderFrame } from './frame.ts';
import { readReferrer } from './view.ts';

/** What the page says after an action, by the path of the control. */
const messages: Readonly<Record<string, string>> = {
  advance: 'The time has advanced.',
  order: 'The order is placed.',
  ship: 'The warehouse has shipped the order.',
  return: 'The return is announced.',
  'return/process': 'The warehouse has processed the return.',
  faults: 'The fault is active.',
  'faults/remove': 'The fault is removed.',
  reset: 'The sandbox has started over. All tokens are invalid.',
};

/** Returns what to say about an action; empty if the action is unknown. */
export const findMessage = (said: string): string => (Object.hasOwn(messages, said) ? (messages[said] ?? '') : '');

/** Returns whether a browser without script has sent a form of the page to a control. Programs get JSON instead. */
export function isPageForm(request: FastifyRequest): boolean {
  const isControl = request.routeOptions.config.operation === null;
  return isControl && isForm(request) && (request.headers.accept ?? '').includes('text/html');
}

/** Leads the browser back to the page that sent the form. The page says what was done, and shows a new order. */
export function leadBack(request: FastifyRequest, reply: FastifyReply, answer: unknown): void {
  const query = new URLSearchParams(readReferrer(request).slice(2));
  const action = request.url.replace('/_sandbox/', '');
  query.set('said', action);
  const { externalOrderNumber } = answer as { externalOrderNumber?: string };
  if (action === 'order' && externalOrderNumber !== undefined) query.set('q', externalOrderNumber);
  reply.code(303).header('location', `/?${query}`);
}

/** Renders why a form was refused. */
export function renderRefusedForm(request: FastifyRequest, problems: readonly string[]): string {
  return renderFrame(
    'Sandbox: refused',
    '',
    html`<h1>Refused</h1>
<div id="refused" class="why" role="alert">${problems.map((problem) => html`<p>${problem}</p>`)}</div>
<p><a href="${readReferrer(request)}">Back to the page</a></p>`,
  );
}
