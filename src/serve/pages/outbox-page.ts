/**
 * The pages of the outbox: the list, and one row with its actions. A payload is masked until an
 * operator reveals it.
 */

import { badge, type Child, type Html, html, type Tone } from '../../core/html.ts';
import { isObject, type Json } from '../../core/json.ts';
import type { OutboxStatus } from '../../operate/sql/outbox-status.ts';
import type { PayloadProblem } from '../../push/kind.ts';
import { outboxKinds } from '../../push/kinds/registry.ts';
import { adviseOperator } from '../../push/show-row.ts';
import { allowedFrom, type OutboxAction } from '../../push/sql/operator-actions.ts';
import {
  maxRowsBehind,
  type OutboxDetail,
  type OutboxSummary,
  outboxStatuses,
} from '../../push/sql/read-outbox.ts';
import { type PlacedProblem, placeProblems } from './payload-lines.ts';
import {
  chooseClient,
  linkClient,
  linkRow,
  linkRows,
  renderAge,
  renderChoice,
  renderConfirmation,
  renderCut,
  renderFacts,
  renderFilter,
  renderForm,
  renderList,
  renderTabs,
  renderTime,
  type Tab,
  toOrderPath,
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

/** Returns true if a row is not to be sent before a time in the future. */
const isPlanned = ({ status, notBefore }: OutboxSummary, now: Date) =>
  status === 'pending' && notBefore !== null && notBefore > now;

/** What `/outbox` was asked for. A member that is not set does not restrict. */
interface ChosenRows {
  readonly client?: string | undefined;
  readonly group?: string | undefined;
  readonly status?: string | undefined;
  readonly kind?: string | undefined;
  readonly reference?: string | undefined;
}

/** What `/outbox` shows. */
interface ShownRows {
  /** Newest first. */
  readonly rows: readonly OutboxSummary[];
  readonly chosen: ChosenRows;
  /** Numbers of rows of the chosen clients. */
  readonly counts: readonly OutboxStatus[];
  readonly clients: readonly string[];
  readonly limit: number;
}

/**
 * Renders `/outbox`.
 * @param csrf the token of the form; null for a viewer, who can change nothing
 */
export function renderOutboxPage(
  { rows, chosen, counts, clients, limit }: ShownRows,
  csrf: string | null,
): Html {
  const now = new Date();
  const isSelectable = csrf !== null && rows.some(({ status }) => status in selectableStatuses);
  const cells = rows.map((row) => ({
    ...(isSelectable && { select: renderSelection(row) }),
    row: html`<a href="/outbox/${row.id}">${row.id}</a>`,
    status: renderStatus(isPlanned(row, now) ? 'planned' : row.status),
    client: linkClient('/outbox', row.client),
    kind: row.kind,
    reference: linkReference(row),
    attempts: row.attempts,
    created: renderAge(row.createdAt, now),
    reason: renderReason(row),
  }));
  const list = renderList('Newest first', cells, 'No rows found.');
  const more = html`Narrow the filter, or use <code>fulfilment-sync outbox list --limit</code>.`;

  return html`<h1>Outbox</h1>
${renderTabs('Groups of rows', listGroups(chosen, counts))}
${renderOutboxFilter(chosen, clients)}
${isSelectable ? renderSelectionForm(list, csrf) : list}
${renderCut(rows, limit, more)}`;
}

function renderOutboxFilter(chosen: ChosenRows, clients: readonly string[]): Html {
  const kinds = outboxKinds.map(({ name }) => name);
  const group = html`<input type="hidden" name="group" value="${chosen.group}">`;
  return renderFilter('/outbox', [
    chosen.group !== undefined && group,
    renderChoice('status', { text: 'Status', all: 'any' }, outboxStatuses, chosen.status),
    chooseClient(clients, chosen.client),
    renderChoice('kind', 'Kind', kinds, chosen.kind),
    html`<label>Reference <input name="reference" value="${chosen.reference ?? ''}"></label>`,
  ]);
}

/** Lists the groups of rows as tabs, with the number of rows in each. */
function listGroups(chosen: ChosenRows, counts: readonly OutboxStatus[]): Tab[] {
  const sum = (count: (row: OutboxStatus) => number) =>
    counts.reduce((total, row) => total + count(row), 0);
  const needsYou = sum(({ dead, toDecide }) => dead + toDecide);
  const waiting = sum(
    (row) => row.pending + row.planned + row.sending + row.unknown - row.toDecide,
  );
  const groups = [
    { group: undefined, title: `Open ${needsYou + waiting}` },
    { group: 'needs you', title: `Needs you ${needsYou}` },
    { group: 'waiting', title: `Waiting ${waiting}` },
    { group: 'done', title: `Done ${sum((row) => row.doneLastDay)} in 24 h` },
  ];
  return groups.map(({ group, title }) => {
    const query = new URLSearchParams({
      ...(group !== undefined && { group }),
      ...(chosen.client !== undefined && { client: chosen.client }),
    });
    const isCurrent = chosen.status === undefined && chosen.group === group;
    return { title, path: query.size === 0 ? '/outbox' : `/outbox?${query}`, isCurrent };
  });
}

/** Statuses of rows that can be retried or cancelled together. */
const selectableStatuses = { dead: true, unknown: true, pending: true };

const renderSelection = ({ id, status }: OutboxSummary) =>
  status in selectableStatuses &&
  html`<input type="checkbox" name="ids" value="${id}" aria-label="Select row ${id}">`;

/** Renders a list of rows with the actions on those that are selected. */
function renderSelectionForm(list: Html, csrf: string): Html {
  const content = html`${list}
<div class="buttons"><button name="action" value="retry">Retry selected rows</button>
${renderBox('I have checked each of them')}
<button name="action" value="cancel" class="danger">Cancel selected rows</button></div>
<p><small>The box is needed to cancel rows, and to retry rows whose outcome nobody knows.
</small></p>`;
  return renderForm('/outbox/selected', csrf, content);
}

/** Maximum number of characters of a reason in a list. The page of the row has all. */
const maxReason = 140;

function renderReason({ waitsFor, because }: OutboxSummary): Child {
  if (waitsFor !== null) return html`behind ${linkRow(waitsFor)}`;
  const reason = because ?? '–';
  return reason.length <= maxReason ? reason : `${reason.slice(0, maxReason)}…`;
}

/** A payload that an operator typed and that is not stored. */
export interface PayloadDraft {
  readonly text: string;
  readonly problems: readonly PayloadProblem[];
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
  // Only a row that needs a person looks like an alarm.
  const tone = row.status === 'dead' || row.status === 'unknown' ? '' : 'note';
  const because = html`<p class="why ${tone}"><b>${isBlocked ? 'It waits' : 'Reason'}:</b>
${row.because}</p>`;
  const advice = html`<p class="remedy">→ ${adviseOperator(row)}</p>`;

  const editable = isRevealed && isObject(payload) ? payload : null;
  const isChangeable = row.status === 'dead' || row.status === 'pending';
  const editor = csrf !== null && isChangeable && renderEditor(row.id, csrf, draft, editable);
  const revealButton = html`<button class="quiet">Show unmasked</button>`;
  const masked = html`<p>Personal data is masked.</p>
${csrf !== null && renderForm(`/outbox/${row.id}/reveal`, csrf, revealButton)}`;
  const unmasked = html`<p>Unmasked. The audit records that it was shown.</p>`;
  const isInEditor = isChangeable && editable !== null;
  const payloadPart = html`<h2>Payload</h2>${isRevealed ? unmasked : masked}
${renderJson('Payload', payload)}`;
  const result = html`<h2>Result</h2>${renderJson('Result', row.result)}`;

  return html`<div data-live>
<h1>Row ${row.id} ${renderStatus(isPlanned(row, now) ? 'planned' : row.status)}</h1>
${draft === null && renderLastAction(row, now)}
${row.because !== null && because}
${!isBlocked && advice}
${renderRowFacts(row, now)}</div>
${csrf !== null && renderActions(row, csrf)}
${editor}
${isInEditor && unmasked}
<h2>Attempts</h2>
${renderHistory(row)}
${!isInEditor && payloadPart}
${row.result !== null && result}`;
}

function renderRowFacts(row: OutboxDetail, now: Date): Html {
  return renderFacts([
    ['Client', row.client],
    ['Kind', row.kind],
    ['Reference', linkReference(row)],
    ['Created', renderTime(row.createdAt)],
    ['Attempts', row.attempts],
    ['Next try', renderNextTry(row, now)],
    ['Rows behind it', describeRowsBehind(row)],
    ['Finished', renderTime(row.finishedAt)],
    ['Carried out by the service', describeCarriedOut(row)],
  ]);
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
  const cells = steps.map(({ at, step, by, became, durationMs, error }) => ({
    time: renderTime(at),
    step,
    'new status': renderStatus(became),
    duration: durationMs === null ? '–' : `${durationMs} ms`,
    error: error ?? '–',
    by,
  }));
  return renderList('Oldest first, times in UTC', cells, 'No attempts yet.');
}

/** Renders a box that can be ticked. */
const renderBox = (text: string) =>
  html`<label class="sure"><input type="checkbox" name="sure"> ${text}</label>`;

/**
 * Renders the editor of the payload. Before the payload is revealed, there is only a button that
 * reveals it. A text that was refused is kept, with its problems.
 */
function renderEditor(
  id: number,
  csrf: string,
  draft: PayloadDraft | null,
  payload: Json | null,
): Html {
  const text = draft?.text ?? (payload === null ? null : JSON.stringify(payload, null, 2));
  if (text === null) {
    const button = html`<button>Edit payload</button>
<small>Shows it unmasked. The audit records that.</small>`;
    return html`<h2>Replace payload</h2>${renderForm(`/outbox/${id}/reveal`, csrf, button)}`;
  }

  const problems = draft === null ? [] : placeProblems(text, draft.problems);
  const content = html`${renderText(text, problems)}
${draft?.mayStore && renderBox('Store it anyway')}
<div class="buttons"><button>Replace payload</button></div>`;
  return html`<h2>Replace payload</h2>${draft !== null && renderDraftState(problems)}
${renderForm(`/outbox/${id}/replace`, csrf, content)}`;
}

/** Maximum number of lines that get a number: a page of more is slow. */
const maxNumbered = 2_000;

/** Renders the editor: the text beside the numbers of its lines, with a mark at a problem. */
function renderText(text: string, problems: readonly PlacedProblem[]): Html {
  const lines = text.split('\n', maxNumbered + 1);
  const marked = new Set(problems.map(({ line }) => line));
  const numbers = lines.map((_, index) => {
    const mark = marked.has(index + 1) && html` class="bad"`;
    return html`<li${mark}>${index + 1}</li>`;
  });
  const isNumbered = lines.length <= maxNumbered;
  const rows = isNumbered ? Math.max(lines.length, 8) : 24;

  return html`<label for="payload">New payload (JSON)</label>
<div class="editor">${isNumbered && html`<ol aria-hidden="true">${numbers}</ol>`}
<textarea id="payload" name="payload" rows="${rows}" wrap="off" spellcheck="false"
  required>${text}</textarea></div>`;
}

function renderDraftState(problems: readonly PlacedProblem[]): Html {
  const items = problems.map(
    ({ text, line }) => html`<li>${line !== null && html`<b>Line ${line}</b>: `}${text}</li>`,
  );
  return html`<div class="why" role="alert"><p>Not stored:</p><ul>${items}</ul></div>`;
}

/** Renders the forms of the actions that the status of the row allows. */
function renderActions({ id, status, nextAttemptAt }: OutboxDetail, csrf: string): Html {
  const forms: Html[] = [];
  const addForm = (action: OutboxAction, title: string, content: Html) => {
    if ((allowedFrom[action] as readonly string[]).includes(status))
      forms.push(
        html`<div><h3>${title}</h3>${renderForm(`/outbox/${id}/${action}`, csrf, content)}</div>`,
      );
  };

  const isUndecided = status === 'unknown' && nextAttemptAt === null;
  const sure = renderConfirmation('I have checked that the service did not carry it out');
  const retry = html`<p>It is sent again as it is.</p>${isUndecided && sure}
<button>Retry</button>`;
  addForm('retry', 'Retry', retry);

  const done = html`<label>Result for the ERP (JSON)
<input name="result" value="{}" spellcheck="false"></label>
${renderConfirmation('I have checked that the service carried it out')}
<button>Mark as done</button>`;
  addForm('done', 'Mark as done', done);

  const cancel = html`${renderConfirmation('This row will never be sent again')}
<button class="danger">Cancel row</button>`;
  addForm('cancel', 'Cancel', cancel);

  if (forms.length === 0) return html``;
  return html`<h2>Actions</h2><div class="actions">${forms}</div>`;
}
