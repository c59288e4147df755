import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import {
  type AuthorizationDraft,
  type AuthorizationLine,
  announceReturn,
  removeReturn,
  replaceReturn,
} from '../rules/announcements.ts';
import type { Authorization, AuthorizationItem, ReturnItem } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import { toFraction } from '../zone.ts';
import {
  assertSameId,
  clientMembers,
  documentIn,
  idIn,
  linksTo,
  linkTo,
  quantityIn,
  readIncluded,
  readTexts,
  resourceIn,
  textIn,
} from './document.ts';
import { type Call, defineOperation, readId, requireRow } from './operation.ts';
import {
  byDays,
  defineGet,
  defineList,
  defineResource,
  include,
  localDateTime,
  many,
  metadata,
  one,
  oneOrNone,
  renderDocument,
  text,
} from './resource.ts';

const type = 'returnMerchandiseAuthorization';
const itemType = 'returnMerchandiseAuthorizationItem';

export const authorizationItemResource = defineResource<AuthorizationItem>(itemType, {
  attributes: {
    externalReference: text,
    sku: z.string(),
    quantity: z.int(),
    metadata,
    reasonCode: [
      z.string(),
      ({ reasonId }, { lists }) => lists.returnReasons.find(({ id }) => id === reasonId)?.code,
    ],
  },
  relationships: {
    shipmentItem: one('shipmentItem', ({ shipmentItemId }) => shipmentItemId),
    product: one('product', ({ productId }) => productId),
    returnReason: one('returnReason', ({ reasonId }) => reasonId),
    returnItem: oneOrNone('returnItem', ({ returnItemId }) => returnItemId),
  },
});

/** docs/interface.md, 11.1 Fields. The status is always `PENDING`, the only known one. */
export const authorizationResource = defineResource<Authorization>(type, {
  attributes: {
    externalReference: text,
    comments: text,
    metadata,
    createdOn: z.iso.date(),
    modifiedOn: z.iso.date(),
    status: [z.literal('PENDING'), () => 'PENDING'],
  },
  relationships: {
    shipment: one('shipment', ({ shipmentId }) => shipmentId),
    returnMerchandiseAuthorizationItems: many(itemType, ({ items }) => items),
  },
  includes: {
    returnMerchandiseAuthorizationItems: include(authorizationItemResource, ({ items }) => items),
  },
});

/** docs/interface.md, 12.1 Fields. */
export const returnItemResource = defineResource<ReturnItem>('returnItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    processedOn: z.iso.date(),
    processedIn: z.string(),
    restockIn: text,
    comment: text,
    redeliver: z.boolean(),
    condition: [z.string(), () => 'RETURN'],
    restockOn: [
      localDateTime.nullable(),
      ({ id, restockOnMs }, { zone }) => zone.writeLocal(restockOnMs, toFraction(id, 0)),
    ],
    externalOrderNumber: [
      z.string(),
      ({ orderId }, { orders }) => orders.get(orderId)?.externalOrderNumber,
    ],
  },
  relationships: {
    order: one('order', ({ orderId }) => orderId),
    orderItem: one('orderItem', ({ orderItemId }) => orderItemId),
    product: one('product', ({ productId }) => productId),
    return: one('return', ({ returnId }) => returnId),
    [itemType]: oneOrNone(itemType, ({ authorizationItemId }) => authorizationItemId),
    returnReason: one('returnReason', ({ reasonId }) => reasonId),
    shipmentItem: one('shipmentItem', ({ shipmentItemId }) => shipmentItemId),
  },
});

const itemIn = resourceIn(itemType, {
  attributes: z.strictObject({
    externalReference: textIn,
    sku: textIn,
    quantity: quantityIn,
    reasonCode: textIn,
    metadata: clientMembers.nullish(),
  }),
  relationships: z.strictObject({
    shipmentItem: linkTo('shipmentItem'),
    product: linkTo('product').optional(),
    returnReason: linkTo('returnReason').optional(),
  }),
});
const body = documentIn(
  type,
  {
    id: idIn.optional(),
    attributes: z.strictObject({
      externalReference: textIn,
      comments: textIn,
      metadata: clientMembers.nullish(),
    }),
    relationships: z.strictObject({
      shipment: linkTo('shipment'),
      returnMerchandiseAuthorizationItems: linksTo(itemType).optional(),
    }),
  },
  itemIn,
);

const requireAuthorization = (call: Call) =>
  requireRow(call, type, call.client.authorizations.get(readId(call)));

const answerWhole = (call: Call, authorization: Authorization) =>
  renderDocument(call, authorizationResource, authorization, authorizationResource.includeNames);

/**
 * The operations on return authorizations and return items (docs/interface.md, 11.4 Operations,
 * 12.2 Operations).
 */
export const returnOperations = [
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.create',
    route: 'POST /v3/returnMerchandiseAuthorizations',
    summary: 'Announces a return of shipped items',
    documented: false,
    body,
    answer: authorizationResource.document,
    run: (call) => {
      const draft = readDraft(call.body, call.client.lists);
      return answerWhole(call, announceReturn(call.client, draft, call.nowMs));
    },
  }),
  defineGet(
    authorizationResource,
    'One return authorization',
    ({ authorizations }, id) => authorizations.get(id),
    { documented: false },
  ),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.replace',
    route: 'PUT /v3/returnMerchandiseAuthorizations/:id',
    summary: 'Replaces an earlier registration',
    documented: false,
    body,
    answer: authorizationResource.document,
    run: (call) => {
      const authorization = requireAuthorization(call);
      assertSameId(call.body.data.id, authorization.id);
      const draft = readDraft(call.body, call.client.lists);
      replaceReturn(call.client, authorization, draft, call.nowMs);
      return answerWhole(call, authorization);
    },
  }),
  defineOperation({
    name: 'v3.returnMerchandiseAuthorizations.delete',
    route: 'DELETE /v3/returnMerchandiseAuthorizations/:id',
    summary: 'Removes a return authorization and all its items',
    documented: false,
    answer: z.strictObject({ id: z.string() }),
    run: (call) => {
      const authorization = requireAuthorization(call);
      removeReturn(call.client, authorization);
      return { id: String(authorization.id) };
    },
  }),
  defineList(
    returnItemResource,
    'Return lines that a warehouse has processed, by ascending id',
    ({ listedReturnItems }) => listedReturnItems,
    [byDays('processedOn')],
  ),
];

function readDraft(document: z.output<typeof body>, lists: ServiceLists): AuthorizationDraft {
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
  { attributes, relationships }: z.output<typeof itemIn>,
  pointer: string,
  { returnReasons }: ServiceLists,
): AuthorizationLine {
  const { quantity, metadata } = attributes;
  const { shipmentItem, returnReason, product } = relationships;
  const { externalReference, reasonCode, sku } = readTexts(attributes, [
    'externalReference',
    'reasonCode',
    'sku',
  ]);

  const byCode = returnReasons.find(({ code }) => code === reasonCode)?.id;
  if (reasonCode !== null && byCode === undefined)
    throw ruleBroken(`There is no return reason ${reasonCode}`, `${pointer}/attributes/reasonCode`);
  const reasonId = returnReason?.data.id ?? byCode;
  if (reasonId === undefined) throw ruleBroken('A line names its return reason', pointer);
  if (byCode !== undefined && byCode !== reasonId)
    throw ruleBroken('reasonCode and returnReason name different reasons', pointer);

  return {
    shipmentItemId: shipmentItem.data.id,
    quantity,
    reasonId,
    externalReference,
    metadata: metadata ?? {},
    claim: { sku, productId: product?.data.id ?? null },
    pointer,
  };
}
