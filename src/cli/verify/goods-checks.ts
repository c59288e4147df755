/**
 * The checks of `service verify` that announce goods. A slip cannot be cancelled, and a return may
 * cost money.
 */

import type { Operation, OperationName } from '../../../config/operations.ts';
import type { JsonObject } from '../../push/kind.ts';
import { toSlipDocument } from '../../push/kinds/inbound/inbound-packing-slip-create.ts';
import type { ReturnPayload } from '../../push/kinds/return/announced-return.ts';
import { toReturnDocument } from '../../push/kinds/return/announced-return.ts';
import { readNextQuery } from '../../service/transport/query.ts';
import type { JsonAnswer } from '../../service/transport/raw-client.ts';
import {
  type Check,
  cannotTell,
  defineRouteCheck,
  entry,
  promiseDiffers,
  promiseHolds,
  tryForms,
  type VerifyResult,
} from './check.ts';
import {
  describeAnswer,
  findDropped,
  isDone,
  readAttribute,
  readData,
  readNumber,
  readRelated,
  splitIncluded,
} from './service.ts';
import { makeReference, type ReadBack, selectType, type WriteSession } from './write-session.ts';

type Place = NonNullable<Operation['included']>;

/** A return that the service took. */
interface Announced {
  readonly id: number;
  readonly place: Place;
  readonly subject: ReturnSubject;
}

/** The piece of a shipment that comes back. */
interface ReturnSubject {
  readonly reference: string;
  readonly payload: ReturnPayload;
  readonly products: Parameters<typeof toReturnDocument>[1]['products'];
  readonly reasonIds: readonly number[];
}

const group = 'v3.returnMerchandiseAuthorizations' as const;
const slipName = 'v3.inboundPackingSlips.create';
const slipList = 'v3.inboundPackingSlips.list';
const returnItemType = 'returnMerchandiseAuthorizationItem';
const slipItemType = 'inboundPackingSlipItem';
/** Shipments that are tried, as all pieces of one may be announced already. */
const maxShipments = 3;
/** Pages of the list of slips in which ours is searched. */
const maxPages = 20;

/** Returns the checks that announce, replace and remove a return, and announce goods. */
export function createGoodsChecks(session: WriteSession): readonly Check[] {
  let announced: Announced | null = null;
  const withReturn =
    (check: (announced: Announced, session: WriteSession) => Promise<VerifyResult>) => async () =>
      announced === null ? cannotTell('no return was announced') : check(announced, session);
  return [
    defineRouteCheck(`${group}.create`, '11.4', async () => {
      const tried = await announceReturn(session);
      announced = tried.announced;
      return tried.finding;
    }),
    defineRouteCheck(`${group}.replace`, '11.4', withReturn(replaceReturn)),
    defineRouteCheck(`${group}.delete`, '11.4', withReturn(deleteReturn)),
    defineRouteCheck(slipName, '14.4', () => announceGoods(session)),
  ];
}

/** The places of `included`, that in use first. */
const listPlaces = (name: OperationName, { service }: WriteSession): readonly Place[] => {
  const inUse = service.operation(name).included ?? 'inside';
  return [inUse, inUse === 'inside' ? 'top' : 'inside'];
};

/**
 * Creates a resource once. What remains of it is said at the end, also if no answer says whether it
 * was created.
 * @param finish removes the resource if that can be done, and describes what remains
 * @returns the answer, and the id of the resource; null if it was refused
 */
async function create(
  operation: OperationName,
  json: object,
  session: WriteSession,
  name: string,
  finish: (id: number, session: WriteSession) => Promise<string>,
): Promise<{ answer: JsonAnswer; id: number | null }> {
  let id: number | null | undefined;
  session.undoAtEnd(name, async () => {
    if (id === undefined) return `${name} may exist, as no answer said so; look for it by hand`;
    return id === null ? null : `${name} (id ${id}) ${await finish(id, session)}`;
  });
  const answer = await session.service.call(operation, { json });
  id = isDone(answer) ? (readNumber((readData(answer) ?? [])[0]?.id) ?? undefined) : null;
  return { answer, id: id ?? null };
}

