import type { Quarantined } from '../../../erp/pull/quarantine.ts';
import type { AuditRow } from '../../../erp/runs/audit.ts';
import { type Html, html } from './html.ts';
import { choice, moment, table } from './view.ts';

/** `/quarantine`: what could not be decoded. The resources themselves hold personal data and are shown by command. */
export function quarantinePage(
  rows: readonly Quarantined[],
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
<p>Resources that could not be decoded, kept whole. One is let go of when a good version of it is read.
See one with <code>fulfilment-sync quarantine show &lt;number&gt;</code>; after an upgrade decode them again with
<code>fulfilment-sync quarantine replay</code>.</p>
<form class="filter" method="get" action="/quarantine">
${choice('client', 'Client', clients, chosen.client)} ${choice('stream', 'Stream', streams, chosen.stream)} <button>Show</button></form>
${cells.length === 0 ? html`<p class="none">Nothing is in quarantine.</p>` : table('Longest first', headings, cells)}
${rows.length === limit ? html`<p>The first ${limit}; <code>fulfilment-sync quarantine list</code> shows all.</p>` : ''}`;
}

/** `/audit`: what operators did, and what the daemon put right by itself. */
export function auditPage(rows: readonly AuditRow[]): Html {
  const cells = rows.map(({ at, by, action, client, detail }) => [
    moment(at),
    action.replaceAll('_', ' '),
    client ?? 'every client',
    detail,
    by,
  ]);
  return html`<h1>Audit</h1>
<p>What operators did, and what the daemon put right by itself: <code>sync.audit</code>, newest first.</p>
${cells.length === 0 ? html`<p class="none">Nothing yet.</p>` : table('Latest entries', ['when (UTC)', 'what', 'client', 'detail', 'by'], cells)}`;
}
