import { z } from 'zod';
import type { ChangeableOrder, Order } from '../../store/model.ts';
import { noReplyAddress, type ServiceSettings } from '../../store/settings.ts';
import { dateIn, emptyToNull, idIn, keepGivenTexts, namedTexts, textIn } from './input.ts';
import { addressIn, pickUpPointIn } from './order-body.ts';

const notNull = 'must not be null';

/** Resources that the relationships link to, if the switch `changeableRelationships` is on. */
const includedIn = z.array(z.discriminatedUnion('type', [addressIn, pickUpPointIn])).optional();

/**
 * The body of the update (docs/interface.md, 7.1 Fields and 7.7 Update). `orderedOn`, `currency` and
 * `channelIdentifier` may be sent, because clients send the whole state, but they change nothing.
 */
export const updateBody = z.strictObject({
  data: z.strictObject({
    id: idIn,
    type: z.literal('order'),
    attributes: z.strictObject({
      externalOrderNumber: z.string(notNull).min(1).optional(),
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
      metadata: namedTexts('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
      channelIdentifier: textIn,
    }),
    relationships: z.record(z.string(), z.unknown()).optional(),
    included: includedIn,
  }),
  included: includedIn,
});

export type UpdateBody = z.output<typeof updateBody>;

/**
 * Returns the attributes that an update asks for. Omitted attributes are erased. Only `externalOrderNumber`, `locale`
 * and `onHold` keep their values if they are omitted, because they cannot be null.
 * @param orderTypeId the order type after the update
 */
export function readWantedState(
  order: Order,
  { data }: UpdateBody,
  orderTypeId: number,
  settings: ServiceSettings,
): ChangeableOrder {
  const { attributes } = data;
  return {
    externalOrderNumber: attributes.externalOrderNumber ?? order.externalOrderNumber,
    reference: emptyToNull(attributes.reference),
    consumerReference: emptyToNull(attributes.consumerReference),
    promotionCode: emptyToNull(attributes.promotionCode),
    locale: attributes.locale ?? order.locale,
    email: emptyToNull(attributes.email) ?? noReplyAddress,
    phoneNumber: emptyToNull(attributes.phoneNumber),
    vatNumber: emptyToNull(attributes.vatNumber),
    fulfillFrom: emptyToNull(attributes.fulfillFrom),
    preferredShippingDate: attributes.preferredShippingDate ?? null,
    allowPartialDelivery: attributes.allowPartialDelivery ?? settings.isDeliveredInParts(orderTypeId),
    onHold: attributes.onHold ?? order.onHold,
    metadata: keepGivenTexts(attributes.metadata),
  };
}
