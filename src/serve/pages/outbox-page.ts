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
import { ago, choice, linkClient, linkRows, moment, table } from './view.ts';

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

/** Renders `/outbox`. */
export function renderOutboxPage(
  rows: readonly OutboxSummary[],
  chosen: { readonly [Name in 'client' | 'status' | 'kind' | 'reference']?: string | undefined },
  clients: readonly string[],
  limit: number,
  now: Date,
): Html {
  const cells = rows.map((row) => [
    html`<a href="/outbox/${row.id}">${row.id}</a>`,
    renderStatus(row.status),
    linkClient('/outbox', row.client),
    row.kind,
    linkReference(row),
    row.attempts,
    ago(row.createdAt, now),
    row.because === null ? '–' : linkRows(row.because),
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
  return (
    row.status === 'pending' &&
    row.waitsFor === null &&
    findLastAction(row, now)?.latest === undefined &&
    findLastAction(row, now) !== null
  );
}

/** Describes the result of the latest action of an operator; null if it is long ago. */
function describeLastAction(
  row: OutboxDetail,
  now: Date,
): { readonly text: string; readonly isBad: boolean } | null {
  const action = findLastAction(row, now);
  if (action === null) return null;
  const { step, latest } = action;
  if (step === 'marked done') return { text: 'The row is marked as done.', isBad: false };
  if (step === 'cancelled')
    return { text: 'The row is cancelled. Later rows of its lane can be sent.', isBad: false };
  const done = step === 'replaced' ? 'The payload is replaced' : 'The row was made due';
  if (row.status === 'done')
    return { text: `${done}, and the service has carried it out.`, isBad: false };
  if (row.waitsFor !== null)
    return { text: `${done}. It waits for row ${row.waitsFor}.`, isBad: false };
  if (latest === undefined)
    return { text: `${done}. This page shows the result as soon as there is one.`, isBad: false };
  if (row.status === 'dead')
    return { text: `${done}, but it failed again. The reason is below.`, isBad: true };
  return { text: `${done}, but it is ${row.status}. The reason is below.`, isBad: true };
}

/** Links the reference of a row to its order, if it is that of an order. */
const linkReference = ({ client, kind, reference }: OutboxSummary): Child =>
  kind.startsWith('order')
    ? html`<a href="/order?${new URLSearchParams({ client, number: reference }).toString()}">${reference}</a>`
    : reference;

/** Renders `/outbox/:id`: a row with its reason, its history and its actions. */
export function renderOutboxRowPage(
  row: OutboxDetail,
  { payload, isRevealed, draft }: ShownPayload,
  csrf: string | null,
  now: Date,
): Html {
  const said = draft === null ? describeLastAction(row, now) : null;
  const isBlocked = row.waitsFor !== null;
  const facts: readonly (readonly [string, Child])[] = [
    ['Client', row.client],
    ['Kind', row.kind],
    ['Reference', linkReference(row)],
    ['Created', moment(row.createdAt)],
    ['Attempts', row.attempts],
    [
      'Next try',
      isBlocked
        ? linkRows(`after row ${row.waitsFor}`)
        : row.nextAttemptAt === null
          ? '–'
          : row.status === 'pending' && row.because !== null && row.nextAttemptAt <= now
            ? 'as soon as the reason is gone'
            : ago(row.nextAttemptAt, now),
    ],
    ['Rows behind it', describeRowsBehind(row)],
    ['Finished', moment(row.finishedAt)],
    ['Carried out by the service', describeCarriedOut(row)],
  ];
  return html`<h1>Row ${row.id} ${renderStatus(row.status)}</h1>
${said === null ? '' : html`<p class="said ${said.isBad ? 'bad' : ''}" role="status">${said.text}</p>`}
${row.because === null ? '' : html`<p class="why"><b>${isBlocked ? 'It waits' : 'Reason'}:</b> ${linkRows(row.because)}</p>`}
${isBlocked ? '' : html`<p class="remedy">→ ${adviseOperator(row, 'page')}</p>`}
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${csrf === null ? '' : renderActions(row, csrf, draft, isRevealed && isObject(payload) ? payload : null)}
<h2>Attempts</h2>
${renderHistory(row)}
<h2>Payload</h2>
${isRevealed ? html`<p>Unmasked. The audit records that it was shown.</p>` : html`<p>Personal data is masked.</p>${csrf === null ? '' : renderForm(row.id, 'reveal', csrf, html`<button class="quiet">Show unmasked</button>`)}`}
<pre tabindex="0" role="region" aria-label="Payload">${JSON.stringify(payload, null, 2)}</pre>
${row.result === null ? '' : html`<h2>Result</h2><pre tabindex="0" role="region" aria-label="Result">${JSON.stringify(row.result, null, 2)}</pre>`}`;
}

/** Number of the rows behind a row that are named. */
const maxNamed = 5;

/** Says how many rows cannot be sent before a row, and names the first of them. */
function describeRowsBehind({ rowsBehind }: OutboxDetail): Child {
  if (rowsBehind.length === 0) return 'none';

  const count = `${rowsBehind.length}${rowsBehind.length === maxRowsBehind ? ' or more' : ''}`;
  const first = rowsBehind.slice(0, maxNamed).map((id) => `row ${id}`);
  const rest = rowsBehind.length > maxNamed ? ', …' : '';
  return linkRows(`${count}: ${first.join(', ')}${rest}`);
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
  return table(
    'Oldest first, times in UTC',
    ['time', 'step', 'new status', 'duration', 'error', 'by'],
    cells,
  );
}

/** Renders the form of an action. */
const renderForm = (id: number, action: string, csrf: string, content: Html) =>
  html`<form method="post" action="/outbox/${id}/${action}"><input type="hidden" name="_csrf" value="${csrf}">${content}</form>`;

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
  const problems =
    draft === null
      ? ''
      : html`<div class="why" role="alert"><p>Not stored:</p><ul>${draft.problems.map((problem) => html`<li>${problem}</li>`)}</ul></div>`;
  const hint =
    text === ''
      ? html`<p><small>“Show unmasked” below fills in the current payload.</small></p>`
      : '';
  const anyway = draft?.mayStore
    ? html`<label class="sure"><input type="checkbox" name="sure"> Store it anyway</label>`
    : '';
  const field = html`<label>New payload (JSON)<textarea name="payload" rows="8" spellcheck="false" required>${text}</textarea></label>`;
  return html`<h3>Replace payload</h3>${problems}${renderForm(id, 'replace', csrf, html`${field}${hint}${anyway}<button>Replace payload</button>`)}`;
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
  const isUndecided = status === 'unknown' && row.nextAttemptAt === null;
  const forms = [
    isAllowed('retry')
      ? html`<h3>Retry</h3>${renderForm(id, 'retry', csrf, html`${isUndecided ? renderConfirmation('I have checked that the service did not carry it out') : ''}<button>Retry</button>`)}`
      : '',
    isAllowed('done')
      ? html`<h3>Mark as done</h3>${renderForm(id, 'done', csrf, html`<label>Result for the ERP (JSON) <input name="result" value="{}" spellcheck="false"></label>${renderConfirmation('I have checked that the service carried it out')}<button>Mark as done</button>`)}`
      : '',
    status === 'dead' || status === 'pending' ? renderReplacement(id, csrf, draft, payload) : '',
    isAllowed('cancel')
      ? html`<h3>Cancel</h3>${renderForm(id, 'cancel', csrf, html`${renderConfirmation('This row will never be sent again')}<button class="danger">Cancel row</button>`)}`
      : '',
  ].filter((part) => part !== '');
  return forms.length === 0
    ? html``
    : html`<h2>Actions</h2><div class="actions">${forms.map((part) => html`<div>${part}</div>`)}</div>`;
}
