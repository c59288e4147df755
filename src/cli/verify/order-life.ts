/** The assumptions that one order on hold can check, from its creation to its cancellation. */

import { randomBytes } from 'node:crypto';
import {
  CodedError,
  describeError,
  makeUndecodableError,
  WarehouseError,
} from '../../core/errors.ts';
import { removeQuotes } from '../../core/quote.ts';
import { addDays, toUtcDay } from '../../core/time.ts';
import { formatCount } from '../../operate/health/problem.ts';
import {
  buildOrderDocument,
  type OrderPayload,
  toAttachmentAttributes,
} from '../../push/kinds/order-payload.ts';
import {
  buildUpdate,
  buildWantedState,
  describeLoss,
  type FoundOrder,
  listByNumbers,
  listMembers,
  orderInclude,
  readLines,
  readOrderById,
  readOrders,
} from '../../push/kinds/order-state.ts';
import type { WriteRequest } from '../../service/client.ts';
import { decodeServiceLists } from '../../service/decoding/decode-service-lists.ts';
import { decodeDocument } from '../../service/decoding/jsonapi.ts';
import {
  type Assumption,
  type CheckedAssumption,
  cannotTell,
  deviates,
  type Finding,
  fits,
  judge,
  type VerifyContext,
} from './assumption.ts';
import { findSku } from './reads.ts';

/** Days until the preferred shipping date of the order. */
const leadDays = 60;
/** Earlier than every preferred shipping date, so that the order keeps its date. */
const anyDay = '1970-01-01';

/** What `--allow-writes` does, for the person who is asked. */
export const orderPlan =
  'This places ONE order on hold at the service, of two pieces, numbered VERIFY-…, to be shipped ' +
  'in 60 days. It looks the order up, changes its reference, renames it, adds a pdf, cancels a ' +
  'line, and cancels the order, also after an error or Ctrl-C.';

/** The one order, and what is known of it. */
interface OrderLife extends VerifyContext {
  /** Article of the order; null: one that the orders of the client name. */
  readonly sku: string | null;
  /** The number that the order got. */
  readonly number: string;
  /** The id of the order; null if no answer has shown it. */
  id: number | null;
  /** True once the order was sent, unless the service has refused it. */
  mayExist: boolean;
}

/** The life of the order, step by step. */
const steps: readonly Assumption<OrderLife>[] = [
  {
    id: 'order-create',
    section: '7.9',
    text: '`included` is inside `data`; without a billing address, the delivery address counts.',
    remedy:
      'name an article of the service with --sku; else set "included": "top" ' +
      'for v3.orders.create and .update, or "billingAddress": "omit"',
    check: createOrder,
  },
  {
    id: 'order-found',
    section: '7.5',
    text: 'An order is found by its number directly after it was placed.',
    remedy: 'nothing; a lost answer takes longer to settle',
    check: findByNumber,
  },
  {
    id: 'order-update',
    section: '7.7',
    text: 'An update changes what it names, and keeps what it omits.',
    remedy: 'set the method, the path or "sendsRelationships" of v3.orders.update',
    check: (life) => changeOrder(life, 'reference', 'verify-changed'),
  },
  {
    id: 'order-rename',
    section: '7.7',
    text: 'An update takes a new order number.',
    remedy: 'do not use order.rename and order.replace',
    check: (life) => changeOrder(life, 'externalOrderNumber', `${life.number}-renamed`),
  },
  {
    id: 'attachment',
    section: '9.3',
    text: 'An order takes a pdf, whose content is the attribute `content`.',
    remedy: 'set "contentMember" for v3.orderAttachments.create',
    check: attachDocument,
  },
  {
    id: 'item-cancel',
    section: '8.3',
    text: 'The attributes `{"quantity": 0}` cancel an order item.',
    remedy: 'set "attributes" and the path of v3.orderItems.cancel',
    check: cancelItem,
  },
  {
    id: 'order-cancel',
    section: '7.8',
    text: 'DELETE cancels every open item of an order.',
    remedy: 'cancel the order by hand; do not use order.cancel',
    check: cancelOrder,
  },
];

