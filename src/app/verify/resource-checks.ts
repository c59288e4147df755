import { isObject, type Json } from '../../core/json.ts';
import { dayMs, minuteMs, readDateTime, toUtcDay } from '../../core/time.ts';
import { encodeValue } from '../../warehouse/transport/query.ts';
import {
  describeAnswer,
  isDone,
  type JsonObject,
  readAttribute,
  readData,
  readEnvelope,
  readNumber,
  readRelated,
} from './answer.ts';
import { type Check, type CheckContext, cannotTell, differs, type Finding, holds } from './check.ts';

const numbersFilter = 'filter[externalOrderNumber][in]';

/** Checks of orders, products, shipments and their times (docs/interface.md, 7, 10, 15.7, 16 and 2.1). */
export const resourceChecks: readonly Check[] = [
  {
    id: 'commas',
    section: '2.5',
    assumption: 'The commas between the values of a filter are not encoded.',
    run: checkCommas,
  },
  {
    id: 'number-case',
    section: '7.9',
    assumption: 'Order numbers are compared letter by letter.',
    quoted: true,
    run: checkCase,
  },
  {
    id: 'product-search',
    section: '16.4',
    assumption: 'A product search that finds one product answers OK with a result.',
    quoted: true,
    run: checkProduct,
  },
  {
    id: 'stock',
    section: '16.4',
    assumption: 'A NOK for the stock of one article concerns that article alone.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('oldest.stock.get', { path: { sku: 'VERIFY-ABSENT' } });
      const words = `an article that does not exist: ${describeAnswer(answer)}`;
      return readEnvelope(answer) === null ? differs(words) : holds(words);
    },
  },
  {
    id: 'shipment-by-id',
    section: '10.4',
    assumption: 'GET /v3/shipments/{id} returns a shipment of the list.',
    run: async ({ service }) => {
      const [listed] = await service.sample('v3.shipments.list');
      const id = readNumber(listed?.id);
      if (id === null) return cannotTell('there are no shipments');
      const answer = await service.call('v3.shipments.get', { path: { id } });
      const [read] = readData(answer) ?? [];
      if (!isDone(answer) || readNumber(read?.id) !== id) return differs(`a shipment: ${describeAnswer(answer)}`);
      return holds('the same shipment, in the list and by id');
    },
  },
  {
    id: 'shipment-ids',
    section: '15.10',
    assumption: 'The id of a v2 shipment is that of the v3 shipment.',
    quoted: true,
    run: checkShipmentIds,
  },
  {
    id: 'one-item-per-package',
    section: '15.10',
    assumption: 'Each item of the look-up by criteria is one package.',
    quoted: true,
    run: checkPackages,
  },
  {
    id: 'time-zone',
    section: '2.6',
    assumption: 'Zone-less times are Europe/Amsterdam.',
    quoted: true,
    run: checkZone,
  },
];

/** Returns the numbers of some orders of the list, at most 50 characters long and without commas. */
async function readNumbers({ service }: CheckContext): Promise<string[]> {
  const orders = await service.sample('v3.orders.list');
  const numbers = orders.map((order) => readAttribute(order, 'externalOrderNumber'));
  return numbers.filter((number) => typeof number === 'string').filter((text) => /^[^,]{1,50}$/.test(text));
}

async function checkCommas(context: CheckContext): Promise<Finding> {
  const [first, second] = await readNumbers(context);
  if (first === undefined || second === undefined) return cannotTell('there are fewer than two orders');
  const count = async (comma: string) => {
    const query = `${encodeValue(numbersFilter)}=${encodeValue(first)}${comma}${encodeValue(second)}`;
    const answer = await context.service.call('v3.orders.list', { query });
    return { rows: isDone(answer) ? (readData(answer)?.length ?? 0) : 0, answer };
  };
  const plain = await count(',');
  if (plain.rows >= 2) return holds('two numbers with a plain comma find two orders');
  const encoded = await count('%2C');
  return differs(
    `two numbers with a plain comma find ${plain.rows} orders (${describeAnswer(plain.answer)}), with %2C ${encoded.rows}; ` +
      'no setting changes that',
  );
}

async function checkCase(context: CheckContext): Promise<Finding> {
  const number = (await readNumbers(context)).find((text) => text.toUpperCase() !== text.toLowerCase());
  if (number === undefined) return cannotTell('no order of the sample has a number with a letter');
  const other = number === number.toUpperCase() ? number.toLowerCase() : number.toUpperCase();
  const answer = await context.service.call('v3.orders.list', { query: { [numbersFilter]: [other] } });
  if (!isDone(answer)) return differs(`a number in another case: ${describeAnswer(answer)}`);
  const found = (readData(answer) ?? []).map((order) => readAttribute(order, 'externalOrderNumber'));
  if (!found.includes(number)) return holds('a number in another case does not find the order');
  return differs('a number in another case finds the order; use one case in the ERP, as no setting changes that');
}

async function checkProduct({ service }: CheckContext): Promise<Finding> {
  const sku = await service.findSku();
  if (sku === null) return cannotTell('no shipment or order names an article');
  const answer = await service.call('oldest.product.search', { json: { Sku: sku, Barcode: null } });
  const envelope = readEnvelope(answer);
  const words = `an article of the client: ${describeAnswer(answer)}`;
  if (envelope === null) return differs(words);
  if (!envelope.isOk) return cannotTell(`${words}; the article may be unknown there`);
  const { result } = envelope;
  if (result === null) return differs(`${words}, without a result; product.save will add a product that exists`);
  return holds(`${words}, and a result that is ${isObject(result) ? 'an object' : 'a value'}`);
}

