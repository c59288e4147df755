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
  chooseClient,
  linkClient,
  openSearchForm,
  renderCut,
  renderFilter,
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
  newest: 'Orders that were ordered last',
  late: 'Orders that are not shipped whole two days after they were ordered',
  trouble: 'Orders at the service that the warehouse, the carrier or a later row could not handle',
  'back order': 'Late orders with pieces that are on no shipment',
};

/** What a list of orders shows. */
interface ShownList {
  readonly orders: readonly ListedOrder[];
  readonly list: OrderList;
  readonly client: string | undefined;
  readonly clients: readonly string[];
  /** Number of orders before these. */
  readonly skip: number;
  readonly limit: number;
}

/**
 * Renders a list of orders.
 * @param csrf the token of the form; null for a viewer, who cannot search by e-mail address
 */
export function renderOrdersPage(shown: ShownList, csrf: string | null): Html {
  const { orders, list, client, clients, skip, limit } = shown;
  const toPath = (query: object) =>
    `/orders?${new URLSearchParams({ ...query, ...(client !== undefined && { client }) })}`;
  const tabs = Object.entries(listTitles).map(([name, title]) => ({
    title,
    path: toPath({ list: name }),
    isCurrent: name === list,
  }));
  const choice = chooseClient(clients, client);
  const fields = html`<input type="hidden" name="list" value="${list}">${choice}`;

  const older = toPath({ list, skip: skip + limit });
  const more = orders.length === limit && html`<p><a href="${older}">More orders</a></p>`;
  const searched =
    list !== 'newest' &&
    html`<p><small>Searched: the newest ${maxSearchedOrders} orders of these clients.</small></p>`;

  return html`<h1>Orders</h1>
${renderSearch('', csrf)}
${renderTabs('Lists of orders', tabs)}
${choice && renderFilter('/orders', fields)}
${renderOrders(listMeanings[list], orders)}
${more}${searched}`;
}

/** Renders orders, on a narrow screen one or two lines each. */
function renderOrders(caption: string, orders: readonly ListedOrder[]): Html {
  const isOfSeveral = new Set(orders.map(({ client }) => client)).size > 1;
  const rows = orders.map((order) => ({
    order: html`<a href="${toOrderPath(order.client, order.number)}">${order.number}</a>`,
    ...(isOfSeveral && { client: linkClient('/orders', order.client) }),
    state: badge(toStateTone(order.state), order.state.replaceAll('_', ' ')),
    'ordered on': order.orderedOn,
    pieces: describePieces(order),
    problem: order.problem,
  }));
  return html`<div class="compact">${renderList(caption, rows, 'There are none.')}</div>`;
}

function describePieces({ ordered, shipped, toCome }: ListedOrder): string {
  const coming = toCome === 0 ? '' : `, ${toCome} to come`;
  return `${shipped} of ${ordered} shipped${coming}`;
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
  const rows = found.map(({ client, number, foundBy }) => ({
    order: html`<a href="${toOrderPath(client, number)}">${number}</a>`,
    client: linkClient('/outbox', client),
    'found by': foundBy.join(', '),
  }));
  const none =
    `No order found${shown === '' ? '' : ` for “${shown}”`}. ` +
    'Rows of the outbox are found as long as RETENTION_DAYS keeps them.';

  return html`<h1>Orders</h1>
${renderSearch(shown, csrf)}
<div class="compact">${renderList('Orders that fit', rows, none)}</div>
${renderCut(found, limit)}
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
