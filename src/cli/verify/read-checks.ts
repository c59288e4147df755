/** The checks of `service verify` that write nothing. */

import type { OperationName } from '../../../config/operations.ts';
import { CodedError, describeError, StoppedError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { removeQuotes } from '../../core/quote.ts';
import { dayMs, minuteMs, readDateTime, toUtcDay } from '../../core/time.ts';
import type { JsonObject } from '../../push/kind.ts';
import { encodeValue, readNextQuery } from '../../service/transport/query.ts';
import type { JsonAnswer } from '../../service/transport/raw-client.ts';
import {
  type Check,
  cannotTell,
  defineCheck,
  entry,
  promiseDiffers,
  promiseHolds,
  quoteCheck,
  tryForms,
  type VerifiedPromise,
  type VerifyContext,
  type VerifyResult,
} from './check.ts';
import { routeChecks } from './route-checks.ts';
import {
  describeAnswer,
  isDone,
  readAttribute,
  readData,
  readEnvelope,
  readNumber,
  readRelated,
  splitIncluded,
  unknownId,
} from './service.ts';

const otherPaging = ['v3.returnItems.list', 'v3.inbounds.list'] as const;
const allLists = [
  'v3.shipments.list',
  'v3.orders.list',
  'v3.inboundPackingSlips.list',
  ...otherPaging,
] as const;
/**
 * A list, the resources that can be included, and the relationship that names them, if the
 * interface shows one.
 */
const includingLists: readonly (readonly [OperationName, include: string, isRelated: boolean])[] = [
  ['v3.shipments.list', 'shipmentItems', true],
  ['v3.orders.list', 'orderItems', true],
  ['v3.inbounds.list', 'inboundItems', false],
  ['v3.inboundPackingSlips.list', 'inboundPackingSlipItems', true],
];

/** Checks whether a token is granted. Without one, nothing else can be asked. */
export const tokenCheck = quoteCheck(
  'token',
  '3.4',
  'The body of the token request is `application/x-www-form-urlencoded`.',
  checkToken,
);

/** All checks that write nothing, in their order: what one learns, the following ones use. */
export const readOnlyChecks: readonly Check[] = [
  ...routeChecks,
  ...otherPaging.map((name) =>
    quoteCheck(
      `page-size-${name}`,
      '12.4',
      '`returnItems` and `inbounds` may not know `page[size]`, so it is not sent.',
      (context) => checkPageSize(name, context),
    ),
  ),
  quoteCheck(
    'next-link',
    '2.6',
    '`links.next` may be a string or `{href}`, absolute or relative, ' +
      'with another scheme, port or path.',
    checkNextLink,
  ),
  defineCheck(
    'list-order',
    '2.4',
    'The lists of shipments, return items and inbounds are in ascending order of id.',
    checkOrder,
  ),
  ...includingLists.map(([name, include, isRelated]) =>
    quoteCheck(
      `included-${name}`,
      '2.6',
      '`included` is inside the resource or at the top.',
      (context) => checkIncluded(name, include, isRelated, context),
    ),
  ),
  quoteCheck(
    'included-v3.inbounds.get',
    '2.6',
    'At the top for one inbound, everything belongs to it; a list without `included` has no items.',
    checkOneInbound,
  ),
  quoteCheck(
    'unknown-resource',
    '4.2',
    '404 with a JSON body means that the resource does not exist.',
    checkUnknown,
  ),
  defineCheck(
    'commas',
    '2.5',
    'The commas between the values of a filter are not encoded.',
    checkCommas,
  ),
  quoteCheck('number-case', '7.9', 'Order numbers are compared letter by letter.', checkCase),
  quoteCheck('list-lag', '7.9', 'No list of orders lags for more than 5 minutes.', checkListLag),
  quoteCheck(
    'product-search',
    '16.4',
    'A product search that finds one product answers OK with a result.',
    checkProduct,
  ),
  quoteCheck(
    'shipment-ids',
    '15.10',
    'The id of a v2 shipment is that of the v3 shipment.',
    checkShipmentIds,
  ),
  quoteCheck(
    'one-item-per-package',
    '15.10',
    'Each item of the look-up by criteria is one package.',
    checkPackages,
  ),
  quoteCheck(
    'package-contents',
    '15.10',
    'Each item of the look-up by criteria lists the lines of the whole shipment.',
    checkContents,
  ),
  quoteCheck('time-zone', '2.6', 'Zone-less times are Europe/Amsterdam.', checkZone),
];

const numbersFilter = 'filter[externalOrderNumber][in]';

/**
 * Returns the numbers of some orders of the list, at most 50 characters long and without commas.
 */
async function readNumbers({ service }: VerifyContext): Promise<string[]> {
  const orders = await service.sample('v3.orders.list');
  const numbers = orders.map((order) => readAttribute(order, 'externalOrderNumber'));
  return numbers
    .filter((number) => typeof number === 'string')
    .filter((text) => /^[^,]{1,50}$/.test(text));
}

async function checkCommas(context: VerifyContext): Promise<VerifyResult> {
  const [first, second] = await readNumbers(context);
  if (first === undefined || second === undefined)
    return cannotTell('there are fewer than two orders');
  const count = async (comma: string) => {
    const numbers = `${encodeValue(first)}${comma}${encodeValue(second)}`;
    const query = `${encodeValue(numbersFilter)}=${numbers}`;
    const answer = await context.service.call('v3.orders.list', { query });
    return { rows: isDone(answer) ? (readData(answer)?.length ?? 0) : 0, answer };
  };
  const plain = await count(',');
  if (plain.rows >= 2) return promiseHolds('two numbers with a plain comma find two orders');
  const encoded = await count('%2C');
  return promiseDiffers(
    `two numbers with a plain comma find ${plain.rows} orders ` +
      `(${describeAnswer(plain.answer)}), with %2C ${encoded.rows}; no setting changes that`,
  );
}

async function checkCase(context: VerifyContext): Promise<VerifyResult> {
  const number = (await readNumbers(context)).find(
    (text) => text.toUpperCase() !== text.toLowerCase(),
  );
  if (number === undefined) return cannotTell('no order of the sample has a number with a letter');
  const other = number === number.toUpperCase() ? number.toLowerCase() : number.toUpperCase();
  const answer = await context.service.call('v3.orders.list', {
    query: { [numbersFilter]: [other] },
  });
  if (!isDone(answer)) return promiseDiffers(`a number in another case: ${describeAnswer(answer)}`);
  const found = (readData(answer) ?? []).map((order) =>
    readAttribute(order, 'externalOrderNumber'),
  );
  if (!found.includes(number))
    return promiseHolds('a number in another case does not find the order');
  return promiseDiffers(
    'a number in another case finds the order; use one case in the ERP, as no setting changes that',
  );
}

/** Reports what the look-ups of workers have measured: a list that was asked once shows no lag. */
async function checkListLag({ readListLag }: VerifyContext): Promise<VerifyResult> {
  if (readListLag === null)
    return cannotTell('only workers measure it, and DATABASE_URL is not set');
  let lag: Awaited<ReturnType<typeof readListLag>>;
  try {
    lag = await readListLag();
  } catch (error) {
    return cannotTell(`the database cannot be read: ${removeQuotes(describeError(error))}`);
  }
  if (lag === null) return cannotTell('no look-up of a worker has met a list that lagged');
  const { longestMs, longestAt, exceededAt } = lag;
  const words =
    `the longest lag that a look-up met is ${Math.round(longestMs / 1_000)} s, ` +
    `at ${longestAt.toISOString()}`;
  return exceededAt === null
    ? promiseHolds(words)
    : promiseDiffers(`${words}; no setting changes that`);
}

async function checkProduct({ service }: VerifyContext): Promise<VerifyResult> {
  const sku = await service.findSku();
  if (sku === null) return cannotTell('no shipment or order names an article');
  const answer = await service.call('oldest.product.search', { json: { Sku: sku, Barcode: null } });
  const envelope = readEnvelope(answer);
  const words = `an article of the client: ${describeAnswer(answer)}`;
  if (envelope === null) return promiseDiffers(words);
  if (!envelope.isOk) return cannotTell(`${words}; the article may be unknown there`);
  const { result } = envelope;
  if (result === null)
    return promiseDiffers(
      `${words}, without a result; product.save will add a product that exists`,
    );
  return promiseHolds(
    `${words}, and a result that is ${isObject(result) ? 'an object' : 'a value'}`,
  );
}

/** Number of shipments that are looked up by criteria. */
const lookUps = 10;

const listShipped = ({ service }: VerifyContext) =>
  service.sample('v3.shipments.list', { 'filter[status][in]': ['SHIPPED'] });

async function checkShipmentIds(context: VerifyContext): Promise<VerifyResult> {
  const { service } = context;
  const [shipment] = await listShipped(context);
  const id = readNumber(shipment?.id);
  const [orderId] = readRelated(shipment, 'order');
  if (id === null || orderId === undefined)
    return cannotTell('there is no shipped shipment that names an order');
  const answer = await service.lookUp(id);
  const items = readItems(readEnvelope(answer)?.result);
  if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
  const order = await service.call('v3.orders.get', { path: { id: orderId } });
  const number = readAttribute((readData(order) ?? [])[0], 'externalOrderNumber');
  if (typeof number !== 'string')
    return cannotTell(`the order of the shipment: ${describeAnswer(order)}`);
  const same = items.filter((item) => item.id === id && item.externalOrderNumber === number).length;
  const words =
    `the look-up by the id of a v3 shipment finds ${items.length} items, ` +
    `${same} of the same order`;
  return same > 0
    ? promiseHolds(words)
    : promiseDiffers(`${words}; set SCHEDULE_PULL_PARCELS=off`, off);
}

const off = { kind: 'variable', name: 'SCHEDULE_PULL_PARCELS', value: 'off' } as const;

/**
 * Looks up the packages of shipped shipments. Returns the items of each, or why that cannot be
 * told.
 */
async function readPackages(
  context: VerifyContext,
): Promise<readonly JsonObject[][] | VerifyResult> {
  const ids = (await listShipped(context))
    .flatMap(({ id }) => readNumber(id) ?? [])
    .slice(0, lookUps);
  if (ids.length === 0) return cannotTell('there are no shipped shipments');
  const found: JsonObject[][] = [];
  for (const id of ids) {
    const answer = await context.service.lookUp(id);
    const items = readItems(readEnvelope(answer)?.result);
    if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
    found.push(items);
  }
  return found;
}

async function checkPackages(context: VerifyContext): Promise<VerifyResult> {
  const found = await readPackages(context);
  if ('verdict' in found) return found;
  const seen = { several: 0, fitting: 0 };
  for (const items of found) {
    const colli = items.reduce(
      (most, item) => Math.max(most, readNumber(item.numberOfColli) ?? 0),
      0,
    );
    if (colli < 2) continue;
    seen.several++;
    if (items.length === colli) seen.fitting++;
  }
  const { several, fitting } = seen;
  if (several === 0)
    return cannotTell(`each of the ${found.length} shipments has one package at most`);
  const words =
    `${several} of ${found.length} shipments have several packages; ` +
    `${fitting} have as many items`;
  return fitting === several
    ? promiseHolds(words)
    : promiseDiffers(`${words}; parcels will be missing, and no setting changes that`);
}

async function checkContents(context: VerifyContext): Promise<VerifyResult> {
  const found = await readPackages(context);
  if ('verdict' in found) return found;
  const several = found.filter(
    (items) => items.length > 1 && items.some((item) => countPieces(item) > 0),
  );
  if (several.length === 0) return cannotTell('no shipment has several items that list lines');
  const repeating = several.filter(repeatsLines).length;
  const words =
    `of ${several.length} shipments with several items, ` + `${repeating} repeat all lines on each`;
  if (repeating === several.length) return promiseHolds(words);
  return promiseDiffers(
    `${words}; what is in each package stays unknown (parcel_overview.items), ` +
      'and no setting changes that',
  );
}

/**
 * Returns whether each item lists the same lines, with as many pieces as the item says that the
 * shipment has.
 */
function repeatsLines(items: readonly JsonObject[]): boolean {
  const lists = new Set(items.map(({ shipmentItems }) => JSON.stringify(shipmentItems)));
  return (
    lists.size === 1 &&
    items.every(
      (item) => countPieces(item) === (readNumber(item.totalNumberOfProducts) ?? countPieces(item)),
    )
  );
}

const countPieces = ({ shipmentItems }: JsonObject) =>
  (readItems(shipmentItems) ?? []).reduce(
    (sum, { quantity }) => sum + (readNumber(quantity) ?? 0),
    0,
  );

function readItems(result: Json | undefined): JsonObject[] | null {
  if (result === null) return [];
  return Array.isArray(result) ? result.filter(isObject) : null;
}

const shipmentTimes = ['readyToPickOn', 'readyToShipOn', 'shippedOn'];
/** Clocks of one service may differ by this much. */
const toleranceMs = 5 * minuteMs;
const halfHourMs = 30 * minuteMs;

async function checkZone({ client, service }: VerifyContext): Promise<VerifyResult> {
  const { dateMs } = await service.call('common.status.get');
  if (dateMs === null) return cannotTell('the service sends no Date header to compare with');
  const rows = [
    ...(await service.sample('v3.shipments.list', {
      'filter[shippedOn][gt]': toUtcDay(dateMs - 2 * dayMs),
    })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_PICK'] })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_SHIP'] })),
  ];
  const texts = rows.flatMap((row) => shipmentTimes.map((name) => readAttribute(row, name)));
  const times = texts.flatMap((text) => readLocal(text, 'UTC'));
  if (times.length === 0) return cannotTell('no recent shipment has a time');
  const zoneLess = times.filter(({ hasZone }) => !hasZone);
  if (zoneLess.length === 0) return promiseHolds(`all of ${times.length} times name their zone`);
  const zoned = zoneLess.flatMap(({ text }) => readLocal(text, client.timeZone));
  const aheadMs = findLatest(zoned) - dateMs;
  if (aheadMs > toleranceMs) {
    // The service's zone must be so far east that its newest time is not in the future.
    const offsetMs = findLatest(zoneLess) - dateMs;
    const hours = Math.ceil((offsetMs - toleranceMs) / halfHourMs) / 2;
    const words =
      `in ${client.timeZone} the newest time ` +
      `is ${Math.round(aheadMs / minuteMs)} minutes in the future`;
    const value = `a zone of UTC${hours < 0 ? '' : '+'}${hours} or further east`;
    return promiseDiffers(words, { kind: 'variable', name: 'WAREHOUSE_TIME_ZONE', value });
  }
  const agoMinutes = Math.round(-aheadMs / minuteMs);
  return cannotTell(
    `in ${client.timeZone} the newest time is ${agoMinutes} minutes ago, ` +
      'which other zones allow, too',
  );
}

