/**
 * The pages of the outbox: the list, and one row with its actions. A payload is masked until an
 * operator reveals it.
 */

import { badge, type Child, type Html, html, type Tone } from '../../core/html.ts';
import { isObject, type Json } from '../../core/json.ts';
import { adviseOperator } from '../../push/advise-operator.ts';
import { outboxKinds } from '../../push/kinds/registry.ts';
import { allowedFrom, type OutboxAction } from '../../push/sql/operator-actions.ts';
import {
  maxRowsBehind,
  type OutboxDetail,
  type OutboxSummary,
  outboxStatuses,
} from '../../push/sql/read-outbox.ts';
import { toOrderPath } from './timeline.ts';
import {
  linkClient,
  linkRow,
  linkRows,
  renderAge,
  renderChoice,
  renderCsrfField,
  renderList,
  renderTime,
} from './view.ts';

const tones: Readonly<Record<string, Tone>> = {
  dead: 'bad',
  unknown: 'warn',
  pending: 'note',
  sending: 'note',
  done: 'good',
  cancelled: 'note',
};

/** Renders the status of a row as a badge. */
const renderStatus = (status: string) => badge(tones[status] ?? 'note', status);

/** What `/outbox` was asked for. A member that is not set does not restrict. */
interface ChosenRows {
  readonly client?: string | undefined;
  readonly status?: string | undefined;
  readonly kind?: string | undefined;
  readonly reference?: string | undefined;
}

/** Renders `/outbox`. */
export function renderOutboxPage(
  rows: readonly OutboxSummary[],
  chosen: ChosenRows,
  clients: readonly string[],
  limit: number,
): Html {
  const now = new Date();
  const cells = rows.map((row) => [
    html`<a href="/outbox/${row.id}">${row.id}</a>`,
    renderStatus(row.status),
    linkClient('/outbox', row.client),
    row.kind,
    linkReference(row),
    row.attempts,
    renderAge(row.createdAt, now),
    row.waitsFor === null ? (row.because ?? '–') : html`behind ${linkRow(row.waitsFor)}`,
  ]);
  const headings = [
    'row',
    'status',
    'client',
    'kind',
    'reference',
    'attempts',
    'created',
    'reason',
  ];
  const kinds = outboxKinds.map(({ name }) => name);
  const none = 'No rows found. Without a status, only open rows are shown.';
  const cut =
    rows.length === limit &&
    html`<p>Only the first ${limit} are shown.
Narrow the filter, or use <code>fulfilment-sync outbox list --limit</code>.</p>`;

  return html`<h1>Outbox</h1>
<form class="filter" method="get" action="/outbox">
${renderChoice('status', { text: 'Status', all: 'open' }, outboxStatuses, chosen.status)}
${renderChoice('client', 'Client', clients, chosen.client)}
${renderChoice('kind', 'Kind', kinds, chosen.kind)}
<label>Reference <input name="reference" value="${chosen.reference ?? ''}"></label>
<button>Show</button></form>
${renderList('Oldest first', headings, cells, none)}
${cut}`;
}

/** A payload that an operator typed and that is not stored. */
export interface PayloadDraft {
  readonly text: string;
  readonly problems: readonly string[];
  /** True if it may be stored after a confirmation. */
  readonly mayStore: boolean;
}

/** The payload of a row as it is shown. */
interface ShownPayload {
  readonly payload: Json;
  readonly isRevealed: boolean;
  readonly draft: PayloadDraft | null;
}

/** Milliseconds for which the page says the result of an action. */
const saidForMs = 120_000;

/** Finds the latest action of an operator on a row, and the attempts since then. */
function findLastAction({ history }: OutboxDetail, now: Date) {
  const index = history.findLastIndex(({ step }) =>
    /^(retried|replaced|marked done|cancelled)$/.test(step),
  );
  const action = history[index];
  if (action === undefined || now.getTime() - Date.parse(action.at) > saidForMs) return null;
  return { step: action.step, latest: history.slice(index + 1).at(-1) };
}

/** Returns true if a row that an operator sends again has no result yet. */
export function isUnderWay(row: OutboxDetail, now: Date): boolean {
  if (row.status === 'sending') return true;
  if (row.status !== 'pending' || row.waitsFor !== null) return false;
  const action = findLastAction(row, now);
  return action !== null && action.latest === undefined;
}