/** Number of shipments that are looked up by criteria. */
const lookUps = 10;

const listShipped = ({ service }: CheckContext) =>
  service.sample('v3.shipments.list', { 'filter[status][in]': ['SHIPPED'] });

async function checkShipmentIds(context: CheckContext): Promise<Finding> {
  const { service } = context;
  const [shipment] = await listShipped(context);
  const id = readNumber(shipment?.id);
  const [orderId] = readRelated(shipment, 'order');
  if (id === null || orderId === undefined) return cannotTell('there is no shipped shipment that names an order');
  const answer = await service.call('v2.shipment.search', { json: { id } });
  const items = readItems(readEnvelope(answer)?.result);
  if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
  const order = await service.call('v3.orders.get', { path: { id: orderId } });
  const number = readAttribute((readData(order) ?? [])[0], 'externalOrderNumber');
  if (typeof number !== 'string') return cannotTell(`the order of the shipment: ${describeAnswer(order)}`);
  const same = items.filter((item) => item.id === id && item.externalOrderNumber === number).length;
  const words = `the look-up by the id of a v3 shipment finds ${items.length} items, ${same} of the same order`;
  return same > 0 ? holds(words) : differs(`${words}; set SCHEDULE_PULL_PARCELS=off`, off);
}

const off = { kind: 'variable', name: 'SCHEDULE_PULL_PARCELS', value: 'off' } as const;

async function checkPackages(context: CheckContext): Promise<Finding> {
  const ids = (await listShipped(context)).flatMap(({ id }) => readNumber(id) ?? []).slice(0, lookUps);
  if (ids.length === 0) return cannotTell('there are no shipped shipments');
  const seen = { several: 0, fitting: 0 };
  for (const id of ids) {
    const answer = await context.service.call('v2.shipment.search', { json: { id } });
    const items = readItems(readEnvelope(answer)?.result);
    if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
    const colli = Math.max(0, ...items.map((item) => readNumber(item.numberOfColli) ?? 0));
    if (colli < 2) continue;
    seen.several++;
    if (items.length === colli) seen.fitting++;
  }
  const { several, fitting } = seen;
  if (several === 0) return cannotTell(`each of the ${ids.length} shipments has one package at most`);
  const words = `${several} of ${ids.length} shipments have several packages; ${fitting} have as many items`;
  return fitting === several ? holds(words) : differs(`${words}; parcels will be missing, and no setting changes that`);
}

function readItems(result: Json | undefined): JsonObject[] | null {
  if (result === null) return [];
  return Array.isArray(result) ? result.filter(isObject) : null;
}

const shipmentTimes = ['readyToPickOn', 'readyToShipOn', 'shippedOn'];
/** Clocks of one service may differ by this much. */
const toleranceMs = 5 * minuteMs;
const halfHourMs = 30 * minuteMs;

async function checkZone({ client, service }: CheckContext): Promise<Finding> {
  const { dateMs } = await service.call('common.status.get');
  if (dateMs === null) return cannotTell('the service sends no Date header to compare with');
  const rows = [
    ...(await service.sample('v3.shipments.list', { 'filter[shippedOn][gt]': toUtcDay(dateMs - 2 * dayMs) })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_PICK'] })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_SHIP'] })),
  ];
  const texts = rows.flatMap((row) => shipmentTimes.map((name) => readAttribute(row, name)));
  const times = texts.flatMap((text) => readLocal(text, 'UTC'));
  if (times.length === 0) return cannotTell('no recent shipment has a time');
  const zoneLess = times.filter(({ hasZone }) => !hasZone);
  if (zoneLess.length === 0) return holds(`all of ${times.length} times name their zone`);
  const zoned = zoneLess.flatMap(({ text }) => readLocal(text, client.timeZone));
  const aheadMs = Math.max(...zoned.map(({ atMs }) => atMs)) - dateMs;
  if (aheadMs > toleranceMs) {
    // The service's zone must be so far east that its newest time is not in the future.
    const offsetMs = Math.max(...zoneLess.map(({ atMs }) => atMs)) - dateMs;
    const hours = Math.ceil((offsetMs - toleranceMs) / halfHourMs) / 2;
    const words = `in ${client.timeZone} the newest time is ${Math.round(aheadMs / minuteMs)} minutes in the future`;
    const value = `a zone of UTC${hours < 0 ? '' : '+'}${hours} or further east`;
    return differs(words, { kind: 'variable', name: 'WAREHOUSE_TIME_ZONE', value });
  }
  const agoMinutes = Math.round(-aheadMs / minuteMs);
  return cannotTell(`in ${client.timeZone} the newest time is ${agoMinutes} minutes ago, which other zones allow, too`);
}

interface LocalTime {
  readonly text: string;
  readonly atMs: number;
  readonly hasZone: boolean;
}

function readLocal(text: Json | undefined, zone: string): LocalTime[] {
  if (typeof text !== 'string') return [];
  try {
    return [{ text, atMs: Date.parse(readDateTime(text, zone)), hasZone: /(Z|[+-]\d{2}:?\d{2})$/i.test(text) }];
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}