/** Returns the latest of these times in milliseconds since 1970. */
const findLatest = (times: readonly LocalTime[]) =>
  times.reduce((latest, { atMs }) => Math.max(latest, atMs), Number.NEGATIVE_INFINITY);

interface LocalTime {
  readonly text: string;
  readonly atMs: number;
  readonly hasZone: boolean;
}

function readLocal(text: Json | undefined, zone: string): LocalTime[] {
  if (typeof text !== 'string') return [];
  try {
    return [
      {
        text,
        atMs: Date.parse(readDateTime(text, zone)),
        hasZone: /(Z|[+-]\d{2}:?\d{2})$/i.test(text),
      },
    ];
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function checkPageSize(
  name: (typeof otherPaging)[number],
  { service }: VerifyContext,
): Promise<VerifyResult> {
  const isSent = service.operation(name).pageSize !== false;
  const attempt = async (pageSize: boolean) => {
    const answer = await service.call(name, pageSize ? { query: { 'page[size]': 100 } } : {});
    const form = pageSize ? 'with page[size] 100' : 'without page[size]';
    const words = `${form} ${describeAnswer(answer)}`;
    return { works: isDone(answer), words };
  };
  return tryForms(
    [isSent, !isSent],
    attempt,
    (pageSize) => entry(name, { pageSize }),
    'ask how the list is paged',
  );
}

async function checkNextLink({ service }: VerifyContext): Promise<VerifyResult> {
  const answer = await service.call('v3.shipments.list', { query: { 'page[size]': 1 } });
  if (!isDone(answer)) return promiseDiffers(`a page of one shipment: ${describeAnswer(answer)}`);
  const next = readNext(answer);
  if ('problem' in next) return promiseDiffers(`${next.problem}; no setting changes that`);
  if (next.query === null) return cannotTell('there are fewer than two shipments');
  const [first] = readData(answer) ?? [];
  const following = await service.call('v3.shipments.list', { query: next.query });
  const [second] = readData(following) ?? [];
  const words =
    `the link is ${describeLink(answer.json)}, ` +
    `and its page answered ${describeAnswer(following)}`;
  const [before, after] = [readNumber(first?.id), readNumber(second?.id)];
  if (!isDone(following) || after === null) return promiseDiffers(`${words}, without a shipment`);
  return before !== after
    ? promiseHolds(words)
    : promiseDiffers(`${words} with the same shipment again`);
}

function readNext({
  json,
  url,
}: JsonAnswer): { readonly query: string | null } | { readonly problem: string } {
  try {
    return { query: readNextQuery(isObject(json) ? json.links : undefined, url) };
  } catch (error) {
    if (!(error instanceof WarehouseError)) throw error;
    const elsewhere = error.code === 'link_elsewhere';
    return {
      problem: elsewhere ? 'links.next leads to another host' : 'links.next cannot be read',
    };
  }
}

function describeLink(json: Json | undefined): string {
  const next = isObject(json) && isObject(json.links) ? json.links.next : null;
  const [form, text] = isObject(next) ? ['an object with href', next.href] : ['a string', next];
  return `${form}, ${typeof text === 'string' && /^https?:/.test(text) ? 'absolute' : 'relative'}`;
}

async function checkOrder({ service }: VerifyContext): Promise<VerifyResult> {
  const seen: string[] = [];
  const unsorted: OperationName[] = [];
  for (const name of allLists) {
    const ids = (await service.sample(name)).map(({ id }) => readNumber(id) ?? 0);
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0));
    const state = ids.length < 2 ? 'too few' : isAscending ? 'ascending' : 'not ascending';
    seen.push(`${name}: ${state}`);
    // The interface does not say how orders and slips are sorted.
    if (!isAscending && name !== 'v3.orders.list' && name !== 'v3.inboundPackingSlips.list')
      unsorted.push(name);
  }
  if (unsorted.length > 0) return promiseDiffers(seen.join('; '));
  return seen.every((state) => state.endsWith('too few'))
    ? cannotTell('no list has two rows')
    : promiseHolds(seen.join('; '));
}

