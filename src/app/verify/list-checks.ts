import type { OperationName } from '../../../config/operations.ts';
import { WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { readNextQuery } from '../../warehouse/transport/query.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';
import { describeAnswer, isDone, readData, readIncluded, readNumber, readRelated } from './answer.ts';
import { type Check, type CheckContext, cannotTell, differs, entry, type Finding, holds } from './check.ts';

const otherPaging = ['v3.returnItems.list', 'v3.inbounds.list'] as const;
const allLists = ['v3.shipments.list', 'v3.orders.list', 'v3.inboundPackingSlips.list', ...otherPaging] as const;

/** A list, the resources that can be included, and the relationship that names them, if the interface shows one. */
const includingLists: readonly (readonly [OperationName, include: string, isRelated: boolean])[] = [
  ['v3.shipments.list', 'shipmentItems', true],
  ['v3.orders.list', 'orderItems', true],
  ['v3.inbounds.list', 'inboundItems', false],
  ['v3.inboundPackingSlips.list', 'inboundPackingSlipItems', true],
];

/**
 * Checks of pages, their links and their order (docs/interface.md, 2.4 Paging), and of the position of `included` (2.3 v3
 * resource objects).
 */
export const listChecks: readonly Check[] = [
  ...otherPaging.map(
    (name): Check => ({
      id: `page-size-${name}`,
      section: '12.4',
      assumption: '`returnItems` and `inbounds` may not know `page[size]`, so it is not sent.',
      quoted: true,
      run: (context) => checkPageSize(name, context),
    }),
  ),
  {
    id: 'next-link',
    section: '2.6',
    assumption: '`links.next` may be a string or `{href}`, absolute or relative, with another scheme.',
    quoted: true,
    run: checkNextLink,
  },
  {
    id: 'last-page',
    section: '2.6',
    assumption: 'A list that finds nothing answers an empty `data`, and no `links.next`.',
    run: checkEmptyList,
  },
  {
    id: 'list-order',
    section: '2.4',
    assumption: 'The lists of shipments, return items and inbounds are in ascending order of id.',
    run: checkOrder,
  },
  {
    id: 'ids',
    section: '2.6',
    assumption: 'An id is an integer below 2^53, or its digits in a string.',
    quoted: true,
    run: checkIds,
  },
  ...includingLists.map(
    ([name, include, isRelated]): Check => ({
      id: `included-${name}`,
      section: '2.6',
      assumption: '`included` is inside the resource or at the top.',
      quoted: true,
      run: (context) => checkIncluded(name, include, isRelated, context),
    }),
  ),
  {
    id: 'included-v3.inbounds.get',
    section: '2.6',
    assumption: 'At the top for one inbound, everything belongs to it; a list without `included` has no items.',
    quoted: true,
    run: checkOneInbound,
  },
];

async function checkPageSize(name: (typeof otherPaging)[number], { service }: CheckContext): Promise<Finding> {
  const isSent = service.operation(name).pageSize !== false;
  const sized = await service.call(name, { query: { 'page[size]': 100 } });
  const plain = await service.call(name);
  const words = `without page[size] ${describeAnswer(plain)}; with 100 ${describeAnswer(sized)}`;
  if (isDone(isSent ? sized : plain)) return holds(words);
  if (isDone(isSent ? plain : sized)) return differs(words, entry(name, { pageSize: !isSent }));
  return cannotTell(words);
}

async function checkNextLink({ service }: CheckContext): Promise<Finding> {
  const answer = await service.call('v3.shipments.list', { query: { 'page[size]': 1 } });
  if (!isDone(answer)) return differs(`a page of one shipment: ${describeAnswer(answer)}`);
  const next = readNext(answer);
  if ('problem' in next) return differs(`${next.problem}; no setting changes that`);
  if (next.query === null) return cannotTell('there are fewer than two shipments');
  const [first] = readData(answer) ?? [];
  const following = await service.call('v3.shipments.list', { query: next.query });
  const [second] = readData(following) ?? [];
  const words = `the link is ${describeLink(answer.json)}, and its page answered ${describeAnswer(following)}`;
  const [before, after] = [readNumber(first?.id), readNumber(second?.id)];
  if (!isDone(following) || after === null) return differs(`${words}, without a shipment`);
  return before !== after ? holds(words) : differs(`${words} with the same shipment again`);
}

function readNext({ json, url }: JsonAnswer): { readonly query: string | null } | { readonly problem: string } {
  try {
    return { query: readNextQuery(isObject(json) ? json.links : undefined, url) };
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    const elsewhere = error.code === 'link_elsewhere';
    return { problem: elsewhere ? 'links.next leads to another host' : 'links.next cannot be read' };
  }
}

function describeLink(json: Json | undefined): string {
  const next = isObject(json) && isObject(json.links) ? json.links.next : null;
  const [form, text] = isObject(next) ? ['an object with href', next.href] : ['a string', next];
  return `${form}, ${typeof text === 'string' && /^https?:/.test(text) ? 'absolute' : 'relative'}`;
}

async function checkEmptyList({ service }: CheckContext): Promise<Finding> {
  const query = { 'filter[externalOrderNumber][in]': 'VERIFY-ABSENT' };
  const answer = await service.call('v3.orders.list', { query });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null) return differs(`answered ${describeAnswer(answer)}`);
  const next = readNext(answer);
  if ('problem' in next) return differs(next.problem);
  const words = `${rows.length} orders, ${next.query === null ? 'no' : 'a'} next link`;
  return rows.length === 0 && next.query === null ? holds(words) : differs(words);
}

