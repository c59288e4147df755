import { z } from 'zod';
import type { Json } from '../../../../core/json.ts';
import type { Order } from '../../../../warehouse/decoding/v3-orders.ts';
import { orders } from '../../../streams/orders.ts';
import { defineKind, type PushContext, type Pushed } from '../../payload/kind.ts';
import { day, optionalText, personalText, textsNamed } from '../../payload/payload.ts';
import { answeredOrder, findOrder, orderInclude } from './find-order.ts';

const unchangeable = 'the service does not change it by an update; cancel the order and create another';
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
 * Changes an order (interface.md, Update order). The whole state has to be sent, as what is omitted may be erased: so the
 * order is read, the change applied, and everything sent back.
 */
export const orderUpdate = defineKind<OrderChange>({
  name: 'order.update',
  schema,
  refused: {
    externalOrderNumber: 'is the reference of the row, by which its rows are kept in order; it cannot be changed here',
    items: unchangeable,
    orderItems: unchangeable,
    deliveryAddress: unchangeable,
    billingAddress: unchangeable,
    pickUpPoint: unchangeable,
    shippingMethod: unchangeable,
    shippingMethodId: unchangeable,
    preferredShippingMethod: unchangeable,
    orderType: unchangeable,
    orderTypeId: unchangeable,
    orderedOn: 'is not changed by the service',
    currency: 'is read-only at the service and cannot be sent',
    channelIdentifier: 'is read-only at the service and cannot be sent',
  },
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  check: async (change) => (Object.keys(change).length === 0 ? ['payload: names nothing to change'] : []),
  push: updateOrder,
});

async function updateOrder(change: OrderChange, context: PushContext): Promise<Pushed> {
  const { order, today } = await findOrder(context);
  const { attributes, note } = wantedState(order, change, today);
  const answer = await context.send({
    operation: 'v3.orders.update',
    path: { id: order.id },
    query: orderInclude,
    body: { data: { id: order.id, type: 'order', attributes } },
  });
  const changed = answeredOrder('v3.orders.update', answer.body, order.id);
  return { result: { orderId: order.id, ...(note === null ? {} : { note }) }, reading: { stream: orders, ...changed } };
}

/** Members of an order that an update may carry; those that the service sets by itself are never sent back. */
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
/** Those that must not be null (interface.md, v3 order): where the answer lacks them they are left out. */
const neverNull: ReadonlySet<string> = new Set(['externalOrderNumber', 'locale', 'onHold']);
/** An empty text erases these at the service; of the others null does (interface.md, v3 order). */
const erasedByEmpty: ReadonlySet<string> = new Set(['reference', 'consumerReference', 'promotionCode']);

/**
 * The state to be sent: what the order has, with the change applied. Absent keeps, null is sent, '' erases; members of
 * metadata are merged one by one. A date that has passed would be refused: null is sent in its place, and noted.
 * @param today the service's day
 */
export function wantedState(
  { attributes: current }: Order,
  change: OrderChange,
  today: string,
): { attributes: { readonly [member: string]: Json }; note: string | null } {
  const asked: Readonly<Record<string, unknown>> = change;
  const state = Object.fromEntries(
    members.map((name) => [name, asked[name] === undefined ? current[name] : asked[name]]),
  );
  if (change.metadata) state.metadata = mergedMetadata(current.metadata, change.metadata);
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

function mergedMetadata(
  current: Readonly<Record<string, unknown>> | null,
  change: Readonly<Record<string, string | null | undefined>>,
): Record<string, unknown> {
  const merged = { ...current, ...change };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null && value !== undefined));
}
