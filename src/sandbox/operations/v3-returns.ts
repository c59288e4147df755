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
import { type Call, defineOperation } from './operation.ts';
import {
  anyMembers,
  assertSameId,
  date,
  documentIn,
  emptyToNull,
  idIn,
  linksTo,
  linkTo,
  localDateTime,
  metadata,
  quantityIn,
  readIncluded,
  readTexts,
  resourceIn,
  text,
  textIn,
} from './v3-document.ts';
import {
  byDays,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  one,
  oneOrNone,
  renderDocument,
} from './v3-resource.ts';

export const authorizationItemResource = defineResource<AuthorizationItem>(
  'returnMerchandiseAuthorizationItem',
  {
    attributes: { externalReference: text, sku: z.string(), quantity: z.int(), metadata },
    computed: {
      reasonCode: {
        schema: z.string(),
        read: ({ reasonId }, { lists }) =>
          lists.returnReasons.find(({ id }) => id === reasonId)?.code ?? '',
      },
    },
    relationships: {
      shipmentItem: one('shipmentItem', ({ shipmentItemId }) => shipmentItemId),
      product: one('product', ({ productId }) => productId),
      returnReason: one('returnReason', ({ reasonId }) => reasonId),
      returnItem: oneOrNone('returnItem', ({ returnItemId }) => returnItemId),
    },
  },
);

/** docs/interface.md, 11.1 Fields. The status is always `PENDING`, the only known one. */
export const authorizationResource = defineResource<Authorization>(
  'returnMerchandiseAuthorization',
  {
    attributes: {
      externalReference: text,
      comments: text,
      metadata,
      createdOn: date,
      modifiedOn: date,
    },
    computed: { status: { schema: z.literal('PENDING'), read: () => 'PENDING' } },
    relationships: {
      shipment: one('shipment', ({ shipmentId }) => shipmentId),
      returnMerchandiseAuthorizationItems: many(
        'returnMerchandiseAuthorizationItem',
        ({ items }) => items,
      ),
    },
    includes: {
      returnMerchandiseAuthorizationItems: include(authorizationItemResource, ({ items }) => items),
    },
  },
);

/** docs/interface.md, 12.1 Fields. */
export const returnItemResource = defineResource<ReturnItem>('returnItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    processedOn: date,
    processedIn: z.string(),
    restockIn: text,
    comment: text,
    redeliver: z.boolean(),
  },
  computed: {
    condition: { schema: z.string(), read: () => 'RETURN' },
    restockOn: {
      schema: localDateTime.nullable(),
      read: ({ id, restockOnMs }, { zone }) => zone.writeLocal(restockOnMs, toFraction(id, 0)),
    },
    externalOrderNumber: {
      schema: z.string(),
      read: ({ orderId }, { orders }) => orders.get(orderId)?.externalOrderNumber ?? '',
    },
  },
  relationships: {
    order: one('order', ({ orderId }) => orderId),
    orderItem: one('orderItem', ({ orderItemId }) => orderItemId),
    product: one('product', ({ productId }) => productId),
    return: one('return', ({ returnId }) => returnId),
    returnMerchandiseAuthorizationItem: oneOrNone(
      'returnMerchandiseAuthorizationItem',
      ({ authorizationItemId }) => authorizationItemId,
    ),
    returnReason: one('returnReason', ({ reasonId }) => reasonId),
    shipmentItem: one('shipmentItem', ({ shipmentItemId }) => shipmentItemId),
  },
});

const itemIn = resourceIn('returnMerchandiseAuthorizationItem', {
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
const body = documentIn(
  'returnMerchandiseAuthorization',
  {
    id: idIn.optional(),
    attributes: z.strictObject({
      externalReference: textIn,
      comments: textIn,
      metadata: anyMembers,
    }),
    relationships: z.strictObject({
      shipment: linkTo('shipment'),
      returnMerchandiseAuthorizationItems: linksTo('returnMerchandiseAuthorizationItem').optional(),
    }),
  },
  itemIn,
);
const path = '/v3/returnMerchandiseAuthorizations';
const findAuthorization = ({ id, store }: Call) => store.authorizations.get(id);
const requireAuthorization = (call: Call) =>
  call.requireRow('returnMerchandiseAuthorization', findAuthorization(call));

/**
 * The operations on return authorizations and return items (docs/interface.md, 11.4 Operations,
 * 12.2 Operations).
 */
export const returnOperations = [
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.create',
    route: `POST ${path}`,
    summary: 'Announces a return of shipped items',
    documented: false,
    body,
    answer: authorizationResource.document,
    run: (call) => {
      const authorization = announceReturn(
        call.simulation,
        readDraft(call.body, call.store),
        call.nowMs,
      );
      return renderDocument(
        call,
        authorizationResource,
        authorization,
        authorizationResource.includeNames,
      );
    },
  }),
  defineGet(authorizationResource, {
    summary: 'One return authorization',
    documented: false,
    find: findAuthorization,
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.replace',
    route: `PUT ${path}/:id`,
    summary: 'Replaces an earlier registration',
    documented: false,
    body,
    answer: authorizationResource.document,
    run: (call) => {
      const authorization = requireAuthorization(call);
      if (call.body.data.id !== undefined) assertSameId(call.body.data.id, authorization.id);
      replaceReturn(call.simulation, authorization, readDraft(call.body, call.store), call.nowMs);
      return renderDocument(
        call,
        authorizationResource,
        authorization,
        authorizationResource.includeNames,
      );
    },
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.delete',
    route: `DELETE ${path}/:id`,
    summary: 'Removes a return authorization and all its items',
    documented: false,
    answer: z.strictObject({ id: z.string() }),
    run: (call) => {
      const authorization = requireAuthorization(call);
      removeReturn(call.simulation, authorization);
      return { id: String(authorization.id) };
    },
  }),
  defineList(returnItemResource, {
    summary: 'Return lines that a warehouse has processed, by ascending id',
    listing: ({ listedReturnItems }) => listedReturnItems,
    filters: [byDays('processedOn')],
  }),
];

function readDraft(document: z.output<typeof body>, { lists }: ClientStore): AuthorizationDraft {
  const { attributes, relationships } = document.data;
  const lines = readIncluded(document).map(({ resource, pointer }) =>
    readLine(resource, pointer, lists),
  );
  if (lines.length === 0)
    throw ruleBroken('A return authorization needs at least one item', '/data/included');
  return {
    shipmentId: relationships.shipment.data.id,
    ...readTexts(attributes, ['externalReference', 'comments']),
    metadata: attributes.metadata ?? {},
    lines,
  };
}

/**
 * Reads one item, which names its return reason by id, by code or by both. Refuses one without a
 * known reason.
 */
function readLine(
  item: z.output<typeof itemIn>,
  pointer: string,
  lists: ServiceLists,
): AuthorizationLine {
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
