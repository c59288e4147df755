import type { Operation, OperationName } from '../../../config/operations.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';
import {
  type Check,
  type CheckContext,
  cannotTell,
  defineCheck,
  defineRouteCheck,
  differs,
  entry,
  type Finding,
  holds,
  tryForms,
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
  ...reads.map((read) => defineRouteCheck(read.name, '15.1', (context) => checkRead(read, context))),
  defineCheck(
    'route-v3.returnMerchandiseAuthorizations.get',
    '11.4',
    '404 means that the announced return does not exist, or, for a path without an id, that there is no such route.',
    checkAuthorizationRoute,
  ),
  ...changes.map(([name, section]) => defineRouteCheck(name, section, (context) => checkAllowed(name, context))),
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
  const words = `${method} ${path} answered ${describeAnswer(first)}`;
  if (readEnvelope(first) === null && !isNoRoute(first))
    return cannotTell(`${words}, which is no envelope; ask for the path`);
  const likely = listAlternatives({ method, path }, read.methods).filter(
    (route) => !service.isRouteOfAnother(read.name, route.method, route.path),
  );
  let asked = 0;
  const attempt = async (route: Route) => {
    const answer = asked++ === 0 ? first : await askRoute(read, route, service);
    const works = readEnvelope(answer) !== null;
    // Of the routes that do not exist, only the first is worth a word.
    return {
      works,
      words: works || asked === 1 ? `${route.method} ${route.path} answered ${describeAnswer(answer)}` : '',
    };
  };
  const advice = `${likely.length} likely routes were tried and do not answer; ask for the path`;
  return tryForms([{ method, path }, ...likely], attempt, (route) => entry(read.name, route), advice);
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
  tracktrace: ['track-trace', 'track_trace', 'tracktrace/get', 'trackAndTrace', 'trackTrace'],
};

/**
 * Returns likely routes of an operation whose path docs/interface.md does not show, the most likely first: other words
 * for the last step, singular and plural, another prefix, and the other method.
 */
export function listAlternatives({ method, path }: Route, methods: readonly Route['method'][]): Route[] {
  const steps = path.split('/').filter(Boolean);
  const parameters = steps.filter((step) => step.startsWith('{'));
  const [generation = '', resource = '', verb = ''] = steps;
  const paths = [generation, '', `api/${generation}`].flatMap((prefix) =>
    [resource, resource.endsWith('s') ? resource.slice(0, -1) : `${resource}s`].flatMap((word) =>
      [verb, ...(prefix === generation ? (synonyms[verb.toLowerCase()] ?? []) : [])].map(
        (last) => `/${[prefix, word, last, ...parameters].filter(Boolean).join('/')}`,
      ),
    ),
  );
  const all = [method, ...methods.filter((other) => other !== method)];
  return all.flatMap((one) => paths.map((other) => ({ method: one, path: other }))).slice(1);
}

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
