/**
 * The pages of the outbox: the list, and one row with its actions. A payload is masked until an operator reveals it.
 */

import { type Child, type Html, html } from '../../../core/html.ts';
import { isObject, type Json } from '../../../core/json.ts';
import { allowedFrom, type OutboxAction } from '../../../erp/outbox/operator-actions.ts';
import { type OutboxDetail, type OutboxSummary, outboxStatuses } from '../../../erp/outbox/read-outbox.ts';
import { outboxKinds } from '../../../sync/push/kinds/registry.ts';
import { adviseOperator } from '../../terminal/outbox-row.ts';
import { ago, badge, choice, moment, type Tone, table } from './view.ts';

/** The filter of the list. */
export interface OutboxSelection {
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

/** Renders the status of a row as a badge. */
const renderStatus = (status: string) => badge(tones[status] ?? 'note', status);

/** Renders `/outbox`. */
export function renderOutboxPage(
  rows: readonly OutboxSummary[],
  chosen: OutboxSelection,
  clients: readonly string[],
  limit: number,
  now: Date,
): Html {
  const cells = rows.map((row) => [
    html`<a href="/outbox/${row.id}">${row.id}</a>`,
    renderStatus(row.status),
    row.client,
    row.kind,
    row.reference,
    row.attempts,
    ago(row.createdAt, now),
    row.because ?? '–',
  ]);
  const headings = ['row', 'status', 'client', 'kind', 'reference', 'attempts', 'created', 'reason'];
  const kinds = outboxKinds.map(({ name }) => name);
  return html`<h1>Outbox</h1>
<form class="filter" method="get" action="/outbox">
${choice('status', 'Status', outboxStatuses, chosen.status, 'open')}
${choice('client', 'Client', clients, chosen.client)}
${choice('kind', 'Kind', kinds, chosen.kind)}
<label>Reference <input name="reference" value="${chosen.reference ?? ''}"></label>
<button>Show</button></form>
${cells.length === 0 ? html`<p class="none">No rows found. Without a status, only open rows are shown.</p>` : table('Oldest first', headings, cells)}
${rows.length === limit ? html`<p>Only the first ${limit} are shown. Narrow the filter, or use <code>fulfilment-sync outbox list --limit</code>.</p>` : ''}`;
}

/** Renders `/outbox/:id`: a row with its reason, its history and its actions. */
export function renderOutboxRowPage(
  row: OutboxDetail,
  payload: Json,
  isRevealed: boolean,
  csrf: string | null,
  now: Date,
): Html {
  const facts: readonly (readonly [string, Child])[] = [
    ['Client', row.client],
    ['Kind', row.kind],
    ['Reference', row.reference],
    ['Created', moment(row.createdAt)],
    ['Attempts', row.attempts],
    ['Next try', row.nextAttemptAt === null ? '–' : ago(row.nextAttemptAt, now)],
    ['Finished', moment(row.finishedAt)],
    ['Carried out by the service', describeCarriedOut(row)],
  ];
  return html`<h1>Row ${row.id} ${renderStatus(row.status)}</h1>
${row.because === null ? '' : html`<p class="why"><b>Reason:</b> ${row.because}</p>`}
<p class="remedy">→ ${adviseOperator(row, 'page')}</p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${csrf === null ? '' : renderActions(row, csrf, isRevealed && isObject(payload) ? payload : null)}
<h2>Attempts</h2>
${renderHistory(row)}
<h2>Payload</h2>
${isRevealed ? html`<p>Unmasked. The audit records that it was shown.</p>` : html`<p>Personal data is masked.</p>${csrf === null ? '' : renderForm(row.id, 'reveal', csrf, html`<button class="quiet">Show unmasked</button>`)}`}
<pre tabindex="0" role="region" aria-label="Payload">${JSON.stringify(payload, null, 2)}</pre>
${row.result === null ? '' : html`<h2>Result</h2><pre tabindex="0" role="region" aria-label="Result">${JSON.stringify(row.result, null, 2)}</pre>`}`;
}

/** Says whether the service has carried the row out. */
function describeCarriedOut({ status, mayBeCarriedOut }: OutboxDetail): string {
  if (status === 'done') return 'yes';
  return mayBeCarriedOut ? 'perhaps' : 'no';
}

/** Renders the attempts and actions of a row. */
function renderHistory({ history: steps }: OutboxDetail): Html {
  if (steps.length === 0) return html`<p class="none">No attempts yet.</p>`;
  const cells = steps.map(({ at, step, by, became, durationMs, error }) => [
    moment(at),
    step,
    renderStatus(became),
    durationMs === null ? '–' : `${durationMs} ms`,
    error ?? '–',
    by,
  ]);
  return table('Oldest first, times in UTC', ['time', 'step', 'new status', 'duration', 'error', 'by'], cells);
}

/** Renders the form of an action. */
const renderForm = (id: number, action: string, csrf: string, content: Html) =>
  html`<form method="post" action="/outbox/${id}/${action}"><input type="hidden" name="_csrf" value="${csrf}">${content}</form>`;

/** Renders a box that has to be ticked. */
const renderConfirmation = (text: string) =>
  html`<label class="sure"><input type="checkbox" name="sure" required> ${text}</label>`;

/** Renders the forms of the actions that the status of the row allows. */
function renderActions(row: OutboxDetail, csrf: string, payload: Json): Html {
  const { id, status } = row;
  const isAllowed = (action: OutboxAction) => (allowedFrom[action] as readonly string[]).includes(status);
  const isUndecided = status === 'unknown' && row.nextAttemptAt === null;
  const forms = [
    isAllowed('retry')
      ? html`<h3>Retry</h3>${renderForm(id, 'retry', csrf, html`${isUndecided ? renderConfirmation('I have checked that the service did not carry it out') : ''}<button>Retry</button>`)}`
      : '',
    isAllowed('done')
      ? html`<h3>Mark as done</h3>${renderForm(id, 'done', csrf, html`<label>Result for the ERP (JSON) <input name="result" value="{}" spellcheck="false"></label>${renderConfirmation('I have checked that the service carried it out')}<button>Mark as done</button>`)}`
      : '',
    status === 'dead' || status === 'pending'
      ? html`<h3>Replace payload</h3>${renderForm(id, 'replace', csrf, html`<label>New payload (JSON)<textarea name="payload" rows="8" spellcheck="false" required>${payload === null ? '' : JSON.stringify(payload, null, 2)}</textarea></label>${payload === null ? html`<p><small>“Show unmasked” below fills in the current payload.</small></p>` : ''}<button>Replace payload</button>`)}`
      : '',
    isAllowed('cancel')
      ? html`<h3>Cancel</h3>${renderForm(id, 'cancel', csrf, html`${renderConfirmation('This row will never be sent again')}<button class="danger">Cancel row</button>`)}`
      : '',
  ].filter((part) => part !== '');
  return forms.length === 0
    ? html``
    : html`<h2>Actions</h2><div class="actions">${forms.map((part) => html`<div>${part}</div>`)}</div>`;
}
