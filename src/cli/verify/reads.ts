/** The assumptions that reads can check, in the order in which they are asked. */

import type { OperationName } from '../../../config/operations.ts';
import { isObject } from '../../core/json.ts';
import { dayMs, minuteMs, toUtcDay } from '../../core/time.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { decodePage } from '../../pull/decode.ts';
import type { Stream } from '../../pull/stream.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { shipments } from '../../pull/streams/shipments.ts';
import { orderInclude, readLines, readOrders } from '../../push/kinds/order-state.ts';
import { decodeParcels, decodeTrackTraces } from '../../service/decoding/decode-parcels.ts';
import { encodeQuery, type QueryParameters } from '../../service/transport/query.ts';
import {
  type Assumption,
  cannotTell,
  deviates,
  type Finding,
  fits,
  type VerifyContext,
} from './assumption.ts';

const pageSize = { 'page[size]': 20 };
/** An id that no resource has. */
const unknownId = 999_999_999_999;
/** Number of shipments that are looked up by criteria. */
const lookUps = 10;

/** Checks that the service grants a token. Without one, nothing else is asked. */
export const tokenAssumption: Assumption = {
  id: 'token',
  section: '3.4',
  text: 'The body of the token request is `application/x-www-form-urlencoded`.',
  remedy: 'check the base URL, the user name and the password',
  check: async ({ warehouse, signal }) => {
    await warehouse.signIn(signal);
    return fits('a token is granted');
  },
};

export const readAssumptions: readonly Assumption[] = [
  ...streams.map(
    (stream): Assumption => ({
      id: `list-${stream.name}`,
      section: '2.6',
      text: `\`${stream.list}\` is read as sent today, and shows what it includes.`,
      remedy: 'set "pageSize": true for this list in WAREHOUSE_OPERATIONS_FILE',
      check: (context) => checkList(stream, context),
    }),
  ),
  {
    id: 'unknown-resource',
    section: '4.2',
    text: '404 with a JSON body means that the resource does not exist.',
    remedy: 'ask the provider',
    check: checkUnknown,
  },
  {
    id: 'product-search',
    section: '16.4',
    text: 'A product search that finds one product answers OK with a result.',
    remedy: 'do not use product.save for products that exist',
    check: checkProduct,
  },
  {
    id: 'shipment-ids',
    section: '15.10',
    text: 'The look-up by criteria exists, and the id of a v2 shipment is that of the v3 shipment.',
    remedy: 'correct the path of v2.shipment.search, or set SCHEDULE_PULL_PARCELS=off',
    check: checkShipmentIds,
  },
  {
    id: 'one-item-per-package',
    section: '15.10',
    text: 'Each item of the look-up by criteria is one package.',
    remedy: 'parcels are missing; ask the provider',
    check: checkPackages,
  },
  {
    id: 'track-trace',
    section: '15.1',
    text: 'The method and the path of `v2.shipment.trackTrace` are those of config/operations.ts.',
    remedy: 'set them in WAREHOUSE_OPERATIONS_FILE, or set SCHEDULE_TRACK_TRACE=off',
    check: checkTrackTrace,
  },
  {
    id: 'time-zone',
    section: '2.6',
    text: 'Zone-less times are in the zone of the client.',
    remedy: 'set WAREHOUSE_TIME_ZONE, or timeZone of the client, to a zone further east',
    check: checkZone,
  },
];

/** Reads the first page of a list. */
const readList = (
  { warehouse, signal }: VerifyContext,
  operation: OperationName,
  parameters: QueryParameters,
) => warehouse.list(operation, encodeQuery(parameters), { signal });

const shippedOnly = { 'filter[status][in]': ['SHIPPED'] };

/** Returns shipments of the first page of a list, as rows. */
async function listShipments(context: VerifyContext, filter: QueryParameters) {
  const page = await readList(context, 'v3.shipments.list', { ...pageSize, ...filter });
  const { resources } = await decodePage(page, shipments.decoder(context.client.timeZone));
  return resources.map(({ parent }) => parent);
}

/** Reads a page as a poll does: with `include`, and with `page[size]` only where it is sent. */
async function checkList(stream: Stream, context: VerifyContext): Promise<Finding> {
  const { client, warehouse } = context;
  const page = await readList(context, stream.list, {
    ...(stream.include.length > 0 && { include: stream.include }),
    ...(warehouse.takesPageSize(stream.list) && pageSize),
  });
  if (page.data.length === 0) return cannotTell('the list is empty');

  const { resources, quarantined } = await decodePage(page, stream.decoder(client.timeZone));
  const warnings = resources.flatMap(({ warning }) => warning ?? []);
  const toReadById = resources.filter(({ mustReadById }) => mustReadById !== undefined);
  const [problem] = quarantined;
  const rows = formatCount(page.data.length, 'row');
  const lines = resources.flatMap(({ children }) => children.flatMap((set) => set.rows)).length;

  if (problem !== undefined)
    return deviates(`${quarantined.length} of ${rows}: ${problem.memberPath}: ${problem.reason}`);
  if (warnings.length > 0) return deviates(`${rows}: ${warnings.join('; ')}`);
  if (stream.include.length > 0 && lines === 0)
    return cannotTell(`${rows}, which include nothing; ${toReadById.length} must be read by id`);
  return fits(`${rows} can be decoded, with ${lines} included resources`);
}

