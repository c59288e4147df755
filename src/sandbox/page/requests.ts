import { type Html, html } from '../../core/html.ts';
import { operations } from '../operations/all.ts';
import { type Exchange, type LoggedRequest, readExchange } from '../request-log.ts';
import type { World } from '../world.ts';
import { badge, choice, facts, field, hidden, moment, section, table, type View } from './elements.ts';

const shownRequests = 50;
const shownCharacters = 160;

/** Tests of the filter by status, with their names. */
const statusTests: Readonly<Record<string, (entry: LoggedRequest) => boolean>> = {
  '2xx': ({ status }) => status !== null && status < 300,
  '3xx': ({ status }) => status !== null && status >= 300 && status < 400,
  '4xx': ({ status }) => status !== null && status >= 400 && status < 500,
  '5xx': ({ status }) => status !== null && status >= 500,
  'no answer': ({ status }) => status === null,
  fault: ({ faulty }) => faulty,
};

/** Renders the filter of the log. It is a form, so that it works without script. */
export function renderLogFilter({ client, q, text, operation, status }: View): Html {
  const names = operations.map(({ name }) => [name, name] as const);
  const states = Object.keys(statusTests).map((name) => [name, name] as const);
  return html`<form class="filter" method="get" action="/#requests">
${hidden('client', client)}${q === '' ? '' : hidden('q', q)}
${field('text', 'Text', { value: text, type: 'search' })}
${choice('operation', 'Operation', [['', 'all'], ...names], operation)}
${choice('status', 'Status', [['', 'all'], ...states], status)}
<button>Filter</button></form>`;
}

/** Renders the latest requests of all clients that pass the filter. */
export function renderLog({ log }: World, view: View): Html {
  const wanted = view.text.toLowerCase();
  const test = Object.hasOwn(statusTests, view.status) ? statusTests[view.status] : undefined;
  const entries = log.findLatest(
    shownRequests,
    (entry) =>
      (view.operation === '' || entry.operation === view.operation) &&
      (test?.(entry) ?? true) &&
      (wanted === '' || containsText(entry, wanted, log.bodies.get(entry.place))),
  );
  const headings = ['time (UTC)', 'client', 'request', 'operation', 'status', 'ms'];
  const shown = table('Requests, newest first', headings, entries.map(toRow));
  return section('requests', `Requests (${log.total})`, true, shown);
}

function containsText(
  { method, path, query, client, operation }: LoggedRequest,
  wanted: string,
  kept: ReturnType<World['log']['bodies']['get']>,
): boolean {
  const line = `${method} ${path}?${query} ${client ?? ''} ${operation ?? ''}`;
  return [line, kept?.request?.text, kept?.answer?.text].some((text) => text?.toLowerCase().includes(wanted));
}

function toRow(entry: LoggedRequest) {
  const { place, atMs, client, method, path, query, operation, durationMs } = entry;
  const requested = query === '' ? path : `${path}?${query}`;
  const cut = requested.length > shownCharacters ? `${requested.slice(0, shownCharacters)}…` : requested;
  return {
    id: `request-${place}`,
    cells: [
      html`<time datetime="${new Date(atMs).toISOString()}">${new Date(atMs).toISOString().slice(11, 23)}</time>`,
      client ?? '–',
      html`<a class="exchange" href="/_sandbox/page/requests/${place}"><code>${method} ${cut}</code></a>`,
      operation ?? 'unknown route',
      renderStatus(entry),
      durationMs ?? '–',
    ],
  };
}

function renderStatus({ status, durationMs, faulty }: LoggedRequest): Html {
  const words = durationMs === null ? badge('note', 'waiting') : badge('bad', 'no answer');
  const shown = status === null ? words : badge(status < 300 ? 'good' : status < 500 ? 'warn' : 'bad', String(status));
  return html`${shown}${faulty ? html` ${badge('note', 'fault')}` : ''}`;
}

/** Renders what clients send beyond the interface. */
export function renderFindings({ findings, strict }: World): Html {
  const all = findings.list();
  const more = findings.beyondLimit === 0 ? '' : `; ${findings.beyondLimit} more oddities are not listed`;
  const rows = all
    .slice(0, shownRequests)
    .map((row) => [
      row.client ?? '–',
      row.operation,
      html`<b>${row.code}</b> <code>${row.member}</code>`,
      html`<code>${row.shape}</code>`,
      row.advice,
      row.count,
      moment(Date.parse(row.lastAt)),
    ]);
  const headings = ['client', 'operation', 'finding', 'sent', 'advice', 'count', 'last (UTC)'];
  return section(
    'findings',
    `Findings (${all.length})`,
    all.length > 0,
    html`<p>What clients send beyond the interface: ${strict ? 'refused' : 'accepted if possible'}${more}.</p>
${table('Findings, latest first', headings, rows)}`,
  );
}

/** Replaces a secret until the command is written. No body contains it as it is: JSON and forms encode it. */
const mark = '\u0000';

/** Renders a logged request with its bodies and as a curl command. */
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

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`).replaceAll(mark, `'"$SECRET"'`)}'`;
}