/** Renders the result of the latest action of an operator, unless it is long ago. */
function renderLastAction(row: OutboxDetail, now: Date): Html | null {
  const action = findLastAction(row, now);
  if (action === null) return null;

  const { step, latest } = action;
  if (step === 'marked done') return renderMessage('The row is marked as done.');
  if (step === 'cancelled')
    return renderMessage('The row is cancelled. Later rows of its lane can be sent.');

  const done = step === 'replaced' ? 'The payload is replaced' : 'The row was made due';
  if (row.status === 'done') return renderMessage(`${done}, and the service has carried it out.`);
  if (row.waitsFor !== null) return renderMessage(`${done}. It waits for row ${row.waitsFor}.`);
  if (latest === undefined)
    return renderMessage(`${done}. This page shows the result as soon as there is one.`);

  const failed = row.status === 'dead' ? 'it failed again' : `it is ${row.status}`;
  return renderMessage(`${done}, but ${failed}. The reason is below.`, 'bad');
}

const renderMessage = (text: string, tone = '') =>
  html`<p class="said ${tone}" role="status">${text}</p>`;

/** Links the reference of a row to its order, if it is that of an order. */
function linkReference({ client, kind, reference }: OutboxSummary): Child {
  if (!kind.startsWith('order')) return reference;
  return html`<a href="${toOrderPath(client, reference)}">${reference}</a>`;
}

/** Renders `/outbox/:id`: a row with its reason, its history and its actions. */
export function renderOutboxRowPage(
  row: OutboxDetail,
  { payload, isRevealed, draft }: ShownPayload,
  csrf: string | null,
  now: Date,
): Html {
  const isBlocked = row.waitsFor !== null;
  const because = html`<p class="why"><b>${isBlocked ? 'It waits' : 'Reason'}:</b>
${row.because}</p>`;
  const advice = html`<p class="remedy">→ ${adviseOperator(row, 'page')}</p>`;

  const editable = isRevealed && isObject(payload) ? payload : null;
  const actions = csrf !== null && renderActions(row, csrf, draft, editable);
  const revealButton = html`<button class="quiet">Show unmasked</button>`;
  const masked = html`<p>Personal data is masked.</p>
${csrf !== null && renderForm(row.id, 'reveal', csrf, revealButton)}`;
  const unmasked = html`<p>Unmasked. The audit records that it was shown.</p>`;
  const result = html`<h2>Result</h2>${renderJson('Result', row.result)}`;

  return html`<h1>Row ${row.id} ${renderStatus(row.status)}</h1>
${draft === null && renderLastAction(row, now)}
${row.because !== null && because}
${!isBlocked && advice}
${renderFacts(row, now)}
${actions}
<h2>Attempts</h2>
${renderHistory(row)}
<h2>Payload</h2>
${isRevealed ? unmasked : masked}
${renderJson('Payload', payload)}
${row.result !== null && result}`;
}

function renderFacts(row: OutboxDetail, now: Date): Html {
  const facts: readonly (readonly [string, Child])[] = [
    ['Client', row.client],
    ['Kind', row.kind],
    ['Reference', linkReference(row)],
    ['Created', renderTime(row.createdAt)],
    ['Attempts', row.attempts],
    ['Next try', renderNextTry(row, now)],
    ['Rows behind it', describeRowsBehind(row)],
    ['Finished', renderTime(row.finishedAt)],
    ['Carried out by the service', describeCarriedOut(row)],
  ];
  const entries = facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`);
  return html`<dl class="facts">${entries}</dl>`;
}

/** Renders when a row is sent next. */
function renderNextTry(row: OutboxDetail, now: Date): Child {
  if (row.waitsFor !== null) return html`after ${linkRow(row.waitsFor)}`;
  if (row.nextAttemptAt === null) return '–';
  const isDue = row.nextAttemptAt <= now;
  if (row.status === 'pending' && row.because !== null && isDue)
    return 'as soon as the reason is gone';
  return renderAge(row.nextAttemptAt, now);
}

function renderJson(label: string, value: Json): Html {
  const text = JSON.stringify(value, null, 2);
  return html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`;
}

/** Number of the rows behind a row that are named. */
const maxNamed = 5;