/** Announces one piece of a shipped shipment as a return, until a form and a shipment are taken. */
async function announceReturn(
  session: WriteSession,
): Promise<{ announced: Announced | null; finding: VerifyResult }> {
  const name = `${group}.create` as const;
  const subjects = await findSubjects(session);
  if (subjects.length === 0)
    return {
      announced: null,
      finding: cannotTell('no shipped shipment has items, or there are no return reasons'),
    };
  let announced: Announced | null = null;
  const attempt = async (place: Place) => {
    let words = '';
    for (const subject of subjects) {
      const json = toReturnDocument(subject.payload, { ...subject, id: null, place });
      const { answer, id } = await create(
        name,
        json,
        session,
        `return ${subject.reference}`,
        removeReturn,
      );
      words = `included ${place}: ${describeAnswer(answer)}`;
      if (id === null) continue;
      announced = { id, place, subject };
      return toTrial(words, await findDroppedOfReturn(announced, json, session));
    }
    return { works: false, words };
  };
  const toSetting = (included: Place) => entry(name, { included });
  const finding = await tryForms(
    listPlaces(name, session),
    attempt,
    toSetting,
    'no return is shown as it was sent',
  );
  return { announced, finding };
}

/** Judges what the service took by what it shows of it. */
const toTrial = (words: string, dropped: readonly string[]) => ({
  works: dropped.length === 0,
  isTaken: true,
  words:
    dropped.length === 0
      ? `${words}, shown as sent`
      : `${words}, not shown as sent: ${dropped.join(', ')}`,
});

/** Finds shipped shipments with an item, and makes the return of one piece of each. */
async function findSubjects(session: WriteSession): Promise<ReturnSubject[]> {
  const { service } = session;
  const [reason] = await session.readList('returnReasons');
  const reasonId = readNumber(reason?.id);
  if (reasonId === null) return [];
  const query = { include: 'shipmentItems', 'filter[status][in]': ['SHIPPED'], 'page[size]': 20 };
  const answer = await service.call('v3.shipments.list', { query });
  const items = Object.values(splitIncluded(answer)).flat();
  return (readData(answer) ?? [])
    .toReversed()
    .flatMap((shipment) => {
      const item = items.find(({ id }) =>
        readRelated(shipment, 'shipmentItems').includes(readNumber(id) ?? 0),
      );
      const [shipmentId, shipmentItemId] = [readNumber(shipment.id), readNumber(item?.id)];
      const sku = readAttribute(item, 'sku');
      if (shipmentId === null || shipmentItemId === null || typeof sku !== 'string') return [];
      const [productId = null] = readRelated(item, 'product');
      const line = {
        shipmentItemId,
        quantity: 1,
        externalReference: 'verify',
        metadata: { purchases: 'verify' },
      };
      const reasonCode = typeof reason?.code === 'string' ? { reason: reason.code } : { reasonId };
      return [
        {
          reference: makeReference(),
          payload: {
            shipmentId,
            comments: 'verify',
            metadata: { verify: 'yes' },
            items: [{ ...line, ...reasonCode }],
          },
          products: new Map([[shipmentItemId, { sku, product_id: productId }]]),
          reasonIds: [reasonId],
        },
      ];
    })
    .slice(0, maxShipments);
}

/** Reads a return by its id, and names what it does not show as `json` sent it. */
async function findDroppedOfReturn(
  { id }: Announced,
  json: object,
  { service }: WriteSession,
): Promise<string[]> {
  const query = { include: `${returnItemType}s` };
  const answer = await service.call(`${group}.get`, { path: { id }, query });
  return compare(json, returnItemType, toReadBack(id, answer));
}

function toReadBack(id: number, answer: JsonAnswer): ReadBack | null {
  const resource = (readData(answer) ?? []).find((one) => readNumber(one.id) === id);
  if (!isDone(answer) || resource === undefined) return null;
  const related = readRelated(resource, `${resource.type}Items`);
  const isOwn = ({ id: other }: JsonObject) =>
    related.length === 0 || related.includes(readNumber(other) ?? 0);
  return { id, resource, included: Object.values(splitIncluded(answer)).flat().filter(isOwn) };
}