async function checkIncluded(
  name: OperationName,
  include: string,
  isRelated: boolean,
  { service }: VerifyContext,
): Promise<VerifyResult> {
  const answer = await service.call(name, {
    query: { include, ...(service.operation(name).pageSize === false ? {} : { 'page[size]': 20 }) },
  });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null)
    return promiseDiffers(`with include=${include}: ${describeAnswer(answer)}`);
  if (rows.length === 0) return cannotTell('the list is empty');
  const { inside, top } = splitIncluded(answer);
  const words = `${rows.length} rows: ${inside.length} included inside, ${top.length} at the top`;
  const wanted = new Set(rows.flatMap((row) => readRelated(row, include)));
  const found = new Set([...inside, ...top].map(({ id }) => readNumber(id)));
  const missing = [...wanted].filter((id) => !found.has(id)).length;
  if (missing > 0)
    return promiseDiffers(`${words}; ${missing} that the relationships name are missing`);
  if (inside.length + top.length > 0) return promiseHolds(words);
  return cannotTell(isRelated ? `${words}; the relationships name none` : words);
}

async function checkOneInbound({ service }: VerifyContext): Promise<VerifyResult> {
  const [inbound] = await service.sample('v3.inbounds.list');
  const id = readNumber(inbound?.id);
  if (id === null) return cannotTell('there is no inbound');
  const answer = await service.call('v3.inbounds.get', {
    path: { id },
    query: { include: 'inboundItems' },
  });
  if (!isDone(answer)) return promiseDiffers(`one inbound of the list: ${describeAnswer(answer)}`);
  const { inside, top } = splitIncluded(answer);
  const words = `${inside.length} items inside, ${top.length} at the top`;
  return inside.length + top.length > 0
    ? promiseHolds(words)
    : cannotTell(`${words}; it may have none`);
}

