import { z } from 'zod';
import type { Json } from '../../../../core/json.ts';
import type { Order } from '../../../../warehouse/decoding/v3-orders.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, PayloadError, type PushContext, type PushResult } from '../../payload/kind.ts';
import { day, optionalText, personalText, textsNamed } from '../../payload/payload.ts';
import { findOrder, orderInclude, readAnsweredOrder } from './find-order.ts';

const unchangeableReason = 'cannot be changed by an update (cancel the order and create a new one instead)';
const schema = z.strictObject({
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  locale: z
    .string()
    .regex(/^[a-z]{2}-[A-Z]{2}$/, 'must be a language and a region, such as nl-NL')
    .optional(),
  email: personalText,
  phoneNumber: personalText,
  vatNumber: personalText,
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery: z.boolean().nullish(),
  onHold: z.boolean().optional(),
  metadata: textsNamed('extra1', 'extra2', 'extra3', 'extra4', 'extra5'),
});
type OrderChange = z.infer<typeof schema>;

/**
 * Changes an order (docs/interface.md, 7.7 Update). Reads the order, applies the change and sends the whole state back,
 * because the service may erase omitted fields.
 */
export const orderUpdate = defineKind<OrderChange>({
  name: 'order.update',
  schema,
  refused: {
    externalOrderNumber: 'cannot be changed, because it is the reference that keeps the rows of the order in sequence',
    items: unchangeableReason,
    orderItems: unchangeableReason,
    deliveryAddress: unchangeableReason,
    billingAddress: unchangeableReason,
    pickUpPoint: unchangeableReason,
    shippingMethod: unchangeableReason,
    shippingMethodId: unchangeableReason,
    preferredShippingMethod: unchangeableReason,
    orderType: unchangeableReason,
    orderTypeId: unchangeableReason,
    orderedOn: 'cannot be changed by an update',
    currency: 'is read-only at the service and cannot be sent',
    channelIdentifier: 'is read-only at the service and cannot be sent',
  },
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  check: async (change) =>
    Object.keys(change).length === 0 ? ['payload: must name at least one member to change'] : [],
  push: updateOrder,
});

async function updateOrder(change: OrderChange, context: PushContext): Promise<PushResult> {
  const { order, today } = await findOrder(context);
  const { attributes, note } = buildWantedState(order, change, today, context.row.mayBeWritten);
  const answer = await context.send({
    operation: 'v3.orders.update',
    path: { id: order.id },
    query: orderInclude,
    body: { data: { id: order.id, type: 'order', attributes } },
  });
  const changed = readAnsweredOrder('v3.orders.update', answer.body, order.id);
  return { result: { orderId: order.id, ...(note === null ? {} : { note }) }, reading: { stream: orders, ...changed } };
}

/** Members of an order that an update sends. Members that the service sets are never sent back. */
const members = [
  'externalOrderNumber',
  'reference',
  'consumerReference',
  'promotionCode',
  'locale',
  'email',
  'phoneNumber',
  'vatNumber',
  'fulfillFrom',
  'preferredShippingDate',
  'allowPartialDelivery',
  'onHold',
  'metadata',
] as const;
/** Members that must not be null (docs/interface.md, 7.1 Fields). If the order does not show them, they are omitted. */
const neverNull: ReadonlySet<string> = new Set(['externalOrderNumber', 'locale', 'onHold']);
/** Members that an empty text erases (docs/interface.md, 7.1 Fields). Null erases the others. */
const erasedByEmpty: ReadonlySet<string> = new Set(['reference', 'consumerReference', 'promotionCode']);

/**
 * Returns the state to send: the order's current values with the change applied. An absent member keeps its value, null
 * is sent as null, and '' erases. Merges metadata member by member. The service refuses a preferred shipping date in
 * the past: if the order has one that the change keeps, null is sent instead, with a note.
 * @param today today by the service's clock, in the client's time zone
 * @param mayBeWritten true if an earlier attempt may have been carried out; then its date may have passed since
 * @throws PayloadError if the change asks for a date in the past
 */
export function buildWantedState(
  { attributes: current }: Order,
  change: OrderChange,
  today: string,
  mayBeWritten = false,
): { attributes: { readonly [member: string]: Json }; note: string | null } {
  const asked: Readonly<Record<string, unknown>> = change;
  const state = Object.fromEntries(
    members.map((name) => [name, asked[name] === undefined ? current[name] : asked[name]]),
  );
  const wantedDate = change.preferredShippingDate;
  const isSetAlready = mayBeWritten && current.preferredShippingDate === wantedDate;
  if (typeof wantedDate === 'string' && wantedDate < today && !isSetAlready)
    throw new PayloadError([
      `preferredShippingDate: ${wantedDate} is before today, ${today}, which the service refuses`,
    ]);
  if (change.metadata) state.metadata = mergeMetadata(current.metadata, change.metadata);
  const { preferredShippingDate: date } = state;
  const passed = typeof date === 'string' && date < today;
  if (passed) state.preferredShippingDate = null;
  const erased = Object.entries(state).map(
    ([name, value]) => [name, value === '' && !erasedByEmpty.has(name) ? null : value] as const,
  );
  const sent = erased.filter(([name, value]) => value !== null || !neverNull.has(name));
  const note = passed ? `preferredShippingDate ${date} had passed and was sent as null` : null;
  return { attributes: Object.fromEntries(sent) as { [member: string]: Json }, note };
}

function mergeMetadata(
  current: Readonly<Record<string, unknown>> | null,
  change: Readonly<Record<string, string | null | undefined>>,
): Record<string, unknown> {
  const merged = { ...current, ...change };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null && value !== undefined));
}
