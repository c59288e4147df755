/** The page `/database`: it asks what a database is that rows were not sent from before. */

import {
  acceptanceInWords,
  changeInWords,
  describeExpected,
  placeInWords,
} from '../../core/database-mark.ts';
import { type Html, html } from '../../core/html.ts';
import { isChangeFound, type PushDatabase } from '../../push/sql/push-database.ts';
import { renderConfirmation, renderForm } from './view.ts';

/** What a database can be, and the button that says so. */
const choices = {
  moved: ['It was moved', 'Accept as moved'],
  restored: ['It was restored', 'Accept as restored'],
  copy: ['It is a copy', 'Accept as a copy'],
} as const;
const names = ['moved', 'restored', 'copy'] as const;

/**
 * Renders `/database`.
 * @param csrf the token of the forms; null for a viewer, who gets none
 */
export function renderDatabasePage(database: PushDatabase | null, csrf: string | null): Html {
  const until = database?.failoverUntil ?? null;
  const expected =
    until !== null &&
    html`<p>Planned: ${describeExpected(until)}. To end that:
<code>fulfilment-sync database expect-failover --for 0s</code></p>`;
  if (database === null || !isChangeFound(database))
    return html`<h1>Database</h1>
<p>No change is found: there is nothing to accept.</p>
${expected}`;

  const { change } = database;
  const reason = change === 'none' ? placeInWords : changeInWords[change];
  const forms = names.map((as) => {
    const [title, button] = choices[as];
    return html`<div><h2>${title}</h2><p>${acceptanceInWords[as]}</p>
${csrf !== null && renderAnswer(as, button, csrf)}</div>`;
  });
  return html`<h1>What is this database?</h1>
<p class="why"><b>No row is sent:</b> ${reason}.</p>
${expected}
<p>Pulls continue. The answer holds for all workers, and is written to the audit.</p>
<div class="actions">${forms}</div>`;
}

function renderAnswer(as: string, button: string, csrf: string): Html {
  const content = html`<input type="hidden" name="as" value="${as}">
${renderConfirmation('I have checked this')}<button>${button}</button>`;
  return renderForm('/database/accept', csrf, content);
}
