import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { ChangeableOrder, Order } from '../../store/model.ts';
import { noReplyAddress, partialDeliveryByOrderType } from '../../store/settings.ts';
import { dateIn, emptyToNull, idIn, keepGivenTexts, namedTexts, textIn } from './input.ts';

const notNull = 'must not be null';

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
  }),
});

/**
 * Returns the state that an update asks for. Omitted attributes are erased. Only `externalOrderNumber`, `locale` and
 * `onHold` keep their values if they are omitted, because they cannot be null.
 * @param shown the relationships of the order as answers show them
 * @throws Refusal if the update contains relationships that differ from those of the order
 */
export function readWantedState(
  order: Order,
  { data }: z.output<typeof updateBody>,
  shown: Readonly<Record<string, unknown>>,
): ChangeableOrder {
  assertSameRelationships(shown, data.relationships ?? {});
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
    allowPartialDelivery: attributes.allowPartialDelivery ?? partialDeliveryByOrderType[order.orderTypeId] ?? false,
    onHold: attributes.onHold ?? order.onHold,
    metadata: keepGivenTexts(attributes.metadata),
  };
}

const anyLink = z.object({ data: z.union([z.object({ id: idIn }), z.array(z.object({ id: idIn })), z.null()]) });

/**
 * Checks that the relationships of an update are those of the order. Clients may send them, but an update cannot change
 * them.
 * @throws Refusal if one differs
 */
function assertSameRelationships(
  current: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): void {
  for (const [name, link] of Object.entries(given)) {
    const isSame = Object.hasOwn(current, name) && readLinkedIds(current[name]) === readLinkedIds(link);
    if (!isSame) throw ruleBroken(`${name} cannot be changed by an update`, `/data/relationships/${name}`);
  }
}

/** Returns the ids of a link as one text. Returns null if the value is not a link. */
function readLinkedIds(link: unknown): string | null {
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
