import { isObject, type Json } from '../../../core/json.ts';
import { allowedFrom, type OutboxAction } from '../../../erp/outbox/operator-actions.ts';
import { type OutboxDetail, type OutboxSummary, outboxStatuses } from '../../../erp/outbox/read-outbox.ts';
import { outboxKinds } from '../../../sync/push/kinds/registry.ts';
import { adviceFor } from '../../terminal/outbox-advice.ts';
import { type Child, type Html, html } from './html.ts';
import { ago, badge, choice, moment, type Tone, table } from './view.ts';

/** What of the outbox is shown. */
export interface OutboxChoice {
  readonly client?: string | undefined;
  readonly status?: string | undefined;
  readonly kind?: string | undefined;
  readonly reference?: string | undefined;
}

const tones: Readonly<Record<string, Tone>> = {
  dead: 'bad',
  unknown: 'bad',
  pending: 'note',
  sending: 'note',
  done: 'good',
  cancelled: 'note',
};

const statusBadge = (status: string) => badge(tones[status] ?? 'note', status);

/** `/outbox`: rows, those that are not through unless others are asked for. */
export function outboxPage(
  rows: readonly OutboxSummary[],
  chosen: OutboxChoice,
  clients: readonly string[],
  limit: number,
  now: Date,
): Html {
  const cells = rows.map((row) => [
    html`<a href="/outbox/${row.id}">${row.id}</a>`,
    statusBadge(row.status),
    row.client,
    row.kind,
    row.reference,
    row.attempts,
    ago(row.createdAt, now),
    row.because ?? '–',
  ]);
  const headings = ['row', 'status', 'client', 'kind', 'reference', 'attempts', 'asked', 'because'];
  const kinds = outboxKinds.map(({ name }) => name);
  return html`<h1>Outbox</h1>
<form class="filter" method="get" action="/outbox">
${choice('status', 'Status', outboxStatuses, chosen.status, 'not through')}
${choice('client', 'Client', clients, chosen.client)}
${choice('kind', 'Kind', kinds, chosen.kind)}
<label>Reference <input name="reference" value="${chosen.reference ?? ''}"></label>
<button>Show</button></form>
${cells.length === 0 ? html`<p class="none">No row fits: all that was asked for is through.</p>` : table('Oldest first', headings, cells)}
${rows.length === limit ? html`<p>The first ${limit}; narrow the choice, or use <code>fulfilment-sync outbox list --limit</code>.</p>` : ''}`;
}

/** `/outbox/:id`: one row with its history, why it is as it is, and what can be done. */
export function outboxRowPage(
  row: OutboxDetail,
  payload: Json,
  revealed: boolean,
  csrf: string | null,
  now: Date,
): Html {
  const facts: readonly (readonly [string, Child])[] = [
    ['Client', row.client],
    ['Kind', row.kind],
    ['Reference', row.reference],
    ['Asked', moment(row.createdAt)],
    ['Attempts', row.attempts],
    ['Next', row.nextAttemptAt === null ? '–' : ago(row.nextAttemptAt, now)],
    ['Ended', moment(row.finishedAt)],
    ['Carried out?', carriedOut(row)],
  ];
  return html`<h1>Row ${row.id} ${statusBadge(row.status)}</h1>
${row.because === null ? '' : html`<p class="why"><b>Why:</b> ${row.because}</p>`}
<p class="remedy">→ ${adviceFor(row, 'page')}</p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${csrf === null ? '' : actionForms(row, csrf, revealed && isObject(payload) ? payload : null)}
<h2>Attempts</h2>
${history(row)}
<h2>Payload</h2>
${revealed ? html`<p>As it is; that it was shown stands in the audit.</p>` : html`<p>Personal data is masked.</p>${csrf === null ? '' : form(row.id, 'reveal', csrf, html`<button class="quiet">Show it as it is</button>`)}`}
<pre tabindex="0" role="region" aria-label="Payload">${JSON.stringify(payload, null, 2)}</pre>
${row.result === null ? '' : html`<h2>Result</h2><pre tabindex="0" role="region" aria-label="Result">${JSON.stringify(row.result, null, 2)}</pre>`}`;
}

function carriedOut({ status, mayBeCarriedOut }: OutboxDetail): string {
  if (status === 'done') return 'yes';
  return mayBeCarriedOut ? 'an attempt may have been' : 'no attempt can have been';
}

function history({ history: steps }: OutboxDetail): Html {
  if (steps.length === 0) return html`<p class="none">None yet.</p>`;
  const cells = steps.map(({ at, step, by, became, durationMs, error }) => [
    moment(at),
    step,
    statusBadge(became),
    durationMs === null ? '–' : `${durationMs} ms`,
    error ?? '–',
    by,
  ]);
  return table('Oldest first, times in UTC', ['when', 'step', 'became', 'took', 'error', 'by'], cells);
}

const form = (id: number, action: string, csrf: string, content: Html) =>
  html`<form method="post" action="/outbox/${id}/${action}"><input type="hidden" name="_csrf" value="${csrf}">${content}</form>`;

const sure = (text: string) => html`<label class="sure"><input type="checkbox" name="sure" required> ${text}</label>`;

/** What may be done with a row in its state. */
function actionForms(row: OutboxDetail, csrf: string, payload: Json): Html {
  const { id, status } = row;
  const may = (action: OutboxAction) => (allowedFrom[action] as readonly string[]).includes(status);
  const undecided = status === 'unknown' && row.nextAttemptAt === null;
  const forms = [
    may('retry')
      ? html`<h3>Send again</h3>${form(id, 'retry', csrf, html`${undecided ? sure('I have seen that it was not carried out') : ''}<button>Retry</button>`)}`
      : '',
    may('done')
      ? html`<h3>It is true already</h3>${form(id, 'done', csrf, html`<label>Result for the ERP (JSON) <input name="result" value="{}" spellcheck="false"></label>${sure('I have seen it at the service')}<button>Mark done</button>`)}`
      : '',
    status === 'dead' || status === 'pending'
      ? html`<h3>Ask for something else</h3>${form(id, 'replace', csrf, html`<label>The whole payload (JSON)<textarea name="payload" rows="8" spellcheck="false" required>${payload === null ? '' : JSON.stringify(payload, null, 2)}</textarea></label>${payload === null ? html`<p><small>“Show it as it is” below fills in what stands there now.</small></p>` : ''}<button>Replace</button>`)}`
      : '',
    may('cancel')
      ? html`<h3>Give it up</h3>${form(id, 'cancel', csrf, html`${sure('It shall never be sent; its lane is freed')}<button class="danger">Cancel the row</button>`)}`
      : '',
  ].filter((part) => part !== '');
  return forms.length === 0
    ? html``
    : html`<h2>Put it right</h2><div class="actions">${forms.map((part) => html`<div>${part}</div>`)}</div>`;
}
