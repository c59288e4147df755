import type { Operations } from '../../../config/operations.ts';
import { makeUndecodableError } from '../../core/errors.ts';
import { decodeDocument, readId } from '../../service/decoding/jsonapi.ts';
import { defineKind, NotFoundError, type PushContext, type PushResult } from '../kind.ts';
import { readSentTarget } from '../sql/renames.ts';
import { makeAttachment, type OrderAttachment, toAttachmentAttributes } from './order-payload.ts';
import { type FoundOrder, findOrder, readOrderById } from './order-state.ts';

const operation = 'v3.orderAttachments.create';

/**
 * Adds a pdf to an order. The warehouse prints it during picking (docs/interface.md, 9.2
 * Operations). The service has no operation to look up attachments.
 */
export const orderAttachmentCreate = (operations: Operations) =>
  defineKind<OrderAttachment>({
    name: 'order_attachment.create',
    schema: makeAttachment(operations),
    operation,
    notFoundMeansRoute: true,
    unknown: { do: 'ask operator' },
    // The others wait: a document must not be missing when the order is released (order.release, or
    // order.update with onHold), it names the order by its number (order.rename), and it belongs to
    // the order (order.create).
    overtakenBy: [
      'order_attachment.create',
      'return_label.create',
      'order.cancel',
      'order_item.cancel',
    ],
    document: { kind: 'order_attachment', path: [] },
    documents: ({ content }) => [{ path: ['content'], content }],
    push: createAttachment,
  });

async function createAttachment(
  payload: OrderAttachment,
  context: PushContext,
): Promise<PushResult> {
  const { order } = await findAttachedOrder(context);
  const answer = await context.send({
    operation,
    body: {
      data: {
        type: 'orderAttachment',
        attributes: toAttachmentAttributes(
          order.external_order_number ?? context.row.reference,
          payload,
          context.operations[operation],
        ),
        relationships: { order: { data: { id: order.id, type: 'order' } } },
      },
    },
  });

  const id = readId(decodeDocument(operation, answer.body, 'single').data[0] ?? null);
  if (id === null) throw makeUndecodableError(`${operation}: the answer has no id`);

  return { result: { orderAttachmentId: id, orderId: order.id } };
}

/**
 * Finds the order of a row. A follow-up belongs to the order that the row before it made, whatever
 * the number of that order is now: another order may have the number by now.
 * @throws NotFoundError if the service does not have the order
 */
async function findAttachedOrder(context: PushContext): Promise<FoundOrder> {
  const target = await readSentTarget(context.db, context.row.id);
  if (target === null) return findOrder(context);

  const found = await readOrderById(context, target.id);
  if (found !== null) return found;
  throw new NotFoundError(
    `the service does not have the order ${target.id} any more, to which this document belongs; ` +
      'cancel this row',
  );
}