async function checkOrder({ service }: CheckContext): Promise<Finding> {
  const seen: string[] = [];
  const unsorted: OperationName[] = [];
  for (const name of allLists) {
    const ids = (await service.sample(name)).map(({ id }) => readNumber(id) ?? 0);
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0));
    const state = ids.length < 2 ? 'too few' : isAscending ? 'ascending' : 'not ascending';
    seen.push(`${name}: ${state}`);
    // The interface does not say how orders and slips are sorted.
    if (!isAscending && name !== 'v3.orders.list' && name !== 'v3.inboundPackingSlips.list') unsorted.push(name);
  }
  if (unsorted.length > 0) return differs(seen.join('; '));
  return seen.every((state) => state.endsWith('too few')) ? cannotTell('no list has two rows') : holds(seen.join('; '));
}

async function checkIds({ service }: CheckContext): Promise<Finding> {
  const rows = (await Promise.all(allLists.map((name) => service.sample(name)))).flat();
  if (rows.length === 0) return cannotTell('every list is empty');
  const bad = rows.filter(({ id }) => readNumber(id) === null).length;
  const texts = rows.filter(({ id }) => typeof id === 'string').length;
  const words = `${rows.length} ids: ${texts} are strings, ${bad} are no integers`;
  return bad === 0 ? holds(words) : differs(`${words}; these resources go to quarantine`);
}

async function checkIncluded(
  name: OperationName,
  include: string,
  isRelated: boolean,
  { service }: CheckContext,
): Promise<Finding> {
  const answer = await service.call(name, {
    query: { include, ...(service.operation(name).pageSize === false ? {} : { 'page[size]': 20 }) },
  });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null) return differs(`with include=${include}: ${describeAnswer(answer)}`);
  if (rows.length === 0) return cannotTell('the list is empty');
  const { inside, top } = readIncluded(answer);
  const words = `${rows.length} rows: ${inside.length} included inside, ${top.length} at the top`;
  const wanted = new Set(rows.flatMap((row) => readRelated(row, include)));
  const found = new Set([...inside, ...top].map(({ id }) => readNumber(id)));
  const missing = [...wanted].filter((id) => !found.has(id)).length;
  if (missing > 0) return differs(`${words}; ${missing} that the relationships name are missing`);
  if (inside.length + top.length > 0) return holds(words);
  return cannotTell(isRelated ? `${words}; the relationships name none` : words);
}

async function checkOneInbound({ service }: CheckContext): Promise<Finding> {
  const [inbound] = await service.sample('v3.inbounds.list');
  const id = readNumber(inbound?.id);
  if (id === null) return cannotTell('there is no inbound');
  const answer = await service.call('v3.inbounds.get', { path: { id }, query: { include: 'inboundItems' } });
  if (!isDone(answer)) return differs(`one inbound of the list: ${describeAnswer(answer)}`);
  const { inside, top } = readIncluded(answer);
  const words = `${inside.length} items inside, ${top.length} at the top`;
  return inside.length + top.length > 0 ? holds(words) : cannotTell(`${words}; it may have none`);
}
