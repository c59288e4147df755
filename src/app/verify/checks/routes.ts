import type { OperationName } from '../../../../config/operations.ts';
import type { ProbedAnswer } from '../../../warehouse/transport/prober.ts';
import { listAlternatives, type Route } from '../alternatives.ts';
import { describeAnswer, isNoRoute, readEnvelope, readErrors } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import { unknownId } from '../service.ts';

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

/** Checks of the reads whose method or path is assumed. */
export const readRouteChecks: readonly Check[] = [
  ...reads.map(
    (read): Check => ({
      id: `route-${read.name}`,
      section: '15.1',
      assumption: `The method and the path of \`${read.name}\` are those of config/operations.ts.`,
      run: (context) => checkRead(read, context),
    }),
  ),
  {
    id: 'route-v3.returnMerchandiseAuthorizations.get',
    section: '11.4',
    assumption:
      '404 means that the announced return does not exist, or, for a path without an id, that there is no such route.',
    run: checkAuthorizationRoute,
  },
];

async function checkRead(read: AssumedRead, { service, askTrackTrace }: CheckContext): Promise<Finding> {
  if (read.onRequest && !askTrackTrace)
    return cannotTell(
      'it was not asked, because the service gives this list once an hour, also to workers; --ask-track-trace asks it',
    );
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
function toFingerprint(answer: ProbedAnswer): string {
  const titles = (readErrors(answer) ?? []).map((error) => JSON.stringify(error).replaceAll(/\d/g, ''));
  return JSON.stringify([answer.status, answer.json === undefined, titles]);
}
