import { z } from 'zod';
import { makeUndecodableError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { orderItem, orders } from '../../pull/streams/orders.ts';
import { decodeRow } from '../../service/decoding/fields.ts';
import { decodeDocument, type Resource, readId } from '../../service/decoding/jsonapi.ts';
import {
  defineKind,
  isEmpty,
  type JsonObject,
  NotFoundError,
  type PushContext,
  type PushResult,
  problemAt,
  readAfterChange,
} from '../kind.ts';
import { idNumber, isGiven, noMembers, refusing, requiredText } from '../payload.ts';
import {
  type AnsweredOrder,
  findOrder,
  orderInclude,
  readCancelledOrder,
  readLines,
  readMeta,
  readOrderById,
  showsAllItems,
} from './order-state.ts';

const operation = 'v3.orders.cancel';

/** Cancels the quantities of an order that were not shipped (docs/interface.md, 7.8 Cancel). */
export const orderCancel = defineKind<Record<string, never>>({
  name: 'order.cancel',
  schema: noMembers,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: cancelOrder,
});

async function cancelOrder(_payload: unknown, context: PushContext): Promise<PushResult> {
  const found = await findOrder(context);
  const { id: orderId } = found.order;
  const request = { operation, path: { id: orderId }, query: orderInclude } as const;
  const answer = await context.send(request);

  // If the service does not have the order any more, everything of it is cancelled.
  const remaining = await readCancelledOrder(context, answer, found);
  const items = remaining === null ? [] : readLines(remaining.resource);
  const answered = isEmpty(answer)
    ? findModified(readLines(found.resource), items)
    : readMeta(operation, answer.body);
  const isShown = remaining === null || showsAllItems(remaining, found.resource);

  const result = {
    orderId,
    ...describeModified(answered, items, context.row.maybeCarriedOut),
    items,
    ...(!isShown && { note: 'the service does not show all items of the order: items lacks some' }),
  };
  if (remaining === null) return { result, gone: { stream: orders, id: orderId } };
  return { result, reading: { stream: orders, ...remaining } };
}

/** The note of a row that found cancelled what an earlier attempt of it may have cancelled. */
const cancelledEarlier =
  'an earlier attempt of this row, whose answer was lost, may have cancelled what has quantity 0';

/**
 * Returns what the row modified. If an earlier attempt may have been carried out, it may have
 * cancelled what this one found cancelled. If nothing is left to ship, the row says that it did.
 */
function describeModified(
  { modified, modifiedItems }: ReturnType<typeof readMeta>,
  items: ReturnType<typeof readLines>,
  maybeCarriedOut: boolean,
): JsonObject {
  const cancelled = items.filter(({ quantity }) => quantity === 0);
  if (modified || !maybeCarriedOut || cancelled.length === 0)
    return { modified, modifiedItemIds: modifiedItems };

  return cancelled.length === items.length
    ? { modified: true, modifiedItemIds: items.map(({ id }) => id), note: cancelledEarlier }
    : { modified, modifiedItemIds: modifiedItems, note: cancelledEarlier };
}

/** Finds what a cancellation modified that was answered without a body. */
function findModified(
  before: ReturnType<typeof readLines>,
  after: typeof before,
): ReturnType<typeof readMeta> {
  const left = new Map(after.map(({ id, quantity }) => [id, quantity]));
  const changed = before.filter(({ id, quantity }) => quantity !== (left.get(id) ?? 0));
  return { modified: changed.length > 0, modifiedItems: changed.map(({ id }) => id) };
}

/** The interface cancels what is left of an item, not a part of it. */
const itemSchema = z
  .strictObject({ orderItemId: idNumber.nullish(), sku: requiredText.nullish() })
  .meta(
    refusing({
      quantity:
        'the interface cancels all that is left of an item, not a part of it;' +
        ' to change the quantity, use order.replace',
    }),
  );
type CancelledItem = z.infer<typeof itemSchema>;

const itemOperation = 'v3.orderItems.cancel';

/**
 * Cancels the quantity of one order item that was not shipped (docs/interface.md, 8.2 Operations).
 */
export const orderItemCancel = defineKind<CancelledItem>({
  name: 'order_item.cancel',
  schema: itemSchema,
  operation: itemOperation,
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  check: (wanted) =>
    isGiven(wanted, 'orderItemId') === isGiven(wanted, 'sku')
      ? [problemAt([], 'give either orderItemId or sku')]
      : [],
  push: cancelItem,
});

async function cancelItem(wanted: CancelledItem, context: PushContext): Promise<PushResult> {
  const before = await findOrder(context);
  const id = findItemId(before.resource, wanted, context.row.reference);
  const { [itemOperation]: options } = context.operations;
  const attributes = options.attributes ?? { quantity: 0 };
  const body = { data: { id, type: 'orderItem', attributes } };
  const answer = await context.send({ operation: itemOperation, path: { id }, body });
  const { modified, quantity, order } = isEmpty(answer)
    ? await readCancelledItem(before, id, context)
    : readAnsweredItem(before, id, answer.body);

  // An earlier attempt may have cancelled the item that this one found cancelled.
  const mayBeEarlier = !modified && context.row.maybeCarriedOut && quantity === 0;
  const shown = mayBeEarlier ? { modified: true, note: cancelledEarlier } : { modified };
  return {
    result: { orderItemId: id, ...shown, quantity },
    reading: { stream: orders, ...order },
  };
}

/** What a cancellation did to an item, and its order. */
interface ItemAfter {
  readonly modified: boolean;
  readonly quantity: number | null;
  readonly order: Omit<AnsweredOrder, 'order'>;
}

/** Reads the item from the answer to its cancellation. */
function readAnsweredItem(
  { resource, escaped }: AnsweredOrder,
  id: number,
  body: string,
): ItemAfter {
  const document = decodeDocument(itemOperation, body, 'single');
  const item = document.data[0] as Resource;
  const read = decodeRow(orderItem, item);
  if ('problem' in read || read.row.id !== id)
    throw makeUndecodableError(`${itemOperation}: the answer describes another item`);

  const order = {
    resource: replaceItem(resource, id, item),
    escaped: escaped || document.escaped,
  };
  const { modified } = readMeta(itemOperation, body);
  return { modified, quantity: read.row.quantity, order };
}

/** Reads the order again after a cancellation that was answered without a body. */
async function readCancelledItem(
  before: AnsweredOrder,
  id: number,
  context: PushContext,
): Promise<ItemAfter> {
  const order = await readAfterChange(itemOperation, () => readOrderById(context, before.order.id));
  const findLine = (read: AnsweredOrder) => readLines(read.resource).find((line) => line.id === id);
  const line = order === null ? undefined : findLine(order);
  if (order === null || line === undefined)
    throw makeUndecodableError(
      `${itemOperation}: the answer is empty, and the order does not show the item`,
    );

  const { quantity } = line;
  return { modified: findLine(before)?.quantity !== quantity, quantity, order };
}

/**
 * Returns the id of the item that the payload names.
 * @throws NotFoundError if no item fits, or several do
 */
function findItemId(order: Resource, { orderItemId, sku }: CancelledItem, number: string): number {
  const lines = readLines(order);
  const found = lines.filter((line) => (orderItemId ? line.id === orderItemId : line.sku === sku));
  const [first, ...others] = found;
  const held = lines.map((line) => `${line.id} (${line.sku})`).join(', ') || 'none';
  if (first === undefined)
    throw new NotFoundError(
      `order ${number} has no item ${orderItemId ?? sku}; its items are ${held}`,
    );
  if (others.length > 0)
    throw new NotFoundError(
      `order ${number} has several items with the sku ${sku}; name one by orderItemId: ${held}`,
    );

  return first.id;
}

/** Returns the order with one item replaced by its new version. */
function replaceItem(order: Resource, id: number, item: Json): Resource {
  const included = Array.isArray(order.included) ? order.included : [];
  const isSame = (other: Json) => readId(other) === id && (other as Resource).type === 'orderItem';
  return { ...order, included: included.map((other) => (isSame(other) ? item : other)) };
}
