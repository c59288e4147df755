import { isObject } from '../../core/json.ts';
import { dayMs, formatSpan, toUtcDay } from '../../core/time.ts';
import { settingLists } from '../../warehouse/decoding/decode-service-lists.ts';
import { describeAnswer, isDone, readData, readEnvelope, readErrors } from './answer.ts';
import { type Check, type CheckContext, cannotTell, differs, type Finding, holds } from './check.ts';
import { unknownId } from './service.ts';

/** Checks whether a token is granted. Without one, nothing else can be asked. */
export const tokenCheck: Check = {
  id: 'token',
  section: '3.4',
  assumption: 'The body of the token request is `application/x-www-form-urlencoded`.',
  quoted: true,
  run: checkToken,
};

/** Checks of what every other request needs (docs/interface.md, 3 Authentication, 6 Status and settings). */
export const accessChecks: readonly Check[] = [
  {
    id: 'status',
    section: '6.1',
    assumption: 'GET status/get answers an envelope without a token.',
    run: async ({ service }) => {
      const answer = await service.call('common.status.get');
      const words = `answered ${describeAnswer(answer)}`;
      return readEnvelope(answer)?.isOk ? holds(words) : differs(`${words}; \`doctor\` will fail`);
    },
  },
  {
    id: 'date-header',
    section: '6.1',
    assumption: 'Answers have a Date header, which the watermarks of dated streams follow.',
    run: async ({ service }) => {
      const { dateMs } = await service.call('common.status.get');
      if (dateMs === null) return differs('there is no Date header; tell the operator of the service');
      return holds(`it differs from this machine by ${formatSpan(Math.abs(dateMs - Date.now()) / 1_000)}`);
    },
  },
  {
    id: 'service-lists',
    section: '6.2',
    assumption: 'Any service list may be absent, as in a shop without returns.',
    quoted: true,
    run: checkLists,
  },
];

async function checkToken({ client, service }: CheckContext): Promise<Finding> {
  const form = { grant_type: 'password', username: client.username, password: client.password };
  const answer = await service.ask('POST', service.operation('common.token').path, { form, open: true });
  if (isDone(answer) && isObject(answer.json) && typeof answer.json.access_token === 'string') {
    const { token_type: type, expires_in: seconds } = answer.json;
    const lasts = typeof seconds === 'number' ? `expires_in is ${seconds}` : 'expires_in is not a number';
    const kind =
      typeof type === 'string' && /^bearer$/i.test(type) ? 'token_type is bearer' : 'token_type is not bearer';
    return typeof seconds === 'number' && seconds > 0 ? holds(`${kind}, ${lasts}`) : differs(`${kind}, ${lasts}`);
  }
  // A service that refuses the form itself does not say that the credentials are wrong.
  if (answer.status !== 415)
    return cannotTell(`${describeAnswer(answer)}: no token; check the user name, the password and the base URL`);
  return differs(`${describeAnswer(answer)}: the service refuses forms, and no setting changes that`);
}

async function checkLists({ service }: CheckContext): Promise<Finding> {
  const answer = await service.call('common.settings.get');
  const lists = readEnvelope(answer)?.result;
  if (!isObject(lists)) return differs(`${describeAnswer(answer)}, without a result that is an object`);
  const counted = settingLists.map((name) => {
    const entries = lists[name];
    return { name, entries: Array.isArray(entries) ? entries.length : null };
  });
  const present = counted.filter(({ entries }) => entries !== null).map(({ name, entries }) => `${name} ${entries}`);
  const absent = counted.filter(({ entries }) => entries === null).map(({ name }) => name);
  return holds(`${present.join(', ')}; absent: ${absent.join(', ') || 'none'}`);
}

/** Days after which the service no longer lists shipments (docs/interface.md, 5.1 Values). */
const listedDays = 90;

/** Checks of refusals and limits (docs/interface.md, 4 Errors, 5 Limits). */
export const errorChecks: readonly Check[] = [
  {
    id: 'unknown-resource',
    section: '4.2',
    assumption: '404 with a JSON body means that the resource does not exist.',
    quoted: true,
    run: checkUnknown,
  },
  {
    id: 'v3-errors',
    section: '4.2',
    assumption: 'A v3 error may have JSON:API `errors[]`.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('v3.shipments.list', { query: { 'page[size]': 0 } });
      const words = `page[size]=0: ${describeAnswer(answer)}`;
      if (isDone(answer)) return cannotTell(`${words}; the service does not refuse it`);
      return readErrors(answer) === null ? differs(`${words}; refused rows will not name the reason`) : holds(words);
    },
  },
  {
    id: 'nok',
    section: '4.2',
    assumption: 'A NOK envelope may have any status.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('oldest.order.search', { json: { ExternalOrderNumber: 'VERIFY-ABSENT' } });
      const words = `an order that does not exist: ${describeAnswer(answer)}`;
      return readEnvelope(answer)?.isOk === false ? holds(words) : differs(words);
    },
  },
  {
    id: 'age-limit',
    section: '5.1',
    assumption: 'GET /v3/shipments lists nothing older than 90 days.',
    run: checkAgeLimit,
  },
];

async function checkUnknown({ service }: CheckContext): Promise<Finding> {
  const names = ['v3.shipments.get', 'v3.orders.get', 'v3.inbounds.get'] as const;
  const words: string[] = [];
  let isFine = true;
  for (const name of names) {
    const answer = await service.call(name, { path: { id: unknownId } });
    words.push(`${name} ${describeAnswer(answer)}`);
    if (answer.status !== 404 || answer.json === undefined) isFine = false;
  }
  return isFine ? holds(words.join('; ')) : differs(`${words.join('; ')}; no setting changes that`);
}

async function checkAgeLimit({ service }: CheckContext): Promise<Finding> {
  const { dateMs } = await service.call('common.status.get');
  const day = toUtcDay((dateMs ?? Date.now()) - (listedDays + 2) * dayMs);
  const query = { 'filter[shippedOn][lt]': day, 'page[size]': 1 };
  const answer = await service.call('v3.shipments.list', { query });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null) return differs(`a filter on older days: ${describeAnswer(answer)}`);
  if (rows.length > 0) return differs('older shipments are listed; nothing needs to be set');
  const any = await service.sample('v3.shipments.list');
  return any.length === 0
    ? cannotTell('there are no shipments')
    : holds('no shipment is listed that was shipped earlier');
}
