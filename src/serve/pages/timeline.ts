/**
 * The pages of orders: the result of a search, and the timeline of one order. They show neither
 * names nor addresses.
 */

import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { quote } from '../../core/quote.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import type { OrderMatch } from '../../operate/sql/order-search.ts';
import type { EventSource, OrderEvent } from '../../operate/sql/order-timeline.ts';
import { linkClient, moment, openSearchForm, table } from './view.ts';

/** An event in words. */
export interface TimelineEntry {
  readonly at: Date;
  readonly isDay: boolean;
  readonly source: EventSource;
  readonly text: string;
  readonly error: string | null;
  readonly tone: Tone;
  /** The outbox row that the event belongs to. */
  readonly outboxId: number | null;
}

/** A step on the way of an order, and when it was reached. */
export interface Stage {
  readonly name: string;
  readonly at: Date | null;
  /** True if it is not reached because a row is dead, or its outcome is unknown. */
  readonly isStuck: boolean;
}

/** Returns the path of an order's timeline. */
export const toOrderPath = (client: string, number: string): string =>
  `/order?${new URLSearchParams({ client, number })}`;

/**
 * Renders `/orders`: the search, and several orders that fit.
 * @param csrf the token of the form; null for a viewer, who cannot search by e-mail address
 */
export function renderOrdersPage(
  found: readonly OrderMatch[],
  text: string | undefined,
  limit: number,
  csrf: string | null,
): Html {
  // An e-mail address is not shown again: pages hold no personal data.
  const shown = text?.includes('@') ? '' : (text ?? '');
  const rows = found.map(({ client, number, foundBy }) => [
    html`<a href="${toOrderPath(client, number)}">${number}</a>`,
    linkClient('/outbox', client),
    foundBy.join(', '),
  ]);
  const nothing = html`<p class="none">No order found${shown === '' ? '' : ` for “${shown}”`}. Rows of the outbox are found as long as RETENTION_DAYS keeps them.</p>`;
  return html`<h1>Orders</h1>
${openSearchForm('filter', 'Orders', csrf)}<label>Order number, order id, shipment id, tracking code${csrf === null ? '' : ', e-mail address'} or return reference <input name="q" value="${shown}"></label> <button>Search</button><small>Whole numbers and codes only; upper and lower case are both tried.</small></form>
${text === undefined ? '' : rows.length === 0 ? nothing : table('Orders that fit', ['order', 'client', 'found by'], rows)}
${found.length === limit ? html`<p>Only the first ${limit} are shown.</p>` : ''}`;
}

const tones: Readonly<Record<string, Tone>> = {
  done: 'good',
  dead: 'bad',
  unknown: 'warn',
  cancelled: 'warn',
};

/** Describes the events of an order in words, oldest first. */
export const describeEvents = (events: readonly OrderEvent[]): TimelineEntry[] =>
  events
    .map((event) => ({
      at: event.at,
      isDay: event.isDay,
      source: event.source,
      text: describeEvent(event),
      error: event.error,
      tone:
        event.source === 'outbox'
          ? (tones[event.detail ?? ''] ?? 'note')
          : event.what === 'unlisted'
            ? 'warn'
            : 'note',
      outboxId: event.source === 'outbox' || event.source === 'document' ? event.id : null,
    }))
    .reverse();

function describeEvent({ source, id, what, detail, name }: OrderEvent): string {
  const status = detail === null ? '' : `, status ${showStatus(detail)}`;
  const stored =
    what === 'stored'
      ? 'stored here, entered the feed'
      : what === 'changed'
        ? 'changed here, entered the feed'
        : what;
  if (source === 'outbox')
    return what === 'inserted'
      ? `Row ${id} inserted: ${showStatus(detail ?? '')} of ${showStatus(name ?? '')}`
      : `Row ${id} ${what === 'checked' ? 'checked, and not sent' : what}: ${detail}`;
  if (source === 'document')
    return `Document of row ${id} stored (${detail?.replaceAll('_', ' ')})`;
  if (source === 'order')
    return `Order ${id}${name === null ? '' : ` (${showStatus(name)})`} ${stored}`;
  if (source === 'line') {
    const line = `Line ${id}${name === null ? '' : ` (${showStatus(name)})`}`;
    return what === 'quantity'
      ? `${line}: quantity ${detail ?? 'unknown'} from now on`
      : `${line} ${stored}`;
  }
  if (source === 'parcel') {
    const parcel = `Parcel ${name === null || name === '' ? '' : `${showStatus(name)} `}of shipment ${id}`;
    return what === 'status'
      ? `${parcel}: carrier status ${showStatus(detail ?? 'unknown')}`
      : `${parcel} ${stored}${status}`;
  }
  if (source === 'shipment')
    return what === 'status'
      ? `Shipment ${id} read${status || ' without a status'}`
      : `Shipment ${id} ${stored}`;
  return `Return ${id} ${stored}${status}`;
}