async function checkUnknown({ warehouse, signal }: VerifyContext): Promise<Finding> {
  for (const name of ['v3.shipments.get', 'v3.orders.get', 'v3.inbounds.get'] as const) {
    const found = await warehouse.get(name, unknownId, '', { signal });
    if (found !== null) return deviates(`${name} finds an id that cannot exist`);
  }
  return fits('404 with JSON');
}

/** Returns the sku of a line of the listed orders; null if no line has one. */
export async function findSku(context: VerifyContext): Promise<string | null> {
  const page = await readList(context, 'v3.orders.list', { ...pageSize, include: 'orderItems' });
  const lines = readOrders(page).flatMap(({ resource }) => readLines(resource));
  return lines.find(({ sku }) => sku !== null)?.sku ?? null;
}

async function checkProduct(context: VerifyContext): Promise<Finding> {
  const sku = await findSku(context);
  if (sku === null) return cannotTell('no order names an article');

  const { warehouse, signal } = context;
  const request = {
    operation: 'oldest.product.search',
    body: { Sku: sku, Barcode: null },
  } as const;
  const result = await warehouse.ask(request, { signal });
  return result === null
    ? deviates('an article of an order: OK without a result')
    : fits('an article of an order: OK with a result');
}

/** Looks a shipment up by criteria. Returns what is decoded of its packages. */
async function lookUp({ client, warehouse, signal }: VerifyContext, id: number) {
  const request = { operation: 'v2.shipment.search', body: { id } } as const;
  const result = await warehouse.ask(request, { signal });
  return decodeParcels(result, client.timeZone).parcels;
}

async function checkShipmentIds(context: VerifyContext): Promise<Finding> {
  const { warehouse, signal } = context;
  const shipped = await listShipments(context, shippedOnly);
  const shipment = shipped.find(({ order_id }) => typeof order_id === 'number');
  if (shipment === undefined) return cannotTell('no shipped shipment names an order');

  const parcels = await lookUp(context, shipment.id);
  const orderId = Number(shipment.order_id);
  const found = await warehouse.get('v3.orders.get', orderId, orderInclude, { signal });
  const number = found === null ? null : readOrders(found)[0]?.order.external_order_number;
  const isSame = ({ id, raw }: (typeof parcels)[number]) =>
    id === shipment.id && isObject(raw) && raw.externalOrderNumber === number;

  return parcels.some(isSame)
    ? fits('it finds packages of the order')
    : deviates(`it finds ${parcels.length} packages, none of the order`);
}

async function checkPackages(context: VerifyContext): Promise<Finding> {
  const shipped = await listShipments(context, shippedOnly);
  let [several, fitting] = [0, 0];
  for (const { id } of shipped.slice(0, lookUps)) {
    const parcels = await lookUp(context, id);
    const colli = findLargest(parcels.map(({ numberOfColli }) => numberOfColli ?? 0));
    if (colli > 1) several++;
    if (colli > 1 && colli === parcels.length) fitting++;
  }

  if (several === 0) return cannotTell('no shipment of the sample has several packages');
  const words = `${fitting} of ${several} shipments with several packages have as many items`;
  return fitting === several ? fits(words) : deviates(words);
}

const findLargest = (numbers: readonly number[]): number =>
  numbers.reduce((largest, one) => Math.max(largest, one), 0);

async function checkTrackTrace(context: VerifyContext): Promise<Finding> {
  const { askTrackTrace, client, warehouse, signal } = context;
  if (askTrackTrace === null)
    return cannotTell('it is given once an hour; ask it with --ask-track-trace');

  const operation: OperationName = 'v2.shipment.trackTrace';
  const beforeSend = () => Promise.resolve();
  const list = await askTrackTrace(() => warehouse.askOnce({ operation }, { signal, beforeSend }));
  if (typeof list === 'string') return cannotTell(list);

  const { items, undecodable } = decodeTrackTraces(list, client.timeZone);
  const [problem] = undecodable;
  return problem === undefined
    ? fits(`${formatCount(items.length, 'package')} can be decoded`)
    : deviates(`${undecodable.length} packages: ${problem.path}: ${problem.reason}`);
}

/** Clocks of one service may differ by this much. */
const toleranceMs = 5 * minuteMs;

async function checkZone(context: VerifyContext): Promise<Finding> {
  const { client, warehouse, signal } = context;
  const nowMs = await warehouse.readClock(signal);
  if (nowMs === null) return cannotTell('the service sends no Date header to compare with');

  const rows = [
    ...(await listShipments(context, { 'filter[shippedOn][gt]': toUtcDay(nowMs - 2 * dayMs) })),
    ...(await listShipments(context, { 'filter[status][in]': ['READY_TO_PICK'] })),
  ];
  const times = rows
    .flatMap((row) => [row.ready_to_pick_on, row.ready_to_ship_on, row.shipped_on])
    .filter((time) => typeof time === 'string');
  if (times.length === 0) return cannotTell('no recent shipment has a time');

  const aheadMs = findLargest(times.map((time) => Date.parse(time))) - nowMs;
  const minutes = Math.round(Math.abs(aheadMs) / minuteMs);
  const newest = `in ${client.timeZone} the newest time is ${minutes} minutes`;
  return aheadMs > toleranceMs ? deviates(`${newest} in the future`) : cannotTell(`${newest} ago`);
}
