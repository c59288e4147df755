/** The page `/orders`: lists of orders, and what a search found. It shows no personal data. */

import { badge, type Html, html } from '../../core/html.ts';
import {
  type ListedOrder,
  maxSearchedOrders,
  type orderLists,
} from '../../operate/sql/order-list.ts';
import type { OrderMatch } from '../../operate/sql/order-search.ts';
import { toStateTone } from './order-page.ts';
import {
  linkClient,
  openSearchForm,
  renderChoice,
  renderList,
  renderTabs,
  toOrderPath,
} from './view.ts';

type OrderList = (typeof orderLists)[number];

/** Titles of the lists, in their order on the page. */
const listTitles: Readonly<Record<OrderList, string>> = {
  newest: 'Newest',
  late: 'Late',
  trouble: 'In trouble',
  'back order': 'On back order',
};

/** What each list holds. */
const listMeanings: Readonly<Record<OrderList, string>> = {
  newest: 'Orders that were ordered last.',
  late: 'Orders of two days ago and before that are not shipped whole.',
  trouble: 'Orders that the warehouse, the carrier or the outbox could not handle.',
  'back order': 'Late orders with pieces that are on no shipment.',
};

/** What a list of orders shows. */
interface ShownList {
  readonly orders: readonly ListedOrder[];
  readonly list: OrderList;
  readonly client: string | undefined;
  readonly clients: readonly string[];
  readonly limit: number;
}

/**
 * Renders a list of orders.
 * @param csrf the token of the form; null for a viewer, who cannot search by e-mail address
 */
export function renderOrdersPage(shown: ShownList, csrf: string | null): Html {
  const { orders, list, client, clients, limit } = shown;
  const tabs = Object.entries(listTitles).map(([name, title]) => {
    const query = new URLSearchParams({ list: name, ...(client !== undefined && { client }) });
    return { title, path: `/orders?${query}`, isCurrent: name === list };
  });
  const filter =
    clients.length > 1 &&
    html`<form class="filter" method="get" action="/orders">
<input type="hidden" name="list" value="${list}">
${renderChoice('client', 'Client', clients, client)} <button>Show</button></form>`;

  const rows = orders.map((order) => [
    html`<a href="${toOrderPath(order.client, order.number)}">${order.number}</a>`,
    linkClient('/orders', order.client),
    badge(toStateTone(order.state), order.state.replaceAll('_', ' ')),
    order.orderedOn ?? '–',
    order.ordered,
    order.shipped,
    order.toCome,
    order.problem ?? '–',
  ]);
  const headings = [
    'order',
    'client',
    'state',
    'ordered on',
    'ordered',
    'shipped',
    'to come',
    'problem',
  ];
  const cut = orders.length === limit && html`<p>Only the first ${limit} are shown.</p>`;
  const searched =
    list !== 'newest' &&
    html`<p><small>Searched: the newest ${maxSearchedOrders} orders of these clients.</small></p>`;

  return html`<h1>Orders</h1>
${renderSearch('', csrf)}
${renderTabs('Lists of orders', tabs)}
<p>${listMeanings[list]}</p>
${filter}
${renderList(listTitles[list], headings, rows, 'There are none.')}
${cut}${searched}`;
}

/**
 * Renders the orders that a search found.
 * @param csrf the token of the form; null for a viewer, who cannot search by e-mail address
 */
export function renderFoundOrders(
  found: readonly OrderMatch[],
  text: string,
  limit: number,
  csrf: string | null,
): Html {
  // An e-mail address is not shown again: pages hold no personal data.
  const shown = text.includes('@') ? '' : text;
  const rows = found.map(({ client, number, foundBy }) => [
    html`<a href="${toOrderPath(client, number)}">${number}</a>`,
    linkClient('/outbox', client),
    foundBy.join(', '),
  ]);
  const none =
    `No order found${shown === '' ? '' : ` for “${shown}”`}. ` +
    'Rows of the outbox are found as long as RETENTION_DAYS keeps them.';
  const cut = found.length === limit && html`<p>Only the first ${limit} are shown.</p>`;

  return html`<h1>Orders</h1>
${renderSearch(shown, csrf)}
${renderList('Orders that fit', ['order', 'client', 'found by'], rows, none)}
${cut}
<p><a href="/orders">Lists of orders</a></p>`;
}

function renderSearch(shown: string, csrf: string | null): Html {
  const email = csrf !== null && ', e-mail address';
  return html`${openSearchForm('filter', 'Orders', csrf)}
<label>Order number, order id, shipment id, package, tracking code${email}, return reference or
article <input name="q" value="${shown}" maxlength="200"></label> <button>Search</button>
<small>Whole numbers and codes only; upper and lower case are both tried. An article is searched in
the newest ${maxSearchedOrders} orders.</small></form>`;
}
