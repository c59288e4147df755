/**
 * The operations on shipments and their returns of v2, with those that docs/interface.md does not
 * name.
 */

import { z } from 'zod';
import { hourMs } from '../../core/time.ts';
import { requireFound, ruleBroken } from '../refusal.ts';
import { isInDelivery, isTracked, listPackageNumbers, toTrackingUrl } from '../robot/shipments.ts';
import { announceReturn } from '../rules/announcements.ts';
import { writePage } from '../rules/pdf.ts';
import type { Client } from '../store/client.ts';
import {
  type Order,
  type Shipment,
  type ShipmentStatus,
  shipmentStatuses,
  type Track,
} from '../store/model.ts';
import { extraFields, lowerNames } from './older-orders.ts';
import {
  type Call,
  dayIn,
  defineFields,
  defineOperation,
  envelope,
  type Fields,
  flag,
  integerIn,
  markExtra,
  members,
  ok,
  type ParameterValues,
  quantityIn,
  readTexts,
  textIn,
  toWarehouseDay,
  viewRow,
  wholeNumber,
} from './operation.ts';
import { localDateTime, text } from './resource.ts';

/**
 * An item of the track-trace list (docs/interface.md, 15.5 Track-trace item). Its time has no zone.
 */
const trackTraceItem = z.strictObject({
  shipmentId: z.int(),
  ...members(z.string(), ['externalOrderNumber', 'shipmentMethod']),
  packageNumber: text,
  currentTrackTraceStatus: z.int(),
  currentTrackTraceStatusDateTime: z.iso.datetime({ local: true, precision: 0 }).nullable(),
  currentTrackTraceExceptionLevel: z.int().nullable(),
});

/** A package of a shipment. A shipment that has none yet is shown as one without a number. */
interface Parcel {
  readonly shipment: Shipment;
  readonly order: Order;
  readonly packageNumber: string | null;
  readonly track: Track | undefined;
}

function listParcels({ orders }: Client, shipment: Shipment): Parcel[] {
  const order = orders.get(shipment.orderId) as Order;
  const numbers = listPackageNumbers(shipment);
  return (numbers.length > 0 ? numbers : [null]).map((packageNumber, index) => {
    return { shipment, order, packageNumber, track: shipment.tracks[index] };
  });
}

/** The status of a shipment about which no carrier reports. */
const unknownStatus = 0;

