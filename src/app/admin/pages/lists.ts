/**
 * The pages of the quarantine and of the audit. Neither shows a resource or a payload.
 */

import { type Html, html } from '../../../core/html.ts';
import type { QuarantineRow } from '../../../erp/pull/quarantine.ts';
import type { AuditRow } from '../../../erp/runs/audit.ts';
import { choice, moment, table } from './view.ts';

/** Renders `/quarantine`. Resources have personal data, so only a command shows them. */
export function renderQuarantinePage(
  rows: readonly QuarantineRow[],
  chosen: { readonly client?: string | undefined; readonly stream?: string | undefined },
  clients: readonly string[],
  streams: readonly string[],
  limit: number,
): Html {
  const cells = rows.map((row) => [
    row.id,
    row.client,
    row.stream,
    row.resourceId ?? '–',
    html`<code>${row.memberPath || '–'}</code>`,
    row.reason,
    row.times,
    moment(row.firstSeenAt),
    moment(row.lastSeenAt),
  ]);
  const headings = ['number', 'client', 'stream', 'id', 'member', 'reason', 'times', 'first seen', 'last seen'];
  return html`<h1>Quarantine</h1>
<p>Resources that could not be decoded or stored. Each is released when a valid version of it is read.
Show one with <code>fulfilment-sync quarantine show &lt;number&gt;</code>. After an upgrade, decode all again with
<code>fulfilment-sync quarantine replay</code>.</p>
<form class="filter" method="get" action="/quarantine">
${choice('client', 'Client', clients, chosen.client)} ${choice('stream', 'Stream', streams, chosen.stream)} <button>Show</button></form>
${cells.length === 0 ? html`<p class="none">Nothing is in quarantine.</p>` : table('Oldest first', headings, cells)}
${rows.length === limit ? html`<p>Only the first ${limit} are shown. To see all: <code>fulfilment-sync quarantine list</code>.</p>` : ''}`;
}

/** Renders `/audit`. */
export function renderAuditPage(rows: readonly AuditRow[]): Html {
  const cells = rows.map(({ at, by, action, client, detail }) => [
    moment(at),
    action.replaceAll('_', ' '),
    client ?? 'every client',
    detail,
    by,
  ]);
  return html`<h1>Audit</h1>
<p>What operators did, and what workers repaired by themselves (<code>sync.audit</code>). Newest first.</p>
${cells.length === 0 ? html`<p class="none">No entries yet.</p>` : table('Latest entries', ['time (UTC)', 'action', 'client', 'detail', 'by'], cells)}`;
}
