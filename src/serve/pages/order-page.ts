/**
 * The page of one order: its state, lines, shipments, returns and documents, what waits and why,
 * and its timeline. It shows neither names nor addresses; only an operator gets tracking links,
 * which may hold a postcode.
 */

import { badge, type Html, html, type Tone } from '../../core/html.ts';
import { maxParts, type OrderDetails, type OrderHead } from '../../operate/sql/order-details.ts';
import type { OrderEvent } from '../../operate/sql/order-timeline.ts';
import { findOrderIds, renderTimeline, showWord } from './timeline.ts';
import { linkClient, linkRow, renderCut, renderFacts, renderList, renderTime } from './view.ts';

/** A step on the way of an order, and when it was reached. */
export interface Stage {
  readonly name: string;
  readonly at: Date | null;
  /** Whose clock gives the time. */
  readonly clock: 'ours' | 'service';
  /** True if it is not reached because a row is dead, or its outcome is unknown. */
  readonly isStuck: boolean;
}

const stateTones: Readonly<Record<string, Tone>> = {
  shipped: 'good',
  warehouse_error: 'bad',
  check_address: 'warn',
  on_hold: 'warn',
  unlisted: 'warn',
};

/** Returns the colour of the state of an order. */
export const toStateTone = (state: string): Tone => stateTones[state] ?? 'note';

/** An order, and what is shown of it. */
interface ShownOrder {
  readonly client: string;
  readonly number: string;
  readonly details: OrderDetails;
  /** The latest events, newest first. */
  readonly events: readonly OrderEvent[];
  /** Maximum number of events. */
  readonly limit: number;
}

/** Renders a word of the service, or a dash. */
type ShowWord = (word: string | null) => string;

const listOfIds = new Intl.ListFormat('en');

/**
 * Renders `/order`.
 * @param isViewer true if the reader gets no tracking links
 */
export function renderOrderPage(order: ShownOrder, isViewer: boolean): Html {
  const { client, number, details, events, limit } = order;
  const ids = findOrderIds(events).map(String);
  const several = html`<p>${badge('warn', 'several orders')}
Orders ${listOfIds.format(ids)} have or had this number. All parts below are of all of them.</p>`;
  const query = new URLSearchParams({ client, reference: number });
  const cut = events.length === limit && html`<p>Only the latest ${limit} events are shown.</p>`;
  const showAll: ShowWord = (word) => word ?? '–';
  const showPlain: ShowWord = (word) => (word === null ? '–' : showWord(word));
  const show = isViewer ? showPlain : showAll;

  return html`<div data-live>
<h1>Order ${number} ${details.orders.map(renderState)}</h1>
<p>Client ${linkClient('/orders', client)}. Times are in UTC.
<a href="/outbox?${query.toString()}">All outbox rows</a></p>
${ids.length > 1 && several}
${details.orders.map(renderProblem)}
<ol class="stages">${findStages(details, events).map(renderStage)}</ol>
${details.orders.map((head) => renderHeadFacts(head, number, show))}
${renderOpenRows(details)}
${renderLines(details, show)}
${renderShipments(details, show, isViewer)}
${renderReturns(details, show)}
${renderDocuments(details)}
<h2>Timeline</h2>
${renderTimeline(events)}
${cut}</div>`;
}

const renderState = ({ state }: OrderHead) => badge(toStateTone(state), state.replaceAll('_', ' '));

/** Problems of shipments, which a link leads to. */
const shipmentProblems: readonly (string | null)[] = [
  'warehouse_error',
  'parcel_exception',
  'not_picked',
  'not_shipped',
];

function renderProblem({ problem, problemCode }: OrderHead): Html {
  if (problem === null) return html``;
  const isOfShipments = shipmentProblems.includes(problemCode);
  const link = isOfShipments && html` <a href="#shipments">Show the shipments</a>`;
  return html`<p class="why"><b>Reason:</b> ${problem}${link}</p>`;
}

/** Renders the facts of an order that no other part shows, and that are known. */
function renderHeadFacts(order: OrderHead, asked: string, show: ShowWord): Html {
  return renderFacts([
    ['Order id', order.id],
    ['Present number', order.number === asked ? null : order.number],
    ['Ordered on', order.orderedOn],
    ['Not before', order.notBefore],
    ['Order type', order.orderType === null ? null : show(order.orderType)],
    ['Shipping method', order.shippingMethod === null ? null : show(order.shippingMethod)],
    ['Unlisted since', order.unlistedSince === null ? null : renderTime(order.unlistedSince)],
  ]);
}

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

const findEarliest = (times: readonly (Date | null)[]): Date | null =>
  times.reduce((first, at) => (at !== null && (first === null || at < first) ? at : first), null);

/** Kinds whose rows place an order. */
const placingKinds = ['order.create', 'order.replace'];

/** Finds when an order reached each step. */
export function findStages(details: OrderDetails, events: readonly OrderEvent[]): Stage[] {
  const findFirst = (fits: (event: OrderEvent) => boolean) =>
    findEarliest(events.filter(fits).map(({ at }) => at));
  const { shipments, returns } = details;
  const placing = events.filter(
    ({ source, what, detail }) =>
      source === 'outbox' && what === 'inserted' && placingKinds.includes(detail ?? ''),
  );
  const rows = new Set(placing.map(({ id }) => id));

  const findDay = (days: readonly (string | null)[]) =>
    findEarliest(days.map((day) => (day ? new Date(day) : null)));
  const done = findFirst(
    ({ source, id, detail }) => source === 'outbox' && rows.has(id) && detail === 'done',
  );
  const ordered = findDay(details.orders.map(({ orderedOn }) => orderedOn));
  const atService = done ?? ordered ?? findFirst(({ source }) => source === 'order');

  const toStage = (name: string, at: Date | null, isOurs = false): Stage => ({
    name,
    at,
    clock: isOurs ? 'ours' : 'service',
    isStuck: false,
  });
  return [
    toStage('inserted', findEarliest(placing.map(({ at }) => at)), true),
    {
      ...toStage('at the service', atService, done !== null || ordered === null),
      isStuck: atService === null && isStuck(events),
    },
    toStage('ready to pick', findEarliest(shipments.map(({ readyToPickOn }) => readyToPickOn))),
    toStage('shipped', findEarliest(shipments.map(({ shippedOn }) => shippedOn))),
    toStage('returned', findDay(returns.map(({ processedOn }) => processedOn))),
  ];
}

