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
import {
  assertSameId,
  type Call,
  clientMembers,
  defineOperation,
  documentIn,
  integerIn,
  linksTo,
  linkTo,
  quantityIn,
  readId,
  readIncluded,
  readTexts,
  requireRow,
  resourceIn,
  textIn,
} from './operation.ts';
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
  ownLinks,
  productLink,
  renderWhole,
  text,
} from './resource.ts';

const type = 'returnMerchandiseAuthorization';
const itemType = 'returnMerchandiseAuthorizationItem';

const authorizationItemResource = defineResource<AuthorizationItem>(itemType, {
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
    ...ownLinks('shipmentItem'),
    ...productLink,
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
    ...ownLinks('shipment'),
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
      ({ id, restockOnMs }, { zone }) => zone.writeLocal(restockOnMs, id),
    ],
    externalOrderNumber: [
      z.string(),
      ({ orderId }, { orders }) => orders.get(orderId)?.externalOrderNumber,
    ],
  },
  relationships: {
    ...ownLinks('order', 'orderItem', 'return', 'shipmentItem'),
    ...productLink,
    [itemType]: oneOrNone(itemType, ({ authorizationItemId }) => authorizationItemId),
    returnReason: one('returnReason', ({ reasonId }) => reasonId),
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
    id: integerIn.optional(),
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
      return renderWhole(
        call,
        authorizationResource,
        announceReturn(call.client, draft, call.nowMs),
      );
    },
  }),
  {
    ...defineGet(authorizationResource, 'One return authorization', ({ authorizations }, id) =>
      authorizations.get(id),
    ),
    documented: false,
  },
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
      return renderWhole(call, authorizationResource, authorization);
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
  defineList(returnItemResource, 'Return lines that a warehouse has processed, by ascending id', {
    rows: ({ returnItems }) => returnItems,
    isListed:
      () =>
      ({ processedOn }) =>
        processedOn !== null,
    filters: [byDays('processedOn', ({ processedOn }) => processedOn)],
  }),
];

function readDraft(document: z.output<typeof body>, lists: ServiceLists): AuthorizationDraft {
  const { attributes, relationships } = document.data;
  const lines = readIncluded(document).map((item) => readLine(item, lists));
  if (lines.length === 0) throw ruleBroken('A return authorization needs at least one item');

  return {
    shipmentId: relationships.shipment.data.id,
    ...readTexts(attributes, ['externalReference', 'comments']),
    metadata: attributes.metadata ?? {},
    lines,
  };
}

/** Reads one item. It names its return reason by id or by code. */
function readLine(
  { attributes, relationships }: z.output<typeof itemIn>,
  { returnReasons }: ServiceLists,
): AuthorizationLine {
  const { quantity, metadata, reasonCode } = attributes;
  const { shipmentItem, returnReason } = relationships;
  const byCode = returnReasons.find(({ code }) => code === reasonCode);
  const reasonId = returnReason?.data.id ?? byCode?.id;
  if (reasonId === undefined || (reasonCode && reasonId !== byCode?.id))
    throw ruleBroken('An item names one known return reason, by returnReason or reasonCode');

  return {
    shipmentItemId: shipmentItem.data.id,
    quantity,
    reasonId,
    ...readTexts(attributes, ['externalReference']),
    metadata: metadata ?? {},
  };
}
