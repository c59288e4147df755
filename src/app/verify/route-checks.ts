import type { Operation, OperationName } from '../../../config/operations.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';
import {
  type Check,
  type CheckContext,
  cannotTell,
  defineCheck,
  differs,
  entry,
  type Finding,
  holds,
  toRouteAssumption,
} from './check.ts';
import { describeAnswer, isNoRoute, readEnvelope, readErrors, unknownId } from './service.ts';

/** A method and a path. */
type Route = Pick<Operation, 'method' | 'path'>;

/** A read whose method or path docs/interface.md does not show, and a request for it that finds little. */
interface AssumedRead {
  readonly name: OperationName;
  readonly methods: readonly Route['method'][];
  readonly path?: Readonly<Record<string, string>>;
  readonly needle: 'number' | 'orderTypes' | 'none';
  readonly onRequest?: true;
}

/** No order has this number. */
const absentNumber = 'VERIFY-ABSENT';

const reads: readonly AssumedRead[] = [
  { name: 'v2.order.search', methods: ['GET'], needle: 'number' },
  { name: 'v2.order.searchByBody', methods: ['POST'], needle: 'number' },
  { name: 'v2.shipment.search', methods: ['POST', 'GET'], needle: 'number' },
  { name: 'v2.shipment.list', methods: ['GET', 'POST'], needle: 'none' },
  { name: 'v2.shipment.listByStatus', methods: ['GET', 'POST'], path: { status: 'ERROR' }, needle: 'none' },
  { name: 'v2.shipment.listByOrderTypes', methods: ['POST'], needle: 'orderTypes' },
  {
    name: 'v2.shipment.listByOrderTypesAndStatus',
    methods: ['POST'],
    path: { status: 'ERROR' },
    needle: 'orderTypes',
  },
  { name: 'v2.shipment.trackTrace', methods: ['GET', 'POST'], needle: 'none', onRequest: true },
];

/** Changes whose method or path docs/interface.md does not show. */
const changes: readonly (readonly [OperationName, section: string])[] = [
  ['v3.orders.update', '7.4'],
  ['v3.orderItems.cancel', '8.2'],
  ['v3.returnMerchandiseAuthorizations.create', '11.4'],
  ['v3.returnMerchandiseAuthorizations.replace', '11.4'],
  ['v3.returnMerchandiseAuthorizations.delete', '11.4'],
  ['v3.inboundPackingSlips.create', '14.4'],
  ['v2.order.add', '15.1'],
  ['v2.order.release', '15.1'],
  ['v2.rma.add', '15.1'],
  ['v2.returnLabel.get', '15.1'],
];
const changing: readonly Route['method'][] = ['PATCH', 'PUT', 'POST'];

/**
 * Checks of the operations whose method or path is assumed. For a change they ask with OPTIONS which methods a path
 * allows, so that nothing changes.
 */
export const routeChecks: readonly Check[] = [
  ...reads.map((read) =>
    defineCheck(`route-${read.name}`, '15.1', toRouteAssumption(read.name), (context) => checkRead(read, context)),
  ),
  defineCheck(
    'route-v3.returnMerchandiseAuthorizations.get',
    '11.4',
    '404 means that the announced return does not exist, or, for a path without an id, that there is no such route.',
    checkAuthorizationRoute,
  ),
  ...changes.map(([name, section]) =>
    defineCheck(`route-${name}`, section, toRouteAssumption(name), (context) => checkAllowed(name, context)),
  ),
];

async function checkRead(read: AssumedRead, { service, askTrackTrace }: CheckContext): Promise<Finding> {
  if (!read.onRequest) return checkRoute(read, service);
  if (askTrackTrace === null)
    return cannotTell(
      'it was not asked, because the service gives this list once an hour, also to workers; --ask-track-trace asks it',
    );
  const finding = await askTrackTrace(() => checkRoute(read, service));
  return typeof finding === 'string' ? cannotTell(finding) : finding;
}

async function checkRoute(read: AssumedRead, service: CheckContext['service']): Promise<Finding> {
  const { method, path } = service.operation(read.name);
  const first = await askRoute(read, { method, path }, service);
  if (readEnvelope(first) !== null) return holds(`${method} ${path} answered ${describeAnswer(first)}`);
  const words = `${method} ${path} answered ${describeAnswer(first)}`;
  if (!isNoRoute(first)) return cannotTell(`${words}, which is no envelope; ask for the path`);
  const routes = listAlternatives(read.name, { method, path }, read.methods).filter(
    (route) => !service.isRouteOfAnother(read.name, route.method, route.path),
  );
  for (const route of routes) {
    const answer = await askRoute(read, route, service);
    // A route of another operation answers, too, so only an envelope that says OK counts where something is found.
    if (readEnvelope(answer) === null) continue;
    return differs(
      `${words}; ${route.method} ${route.path} answered ${describeAnswer(answer)}`,
      entry(read.name, route),
    );
  }
  return cannotTell(`${words}; ${routes.length} likely routes were tried and do not answer; ask for the path`);
}

