import { z } from 'zod';
import type { Rendered } from '../../paging.ts';
import { ruleBroken } from '../../refusal.ts';
import { authorizationDocument, authorizationItemResource, authorizationResource } from '../../resources/returns.ts';
import {
  type AuthorizationDraft,
  type AuthorizationLine,
  announceReturn,
  removeReturn,
  replaceReturn,
} from '../../rules/authorizations.ts';
import type { Authorization } from '../../store/model.ts';
import { settings } from '../../store/settings.ts';
import { operation } from '../operation.ts';
import { include } from '../parameters.ts';
import {
  anyMembers,
  assertSameId,
  documentIn,
  idIn,
  includedIn,
  linksTo,
  linkTo,
  orNull,
  provisionalId,
  quantityIn,
  textIn,
} from './input.ts';

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
const body = documentIn(
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

/** interface.md, v3 return authorizations. */
export const authorizationOperations = [
  operation({
    name: 'v3.returnMerchandiseAuthorizations.create',
    route: `POST ${path}`,
    summary: 'Announces a return of shipped items',
    documented: false,
    body,
    answer: authorizationDocument,
    run: (call) => call.one(render(announceReturn(call.life, readDraft(call.body), call.nowMs))),
  }),
  operation({
    name: 'v3.returnMerchandiseAuthorizations.get',
    route: `GET ${path}/:id`,
    summary: 'One return authorization',
    documented: false,
    query: parameters,
    answer: authorizationDocument,
    run: (call) => {
      const authorization = call.found('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      return call.one(render(authorization, call.query.include !== undefined));
    },
  }),
  operation({
    name: 'v3.returnMerchandiseAuthorizations.replace',
    route: `PUT ${path}/:id`,
    summary: 'Replaces an earlier registration',
    documented: false,
    body,
    answer: authorizationDocument,
    run: (call) => {
      const authorization = call.found('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      if (call.body.data.id !== undefined) assertSameId(call.body.data.id, authorization.id);
      replaceReturn(call.life, authorization, readDraft(call.body), call.nowMs);
      return call.one(render(authorization));
    },
  }),
  operation({
    name: 'v3.returnMerchandiseAuthorizations.delete',
    route: `DELETE ${path}/:id`,
    summary: 'Removes a return authorization and all its items',
    documented: false,
    answer: z.strictObject({ id: z.string() }),
    run: (call) => {
      const authorization = call.found('returnMerchandiseAuthorization', call.store.authorizations.get(call.id));
      removeReturn(call.life, authorization);
      return { id: String(authorization.id) };
    },
  }),
];

function render(authorization: Authorization, withItems = true): Rendered {
  return {
    resource: authorizationResource(authorization),
    included: withItems ? authorization.items.map(authorizationItemResource) : [],
  };
}

function readDraft(document: z.output<typeof body>): AuthorizationDraft {
  const { attributes, relationships } = document.data;
  const lines = includedIn(document).map(({ resource, pointer }) => lineOf(resource, pointer));
  if (lines.length === 0) throw ruleBroken('A return authorization needs at least one item', '/data/included');
  return {
    shipmentId: relationships.shipment.data.id,
    externalReference: orNull(attributes.externalReference),
    comments: orNull(attributes.comments),
    metadata: attributes.metadata ?? {},
    lines,
  };
}

/** The reason may be named by its id, by its code, or by both. */
function lineOf(item: z.output<typeof itemIn>, pointer: string): AuthorizationLine {
  const { externalReference, quantity, reasonCode, metadata, sku } = item.attributes;
  const { shipmentItem, returnReason, product } = item.relationships;
  const byCode = settings.returnReasons.find(({ code }) => code === reasonCode)?.id;
  if (orNull(reasonCode) !== null && byCode === undefined)
    throw ruleBroken(`There is no return reason ${reasonCode}`, `${pointer}/attributes/reasonCode`);
  const reasonId = returnReason?.data.id ?? byCode;
  if (reasonId === undefined) throw ruleBroken('A line names its return reason', pointer);
  if (byCode !== undefined && byCode !== reasonId)
    throw ruleBroken('reasonCode and returnReason name different reasons', pointer);
  return {
    shipmentItemId: shipmentItem.data.id,
    quantity,
    reasonId,
    externalReference: orNull(externalReference),
    metadata: metadata ?? {},
    claim: { sku: orNull(sku), productId: product?.data.id ?? null },
    pointer,
  };
}
