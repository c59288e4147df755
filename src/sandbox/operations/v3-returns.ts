import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import {
  type AuthorizationDraft,
  type AuthorizationLine,
  announceReturn,
  removeReturn,
  replaceReturn,
} from '../rules/announcements.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Authorization, AuthorizationItem, ReturnItem } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import { toFraction } from '../zone.ts';
import { defineOperation } from './operation.ts';
import type { RenderedResource } from './paging.ts';
import { day, include, paging } from './parameters.ts';
import {
  anyMembers,
  assertSameId,
  date,
  documentInput,
  documentSchema,
  emptyToNull,
  idIn,
  linkMany,
  linkOne,
  linkOneOrNone,
  linksTo,
  linkTo,
  localDateTime,
  metadata,
  pageSchema,
  provisionalId,
  quantityIn,
  type ResourceObject,
  readIncluded,
  resourceSchema,
  text,
  textIn,
  toMany,
  toOne,
  toOneOrNone,
} from './v3-document.ts';

const itemSchema = resourceSchema(
  'returnMerchandiseAuthorizationItem',
  { externalReference: text, sku: z.string(), quantity: z.int(), reasonCode: z.string(), metadata },
  {
    shipmentItem: toOne('shipmentItem'),
    product: toOne('product'),
    returnReason: toOne('returnReason'),
    returnItem: toOneOrNone('returnItem'),
  },
);
const authorizationSchema = resourceSchema(
  'returnMerchandiseAuthorization',
  {
    externalReference: text,
    comments: text,
    metadata,
    status: z.literal('PENDING'),
    createdOn: date,
    modifiedOn: date,
  },
  { shipment: toOne('shipment'), returnMerchandiseAuthorizationItems: toMany('returnMerchandiseAuthorizationItem') },
  itemSchema,
);
const authorizationDocument = documentSchema(authorizationSchema, itemSchema);

const returnItemPage = pageSchema(
  resourceSchema(
    'returnItem',
    {
      sku: z.string(),
      quantity: z.int(),
      condition: z.string(),
      processedOn: date,
      processedIn: z.string(),
      restockIn: text,
      restockOn: localDateTime.nullable(),
      comment: text,
      redeliver: z.boolean(),
      externalOrderNumber: z.string(),
    },
    {
      order: toOne('order'),
      orderItem: toOne('orderItem'),
      product: toOne('product'),
      return: toOne('return'),
      returnMerchandiseAuthorizationItem: toOneOrNone('returnMerchandiseAuthorizationItem'),
      returnReason: toOne('returnReason'),
      shipmentItem: toOne('shipmentItem'),
    },
  ),
);

const itemIn = z.strictObject({
  type: z.literal('returnMerchandiseAuthorizationItem'),
  id: provisionalId.optional(),
  attributes: z.strictObject({
    externalReference: textIn,
    sku: textIn,
    quantity: quantityIn,
    reasonCode: textIn,
    metadata: anyMembers,
  }),
  relationships: z.strictObject({
    shipmentItem: linkTo('shipmentItem'),
    product: linkTo('product').optional(),
    returnReason: linkTo('returnReason').optional(),
  }),
});
const body = documentInput(
  {
    type: z.literal('returnMerchandiseAuthorization'),
    id: idIn.optional(),
    attributes: z.strictObject({ externalReference: textIn, comments: textIn, metadata: anyMembers }),
    relationships: z.strictObject({
      shipment: linkTo('shipment'),
      returnMerchandiseAuthorizationItems: linksTo('returnMerchandiseAuthorizationItem').optional(),
    }),
  },
  itemIn,
);
const parameters = { include: include('returnMerchandiseAuthorizationItems') } as const;
const path = '/v3/returnMerchandiseAuthorizations';

