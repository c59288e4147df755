import type { Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { decodeDocument, readId } from '../../../service/decoding/jsonapi.ts';
import { defineKind, type PushContext, type PushResult } from '../../kind.ts';
import { findOrder } from './find-order.ts';
import { makeAttachment, type OrderAttachment, toAttachmentAttributes } from './order-payload.ts';

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
  const { order } = await findOrder(context);
  const answer = await context.send({
    operation,
    body: {
      data: {
        type: 'orderAttachment',
        attributes: toAttachmentAttributes(
          context.row.reference,
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
