/** The timeline of an order in words. It names neither people nor addresses. */

import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { quote } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import type { EventSource, OrderEvent } from '../../operate/sql/order-timeline.ts';
import { renderList, renderTime } from './view.ts';

/** An event in words. */
export interface TimelineEntry {
  /** When it happened or was read here. */
  readonly at: Date;
  /** The time that the service gives for it; null if it gives none. */
  readonly serviceAt: Date | null;
  /** True if the service gives only the day. */
  readonly isDay: boolean;
  readonly source: EventSource;
  readonly text: string;
  readonly error: string | null;
  readonly tone: Tone;
  /** The outbox row that the event belongs to. */
  readonly outboxId: number | null;
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
      serviceAt: event.serviceAt,
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
      return `Row ${id} inserted: ${showWord(detail ?? '')} of ${showWord(name ?? '')}`;
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
    const number = name === null || name === '' ? '' : `${showWord(name)} `;
    const parcel = `Parcel ${number}of shipment ${id}`;
    if (what === 'status') return `${parcel}: carrier status ${showWord(detail ?? 'unknown')}`;
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
  status === null ? '' : `, status ${showWord(status)}`;

const showName = (name: string | null) => (name === null ? '' : ` (${showWord(name)})`);

/**
 * Shows a word of the service. Whatever is not a plain code is quoted, so that viewers do not get
 * it.
 */
export const showWord = (word: string) =>
  /^[\w.-]{1,64}$/.test(word) ? word : quote(word.slice(0, 200));

/**
 * Returns the ids of the orders of a timeline. It has several if the number was used again after a
 * rename or a deletion.
 */
export const findOrderIds = (events: readonly OrderEvent[]): number[] =>
  [...new Set(events.filter(({ source }) => source === 'order').map(({ id }) => id))].sort(
    (a, b) => a - b,
  );

/** Renders the events of an order, oldest first by the clock of this system. */
export function renderTimeline(events: readonly OrderEvent[]): Html {
  const entries = describeEvents(events);
  const rows = entries.map((entry, index) => ({
    'our clock (UTC)': html`${renderTime(entry.at)}<small>${describePause(entries, index)}</small>`,
    'service’s clock (UTC)': renderServiceTime(entry),
    part: badge(entry.tone, entry.source),
    event: renderEntry(entry),
  }));
  const caption =
    'Oldest first by our clock: when it happened or was read here. ' +
    'The service has a clock of its own; in the demo it is 60 times as fast';
  return renderList(caption, rows, 'No events yet.');
}

function renderServiceTime({ serviceAt, isDay }: TimelineEntry): Html {
  const isDayOnly = serviceAt !== null && isDay;
  return renderTime(isDayOnly ? serviceAt.toISOString().slice(0, 10) : serviceAt);
}

function renderEntry({ text, outboxId, error }: TimelineEntry): Html {
  const event = outboxId === null ? text : html`<a href="/outbox/${outboxId}">${text}</a>`;
  return html`${event}${error !== null && html`<small>${error}</small>`}`;
}

/** Says how long after the event before it an event happened. */
function describePause(entries: readonly TimelineEntry[], index: number): string {
  const before = entries[index - 1];
  const entry = entries[index];
  if (before === undefined || entry === undefined) return '';
  const seconds = (entry.at.getTime() - before.at.getTime()) / 1_000;
  return seconds < 1 ? '' : `${formatSpan(seconds)} later`;
}
