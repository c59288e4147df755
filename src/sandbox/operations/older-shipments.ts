/**
 * The operations on shipments and their returns of v2, with those that docs/interface.md does not
 * name.
 */

import { z } from 'zod';
import { hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isInDelivery, listPackageNumbers, toTrackingUrl } from '../robot/fulfil.ts';
import { announceReturn } from '../rules/announcements.ts';
import { writePage } from '../rules/pdf.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { type Filter, readRowsAfter } from '../store/listing.ts';
import {
  type Order,
  type Shipment,
  type ShipmentItem,
  shipmentStatuses,
  type Track,
} from '../store/model.ts';
import { toDayNumber } from '../zone.ts';
import { dayIn, integerIn, members, toWarehouseDay } from './older-fields.ts';
import { extraSchemas, readExtras } from './older-orders.ts';
import {
  type Call,
  defineOperation,
  envelope,
  flag,
  markExtra,
  ok,
  type ParameterValues,
  wholeNumber,
} from './operation.ts';
import { textIn } from './v3-document.ts';

const text = z.string().nullable();

/** A shipment or one of its packages, with what answers show of it. */
interface ShipmentView {
  readonly store: ClientStore;
  readonly shipment: Shipment;
  readonly order: Order;
  /** The numbers of all its packages. */
  readonly packages: readonly string[];
  readonly packageNumber: string | null;
  readonly track: Track | undefined;
  /** The lines that an item of the criteria lookup lists. */
  readonly contents: readonly Contents[];
}

type Contents = Pick<ShipmentItem, 'id' | 'quantity' | 'sku' | 'lotNumber'>;

/** The members of an answer: the schema of each, and how to read it. */
type Fields = Readonly<Record<string, readonly [z.ZodType, (view: ShipmentView) => unknown]>>;

const toSchema = (fields: Fields) =>
  z.strictObject(
    Object.fromEntries(Object.entries(fields).map(([name, [schema]]) => [name, schema])),
  );
const show = (fields: Fields, view: ShipmentView) =>
  Object.fromEntries(Object.entries(fields).map(([name, [, read]]) => [name, read(view)]));

/**
 * An item of the track-trace list (docs/interface.md, 15.5 Track-trace item). Its time has no zone.
 */