/**
 * Shows a word of the service. Whatever is not a plain code is quoted, so that viewers do not get
 * it.
 */
const showStatus = (word: string) =>
  /^[\w.-]{1,64}$/.test(word) ? word : quote(word.slice(0, 200));

/**
 * Returns true if the latest outcome of a row is that it is dead, or unknown. Events are the latest
 * first.
 */
function isStuck(events: readonly OrderEvent[]): boolean {
  const latest = new Map<number, string | null>();
  for (const { source, id, what, detail } of events)
    if (source === 'outbox' && what !== 'inserted' && !latest.has(id)) latest.set(id, detail);
  return [...latest.values()].some((became) => became === 'dead' || became === 'unknown');
}

/** Finds when an order reached each step. */
export function findStages(events: readonly OrderEvent[]): Stage[] {
  const find = (fits: (event: OrderEvent) => boolean) =>
    events
      .filter(fits)
      .reduce<Date | null>((first, { at }) => (first === null || at < first ? at : first), null);
  return [
    {
      name: 'inserted',
      at: find(({ source, what }) => source === 'outbox' && what === 'inserted'),
    },
    {
      name: 'at the service',
      at:
        find(({ source, detail }) => source === 'outbox' && detail === 'done') ??
        find(({ source }) => source === 'order'),
    },
    { name: 'ready to pick', at: find(({ what }) => what === 'ready to pick') },
    {
      name: 'shipped',
      at: find(({ source, what }) => source === 'shipment' && what === 'shipped'),
    },
    {
      name: 'parcel known',
      at: find(({ source, what }) => source === 'parcel' && what !== 'shipped'),
    },
    {
      name: 'returned',
      at: find(({ source, what }) => source === 'return' && what === 'processed'),
    },
  ].map((stage) => ({
    ...stage,
    isStuck: stage.name === 'at the service' && stage.at === null && isStuck(events),
  }));
}

/**
 * Returns the ids of the orders of a timeline. It has several if the number was used again after a
 * rename or a deletion.
 */
export const findOrderIds = (events: readonly OrderEvent[]): number[] =>
  [...new Set(events.filter(({ source }) => source === 'order').map(({ id }) => id))].sort(
    (a, b) => a - b,
  );

const listOfIds = new Intl.ListFormat('en');

/** Renders `/order`: the timeline of one order. */
export function renderTimelinePage(
  { client, number }: { readonly client: string; readonly number: string },
  events: readonly OrderEvent[],
  limit: number,
  now: Date,
): Html {
  const entries = describeEvents(events);
  const isAhead = events.some(({ at }) => at.getTime() - now.getTime() > dayMs);
  const ahead = isAhead
    ? ' Times that the service gives are ahead, as in the demo, whose time runs 600 times as fast: “later” is by that clock.'
    : '';
  const ids = findOrderIds(events).map(String);
  const several = html`<p>${badge('warn', 'several orders')} Orders ${listOfIds.format(ids)} have or had this number. Steps and timeline are of all of them.</p>\n`;
  const stages = findStages(events).map(
    ({ name, at, isStuck }) =>
      html`<li class="${isStuck ? 'stuck' : at === null ? 'ahead' : 'reached'}"><b>${name}</b> ${at === null ? html`<span>${isStuck ? 'stuck: see below' : 'not yet'}</span>` : moment(at)}</li>`,
  );
  const items = entries.map(
    (entry, index) =>
      html`<li>${moment(entry.isDay ? entry.at.toISOString().slice(0, 10) : entry.at)} <div>${badge(entry.tone, entry.source)} ${
        entry.outboxId === null
          ? entry.text
          : html`<a href="/outbox/${entry.outboxId}">${entry.text}</a>`
      }${entry.error === null ? '' : html`<small>${entry.error}</small>`}<small>${describePause(entries, index)}</small></div></li>\n`,
  );
  return html`<h1>Order ${number}</h1><p>Client ${linkClient('/outbox', client)}. Times are in UTC.${ahead} <a href="/outbox?${new URLSearchParams({ client, reference: number }).toString()}">Open outbox rows</a></p>
${ids.length > 1 ? several : ''}<ol class="stages">${stages}</ol>
<h2>Timeline</h2>
<ol class="timeline">${items}</ol>
${events.length === limit ? html`<p>Only the latest ${limit} events are shown.</p>` : ''}`;
}

/** Says how long after the event before it an event happened. */
function describePause(entries: readonly TimelineEntry[], index: number): string {
  const [before, entry] = [entries[index - 1], entries[index]];
  if (before === undefined || entry === undefined || before.isDay || entry.isDay) return '';
  const seconds = (entry.at.getTime() - before.at.getTime()) / 1_000;
  return seconds < 1 ? '' : `${formatSpan(seconds)} later`;
}
