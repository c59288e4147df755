/**
 * The operations on shipments and their returns of v2, with those that docs/interface.md does not
 * name.
 */

import { z } from 'zod';
import { hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isInDelivery, listPackageNumbers, toTrackingUrl } from '../robot/tracking.ts';
import { announceReturn } from '../rules/announcements.ts';
import { writePage } from '../rules/pdf.ts';
import { type Client, toFractions } from '../store/client.ts';
import { type Filter, readRows } from '../store/listing.ts';
import { type Order, type Shipment, shipmentStatuses, type Track } from '../store/model.ts';
import { toDayNumber, toDayText } from '../zone.ts';
import { textIn } from './document.ts';
import { dayIn, integerIn, toWarehouseDay } from './older-fields.ts';
import { extraSchemas, readExtras } from './older-orders.ts';
import {
  type Call,
  defineFields,
  defineOperation,
  envelope,
  type Fields,
  flag,
  markExtra,
  members,
  ok,
  type ParameterValues,
  viewRow,
  wholeNumber,
} from './operation.ts';
import { localDateTime, text } from './resource.ts';

/** A shipment or one of its packages, with what answers show of it. */
interface ShipmentView {
  readonly shipment: Shipment;
  readonly order: Order;
  /** The numbers of all its packages. */
  readonly packages: readonly string[];
  readonly packageNumber: string | null;
  readonly track: Track | undefined;
}

/**
 * An item of the track-trace list (docs/interface.md, 15.5 Track-trace item). Its time has no zone.
 */