async function checkToken({ client, service }: VerifyContext): Promise<VerifyResult> {
  const form = { grant_type: 'password', username: client.username, password: client.password };
  const answer = await service.ask('POST', service.operation('common.token').path, {
    form,
    open: true,
  });
  if (isDone(answer) && isObject(answer.json) && typeof answer.json.access_token === 'string') {
    const { token_type: type, expires_in: seconds } = answer.json;
    const lasts =
      typeof seconds === 'number' ? `expires_in is ${seconds}` : 'expires_in is not a number';
    const kind =
      typeof type === 'string' && /^bearer$/i.test(type)
        ? 'token_type is bearer'
        : 'token_type is not bearer';
    return typeof seconds === 'number' && seconds > 0
      ? promiseHolds(`${kind}, ${lasts}`)
      : promiseDiffers(`${kind}, ${lasts}`);
  }
  // A service that refuses the form itself does not say that the credentials are wrong.
  if (answer.status !== 415)
    return cannotTell(
      `${describeAnswer(answer)}: no token; check the user name, the password and the base URL`,
    );
  return promiseDiffers(
    `${describeAnswer(answer)}: the service refuses forms, and no setting changes that`,
  );
}

async function checkUnknown({ service }: VerifyContext): Promise<VerifyResult> {
  const names = ['v3.shipments.get', 'v3.orders.get', 'v3.inbounds.get'] as const;
  const words: string[] = [];
  let isFine = true;
  for (const name of names) {
    const answer = await service.call(name, { path: { id: unknownId } });
    words.push(`${name} ${describeAnswer(answer)}`);
    if (answer.status !== 404 || answer.json === undefined) isFine = false;
  }
  return isFine
    ? promiseHolds(words.join('; '))
    : promiseDiffers(`${words.join('; ')}; no setting changes that`);
}

/**
 * Runs checks one after the other. Without a token, no other check is run: repeated wrong passwords
 * may lock an account.
 * @throws StoppedError if `stop` was aborted
 */
export async function runChecks(
  checks: readonly Check[],
  context: VerifyContext,
  stop: AbortSignal,
): Promise<VerifiedPromise[]> {
  const judgements: VerifiedPromise[] = [];
  for (const { id, section, assumption, run } of [tokenCheck, ...checks]) {
    if (stop.aborted) throw new StoppedError();
    const hasToken = judgements[0] === undefined || judgements[0].verdict === 'holds';
    const finding = hasToken
      ? await run(context).catch(toVerifyResult)
      : cannotTell('there is no token');
    // What a check finds is a setting from then on, so that the following checks use it.
    for (const setting of finding.settings)
      if (setting.kind === 'entry') context.service.learn(setting.operation, setting.entry);
    judgements.push({ client: context.client.key, id, section, assumption, ...finding });
  }
  return judgements;
}

function toVerifyResult(error: unknown): VerifyResult {
  if (!(error instanceof CodedError) || error.code === 'stopped') throw error;
  // An answer may repeat what belongs to a person.
  return cannotTell(removeQuotes(describeError(error)));
}
