import type { Operation } from '../../../config/operations.ts';
import type { JsonAnswer } from '../../service/transport/raw-client.ts';
import {
  cannotTell,
  defineRouteCheck,
  entry,
  promiseHolds,
  tryForms,
  type VerifyContext,
  type VerifyResult,
} from './check.ts';
import { describeAnswer, isNoRoute, readEnvelope, readErrors, unknownId } from './service.ts';

/** A method and a path. */
type Route = Pick<Operation, 'method' | 'path'>;

/** No order has this number. */
const absentNumber = 'VERIFY-ABSENT';

/** Checks of the reads whose method or path is assumed. Those of changes need writes. */
export const routeChecks = [
  defineRouteCheck('v2.shipment.search', '15.1', ({ service }) =>
    checkRoute('v2.shipment.search', ['POST', 'GET'], service),
  ),
  defineRouteCheck('v2.shipment.trackTrace', '15.1', checkTrackTrace),
  defineRouteCheck('v3.returnMerchandiseAuthorizations.get', '11.4', checkAuthorizationRoute),
];

async function checkTrackTrace({ service, askTrackTrace }: VerifyContext): Promise<VerifyResult> {
  if (askTrackTrace === null)
    return cannotTell(
      'it was not asked, because the service gives this list once an hour, also to workers; ' +
        '--ask-track-trace asks it',
    );
  const finding = await askTrackTrace(() =>
    checkRoute('v2.shipment.trackTrace', ['GET', 'POST'], service),
  );
  return typeof finding === 'string' ? cannotTell(finding) : finding;
}

async function checkRoute(
  name: 'v2.shipment.search' | 'v2.shipment.trackTrace',
  methods: readonly Route['method'][],
  service: VerifyContext['service'],
): Promise<VerifyResult> {
  const ask = ({ method, path }: Route) => {
    const json = name === 'v2.shipment.search' ? { externalOrderNumber: absentNumber } : {};
    return service.ask(method, path, method === 'GET' ? {} : { json });
  };
  const { method, path } = service.operation(name);
  const first = await ask({ method, path });
  const words = `${method} ${path} answered ${describeAnswer(first)}`;
  if (readEnvelope(first) === null && !isNoRoute(first))
    return cannotTell(`${words}, which is no envelope; ask for the path`);
  const likely = listAlternatives({ method, path }, methods);
  const attempt = async (route: Route | null) => {
    const answer = route === null ? first : await ask(route);
    const works = readEnvelope(answer) !== null;
    if (route === null) return { works, words };
    return {
      works,
      words: works ? `${route.method} ${route.path} answered ${describeAnswer(answer)}` : '',
    };
  };
  const advice = `${likely.length} likely routes were tried and do not answer; ask for the path`;
  return tryForms([null, ...likely], attempt, (route) => entry(name, route ?? {}), advice);
}

/** Return authorizations have no list, so only the words of a 404 can show that the path exists. */
async function checkAuthorizationRoute({ service }: VerifyContext): Promise<VerifyResult> {
  const name = 'v3.returnMerchandiseAuthorizations.get';
  const { method, path } = service.operation(name);
  const asked = await service.call(name, { path: { id: unknownId } });
  const other = await service.ask('GET', '/v3/verifyNoSuchResource/{id}', {
    path: { id: unknownId },
  });
  const words = `${method} ${path} of an unknown id answered ${describeAnswer(asked)}`;
  if (toFingerprint(asked) !== toFingerprint(other) && asked.json !== undefined)
    return promiseHolds(`${words}, and not as a path that does not exist`);
  return cannotTell(`${words}, as a path that does not exist does; refetch a return that exists`);
}

/** Returns what of an answer does not depend on the id. */
function toFingerprint(answer: JsonAnswer): string {
  const titles = (readErrors(answer) ?? []).map((error) =>
    JSON.stringify(error).replaceAll(/\d/g, ''),
  );
  return JSON.stringify([answer.status, answer.json === undefined, titles]);
}

/** Other words that services use for the last step of a path. */
const synonyms: Readonly<Record<string, readonly string[]>> = {
  search: ['find', 'get', 'lookup', ''],
  tracktrace: ['track-trace', 'track_trace', 'tracktrace/get', 'trackAndTrace', 'trackTrace'],
};

/**
 * Returns likely routes of an operation whose path docs/interface.md does not show, the most likely
 * first: other words for the last step, singular and plural, another prefix, and the other method.
 */
export function listAlternatives(
  { method, path }: Route,
  methods: readonly Route['method'][],
): Route[] {
  const [generation = '', resource = '', verb = ''] = path.split('/').filter(Boolean);
  const paths = [generation, '', `api/${generation}`].flatMap((prefix) =>
    [resource, resource.endsWith('s') ? resource.slice(0, -1) : `${resource}s`].flatMap((word) =>
      [verb, ...(prefix === generation ? (synonyms[verb.toLowerCase()] ?? []) : [])].map(
        (last) => `/${[prefix, word, last].filter(Boolean).join('/')}`,
      ),
    ),
  );
  const all = [method, ...methods.filter((other) => other !== method)];
  return all.flatMap((one) => paths.map((other) => ({ method: one, path: other }))).slice(1);
}