/** Says how many rows cannot be sent before a row, and names the first of them. */
function describeRowsBehind({ rowsBehind }: OutboxDetail): Child {
  if (rowsBehind.length === 0) return 'none';

  const count = `${rowsBehind.length}${rowsBehind.length === maxRowsBehind ? ' or more' : ''}`;
  const rest = rowsBehind.length > maxNamed ? ', …' : '';
  return html`${count}: ${linkRows(rowsBehind.slice(0, maxNamed))}${rest}`;
}

/** Says whether the service has carried the row out. */
function describeCarriedOut({ status, mayBeCarriedOut }: OutboxDetail): string {
  if (status === 'done') return 'yes';
  return mayBeCarriedOut ? 'perhaps' : 'no';
}

/** Renders the attempts and actions of a row. */
function renderHistory({ history: steps }: OutboxDetail): Html {
  const cells = steps.map(({ at, step, by, became, durationMs, error }) => [
    renderTime(at),
    step,
    renderStatus(became),
    durationMs === null ? '–' : `${durationMs} ms`,
    error ?? '–',
    by,
  ]);
  const headings = ['time', 'step', 'new status', 'duration', 'error', 'by'];
  return renderList('Oldest first, times in UTC', headings, cells, 'No attempts yet.');
}

/** Renders the form of an action. */
const renderForm = (id: number, action: string, csrf: string, content: Html) =>
  html`<form method="post" action="/outbox/${id}/${action}">
${renderCsrfField(csrf)}${content}</form>`;

/** Renders a box that has to be ticked. */
const renderConfirmation = (text: string) =>
  html`<label class="sure"><input type="checkbox" name="sure" required> ${text}</label>`;

/** Renders the form of another payload. A text that was refused is kept, with its problems. */
function renderReplacement(
  id: number,
  csrf: string,
  draft: PayloadDraft | null,
  payload: Json,
): Html {
  const text = draft?.text ?? (payload === null ? '' : JSON.stringify(payload, null, 2));
  const problems = draft?.problems.map((problem) => html`<li>${problem}</li>`);
  const refusal = html`<div class="why" role="alert">
<p>Not stored:</p><ul>${problems}</ul></div>`;

  const field = html`<label>New payload (JSON)
<textarea name="payload" rows="8" spellcheck="false" required>${text}</textarea></label>`;
  const hint = html`<p><small>“Show unmasked” below fills in the current payload.</small></p>`;
  const anyway = html`<label class="sure">
<input type="checkbox" name="sure"> Store it anyway</label>`;

  const content = html`${field}${text === '' && hint}${draft?.mayStore && anyway}
<button>Replace payload</button>`;
  return html`<h3>Replace payload</h3>${draft !== null && refusal}
${renderForm(id, 'replace', csrf, content)}`;
}

/** Renders the forms of the actions that the status of the row allows. */
function renderActions(
  row: OutboxDetail,
  csrf: string,
  draft: PayloadDraft | null,
  payload: Json,
): Html {
  const { id, status } = row;
  const isAllowed = (action: OutboxAction) =>
    (allowedFrom[action] as readonly string[]).includes(status);
  const forms: Html[] = [];

  if (isAllowed('retry')) {
    const isUndecided = status === 'unknown' && row.nextAttemptAt === null;
    const sure = renderConfirmation('I have checked that the service did not carry it out');
    const content = html`${isUndecided && sure}<button>Retry</button>`;
    forms.push(html`<h3>Retry</h3>${renderForm(id, 'retry', csrf, content)}`);
  }

  if (isAllowed('done')) {
    const content = html`<label>Result for the ERP (JSON)
<input name="result" value="{}" spellcheck="false"></label>
${renderConfirmation('I have checked that the service carried it out')}
<button>Mark as done</button>`;
    forms.push(html`<h3>Mark as done</h3>${renderForm(id, 'done', csrf, content)}`);
  }

  if (status === 'dead' || status === 'pending')
    forms.push(renderReplacement(id, csrf, draft, payload));

  if (isAllowed('cancel')) {
    const content = html`${renderConfirmation('This row will never be sent again')}
<button class="danger">Cancel row</button>`;
    forms.push(html`<h3>Cancel</h3>${renderForm(id, 'cancel', csrf, content)}`);
  }

  if (forms.length === 0) return html``;
  const boxes = forms.map((form) => html`<div>${form}</div>`);
  return html`<h2>Actions</h2><div class="actions">${boxes}</div>`;
}
