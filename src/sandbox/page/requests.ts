import { badge, type Html, html } from '../../core/html.ts';
import type { Exchange, LoggedRequest } from '../request-log.ts';
import type { World } from '../world.ts';
import { section, table, type View, writeMoment } from './elements.ts';

const shownRequests = 50;
const shownCharacters = 160;

/** Renders the latest requests of all clients; with a search, those that hold its text. */
export function renderLog({ log }: World, { q }: View): Html {
  const wanted = q.toLowerCase();
  const entries = log.findLatest(shownRequests, (entry, bodies) => {
    const texts = [toCells(entry).join(' '), bodies?.request, bodies?.answer];
    return q === '' || texts.some((text) => text?.toLowerCase().includes(wanted));
  });
  const headings = ['time (UTC)', 'client', 'operation', 'status', 'ms', 'request'];
  const rows = entries.map((entry) => {
    const [time, client, operation, status, ms, request = ''] = toCells(entry);
    const cut =
      request.length > shownCharacters ? `${request.slice(0, shownCharacters)}…` : request;
    const link = html`<a href="/_sandbox/page/requests/${entry.place}"><code>${cut}</code></a>`;
    return [time, client, operation, renderStatus(entry, status), ms, link];
  });
  return section(
    'requests',
    `Requests (${log.total})`,
    true,
    table('Requests, newest first', headings, rows),
  );
}

function toCells(entry: LoggedRequest): readonly string[] {
  const { atMs, client, operation, status, durationMs, faulty } = entry;
  const answer = status ?? (durationMs === null ? 'waiting' : 'no answer');
  return [
    new Date(atMs).toISOString().slice(11, 23),
    client ?? '–',
    operation ?? 'unknown route',
    `${answer}${faulty ? ' (fault)' : ''}`,
    String(durationMs ?? '–'),
    writeRequest(entry),
  ];
}

/** Writes the method and the address of a request, the latter decoded if it can be. */
function writeRequest({ method, path, query }: LoggedRequest): string {
  const address = query === '' ? path : `${path}?${query}`;
  try {
    return `${method} ${decodeURIComponent(address.replaceAll('+', ' '))}`;
  } catch {
    return `${method} ${address}`;
  }
}

function renderStatus({ status, durationMs }: LoggedRequest, text = ''): Html {
  if (status === null) return badge(durationMs === null ? 'note' : 'bad', text);
  return badge(status < 300 ? 'good' : status < 500 ? 'warn' : 'bad', text);
}

/** Renders what clients send beyond the interface. */
export function renderFindings({ findings, strict }: World): Html {
  const all = findings.list();
  const more =
    findings.beyondLimit === 0 ? '' : `; ${findings.beyondLimit} more oddities are not listed`;
  const rows = all
    .slice(0, shownRequests)
    .map(({ client, operation, code, member, shape, advice, count, lastAt }) => [
      ...[
        client ?? '–',
        operation,
        html`<b>${code}</b> <code>${member}</code>`,
        html`<code>${shape}</code>`,
      ],
      ...[advice, count, writeMoment(Date.parse(lastAt))],
    ]);
  const headings = ['client', 'operation', 'finding', 'sent', 'advice', 'count', 'last (UTC)'];
  const treatment = strict ? 'refused' : 'accepted if possible';
  return section(
    'findings',
    `Findings (${all.length})`,
    all.length > 0,
    html`<p>What clients send beyond the interface: ${treatment}${more}.</p>
${table('Findings, latest first', headings, rows)}`,
  );
}

/**
 * Replaces a secret until the command is written. No body contains it as it is: JSON and forms
 * encode it.
 */
const mark = '\u0000';

/** Renders a logged request with its bodies and as a curl command. */
export function renderExchange({ log }: World, place: number, origin: string): Html {
  const exchange = log.readExchange(place);
  const [, client, operation, status, ms, request] = toCells(exchange);
  const notes = [
    exchange.kept ? '' : 'The bodies are gone: only those of the latest requests are kept.',
    exchange.cut ? 'Only the beginning of a body is kept.' : '',
  ].filter((note) => note !== '');
  const at = writeMoment(exchange.atMs);
  return html`<h1><code>${request}</code></h1>
<p>${renderStatus(exchange, status)} ${operation}, client ${client}, ${at} UTC, ${ms} ms</p>
${notes.map((note) => html`<p>${note}</p>`)}
<h2>As a command</h2>
<pre class="copy" tabindex="0">${writeCommand(log.readExchange(place, mark), origin)}</pre>
<h2>Request</h2>
${renderBody(exchange.requestBody)}
<h2>Answer</h2>
${renderBody(exchange.answerBody)}`;
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

function writeCommand(exchange: Exchange, origin: string): string {
  const { method, path, query, contentType, requestBody, cut, hasToken } = exchange;
  const body = cut && requestBody ? '@body' : requestBody;
  const url = quote(`${origin}${path}${query === '' ? '' : `?${query}`}`);
  const parts = [
    `curl -g ${method === 'GET' ? '' : `-X ${method} `}${url}`,
    hasToken ? '-H "authorization: bearer $TOKEN"' : '',
    contentType === null ? '' : `-H ${quote(`content-type: ${contentType}`)}`,
    body ? `--data-binary ${quote(body)}` : '',
  ];
  return parts.filter((part) => part !== '').join(' \\\n  ');
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`).replaceAll(mark, `'"$SECRET"'`)}'`;
}