const trackTraceFields: Fields = {
  shipmentId: [z.int(), ({ shipment }) => shipment.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  packageNumber: [text, ({ packageNumber }) => packageNumber],
  shipmentMethod: [z.string(), ({ shipment }) => String(shipment.shippingMethodId)],
  currentTrackTraceStatus: [z.int(), ({ track }) => track?.status],
  currentTrackTraceStatusDateTime: [
    z.iso.datetime({ local: true, precision: 0 }).nullable(),
    ({ store, track }) =>
      store.zone.writeLocal(track?.statusOnMs ?? null, '')?.slice(0, 19) ?? null,
  ],
  currentTrackTraceExceptionLevel: [z.int().nullable(), ({ track }) => track?.exceptionLevel],
};

/** The status of a shipment about which no carrier reports. */
const unknownStatus = 0;
const commonFields: Fields = {
  id: [z.int(), ({ shipment }) => shipment.id],
  externalOrderNumber: [z.string(), ({ order }) => order.externalOrderNumber],
  shippingDate: [
    z.iso.datetime({ local: true, precision: 7 }).nullable(),
    ({ store, shipment }) =>
      store.zone.writeLocal(shipment.shippedOnMs, toFractions(shipment).later),
  ],
  numberOfColli: [z.int(), ({ packages }) => packages.length],
  totalNumberOfProducts: [
    z.int(),
    ({ shipment }) => shipment.items.reduce((sum, { quantity }) => sum + quantity, 0),
  ],
  shippingMethodId: [
    z.int(),
    ({ store, shipment }) =>
      store.lists.findShippingMethodId(shipment.shippingMethodId, shipment.warehouseCode),
  ],
  returnPackageNumber: [text, ({ shipment }) => shipment.returnLabel],
  currentTrackTraceStatus: [z.string(), ({ track }) => String(track?.status ?? unknownStatus)],
  currentTrackTraceExceptionLevel: [text, ({ track }) => track?.exceptionLevel?.toString() ?? null],
  mainShippingMethodId: [z.int(), ({ shipment }) => shipment.shippingMethodId],
};

const trackTraceUrl = markExtra(z.string()).optional();
const shippedProduct = z.strictObject({
  sku: z.string(),
  quantity: z.int(),
  serialNrs: z.array(z.string()),
  weight: z.number().nullable(),
  tht: z.iso.date().nullable(),
  ...members(text, ['extra6', 'extra7', 'lotNumber']),
  parts: z.array(z.never()),
});
/**
 * A shipment of a list, but for its extra fields (docs/interface.md, 15.6 Shipment item of the
 * lists).
 */
const listedFields: Fields = {
  ...commonFields,
  orderNumber: [z.int(), ({ order }) => order.id],
  orderType: [z.int(), ({ shipment }) => shipment.orderTypeId],
  shippedColli: [
    z.array(
      z.strictObject({ ...members(z.string(), ['colloNr', 'packageNumber']), trackTraceUrl }),
    ),
    ({ store, packages }) =>
      packages.map((packageNumber, index) => ({
        colloNr: String(index + 1),
        packageNumber,
        ...(store.showsExtras && { trackTraceUrl: toTrackingUrl(packageNumber) }),
      })),
  ],
  shippedProducts: [z.array(shippedProduct), toShippedProducts],
  /** The lists spell this name so. */
  warehouseAbbrevation: [z.string(), ({ shipment }) => shipment.warehouseCode],
};
/** A shipment found by criteria (docs/interface.md, 15.7 Shipment item of the criteria lookup). */
const foundFields: Fields = {
  ...commonFields,
  trackingNumber: [z.int(), ({ shipment }) => shipment.id],
  trackAndTraceCode: [text, ({ packageNumber }) => packageNumber],
  trackAndTraceBarCode: [text, ({ packageNumber }) => packageNumber],
  packageNumber: [text, ({ packageNumber }) => packageNumber],
  shipmentItems: [
    z.array(
      z.strictObject({
        shipmentItemId: z.int(),
        quantity: z.int(),
        sku: z.string(),
        lotNumber: text,
      }),
    ),
    ({ contents }) =>
      contents.map(({ id, quantity, sku, lotNumber }) => ({
        shipmentItemId: id,
        quantity,
        sku,
        lotNumber,
      })),
  ],
  warehouseAbbreviation: [z.string(), ({ shipment }) => shipment.warehouseCode],
};

function toShippedProducts({ store, shipment, order }: ShipmentView) {
  return shipment.items.map(
    ({ sku, quantity, serialNumbers, expirationDate, lotNumber, orderItemId }) => {
      const { extra6 = null, extra7 = null } =
        order.items.find(({ id }) => id === orderItemId)?.metadata ?? {};
      const weight = store.products.get(sku)?.weight ?? null;
      const shown = { sku, quantity, serialNrs: serialNumbers, weight, tht: expirationDate };
      return { ...shown, extra6, extra7, lotNumber, parts: [] };
    },
  );
}

const orderTypes = z.strictObject({ orderTypes: z.array(z.int()).optional() }).nullable();
const listAnswer = envelope(z.array(toSchema(listedFields).extend(extraSchemas)));
const criteria = z.strictObject({
  id: z.int().nullish(),
  externalOrderNumber: textIn,
  shippingDate: dayIn,
});
const foundAnswer = envelope(z.array(toSchema(foundFields)));
const rmaBody = z.strictObject({
  shipmentId: z.int(),
  remark: textIn,
  externalReference: textIn,
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
    answer: envelope(z.array(toSchema(trackTraceFields))),
    run: (call) => {
      const shipments = [...call.store.inDelivery].filter((shipment) =>
        call.viewRow('shipment', shipment),
      );
      const items = shipments.flatMap((shipment) => {
        const view = viewShipment(call.store, shipment);
        const tracks = shipment.tracks.filter(isInDelivery);
        return tracks.map((track) =>
          show(trackTraceFields, { ...view, track, packageNumber: track.packageNumber }),
        );
      });
      return ok('Track-trace', items);
    },
  }),
  defineShipmentList(
    'v2.shipment.list',
    'GET /v2/shipment/list',
    'Shipments no older than 90 days',
  ),
  defineShipmentList(
    'v2.shipment.listByStatus',
    'GET /v2/shipment/list/:status',
    'Shipments in one status',
  ),
  defineShipmentList(
    'v2.shipment.listByOrderTypes',
    'POST /v2/shipment/list',
    'Shipments of certain order types',
  ),
  defineShipmentList(
    'v2.shipment.listByOrderTypesAndStatus',
    'POST /v2/shipment/list/:status',
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
    run: ({ simulation, body: { shipmentId, remark, externalReference, rmaItems }, nowMs }) => {
      const {
        returnReasonId: reasonId,
        externalReference: reference,
        metadata,
        ...item
      } = rmaItems;
      const line = {
        ...item,
        reasonId,
        externalReference: reference || null,
        metadata: metadata ?? {},
      };
      const texts = { externalReference: externalReference || null, comments: remark || null };
      const draft = { shipmentId, ...texts, metadata: {}, lines: [line] };
      return ok('Return announced', announceReturn(simulation, draft, nowMs).id);
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
      const { Id, ExternalOrderNumber, ShippingDate } = call.body ?? {};
      return answerFound(call, {
        id: Id,
        externalOrderNumber: ExternalOrderNumber,
        shippingDate: ShippingDate,
      });
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
        : answerShipments(call.store, findShipments(call, { id }));
    },
  }),
  defineOperation({
    name: 'v2.shipment.byOrderType',
    route: 'POST /v2/shipment/byordertype',
    summary: 'Shipments of certain order types',
    described: false,
    body: orderTypes,
    answer: listAnswer,
    run: (call) => answerListed(call, filterByOrderTypes(call)),
  }),
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
function defineShipmentList(name: string, route: `${'GET' | 'POST'} /${string}`, summary: string) {
  return defineOperation<Record<never, never>, typeof orderTypes>({
    name,
    route,
    summary,
    documented: false,
    replacedBy: 'GET /v3/shipments with filters on orderType and status',
    ...(route.startsWith('POST') && { body: orderTypes }),
    answer: listAnswer,
    run: (call) => answerListed(call, [...filterByOrderTypes(call), ...filterByStatus(call)]),
  });
}