function renderStage(stage: Stage, _index: number, stages: readonly Stage[]): Html {
  const { name, at, clock, isStuck } = stage;
  if (at !== null) {
    const words = clock === 'service' && html`<span>by the service’s clock</span>`;
    return html`<li class="reached"><b>${name}</b> ${renderStageTime(at)}${words}</li>`;
  }
  const isElsewhere = name === 'inserted' && stages.some((stage) => stage.at !== null);
  const ahead = isElsewhere ? 'not from here' : 'not yet';
  const [look, words] = isStuck ? ['stuck', 'stuck: see below'] : ['ahead', ahead];
  return html`<li class="${look}"><b>${name}</b> <span>${words}</span></li>`;
}

/** Renders a time. The service gives some only as a day, which begins at midnight. */
function renderStageTime(at: Date): Html {
  const [day = '', time] = at.toISOString().split('T');
  return renderTime(time === '00:00:00.000Z' ? day : at);
}

/** Renders the rows of the outbox that are not finished, and why. */
function renderOpenRows({ rows }: OrderDetails): Html {
  if (rows.length === 0) return html``;
  const cells = rows.map(({ id, kind, status, waitsFor, because }) => ({
    row: linkRow(id),
    kind,
    status: badge(status === 'dead' ? 'bad' : 'note', status),
    reason:
      waitsFor === null
        ? (because ?? 'sent when its turn comes')
        : html`behind ${linkRow(waitsFor)}`,
  }));
  return html`<h2>What waits</h2>
${renderList('Rows that are not finished', cells)}
${renderCut(rows, maxParts)}`;
}

function renderLines({ lines }: OrderDetails, show: ShowWord): Html {
  const cells = lines.map((line) => ({
    article: line.sku ?? '–',
    name: html`${show(line.name)}${line.isService && html` ${badge('note', 'service')}`}`,
    ordered: line.ordered ?? '–',
    cancelled: line.cancelled ?? '–',
    shipped: line.shipped,
    'to come': line.isService ? '–' : line.toCome,
    'on no shipment': line.isService ? '–' : line.missing,
    returned: line.returned,
  }));
  return html`<h2>Lines</h2>
${renderList('Pieces of each line', cells, 'No line is stored here yet.')}
${renderCut(lines, maxParts)}`;
}

/** Renders the shipments, each with its packages. */
function renderShipments(
  { shipments, parcels }: OrderDetails,
  show: ShowWord,
  isViewer: boolean,
): Html {
  const cells = shipments.map((shipment) => ({
    shipment: String(shipment.id),
    status: html`${badge(shipment.status === 'ERROR' ? 'bad' : 'note', show(shipment.status))}
${shipment.unlistedSince !== null && badge('warn', 'unlisted')}`,
    warehouse: shipment.warehouse ?? '–',
    'shipping method': show(shipment.shippingMethod),
    'ready to pick': renderTime(shipment.readyToPickOn),
    shipped: renderTime(shipment.shippedOn),
    packages: parcels
      .filter(({ shipmentId }) => shipmentId === shipment.id)
      .map((parcel) => renderParcel(parcel, show, isViewer)),
  }));
  return html`<h2 id="shipments">Shipments</h2>
${renderList('Times by the clock of the service', cells, 'No shipment yet.')}
${renderCut(shipments, maxParts)}${renderCut(parcels, maxParts)}`;
}

function renderParcel(
  { packageNumber, trackingState, status, trackingUrl }: OrderDetails['parcels'][number],
  show: ShowWord,
  isViewer: boolean,
): Html {
  const name = packageNumber === '' ? 'package' : packageNumber;
  const isLink = !isViewer && trackingUrl !== null && /^https?:\/\//i.test(trackingUrl);
  const link =
    isLink && html` <a href="${trackingUrl}" rel="noreferrer noopener" target="_blank">track</a>`;
  const state = trackingState === null ? '' : `, ${trackingState.replaceAll('_', ' ')}`;
  const carrier = status === null ? '' : `, carrier status ${show(status)}`;
  return html`<div>${name}${state}${carrier}${link}</div>`;
}

function renderReturns({ returns }: OrderDetails, show: ShowWord): Html {
  if (returns.length === 0) return html``;
  const cells = returns.map((item) => ({
    return: String(item.id),
    article: item.sku ?? '–',
    pieces: item.quantity ?? '–',
    condition: show(item.condition),
    reason: show(item.reason),
    processed: item.processedOn ?? '–',
    restocked: renderTime(item.restockOn),
  }));
  return html`<h2>Returns</h2>
${renderList('Processed by the warehouse', cells)}${renderCut(returns, maxParts)}`;
}

function renderDocuments({ documents }: OrderDetails): Html {
  if (documents.length === 0) return html``;
  const cells = documents.map(({ id, kind, state, createdAt }) => ({
    document: html`<a href="/outbox/${id}">${kind.replaceAll('_', ' ')}</a>`,
    state,
    since: renderTime(createdAt),
  }));
  return html`<h2>Documents</h2>
${renderList('Labels and attachments', cells)}
${renderCut(documents, maxParts)}`;
}
