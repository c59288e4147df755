import { type Html, html } from '../../core/html.ts';
import { type Exchange, readExchange } from '../request-log.ts';
import type { World } from '../world.ts';
import { facts, moment } from './elements.ts';
import { renderStatus } from './requests.ts';

/** Replaces a secret until the command is written. No body contains it as it is: JSON and forms encode it. */
const mark = '\u0000';

/**
 * Renders a logged request with its bodies and as a curl command.
 * @param origin the address of the sandbox, for the command
 * @throws Refusal if the log does not hold the request
 */
export function renderExchange({ log }: World, place: number, origin: string): Html {
  const exchange = readExchange(log, place);
  const { method, path, query, operation, client, atMs, durationMs, cut, kept } = exchange;
  const notes = [
    kept ? '' : 'The bodies are gone: only those of the latest requests are kept.',
    cut ? 'Only the beginning of a body is kept.' : '',
  ].filter((note) => note !== '');
  return html`<article id="exchange" tabindex="-1">
<h1><code>${method} ${path}${query === '' ? '' : `?${query}`}</code></h1>
${facts([
  ['status', renderStatus(exchange)],
  ['operation', operation ?? 'unknown route'],
  ['client', client ?? '–'],
  ['time (UTC)', moment(atMs)],
  ['milliseconds', durationMs ?? '–'],
])}
${notes.map((note) => html`<p>${note}</p>`)}
<h2>As a command</h2>
<pre class="copy" tabindex="0">${writeCommand(readExchange(log, place, mark), origin)}</pre>
<h2>Request</h2>
${renderBody(exchange.requestBody)}
<h2>Answer</h2>
${renderBody(exchange.answerBody)}
</article>`;
}

function renderBody(body: string | null): Html {
  return body === null || body === ''
    ? html`<p class="none">No body.</p>`
    : html`<pre tabindex="0">${indentJson(body)}</pre>`;
}

/** Returns a body as it was sent, or with line breaks if it is JSON. */
function indentJson(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

/** Writes a request as a command for a shell. Variables stand for secrets. */
function writeCommand(exchange: Exchange, origin: string): string {
  const { method, path, query, contentType, requestBody, cut, hasToken } = exchange;
  const hasBody = requestBody !== null && requestBody !== '';
  const data = cut && hasBody ? '@body' : (requestBody ?? '');
  const parts = [
    `curl -g ${method === 'GET' ? '' : `-X ${method} `}${quote(`${origin}${path}${query === '' ? '' : `?${query}`}`)}`,
    hasToken ? '-H "authorization: bearer $TOKEN"' : '',
    contentType === null ? '' : `-H ${quote(`content-type: ${contentType}`)}`,
    hasBody ? `--data-binary ${quote(data)}` : '',
  ];
  return parts.filter((part) => part !== '').join(' \\\n  ');
}

/** Quotes a text for a shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`).replaceAll(mark, `'"$SECRET"'`)}'`;
}