function askRoute(read: AssumedRead, { method, path: template }: Route, service: CheckContext['service']) {
  const parts = read.path === undefined ? {} : { path: read.path };
  if (method === 'GET' && read.needle === 'number')
    return service.ask(method, template, { ...parts, query: { externalOrderNumber: absentNumber } });
  if (method === 'GET') return service.ask(method, template, parts);
  const body = { number: { externalOrderNumber: absentNumber }, orderTypes: { orderTypes: [unknownId] }, none: {} };
  return service.ask('POST', template, { ...parts, json: body[read.needle] });
}

/** Return authorizations have no list, so only the words of a 404 can show that the path exists. */
async function checkAuthorizationRoute({ service }: CheckContext): Promise<Finding> {
  const name = 'v3.returnMerchandiseAuthorizations.get';
  const { method, path } = service.operation(name);
  const asked = await service.call(name, { path: { id: unknownId } });
  const other = await service.ask('GET', '/v3/verifyNoSuchResource/{id}', { path: { id: unknownId } });
  const words = `${method} ${path} of an unknown id answered ${describeAnswer(asked)}`;
  if (toFingerprint(asked) !== toFingerprint(other) && asked.json !== undefined)
    return holds(`${words}, and not as a path that does not exist`);
  return cannotTell(`${words}, as a path that does not exist does; refetch a return that exists`);
}

/** Returns what of an answer does not depend on the id. */
function toFingerprint(answer: JsonAnswer): string {
  const titles = (readErrors(answer) ?? []).map((error) => JSON.stringify(error).replaceAll(/\d/g, ''));
  return JSON.stringify([answer.status, answer.json === undefined, titles]);
}

/** Other words that services use for the last step of a path. */
const synonyms: Readonly<Record<string, readonly string[]>> = {
  search: ['find', 'get', 'lookup', ''],
  list: ['get', 'all', ''],
  tracktrace: ['track-trace', 'track_trace', 'tracktrace/get', 'trackAndTrace'],
};
const maxRoutes = 40;

/**
 * Returns likely routes of an operation whose path docs/interface.md does not show, the most likely first: other words
 * for the last step, singular and plural, another prefix, another case, and the other method.
 */
export function listAlternatives(
  name: OperationName,
  { method, path }: Route,
  methods: readonly Route['method'][],
): Route[] {
  const fixed = path.split('/').filter(Boolean);
  const parameters = fixed.filter((step) => step.startsWith('{'));
  const [generation = '', resource = '', ...rest] = fixed.filter((step) => !step.startsWith('{'));
  const verb = rest.join('/');
  const plural = resource.endsWith('s') ? resource.slice(0, -1) : `${resource}s`;
  const verbs = [verb, ...(synonyms[verb.toLowerCase()] ?? []), toCamelCase(name)];
  const build = (prefix: string, word: string, last: string) =>
    `/${[prefix, word, last, ...parameters].filter(Boolean).join('/')}`;
  const paths = [
    ...[resource, plural].flatMap((word) => verbs.map((last) => build(generation, word, last))),
    ...['', `api/${generation}`].flatMap((prefix) => [resource, plural].map((word) => build(prefix, word, verb))),
    build(generation, capitalize(resource), capitalize(verb)),
    build(generation, capitalize(plural), capitalize(verb)),
  ];
  const others = methods.filter((other) => other !== method);
  const routes = [method, ...others].flatMap((one) => [...new Set(paths)].map((path) => ({ method: one, path })));
  return routes.filter((route) => route.method !== method || route.path !== path).slice(0, maxRoutes);
}

/** Returns the last part of an operation's name, such as `trackTrace`. */
const toCamelCase = (name: OperationName) => name.split('.').at(-1) ?? '';
const capitalize = (word: string) => word.replace(/^[a-z]/, (letter) => letter.toUpperCase());

async function checkAllowed(name: OperationName, { service }: CheckContext): Promise<Finding> {
  const { method, path } = service.operation(name);
  const values = { path: { id: unknownId, shipmentId: unknownId } };
  const allowed = readAllowed(await service.ask('OPTIONS', path, values));
  const elsewhere = readAllowed(await service.ask('OPTIONS', '/v3/verifyNoSuchResource'));
  if (allowed.length === 0) return cannotTell(`needs writes: OPTIONS ${path} names no methods`);
  const words = `OPTIONS ${path} allows ${allowed.join(', ')}`;
  if (allowed.join() === elsewhere.join()) return cannotTell(`needs writes: ${words}, as for every path`);
  if (allowed.includes(method)) return holds(words);
  const others = changing.filter((one) => allowed.includes(one));
  const [only] = others;
  if (only === undefined || others.length > 1) return cannotTell(`${words}, but not ${method}; ask for the method`);
  return differs(`${words}, but not ${method}`, entry(name, { method: only, path }));
}

const readAllowed = ({ allow }: { readonly allow: string | null }) =>
  (allow ?? '')
    .split(',')
    .map((method) => method.trim())
    .filter((method) => method !== '' && method !== 'OPTIONS')
    .sort();