/**
 * Answers with the listed shipments that pass all filters and that the client has not acknowledged.
 */
function answerListed(call: Call, filters: readonly Filter<Shipment>[]) {
  const shipments = [...readRowsAfter(call.store.listedShipments.select(filters), 0)];
  const shown = shipments.filter(
    (shipment) => !shipment.acknowledged && call.viewRow('shipment', shipment),
  );
  return answerShipments(call.store, shown);
}

function answerShipments(store: ClientStore, shipments: readonly Shipment[]) {
  const shown = shipments.map((shipment) => {
    const view = viewShipment(store, shipment);
    return { ...show(listedFields, view), ...readExtras(view.order.metadata) };
  });
  return ok('Shipments', shown);
}

/**
 * Answers as the criteria lookup does: with one item for each package or shipment, as the switch
 * `foundItems` says, and with the lines of the shipment or the package, as `foundContents` says.
 */
function answerFound(call: Call, wanted: z.output<typeof criteria>) {
  const shown = findShipments(call, wanted).flatMap((shipment) => {
    const view = viewShipment(call.store, shipment);
    const packages =
      call.switches.foundItems === 'shipment' ? view.packages.slice(0, 1) : view.packages;
    return (packages.length === 0 ? [null] : packages).map((packageNumber, index) => {
      const isDivided = call.switches.foundContents === 'package' && packages.length > 1;
      const contents = isDivided
        ? divideItems(shipment.items, packages.length, index)
        : shipment.items;
      return show(foundFields, { ...view, packageNumber, track: shipment.tracks[index], contents });
    });
  });
  return ok('Shipments', shown);
}

/**
 * Returns what is in one of several packages: each line is divided among them as evenly as pieces
 * can be.
 */
function divideItems(items: readonly ShipmentItem[], packages: number, index: number): Contents[] {
  return items
    .map((item) => ({
      ...item,
      quantity: Math.floor((item.quantity + packages - 1 - index) / packages),
    }))
    .filter(({ quantity }) => quantity > 0);
}

