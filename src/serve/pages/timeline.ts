/**
 * The pages of orders: the result of a search, and the timeline of one order. They show neither
 * names nor addresses.
 */

import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { quote } from '../../core/quote.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import type { OrderMatch } from '../../operate/sql/order-search.ts';
import type { EventSource, OrderEvent } from '../../operate/sql/order-timeline.ts';
import { linkClient, openSearchForm, renderList, renderTime } from './view.ts';

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
  const none =
    `No order found${shown === '' ? '' : ` for “${shown}”`}. ` +
    'Rows of the outbox are found as long as RETENTION_DAYS keeps them.';
  const result = renderList('Orders that fit', ['order', 'client', 'found by'], rows, none);
  const email = csrf !== null && ', e-mail address';
  const cut = found.length === limit && html`<p>Only the first ${limit} are shown.</p>`;

  return html`<h1>Orders</h1>
${openSearchForm('filter', 'Orders', csrf)}
<label>Order number, order id, shipment id, tracking code${email} or return reference
<input name="q" value="${shown}"></label> <button>Search</button>
<small>Whole numbers and codes only; upper and lower case are both tried.</small></form>
${text !== undefined && result}
${cut}`;
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
      text: describers[event.source](event),
      error: event.error,
      tone: findTone(event),
      outboxId: event.source === 'outbox' || event.source === 'document' ? event.id : null,
    }))
    .reverse();

function findTone({ source, what, detail }: OrderEvent): Tone {
  if (source === 'outbox') return tones[detail ?? ''] ?? 'note';
  return what === 'unlisted' ? 'warn' : 'note';
}

/** Describes an event of each source in words. */
const describers: Readonly<Record<EventSource, (event: OrderEvent) => string>> = {
  outbox: ({ id, what, detail, name }) => {
    if (what === 'inserted')
      return `Row ${id} inserted: ${showStatus(detail ?? '')} of ${showStatus(name ?? '')}`;
    return `Row ${id} ${what === 'checked' ? 'checked, and not sent' : what}: ${detail}`;
  },

  document: ({ id, detail }) => `Document of row ${id} stored (${detail?.replaceAll('_', ' ')})`,

  order: ({ id, what, name }) => `Order ${id}${showName(name)} ${describeChange(what)}`,

  line: ({ id, what, detail, name }) => {
    const line = `Line ${id}${showName(name)}`;
    if (what === 'quantity') return `${line}: quantity ${detail ?? 'unknown'} from now on`;
    return `${line} ${describeChange(what)}`;
  },

  parcel: ({ id, what, detail, name }) => {
    const number = name === null || name === '' ? '' : `${showStatus(name)} `;
    const parcel = `Parcel ${number}of shipment ${id}`;
    if (what === 'status') return `${parcel}: carrier status ${showStatus(detail ?? 'unknown')}`;
    return `${parcel} ${describeChange(what)}${describeStatus(detail)}`;
  },

  shipment: ({ id, what, detail }) => {
    if (what === 'status')
      return `Shipment ${id} read${describeStatus(detail) || ' without a status'}`;
    return `Shipment ${id} ${describeChange(what)}`;
  },

  return: ({ id, what, detail }) => `Return ${id} ${describeChange(what)}${describeStatus(detail)}`,
};

const describeChange = (what: string) =>
  what === 'stored' || what === 'changed' ? `${what} here, entered the feed` : what;

const describeStatus = (status: string | null) =>
  status === null ? '' : `, status ${showStatus(status)}`;

const showName = (name: string | null) => (name === null ? '' : ` (${showStatus(name)})`);

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
  const findFirst = (fits: (event: OrderEvent) => boolean) =>
    events
      .filter(fits)
      .reduce<Date | null>((first, { at }) => (first === null || at < first ? at : first), null);
  const findChange = (of: EventSource, change: string) =>
    findFirst(({ source, what }) => source === of && what === change);

  const atService =
    findFirst(({ source, detail }) => source === 'outbox' && detail === 'done') ??
    findFirst(({ source }) => source === 'order');
  const times = {
    inserted: findChange('outbox', 'inserted'),
    'at the service': atService,
    'ready to pick': findFirst(({ what }) => what === 'ready to pick'),
    shipped: findChange('shipment', 'shipped'),
    'parcel known': findFirst(({ source, what }) => source === 'parcel' && what !== 'shipped'),
    returned: findChange('return', 'processed'),
  };

  const hasStuckRow = atService === null && isStuck(events);
  return Object.entries(times).map(([name, at]) => ({
    name,
    at,
    isStuck: name === 'at the service' && hasStuckRow,
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
  const isAhead = events.some(({ at }) => at.getTime() - now.getTime() > dayMs);
  const ahead =
    ' Times that the service gives are ahead, as in the demo, ' +
    'whose time runs 600 times as fast: “later” is by that clock.';
  const query = new URLSearchParams({ client, reference: number });

  const ids = findOrderIds(events).map(String);
  const several = html`<p>${badge('warn', 'several orders')}
Orders ${listOfIds.format(ids)} have or had this number.
Steps and timeline are of all of them.</p>\n`;
  const entries = describeEvents(events);
  const items = entries.map((entry, index) => renderEntry(entry, describePause(entries, index)));
  const cut = events.length === limit && html`<p>Only the latest ${limit} events are shown.</p>`;

  return html`<h1>Order ${number}</h1>
<p>Client ${linkClient('/outbox', client)}. Times are in UTC.${isAhead && ahead}
<a href="/outbox?${query.toString()}">Open outbox rows</a></p>
${ids.length > 1 && several}<ol class="stages">${findStages(events).map(renderStage)}</ol>
<h2>Timeline</h2>
<ol class="timeline">${items}</ol>
${cut}`;
}

function renderStage({ name, at, isStuck }: Stage): Html {
  if (at !== null) return html`<li class="reached"><b>${name}</b> ${renderTime(at)}</li>`;
  const [look, words] = isStuck ? ['stuck', 'stuck: see below'] : ['ahead', 'not yet'];
  return html`<li class="${look}"><b>${name}</b> <span>${words}</span></li>`;
}

function renderEntry(entry: TimelineEntry, pause: string): Html {
  const { at, isDay, tone, source, text, outboxId, error } = entry;
  const time = renderTime(isDay ? at.toISOString().slice(0, 10) : at);
  const event = outboxId === null ? text : html`<a href="/outbox/${outboxId}">${text}</a>`;
  const reason = error !== null && html`<small>${error}</small>`;
  return html`<li>${time} <div>${badge(tone, source)} ${event}${reason}
<small>${pause}</small></div></li>\n`;
}

/** Says how long after the event before it an event happened. */
function describePause(entries: readonly TimelineEntry[], index: number): string {
  const before = entries[index - 1];
  const entry = entries[index];
  if (before === undefined || entry === undefined || before.isDay || entry.isDay) return '';
  const seconds = (entry.at.getTime() - before.at.getTime()) / 1_000;
  return seconds < 1 ? '' : `${formatSpan(seconds)} later`;
}