/** The operations on return authorizations and return items (docs/interface.md, 11.4 Operations, 12.2 Operations). */
export const returnOperations = [
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.create',
    route: `POST ${path}`,
    summary: 'Announces a return of shipped items',
    documented: false,
    body,
    answer: authorizationDocument,
    run: (call) =>
      call.renderOne(
        renderAuthorization(call, announceReturn(call.simulation, readDraft(call.body, call.store), call.nowMs)),
      ),
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.get',
    route: `GET ${path}/:id`,
    summary: 'One return authorization',
    documented: false,
    query: parameters,
    answer: authorizationDocument,
    run: (call) => {
      const authorization = call.requireRow('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      return call.renderOne(renderAuthorization(call, authorization, call.query.include !== undefined));
    },
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.replace',
    route: `PUT ${path}/:id`,
    summary: 'Replaces an earlier registration',
    documented: false,
    body,
    answer: authorizationDocument,
    run: (call) => {
      const authorization = call.requireRow('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      if (call.body.data.id !== undefined) assertSameId(call.body.data.id, authorization.id);
      replaceReturn(call.simulation, authorization, readDraft(call.body, call.store), call.nowMs);
      return call.renderOne(renderAuthorization(call, authorization));
    },
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.delete',
    route: `DELETE ${path}/:id`,
    summary: 'Removes a return authorization and all its items',
    documented: false,
    answer: z.strictObject({ id: z.string() }),
    run: (call) => {
      const authorization = call.requireRow('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      removeReturn(call.simulation, authorization);
      return { id: String(authorization.id) };
    },
  }),
  defineOperation({
    name: 'v3.returnItems.list',
    route: 'GET /v3/returnItems',
    summary: 'Return lines that a warehouse has processed, by ascending id',
    query: { ...paging, 'filter[processedOn][gt]': day, 'filter[processedOn][lt]': day },
    answer: returnItemPage,
    run: (call) => {
      const { store, query } = call;
      const listing = store.listedReturnItems;
      const [after, before] = [query['filter[processedOn][gt]'], query['filter[processedOn][lt]']];
      const selection = listing.select(listing.filterByDays('processedOn', after, before));
      return call.renderList('returnItem', selection, (row) => ({
        resource: toReturnItemResource(store, row),
        included: [],
      }));
    },
  }),
];

function renderAuthorization(
  { store }: { readonly store: ClientStore },
  authorization: Authorization,
  withItems = true,
): RenderedResource {
  return {
    resource: toAuthorizationResource(authorization),
    included: withItems ? authorization.items.map((item) => toAuthorizationItemResource(store, item)) : [],
  };
}

/**
 * Reads the authorization from a body.
 * @throws Refusal if it has no items, or if a reason is missing or unknown
 */
function readDraft(document: z.output<typeof body>, { lists }: ClientStore): AuthorizationDraft {
  const { attributes, relationships } = document.data;
  const lines = readIncluded(document).map(({ resource, pointer }) => readLine(resource, pointer, lists));
  if (lines.length === 0) throw ruleBroken('A return authorization needs at least one item', '/data/included');
  return {
    shipmentId: relationships.shipment.data.id,
    externalReference: emptyToNull(attributes.externalReference),
    comments: emptyToNull(attributes.comments),
    metadata: attributes.metadata ?? {},
    lines,
  };
}

/**
 * Reads one item. It may name its return reason by id, by code or by both.
 * @throws Refusal if the reason is missing or unknown, or if id and code differ
 */
function readLine(item: z.output<typeof itemIn>, pointer: string, lists: ServiceLists): AuthorizationLine {
  const { externalReference, quantity, reasonCode, metadata, sku } = item.attributes;
  const { shipmentItem, returnReason, product } = item.relationships;
  const byCode = lists.returnReasons.find(({ code }) => code === reasonCode)?.id;
  if (emptyToNull(reasonCode) !== null && byCode === undefined)
    throw ruleBroken(`There is no return reason ${reasonCode}`, `${pointer}/attributes/reasonCode`);
  const reasonId = returnReason?.data.id ?? byCode;
  if (reasonId === undefined) throw ruleBroken('A line names its return reason', pointer);
  if (byCode !== undefined && byCode !== reasonId)
    throw ruleBroken('reasonCode and returnReason name different reasons', pointer);
  return {
    shipmentItemId: shipmentItem.data.id,
    quantity,
    reasonId,
    externalReference: emptyToNull(externalReference),
    metadata: metadata ?? {},
    claim: { sku: emptyToNull(sku), productId: product?.data.id ?? null },
    pointer,
  };
}

/**
 * Returns the resource of an authorization (docs/interface.md, 11.1 Fields). Its status is always `PENDING`, the only
 * known one.
 */
export function toAuthorizationResource(authorization: Authorization): ResourceObject {
  const { id, externalReference, comments, createdOn, modifiedOn, items } = authorization;
  return {
    id,
    type: 'returnMerchandiseAuthorization',
    attributes: {
      externalReference,
      comments,
      metadata: authorization.metadata,
      status: 'PENDING',
      createdOn,
      modifiedOn,
    },
    relationships: {
      shipment: linkOne('shipment', authorization.shipmentId),
      returnMerchandiseAuthorizationItems: linkMany(
        'returnMerchandiseAuthorizationItem',
        items.map((item) => item.id),
      ),
    },
  };
}

export function toAuthorizationItemResource({ lists }: ClientStore, item: AuthorizationItem): ResourceObject {
  return {
    id: item.id,
    type: 'returnMerchandiseAuthorizationItem',
    attributes: {
      externalReference: item.externalReference,
      sku: item.sku,
      quantity: item.quantity,
      reasonCode: lists.returnReasons.find(({ id }) => id === item.reasonId)?.code ?? '',
      metadata: item.metadata,
    },
    relationships: {
      shipmentItem: linkOne('shipmentItem', item.shipmentItemId),
      product: linkOne('product', item.productId),
      returnReason: linkOne('returnReason', item.reasonId),
      returnItem: linkOneOrNone('returnItem', item.returnItemId),
    },
  };
}

/** Returns the resource of a return item (docs/interface.md, 12.1 Fields). */
export function toReturnItemResource({ zone, orders }: ClientStore, item: ReturnItem): ResourceObject {
  return {
    id: item.id,
    type: 'returnItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      condition: 'RETURN',
      processedOn: item.processedOn,
      processedIn: item.processedIn,
      restockIn: item.restockIn,
      restockOn: zone.writeLocal(item.restockOnMs, toFraction(item.id, 0)),
      comment: item.comment,
      redeliver: item.redeliver,
      externalOrderNumber: orders.get(item.orderId)?.externalOrderNumber ?? '',
    },
    relationships: {
      order: linkOne('order', item.orderId),
      orderItem: linkOne('orderItem', item.orderItemId),
      product: linkOne('product', item.productId),
      return: linkOne('return', item.returnId),
      returnMerchandiseAuthorizationItem: linkOneOrNone('returnMerchandiseAuthorizationItem', item.authorizationItemId),
      returnReason: linkOne('returnReason', item.reasonId),
      shipmentItem: linkOne('shipmentItem', item.shipmentItemId),
    },
  };
}