function viewShipment(store: ClientStore, shipment: Shipment): ShipmentView {
  const [track] = shipment.tracks;
  const order = store.orders.get(shipment.orderId) as Order;
  const packages = listPackageNumbers(shipment);
  return { store, shipment, order, packages, packageNumber: null, track, contents: shipment.items };
}

function filterByStatus({ store, path }: Call): Filter<Shipment>[] {
  if (path.status === undefined) return [];
  const status = shipmentStatuses.find((known) => known === path.status?.toUpperCase());
  if (status === undefined)
    throw ruleBroken(`There is no status ${path.status}; known: ${shipmentStatuses.join(', ')}`);
  return store.listedShipments.filterByKeys('status', [status]);
}

function filterByOrderTypes({
  store,
  body,
}: Call<unknown, z.output<typeof orderTypes>>): Filter<Shipment>[] {
  return store.listedShipments.filterByKeys('orderType', body?.orderTypes);
}

/**
 * Finds the visible shipments that meet all criteria. Shipments that are named by id or order may
 * have any age.
 */
function findShipments(
  call: Call,
  { id, externalOrderNumber, shippingDate }: z.output<typeof criteria>,
): readonly Shipment[] {
  const { store, nowMs } = call;
  const wanted = toWarehouseDay(store.zone, shippingDate);
  const day = wanted === null ? null : toDayNumber(wanted);
  const meetsCriteria = (shipment: Shipment) =>
    shipment.visibleFromMs <= nowMs &&
    call.viewRow('shipment', shipment) !== null &&
    (!externalOrderNumber ||
      store.orders.get(shipment.orderId)?.externalOrderNumber === externalOrderNumber) &&
    (day === null ||
      (shipment.shippedOnMs !== null && store.zone.dayNumber(shipment.shippedOnMs) === day));
  if (id !== null && id !== undefined) {
    const shipment = store.shipments.get(id);
    return shipment !== undefined && meetsCriteria(shipment) ? [shipment] : [];
  }
  const order = externalOrderNumber ? store.orderByNumber.get(externalOrderNumber) : undefined;
  if (externalOrderNumber)
    return order === undefined ? [] : store.listShipments(order).filter(meetsCriteria);
  const filters =
    day === null ? [] : [store.listedShipments.filterByRange('shippedOn', day - 1, day + 1)];
  return [...readRowsAfter(store.listedShipments.select(filters), 0)].filter(meetsCriteria);
}

/**
 * Creates the return label of a shipped shipment (docs/interface.md, 15.9 Return label). The same
 * shipment and method give the same label. Its number becomes the `returnLabel` of the shipment.
 */
async function makeReturnLabel(call: LabelCall) {
  const { store, nowMs } = call;
  const id = Number(call.path.shipmentId);
  const shipment = Number.isSafeInteger(id) ? store.shipments.get(id) : undefined;
  if (shipment === undefined || shipment.visibleFromMs > nowMs)
    throw ruleBroken('Shipment not found');
  if (shipment.status !== 'SHIPPED')
    throw ruleBroken('No label could be made: the shipment has not been shipped');
  const method = chooseMethod(call);
  const isPaperless = method.paperless ?? false;
  const packageNumber = `3SRET${String(id).padStart(9, '0')}${method.id}`;
  const lines = [
    'Return label',
    method.name,
    `Shipment ${id}`,
    packageNumber,
    `To warehouse ${shipment.warehouseCode}`,
  ];
  const document = await writePage(
    isPaperless ? [...lines, 'Paperless: show this code at the counter'] : lines,
  );
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

function chooseMethod({ store, query: { shippingMethodId, paperless = false } }: LabelCall) {
  const method = store.lists.returnShippingMethods.find((known) =>
    shippingMethodId === undefined ? !paperless || known.paperless : known.id === shippingMethodId,
  );
  const wanted = shippingMethodId ?? 'without paper';
  if (method === undefined)
    throw ruleBroken(`No label could be made: there is no return shipping method ${wanted}`);
  if (paperless && !method.paperless)
    throw ruleBroken(`No label could be made: ${method.name} is not paperless`);
  return method;
}