/** Names what a resource and its only item do not show as a document sent it. */
function compare(json: object, itemType: string, shown: ReadBack | null): string[] {
  if (shown === null) return ['the whole, which is not found'];
  const { data, included: atTop } = json as { data: { included?: object[] }; included?: object[] };
  const [item] = data.included ?? atTop ?? [];
  return [
    ...findDropped(data, shown.resource),
    ...findDropped(item ?? {}, selectType(shown, itemType)[0]).map((name) => `${name} of the item`),
  ];
}

async function replaceReturn(announced: Announced, session: WriteSession): Promise<VerifyResult> {
  const name = `${group}.replace` as const;
  const { id, subject } = announced;
  const attempt = async (place: Place) => {
    const payload = { ...subject.payload, comments: 'verify again' };
    const json = toReturnDocument(payload, { ...subject, id, place });
    const answer = await session.service.call(name, { path: { id }, json });
    const words = `included ${place}: ${describeAnswer(answer)}`;
    if (!isDone(answer)) return { works: false, words };
    return toTrial(words, await findDroppedOfReturn(announced, json, session));
  };
  const toSetting = (included: Place) => entry(name, { included });
  return tryForms(listPlaces(name, session), attempt, toSetting, 'ask for the method and the path');
}

async function deleteReturn({ id }: Announced, { service }: WriteSession): Promise<VerifyResult> {
  const answer = await service.call(`${group}.delete`, { path: { id } });
  const after = await service.call(`${group}.get`, { path: { id } });
  const state = after.status === 404 ? 'gone' : 'still there';
  const words = `${describeAnswer(answer)}; afterwards it is ${state}`;
  if (after.status === 404 && isDone(answer)) return promiseHolds(words);
  return isDone(answer)
    ? promiseDiffers(words)
    : cannotTell(`${words}; ask for the method and the path`);
}

/** Removes a return unless it is gone, and says what remains. */
async function removeReturn(id: number, { service }: WriteSession): Promise<string> {
  const isGone = async () => (await service.call(`${group}.get`, { path: { id } })).status === 404;
  if (!(await isGone())) await service.call(`${group}.delete`, { path: { id } });
  return (await isGone()) ? 'is removed' : 'is still announced; remove it by hand';
}

/** Announces one piece of goods, and compares the slip with the list of slips. */
async function announceGoods(session: WriteSession): Promise<VerifyResult> {
  const [method] = await session.readList('mainShippingMethods');
  const [warehouse] = Array.isArray(method?.shippingMethods)
    ? (method.shippingMethods as JsonObject[])
    : [];
  const expectedIn = warehouse?.warehouse;
  if (typeof expectedIn !== 'string') return cannotTell('the service lists name no warehouse');
  const items = [{ sku: await session.findSku(), quantity: 1 }];
  const expectedOn = await session.findLateDay();
  const attempt = async (place: Place) => {
    const reference = makeReference();
    const payload = {
      expectedIn,
      expectedOn,
      comments: 'verify: nothing comes',
      metadata: { purchases: 'x' },
      items,
    };
    const json = toSlipDocument(payload, reference, place);
    const leave = async () => 'stays: tell the warehouse that nothing comes';
    const { answer, id } = await create(slipName, json, session, `slip ${reference}`, leave);
    const words = `included ${place}: ${describeAnswer(answer)}`;
    if (id === null) return { works: false, words };
    return toTrial(words, compare(json, slipItemType, await findSlip(id, session)));
  };
  const toSetting = (included: Place) => entry(slipName, { included });
  const advice = 'ask for the method, the path and the members of a slip';
  return tryForms(listPlaces(slipName, session), attempt, toSetting, advice);
}

/** Finds a slip in the list of slips, which no operation reads by id. */
async function findSlip(id: number, { service }: WriteSession): Promise<ReadBack | null> {
  const first = {
    include: `${slipItemType}s`,
    'filter[status][in]': ['EXPECTED'],
    'page[size]': 100,
  };
  let answer = await service.call(slipList, { query: first });
  for (let page = 1; ; page++) {
    const found = toReadBack(id, answer);
    const links = (answer.json as JsonObject | undefined)?.links;
    const next = page < maxPages && isDone(answer) ? readNextQuery(links, answer.url) : null;
    if (found !== null || next === null) return found;
    answer = await service.call(slipList, { query: next });
  }
}
