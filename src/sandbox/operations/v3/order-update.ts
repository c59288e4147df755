import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import { orderResource } from '../../resources/orders.ts';
import type { ChangeableOrder, Order } from '../../store/model.ts';
import { noReplyAddress, partialDeliveryByOrderType } from '../../store/settings.ts';
import { dateIn, idIn, orNull, textIn, textsIn, textsOf } from './input.ts';

const notNull = 'must not be null';

/**
 * Body of the update (interface.md, v3 order and Update order). orderedOn, currency and channelIdentifier may be sent, as
 * the whole state is, and change nothing.
 */
export const updateBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('order'),
    attributes: z.strictObject({
      externalOrderNumber: z.string(notNull).min(1).max(50).optional(),
      reference: textIn,
      orderedOn: dateIn.nullish(),
      consumerReference: textIn,
      promotionCode: textIn,
      currency: textIn,
      locale: z
        .string(notNull)
        .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a locale such as nl-NL')
        .optional(),
      email: textIn,
      phoneNumber: textIn,
      vatNumber: textIn,
      fulfillFrom: textIn,
      preferredShippingDate: dateIn.nullish(),
      allowPartialDelivery: z.boolean().nullish(),
      onHold: z.boolean(notNull).optional(),
      metadata: textsOf('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
      channelIdentifier: textIn,
    }),
    relationships: z.record(z.string(), z.unknown()).optional(),
  }),
});

/**
 * The state an update asks for: what is omitted is erased, but for externalOrderNumber, locale and onHold, which cannot be
 * null and stay. @throws Refusal where relationships are given that differ from those of the order
 */
export function wantedState(order: Order, { data }: z.output<typeof updateBody>): ChangeableOrder {
  assertSameRelationships(order, data.relationships ?? {});
  const { attributes } = data;
  return {
    externalOrderNumber: attributes.externalOrderNumber ?? order.externalOrderNumber,
    reference: orNull(attributes.reference),
    consumerReference: orNull(attributes.consumerReference),
    promotionCode: orNull(attributes.promotionCode),
    locale: attributes.locale ?? order.locale,
    email: orNull(attributes.email) ?? noReplyAddress,
    phoneNumber: orNull(attributes.phoneNumber),
    vatNumber: orNull(attributes.vatNumber),
    fulfillFrom: orNull(attributes.fulfillFrom),
    preferredShippingDate: attributes.preferredShippingDate ?? null,
    allowPartialDelivery: attributes.allowPartialDelivery ?? partialDeliveryByOrderType[order.orderTypeId] ?? false,
    onHold: attributes.onHold ?? order.onHold,
    metadata: textsIn(attributes.metadata),
  };
}

const anyLink = z.object({ data: z.union([z.object({ id: idIn }), z.array(z.object({ id: idIn })), z.null()]) });

/** Items, addresses, pickUpPoint, method and order type are no part of an update: they may be sent back as they are. */
function assertSameRelationships(order: Order, given: Readonly<Record<string, unknown>>): void {
  const own = orderResource(order).relationships ?? {};
  for (const [name, link] of Object.entries(given)) {
    const same = Object.hasOwn(own, name) && linkedIds(own[name]) === linkedIds(link);
    if (!same) throw ruleBroken(`${name} cannot be changed by an update`, `/data/relationships/${name}`);
  }
}

function linkedIds(link: unknown): string | null {
  const read = anyLink.safeParse(link);
  if (!read.success) return null;
  const { data } = read.data;
  return data === null
    ? 'none'
    : [data]
        .flat()
        .map(({ id }) => id)
        .join(' ');
}
