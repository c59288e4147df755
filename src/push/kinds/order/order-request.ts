import type { Operation } from '../../../../config/operations.ts';
import { asNumber, pickGiven } from '../../payload.ts';
import type { OrderAttachment, OrderPayload } from '../../payloads/order.ts';

/**
 * Provisional ids, which only link the addresses of one request (docs/interface.md, 7.2 Addresses).
 */
const deliveryId = 1;
const billingId = 2;
const toLink = (type: string, id: number) => ({ data: { id, type } });

/** What an order links to: ids of the service, and members of the payload that are included. */
interface LinkedParts extends Pick<OrderPayload, 'billingAddress' | 'pickUpPoint'> {
  readonly deliveryAddress?: OrderPayload['deliveryAddress'] | undefined;
  readonly orderTypeId: number | null;
  readonly shippingMethodId: number | null;
}

/** Returns the relationships to the parts of an order, and those of its parts that are included. */
export function linkParts({
  orderTypeId,
  shippingMethodId,
  deliveryAddress,
  billingAddress,
  pickUpPoint,
}: LinkedParts): {
  readonly relationships: Readonly<Record<string, object>>;
  readonly included: readonly object[];
} {
  const relationships = {
    ...(orderTypeId !== null && { orderType: toLink('orderType', orderTypeId) }),
    ...(deliveryAddress && { deliveryAddress: toLink('address', deliveryId) }),
    ...(billingAddress && { billingAddress: toLink('address', billingId) }),
    ...(pickUpPoint && { pickUpPoint: { data: { type: 'pickUpPoint' } } }),
    ...(shippingMethodId !== null && {
      preferredShippingMethod: toLink('shippingMethod', shippingMethodId),
    }),
  };
  const included = [
    ...(deliveryAddress
      ? [{ type: 'address', id: deliveryId, attributes: pickGiven(deliveryAddress) }]
      : []),
    ...(billingAddress
      ? [{ type: 'address', id: billingId, attributes: pickGiven(billingAddress) }]
      : []),
    ...(pickUpPoint ? [{ type: 'pickUpPoint', attributes: pickUpPoint }] : []),
  ];
  return { relationships, included };
}

/** Assumptions about the body of POST /v3/orders (docs/assumptions.md). */
type OrderDocumentOptions = Pick<Operation, 'included' | 'billingAddress' | 'contentMember'>;

/** Returns the body of POST /v3/orders. */
export function buildOrderDocument(
  payload: OrderPayload,
  ids: Pick<LinkedParts, 'orderTypeId' | 'shippingMethodId'>,
  options: OrderDocumentOptions,
): object {
  const {
    items,
    deliveryAddress,
    billingAddress: givenBilling,
    pickUpPoint,
    attachments,
    ...others
  } = payload;
  const {
    orderType: _type,
    orderTypeId: _typeId,
    shippingMethod: _method,
    shippingMethodId: _id,
    ...rest
  } = others;
  const billingAddress =
    givenBilling ?? (options.billingAddress === 'omit' ? null : deliveryAddress);
  const linked = linkParts({ ...ids, deliveryAddress, billingAddress, pickUpPoint });
  const included = [
    ...items.map((line) => ({ type: 'orderItem', attributes: toItemAttributes(line) })),
    ...linked.included,
    ...(attachments ?? []).slice(0, 1).map((first) => ({
      type: 'orderAttachment',
      attributes: toAttachmentAttributes(rest.externalOrderNumber, first, options),
    })),
  ];
  const attributes = {
    ...pickGiven(rest),
    ...(rest.metadata ? { metadata: pickGiven(rest.metadata) } : {}),
  };
  const data = { type: 'order', attributes, relationships: linked.relationships };
  return options.included === 'top' ? { data, included } : { data: { ...data, included } };
}

function toItemAttributes({
  price,
  vat,
  metadata,
  ...others
}: OrderPayload['items'][number]): object {
  return {
    ...pickGiven(others),
    ...(price === undefined || price === null ? {} : { price: asNumber(price) }),
    ...(vat === undefined || vat === null ? {} : { vat: asNumber(vat) }),
    ...(metadata ? { metadata: pickGiven(metadata) } : {}),
  };
}

/**
 * Returns the attributes of an orderAttachment. The member `content` is assumed
 * (docs/assumptions.md).
 */
export function toAttachmentAttributes(
  externalOrderNumber: string,
  { filename, content }: OrderAttachment,
  { contentMember = 'content' }: Pick<Operation, 'contentMember'>,
): object {
  const fixed = {
    contentType: 'application/pdf',
    printStrategy: 'REQUIRED',
    [contentMember]: content,
  };
  return { externalOrderNumber, ...pickGiven({ filename }), ...fixed };
}