/** The members that a list and the criteria lookup have in common. */
const commonFields = {
  id: [z.int(), ({ shipment }) => shipment.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  shippingDate: [
    localDateTime.nullable(),
    ({ shipment }, { zone }) => zone.writeLocal(shipment.shippedOnMs, shipment.id),
  ],
  numberOfColli: [z.int(), ({ shipment }) => listPackageNumbers(shipment).length],
  totalNumberOfProducts: [
    z.int(),
    ({ shipment: { items } }) => items.reduce((sum, { quantity }) => sum + quantity, 0),
  ],
  shippingMethodId: [
    z.int(),
    ({ shipment: { shippingMethodId, warehouseCode } }, { lists }) =>
      lists.findShippingMethodId(shippingMethodId, warehouseCode),
  ],
  mainShippingMethodId: [z.int(), ({ shipment }) => shipment.shippingMethodId],
  returnPackageNumber: [text, ({ shipment }) => shipment.returnLabel],
  currentTrackTraceStatus: [z.string(), ({ track }) => String(track?.status ?? unknownStatus)],
  currentTrackTraceExceptionLevel: [text, ({ track }) => track?.exceptionLevel?.toString() ?? null],
} satisfies Fields<Parcel>;

const shippedCollo = z.strictObject({
  ...members(z.string(), ['colloNr', 'packageNumber']),
  trackTraceUrl: markExtra(z.string()).optional(),
});
const shippedProduct = z.strictObject({
  sku: z.string(),
  quantity: z.int(),
  serialNrs: z.array(z.string()),
  weight: z.number().nullable(),
  tht: z.iso.date().nullable(),
  ...members(text, ['extra6', 'extra7', 'lotNumber']),
  parts: z.array(z.never()),
});
/** A shipment of a list (docs/interface.md, 15.6 Shipment item of the lists). */
const listedItem = defineFields<Parcel>({
  ...commonFields,
  orderNumber: [z.int(), ({ order }) => order.id],
  orderType: [z.int(), ({ shipment }) => shipment.orderTypeId],
  shippedColli: [
    z.array(shippedCollo),
    ({ shipment }, { options }) =>
      listPackageNumbers(shipment).map((packageNumber, index) => ({
        colloNr: String(index + 1),
        packageNumber,
        ...(options.showsExtras && { trackTraceUrl: toTrackingUrl(packageNumber) }),
      })),
  ],
  shippedProducts: [z.array(shippedProduct), listProducts],
  /** The lists spell this name so. */
  warehouseAbbrevation: [z.string(), ({ shipment }) => shipment.warehouseCode],
  ...extraFields,
});
const listAnswer = envelope(z.array(listedItem.schema));

function listProducts({ shipment, order }: Parcel, { products }: Client) {
  return shipment.items.map((item) => {
    const { sku, quantity, lotNumber, serialNumbers: serialNrs, expirationDate: tht } = item;
    const ordered = order.items.find(({ id }) => id === item.orderItemId);
    const { extra6 = null, extra7 = null } = ordered?.metadata ?? {};
    const weight = products.get(sku)?.weight ?? null;
    return { sku, quantity, serialNrs, weight, tht, extra6, extra7, lotNumber, parts: [] };
  });
}

const foundPart = z.strictObject({
  ...members(z.int(), ['shipmentItemId', 'quantity']),
  sku: z.string(),
  lotNumber: text,
});
/**
 * A package found by criteria, with the items of its whole shipment (docs/interface.md, 15.7
 * Shipment item of the criteria lookup).
 */
const foundItem = defineFields<Parcel>({
  ...commonFields,
  trackingNumber: commonFields.id,
  packageNumber: text,
  trackAndTraceCode: [text, ({ packageNumber }) => packageNumber],
  trackAndTraceBarCode: [text, ({ packageNumber }) => packageNumber],
  shipmentItems: [
    z.array(foundPart),
    ({ shipment: { items } }) =>
      items.map(({ id: shipmentItemId, quantity, sku, lotNumber }) => {
        return { shipmentItemId, quantity, sku, lotNumber };
      }),
  ],
  warehouseAbbreviation: [z.string(), ({ shipment }) => shipment.warehouseCode],
});
const foundAnswer = envelope(z.array(foundItem.schema));

const orderTypes = z.strictObject({ orderTypes: z.array(z.int()).optional() }).nullable();
const criteria = z.strictObject({
  id: z.int().nullish(),
  externalOrderNumber: textIn,
  shippingDate: dayIn,
});
const rmaBody = z.strictObject({
  shipmentId: z.int(),
  ...members(textIn, ['remark', 'externalReference']),
  // One object, not an array (docs/interface.md, 15.8 Create a return: body).
  rmaItems: z.strictObject({
    shipmentItemId: z.int(),
    quantity: quantityIn,
    returnReasonId: z.int(),
    externalReference: textIn,
    metadata: z
      .strictObject({
        purchasePrice: z.union([z.string(), z.number()]).nullish(),
        reference: textIn,
      })
      .nullish(),
  }),
});
const labelQuery = { shippingMethodId: wholeNumber, paperless: flag } as const;
type LabelCall = Call<ParameterValues<typeof labelQuery>, null>;
const labelSchema = z.strictObject({
  mimeType: z.literal('application/pdf'),
  ...members(z.string(), ['fileName', 'shippingMethodId', 'packageNumber']),
  isPaperlessReturnShippingMethod: z.boolean(),
  /**
   * docs/interface.md does not show further fields. The names of these are our decision
   * (docs/sandbox.md).
   */
  ...members(z.base64(), ['content', 'data']),
});

/**
 * The v2 operations on shipments (docs/interface.md, 15.1 Operations). Their lists have no pages.
 */
export const olderShipmentOperations = [
  defineOperation({
    name: 'v2.shipment.trackTrace',
    route: 'GET /v2/shipment/tracktrace',
    summary: 'Where parcels are that are not delivered yet; at most once per hour',
    advised: { everyMs: hourMs, words: 'at most once an hour' },
    answer: envelope(z.array(trackTraceItem)),
    run: (call) => {
      const { shipments, orders, zone } = call.client;
      const tracked = shipments.filter(
        (row) => isTracked(row, call.nowMs) && viewRow(call, row) !== null,
      );
      const items = tracked.flatMap(({ id, orderId, shippingMethodId, tracks }) =>
        tracks.filter(isInDelivery).map((track) => ({
          shipmentId: id,
          externalOrderNumber: orders.get(orderId)?.externalOrderNumber,
          packageNumber: track.packageNumber,
          shipmentMethod: String(shippingMethodId),
          currentTrackTraceStatus: track.status,
          currentTrackTraceStatusDateTime:
            zone.writeLocal(track.statusOnMs, id)?.slice(0, 19) ?? null,
          currentTrackTraceExceptionLevel: track.exceptionLevel,
        })),
      );
      return ok('Track-trace', items);
    },
  }),
  defineShipmentList('list', 'GET list', 'Shipments no older than 90 days'),
  defineShipmentList('listByStatus', 'GET list/:status', 'Shipments in one status'),
  defineShipmentList('listByOrderTypes', 'POST list', 'Shipments of certain order types'),
  defineShipmentList(
    'listByOrderTypesAndStatus',
    'POST list/:status',
    'Shipments of certain order types in one status',
  ),
  defineOperation({
    name: 'v2.shipment.search',
    route: 'POST /v2/shipment/search',
    summary: 'Shipments by criteria, all optional',
    replacedBy: 'GET /v3/shipments or GET /v3/shipments/:id',
    body: criteria.nullable(),
    answer: foundAnswer,
    run: (call) => answerFound(call, call.body ?? {}),
  }),
  defineOperation({
    name: 'v2.rma.add',
    route: 'POST /v2/rma/add',
    summary: 'Announces a return of one shipment item',
    body: rmaBody,
    answer: envelope(z.int()),
    run: ({ client, body: { shipmentId, remark, externalReference, rmaItems }, nowMs }) => {
      const { returnReasonId: reasonId, metadata, ...item } = rmaItems;
      const reference = readTexts(item, ['externalReference']);
      const line = { ...item, ...reference, reasonId, metadata: metadata ?? {} };
      const texts = readTexts({ externalReference, comments: remark }, [
        'externalReference',
        'comments',
      ]);
      const draft = { shipmentId, ...texts, metadata: {}, lines: [line] };
      return ok('Return announced', announceReturn(client, draft, nowMs).id);
    },
  }),
  defineOperation({
    name: 'v2.returnLabel.get',
    route: 'GET /v2/returnlabel/get/:shipmentId',
    summary: 'A label by which a customer sends something back',
    query: labelQuery,
    answer: envelope(labelSchema),
    run: makeReturnLabel,
  }),
  defineOperation({
    name: 'oldest.shipment.search',
    route: 'POST /shipment/search',
    summary: 'Shipments by criteria, all optional',
    described: false,
    body: z
      .strictObject({ Id: integerIn.nullish(), ExternalOrderNumber: textIn, ShippingDate: dayIn })
      .nullable(),
    answer: foundAnswer,
    run: (call) => answerFound(call, lowerNames(call.body ?? {}) as z.output<typeof criteria>),
  }),
  defineOperation({
    name: 'v2.shipment.get',
    route: 'GET /v2/shipment/get',
    summary: 'One shipment of any age, or all that the list has',
    described: false,
    query: { id: wholeNumber },
    answer: listAnswer,
    run: (call) => {
      const { id } = call.query;
      return id === undefined
        ? answerListed(call)
        : answerShipments(call.client, findShipments(call, { id }));
    },
  }),
  {
    ...defineShipmentList('byOrderType', 'POST byordertype', 'Shipments of certain order types'),
    described: false,
    replacedBy: null,
  },
  defineOperation({
    name: 'v2.shipment.sync',
    route: 'POST /v2/shipment/sync',
    summary: 'Acknowledges shipments, so that the v2 lists leave them out',
    described: false,
    body: z.strictObject({ ids: z.array(z.int('must be a whole number')) }),
    answer: envelope(z.null()),
    run: (call) => {
      const shipments = call.body.ids.map((id) =>
        requireFound(findShipments(call, { id })[0], `There is no shipment ${id}`),
      );
      for (const shipment of shipments) shipment.acknowledged = true;
      return ok('Shipments acknowledged');
    },
  }),
];

/**
 * Defines a list of shipments: of one status if the route names it, of certain order types if it
 * has a body.
 */
function defineShipmentList(verb: string, call: `${'GET' | 'POST'} ${string}`, summary: string) {
  return defineOperation<Record<never, never>, typeof orderTypes>({
    name: `v2.shipment.${verb}`,
    route: call.replace(' ', ' /v2/shipment/') as `GET /${string}`,
    summary,
    replacedBy: 'GET /v3/shipments with filters on orderType and status',
    ...(call.startsWith('POST') && { body: orderTypes }),
    answer: listAnswer,
    run: (request) => answerListed(request, request.body?.orderTypes, readStatus(request)),
  });
}

/** Answers with the listed shipments that meet the conditions and that are not acknowledged. */
function answerListed(call: Call, orderTypes?: readonly number[], wanted?: ShipmentStatus) {
  const { client, nowMs } = call;
  const isListed = client.createShipmentTest(nowMs);
  const isShown = (row: Shipment) =>
    isListed(row) &&
    !row.acknowledged &&
    (orderTypes?.includes(row.orderTypeId) ?? true) &&
    (wanted === undefined || row.status === wanted) &&
    viewRow(call, row) !== null;
  return answerShipments(client, client.shipments.filter(isShown));
}

const answerShipments = (client: Client, shipments: readonly Shipment[]) => {
  const first = shipments.flatMap((shipment) => listParcels(client, shipment).slice(0, 1));
  const items = first.map((parcel) => listedItem.show(parcel, client));
  return ok('Shipments', items);
};

/** Answers as the criteria lookup does: with one item for each package. */
function answerFound(call: Call, wanted: z.output<typeof criteria>) {
  const { client } = call;
  const parcels = findShipments(call, wanted).flatMap((row) => listParcels(client, row));
  const items = parcels.map((parcel) => foundItem.show(parcel, client));
  return ok('Shipments', items);
}

function readStatus({ path: { status: wanted } }: Call): ShipmentStatus | undefined {
  const status = shipmentStatuses.find((known) => known === wanted?.toUpperCase());
  if (wanted !== undefined && status === undefined)
    throw ruleBroken(`There is no status ${wanted}; known: ${shipmentStatuses.join(', ')}`);
  return status;
}

/**
 * Finds the visible shipments that meet all criteria. Shipments that are named by id or order may
 * have any age.
 */
function findShipments(
  call: Call,
  { id, externalOrderNumber: number, shippingDate }: z.output<typeof criteria>,
): readonly Shipment[] {
  const { client, nowMs } = call;
  const { zone, shipments, orderByNumber } = client;
  const day = toWarehouseDay(zone, shippingDate);
  const order = orderByNumber.get(number ?? '');
  const isNamed = typeof id === 'number' || Boolean(number);
  const isListed = client.createShipmentTest(nowMs);

  const known = typeof id === 'number' ? [shipments.get(id) ?? []].flat() : [...shipments];
  return known.filter(
    (row) =>
      (!number || row.orderId === order?.id) &&
      (day === null || (row.shippedOnMs !== null && zone.day(row.shippedOnMs) === day)) &&
      (isNamed ? row.visibleFromMs <= nowMs : isListed(row)) &&
      viewRow(call, row) !== null,
  );
}

/**
 * Creates the return label of a shipped shipment (docs/interface.md, 15.9 Return label). The same
 * shipment and method give the same label. Its number becomes the `returnLabel` of the shipment.
 */
async function makeReturnLabel(call: LabelCall) {
  const id = Number(call.path.shipmentId);
  const shipment = requireFound(call.client.findShipment(id, call.nowMs), 'Shipment not found');
  if (shipment.status !== 'SHIPPED') throw noLabel('the shipment has not been shipped');

  const method = chooseMethod(call);
  const isPaperless = method.paperless ?? false;
  const packageNumber = `3SRET${String(id).padStart(9, '0')}${method.id}`;
  const document = await writePage([
    'Return label',
    method.name,
    `Shipment ${id}`,
    packageNumber,
    `To warehouse ${shipment.warehouseCode}`,
    ...(isPaperless ? ['Paperless: show this code at the counter'] : []),
  ]);
  const content = document.toString('base64');

  shipment.returnLabel = packageNumber;
  // This read changes the shipment.
  call.world.changes++;
  return ok('Return label', {
    mimeType: 'application/pdf',
    fileName: `return-label-${id}.pdf`,
    shippingMethodId: String(method.id),
    packageNumber,
    isPaperlessReturnShippingMethod: isPaperless,
    content,
    data: content,
  });
}

const noLabel = (why: string) => ruleBroken(`No label could be made: ${why}`);

function chooseMethod({ client, query: { shippingMethodId, paperless = false } }: LabelCall) {
  const method = client.lists.returnShippingMethods.find((known) =>
    shippingMethodId === undefined ? !paperless || known.paperless : known.id === shippingMethodId,
  );
  if (method === undefined)
    throw noLabel(`there is no return shipping method ${shippingMethodId ?? 'without paper'}`);
  if (paperless && !method.paperless) throw noLabel(`${method.name} is not paperless`);
  return method;
}