/**
 * Places one order on hold, leads it through its life, and cancels it whatever happens.
 * @param sku article of the order; null: one that the orders of the client name
 * @param stop ends the life early; the order is cancelled also then
 * @param onLeft gets what remains at the service, in words, also after an error
 */
export async function leadOrder(
  context: VerifyContext,
  sku: string | null,
  stop: AbortSignal,
  onLeft: (words: string) => void,
): Promise<CheckedAssumption[]> {
  const number = `VERIFY-${randomBytes(5).toString('hex')}`;
  const life: OrderLife = { ...context, sku, number, id: null, mayExist: false };
  const judgements: CheckedAssumption[] = [];

  try {
    for (const step of steps)
      if (!stop.aborted) judgements.push(await judge(context.client.key, step, life));
  } finally {
    if (life.mayExist) onLeft(await endOrder(life));
  }
  return judgements;
}

/** Cancels what is left of the order. Returns what remains at the service, in words. */
async function endOrder(life: OrderLife): Promise<string> {
  const { number } = life;
  try {
    life.id ??= await findId(life);
    if (life.id === null)
      return `${number}: no answer said whether it exists; it is not listed now; look again later`;

    const name = `${number} (id ${life.id})`;
    if ((await countOpen(life)) > 0) await sendCancel(life, life.id);
    const open = await countOpen(life);
    return open === 0
      ? `${name} is cancelled; the service keeps it in its list`
      : `${name} still has ${formatCount(open, 'open line')}; cancel it by hand`;
  } catch (error) {
    if (!(error instanceof CodedError)) throw error;
    const reason = removeQuotes(describeError(error));
    return `${number} may exist and could not be cancelled (${reason}); cancel it by hand`;
  }
}

/** Sends a change once, as the outbox does. */
const send = ({ warehouse, signal }: VerifyContext, request: WriteRequest) =>
  warehouse.write(request, { signal, beforeSend: () => Promise.resolve() });

const sendCancel = (life: OrderLife, id: number) =>
  send(life, { operation: 'v3.orders.cancel', path: { id }, query: orderInclude });

/**
 * Reads the order as it is now.
 * @throws CodedError if it was not placed, or is not there any more
 */
async function readOrder(life: OrderLife): Promise<FoundOrder> {
  if (life.id === null) throw new CodedError('not_there', 'no order was placed');
  const found = await readOrderById({ ...life, zone: life.client.timeZone }, life.id);
  if (found !== null) return found;
  throw makeUndecodableError('the order that was placed is not found by its id');
}

/** Returns the number of lines of the order that are not cancelled. */
async function countOpen(life: OrderLife): Promise<number> {
  const { resource } = await readOrder(life);
  return readLines(resource).filter(({ quantity }) => quantity !== 0).length;
}

async function findId({ warehouse, signal, number }: OrderLife): Promise<number | null> {
  const pages = await listByNumbers(warehouse, [number], signal);
  const found = pages
    .flatMap(readOrders)
    .find(({ order }) => order.external_order_number === number);
  return found?.order.id ?? null;
}

/** Places the order. If its outcome is unknown, it is looked up by its number. */
async function createOrder(life: OrderLife): Promise<Finding> {
  const operation = 'v3.orders.create';
  const body = await buildOrder(life);
  life.mayExist = true;
  try {
    const answer = await send(life, { operation, body });
    life.id = readOrders(decodeDocument(operation, answer.body, 'single'))[0]?.order.id ?? null;
  } catch (error) {
    const isUnknown = error instanceof WarehouseError && error.outcome === 'unknown';
    life.mayExist = isUnknown;
    if (!isUnknown) throw error;
    life.id = await findId(life);
    if (life.id === null) throw error;
  }

  const { order, resource } = await readOrder(life);
  const lines = readLines(resource).length;
  const words = `taken with ${formatCount(lines, 'line')}`;
  if (order.on_hold !== true) return deviates(`${words}, but not on hold`);
  return lines === 2 && order.delivery_address_id !== null ? fits(words) : deviates(words);
}