const trackTraceFields = defineFields<ShipmentView>({
  shipmentId: [z.int(), ({ shipment }) => shipment.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  packageNumber: text,
  shipmentMethod: [z.string(), ({ shipment }) => String(shipment.shippingMethodId)],
  currentTrackTraceStatus: [z.int(), ({ track }) => track?.status],
  currentTrackTraceStatusDateTime: [
    z.iso.datetime({ local: true, precision: 0 }).nullable(),
    ({ track }, { zone }) => zone.writeLocal(track?.statusOnMs ?? null, '')?.slice(0, 19) ?? null,
  ],
  currentTrackTraceExceptionLevel: [z.int().nullable(), ({ track }) => track?.exceptionLevel],
});

/** The status of a shipment about which no carrier reports. */
const unknownStatus = 0;
const commonFields: Fields<ShipmentView> = {
  id: [z.int(), ({ shipment }) => shipment.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  shippingDate: [
    localDateTime.nullable(),
    ({ shipment }, { zone }) => zone.writeLocal(shipment.shippedOnMs, toFractions(shipment).later),
  ],
  numberOfColli: [z.int(), ({ packages }) => packages.length],
  totalNumberOfProducts: [
    z.int(),
    ({ shipment }) => shipment.items.reduce((sum, { quantity }) => sum + quantity, 0),
  ],
  shippingMethodId: [
    z.int(),
    ({ shipment: { shippingMethodId, warehouseCode } }, { lists }) =>
      lists.findShippingMethodId(shippingMethodId, warehouseCode),
  ],
  returnPackageNumber: [text, ({ shipment }) => shipment.returnLabel],
  currentTrackTraceStatus: [z.string(), ({ track }) => String(track?.status ?? unknownStatus)],
  currentTrackTraceExceptionLevel: [text, ({ track }) => track?.exceptionLevel?.toString() ?? null],
  mainShippingMethodId: [z.int(), ({ shipment }) => shipment.shippingMethodId],
};

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
const listedFields = defineFields<ShipmentView>({
  ...commonFields,
  orderNumber: [z.int(), ({ order }) => order.id],
  orderType: [z.int(), ({ shipment }) => shipment.orderTypeId],
  shippedColli: [z.array(shippedCollo), listColli],
  shippedProducts: [z.array(shippedProduct), listProducts],
  /** The lists spell this name so. */
  warehouseAbbrevation: [z.string(), ({ shipment }) => shipment.warehouseCode],
});
const listAnswer = envelope(z.array(listedFields.schema.extend(extraSchemas)));

function listColli({ packages }: ShipmentView, { options: { showsExtras } }: Client) {
  return packages.map((packageNumber, index) => {
    const collo = { colloNr: String(index + 1), packageNumber };
    return showsExtras ? { ...collo, trackTraceUrl: toTrackingUrl(packageNumber) } : collo;
  });
}

function listProducts({ shipment, order }: ShipmentView, { products }: Client) {
  return shipment.items.map((item) => {
    const { sku, quantity, lotNumber } = item;
    const orderItem = order.items.find(({ id }) => id === item.orderItemId);
    const { extra6 = null, extra7 = null } = orderItem?.metadata ?? {};
    return {
      sku,
      quantity,
      serialNrs: item.serialNumbers,
      weight: products.get(sku)?.weight ?? null,
      tht: item.expirationDate,
      extra6,
      extra7,
      lotNumber,
      parts: [],
    };
  });
}

const foundItem = z.strictObject({
  ...members(z.int(), ['shipmentItemId', 'quantity']),
  sku: z.string(),
  lotNumber: text,
});
/** A shipment found by criteria (docs/interface.md, 15.7 Shipment item of the criteria lookup). */
const foundFields = defineFields<ShipmentView>({
  ...commonFields,
  trackingNumber: [z.int(), ({ shipment }) => shipment.id],
  trackAndTraceCode: [text, ({ packageNumber }) => packageNumber],
  trackAndTraceBarCode: [text, ({ packageNumber }) => packageNumber],
  packageNumber: text,
  shipmentItems: [
    z.array(foundItem),
    ({ shipment: { items } }) =>
      items.map(({ id: shipmentItemId, quantity, sku, lotNumber }) => {
        return { shipmentItemId, quantity, sku, lotNumber };
      }),
  ],
  warehouseAbbreviation: [z.string(), ({ shipment }) => shipment.warehouseCode],
});
const foundAnswer = envelope(z.array(foundFields.schema));

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
    quantity: z.int().min(1, 'must be at least 1').max(1_000_000),
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
    documented: false,
    answer: envelope(z.array(trackTraceFields.schema)),
    run: (call) => {
      const shipments = [...call.client.inDelivery].filter((row) => viewRow(call, 'shipment', row));
      const items = shipments.flatMap((shipment) =>
        shipment.tracks.filter(isInDelivery).map((track) => {
          const { packageNumber } = track;
          const view = { ...viewShipment(call.client, shipment), track, packageNumber };
          return trackTraceFields.show(view, call.client);
        }),
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
    documented: false,
    body: criteria.nullable(),
    answer: foundAnswer,
    run: (call) => answerFound(call, call.body ?? {}),
  }),
  defineOperation({
    name: 'v2.rma.add',
    route: 'POST /v2/rma/add',
    summary: 'Announces a return of one shipment item',
    documented: false,
    body: rmaBody,
    answer: envelope(z.int()),
    run: ({ client, body: { shipmentId, remark, externalReference, rmaItems }, nowMs }) => {
      const { returnReasonId: reasonId, metadata, ...item } = rmaItems;
      const line = {
        ...item,
        reasonId,
        externalReference: item.externalReference || null,
        metadata: metadata ?? {},
      };
      const texts = { externalReference: externalReference || null, comments: remark || null };
      const draft = { shipmentId, ...texts, metadata: {}, lines: [line] };
      return ok('Return announced', announceReturn(client, draft, nowMs).id);
    },
  }),
  defineOperation({
    name: 'v2.returnLabel.get',
    route: 'GET /v2/returnlabel/get/:shipmentId',
    summary: 'A label by which a customer sends something back',
    documented: false,
    query: labelQuery,
    answer: envelope(labelSchema),
    run: makeReturnLabel,
  }),
  defineOperation({
    name: 'oldest.shipment.search',
    route: 'POST /shipment/search',
    summary: 'Shipments by criteria, all optional',
    described: false,
    form: 'allowed',
    body: z
      .strictObject({ Id: integerIn.nullish(), ExternalOrderNumber: textIn, ShippingDate: dayIn })
      .nullable(),
    answer: foundAnswer,
    run: (call) => {
      const { Id: id, ExternalOrderNumber, ShippingDate: shippingDate } = call.body ?? {};
      return answerFound(call, { id, externalOrderNumber: ExternalOrderNumber, shippingDate });
    },
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
        ? answerListed(call, [])
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
      const shipments = call.body.ids.map((id) => {
        const [shipment] = findShipments(call, { id });
        if (shipment === undefined) throw ruleBroken(`There is no shipment ${id}`);
        return shipment;
      });
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
    documented: false,
    replacedBy: 'GET /v3/shipments with filters on orderType and status',
    ...(call.startsWith('POST') && { body: orderTypes }),
    answer: listAnswer,
    run: (request) =>
      answerListed(request, [...filterByOrderTypes(request), ...filterByStatus(request)]),
  });
}

/**
 * Answers with the listed shipments that pass all filters and that the client has not acknowledged.
 */
function answerListed(call: Call, filters: readonly Filter<Shipment>[]) {
  const listed = readRows(call.client.listedShipments.select(filters));
  const shown = listed.filter(
    (row) => !row.acknowledged && viewRow(call, 'shipment', row) !== null,
  );
  return answerShipments(call.client, [...shown]);
}

function answerShipments(client: Client, shipments: readonly Shipment[]) {
  const shown = shipments.map((shipment) => {
    const view = viewShipment(client, shipment);
    return { ...listedFields.show(view, client), ...readExtras(view.order.metadata) };
  });
  return ok('Shipments', shown);
}

/**
 * Answers as the criteria lookup does: with one item for each package, which lists the whole
 * shipment.
 */
function answerFound(call: Call, wanted: z.output<typeof criteria>) {
  const shown = findShipments(call, wanted).flatMap((shipment) => {
    const view = viewShipment(call.client, shipment);
    const packages = view.packages.length > 0 ? view.packages : [null];
    return packages.map((packageNumber, index) =>
      foundFields.show({ ...view, packageNumber, track: shipment.tracks[index] }, call.client),
    );
  });
  return ok('Shipments', shown);
}

function viewShipment(client: Client, shipment: Shipment): ShipmentView {
  return {
    shipment,
    order: client.orders.get(shipment.orderId) as Order,
    packages: listPackageNumbers(shipment),
    packageNumber: null,
    track: shipment.tracks[0],
  };
}

function filterByStatus({ client, path: { status: wanted } }: Call): Filter<Shipment>[] {
  if (wanted === undefined) return [];
  const status = shipmentStatuses.find((known) => known === wanted.toUpperCase());
  if (status === undefined)
    throw ruleBroken(`There is no status ${wanted}; known: ${shipmentStatuses.join(', ')}`);
  return [client.listedShipments.filterByKeys('status', [status])];
}

function filterByOrderTypes({
  client,
  body,
}: Call<unknown, z.output<typeof orderTypes>>): Filter<Shipment>[] {
  return body?.orderTypes
    ? [client.listedShipments.filterByKeys('orderType', body.orderTypes)]
    : [];
}

/**
 * Finds the visible shipments that meet all criteria. Shipments that are named by id or order may
 * have any age.
 */
function findShipments(call: Call, wanted: z.output<typeof criteria>): readonly Shipment[] {
  const { client, nowMs } = call;
  const { zone, listedShipments } = client;
  const day = toWarehouseDay(zone, wanted.shippingDate);
  const order = wanted.externalOrderNumber
    ? (client.orderByNumber.get(wanted.externalOrderNumber) ?? null)
    : undefined;
  const meetsCriteria = (shipment: Shipment) =>
    shipment.visibleFromMs <= nowMs &&
    viewRow(call, 'shipment', shipment) !== null &&
    (order === undefined || shipment.orderId === order?.id) &&
    (day === null || (shipment.shippedOnMs !== null && zone.day(shipment.shippedOnMs) === day));

  if (typeof wanted.id === 'number')
    return [client.shipments.get(wanted.id) ?? []].flat().filter(meetsCriteria);
  if (order !== undefined)
    return order === null ? [] : client.listShipments(order).filter(meetsCriteria);
  if (day === null) return [...listedShipments].filter(meetsCriteria);

  const [before, after] = [-1, 1].map((days) => toDayText(toDayNumber(day) + days));
  return [...readRows(listedShipments.filterByDays('shippedOn', before, after))].filter(
    meetsCriteria,
  );
}

/**
 * Creates the return label of a shipped shipment (docs/interface.md, 15.9 Return label). The same
 * shipment and method give the same label. Its number becomes the `returnLabel` of the shipment.
 */
async function makeReturnLabel(call: LabelCall) {
  const id = Number(call.path.shipmentId);
  const shipment = Number.isSafeInteger(id) ? call.client.shipments.get(id) : undefined;
  if (shipment === undefined || shipment.visibleFromMs > call.nowMs)
    throw ruleBroken('Shipment not found');
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
