import { z } from 'zod';
import type { RenderedResource } from '../../paging.ts';
import { ruleBroken } from '../../refusal.ts';
import {
  authorizationDocument,
  toAuthorizationItemResource,
  toAuthorizationResource,
} from '../../resources/returns.ts';
import {
  type AuthorizationDraft,
  type AuthorizationLine,
  announceReturn,
  removeReturn,
  replaceReturn,
} from '../../rules/authorizations.ts';
import type { ClientStore } from '../../store/client-store.ts';
import type { Authorization } from '../../store/model.ts';
import type { ServiceSettings } from '../../store/settings.ts';
import { defineOperation } from '../operation.ts';
import { include } from '../parameters.ts';
import {
  anyMembers,
  assertSameId,
  documentInput,
  emptyToNull,
  idIn,
  linksTo,
  linkTo,
  provisionalId,
  quantityIn,
  readIncluded,
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

/** The operations on return authorizations (docs/interface.md, 11.4 Operations). */
export const authorizationOperations = [
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
function readDraft(document: z.output<typeof body>, { settings }: ClientStore): AuthorizationDraft {
  const { attributes, relationships } = document.data;
  const lines = readIncluded(document).map(({ resource, pointer }) => readLine(resource, pointer, settings));
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
function readLine(item: z.output<typeof itemIn>, pointer: string, settings: ServiceSettings): AuthorizationLine {
  const { externalReference, quantity, reasonCode, metadata, sku } = item.attributes;
  const { shipmentItem, returnReason, product } = item.relationships;
  const byCode = settings.returnReasons.find(({ code }) => code === reasonCode)?.id;
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