/** Returns the body of the order: two lines of one piece, on hold, far in the future. */
async function buildOrder(life: OrderLife): Promise<object> {
  const { warehouse, operations, signal } = life;
  const sku = life.sku ?? (await findSku(life));
  if (sku === null) throw new CodedError('usage', 'name an article with --sku');

  const lists = decodeServiceLists(
    await warehouse.ask({ operation: 'common.settings.get' }, { signal }),
  );
  const orderType = lists.options.find(({ list }) => list === 'orderTypes');
  if (orderType === undefined) throw makeUndecodableError('the service lists have no order types');

  const line = { sku, quantity: 1 };
  const nowMs = (await warehouse.readClock(signal)) ?? Date.now();
  const payload: OrderPayload = {
    externalOrderNumber: life.number,
    locale: 'nl-NL',
    reference: 'verify',
    onHold: true,
    preferredShippingDate: addDays(toUtcDay(nowMs), leadDays),
    items: [line, line],
    deliveryAddress: {
      lastName: 'Verify Do Not Ship',
      street1: 'Keizersgracht',
      houseNumber: '1',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    },
  };

  const ids = { orderTypeId: orderType.id, shippingMethodId: null };
  return buildOrderDocument(payload, ids, operations['v3.orders.create']);
}

async function findByNumber(life: OrderLife): Promise<Finding> {
  await readOrder(life);
  return (await findId(life)) === null
    ? deviates('the order is not found yet')
    : fits('the order is found');
}

/** Changes one member of the order, and compares all others with those before. */
async function changeOrder(
  life: OrderLife,
  member: 'reference' | 'externalOrderNumber',
  value: string,
): Promise<Finding> {
  const operation = 'v3.orders.update';
  const before = await readOrder(life);
  const { attributes } = buildWantedState(before.order, {}, anyDay);
  const wanted = { attributes: { ...attributes, [member]: value } };
  const body = buildUpdate(before.resource, wanted, life.operations[operation]);
  await send(life, { operation, path: { id: before.order.id }, query: orderInclude, body });

  const [old, now] = [before, await readOrder(life)].map(({ resource }) => listMembers(resource));
  if (old === undefined || now?.get(member) !== value) return deviates(`${member} is unchanged`);
  const loss = describeLoss(old, now, [member]);
  return loss === null ? fits(`${member} changed, and nothing else`) : deviates(loss);
}

/** Adds a pdf. Its outcome cannot tell whether the service reads the content. */
async function attachDocument(life: OrderLife): Promise<Finding> {
  const operation = 'v3.orderAttachments.create';
  const { order } = await readOrder(life);
  const attributes = toAttachmentAttributes(
    order.external_order_number ?? life.number,
    { filename: 'verify.pdf', content: await writePdf() },
    life.operations[operation],
  );
  const relationships = { order: { data: { id: order.id, type: 'order' } } };
  const data = { type: 'orderAttachment', attributes, relationships };

  try {
    await send(life, { operation, body: { data } });
    return fits('a pdf is taken; look in the warehouse that it is complete');
  } catch (error) {
    if (!(error instanceof WarehouseError) || error.outcome !== 'refused') throw error;
    return cannotTell('a pdf is refused; attachments need an arrangement, or another member');
  }
}

/** Returns a pdf with one empty page of A4, in base64. */
async function writePdf(): Promise<string> {
  const { PDFDocument, PageSizes } = await import('@cantoo/pdf-lib');
  const document = await PDFDocument.create({ updateMetadata: false });
  document.addPage(PageSizes.A4);
  return document.saveAsBase64();
}

/** Cancels the first line of the order. */
async function cancelItem(life: OrderLife): Promise<Finding> {
  const operation = 'v3.orderItems.cancel';
  const [line] = readLines((await readOrder(life)).resource);
  if (line === undefined) return cannotTell('the order has no line');

  const { attributes = { quantity: 0 } } = life.operations[operation];
  const data = { id: line.id, type: 'orderItem', attributes };
  await send(life, { operation, path: { id: line.id }, body: { data } });

  const open = await countOpen(life);
  return open === 1 ? fits('one of two lines is open') : deviates(`${open} lines are open`);
}

async function cancelOrder(life: OrderLife): Promise<Finding> {
  const { order } = await readOrder(life);
  await sendCancel(life, order.id);
  const open = await countOpen(life);
  return open === 0 ? fits('no line is open') : deviates(`${open} lines are open`);
}
