import type { z } from 'zod';
import { makeUndecodableError } from '../../../core/errors.ts';
import { isObject } from '../../../core/json.ts';
import { shipments } from '../../../pull/streams/shipments.ts';
import { decodeEnvelope } from '../../../service/decoding/envelope.ts';
import { encodeQuery } from '../../../service/transport/query.ts';
import { defineKind, NotFoundError, type PushContext, type PushResult } from '../../kind.ts';
import { labelRequest } from '../../payloads/return.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../setting-codes.ts';

const operation = 'v2.returnLabel.get';
type Label = z.infer<typeof labelRequest>;

const methodMember: CodedMember = {
  list: 'returnShippingMethods',
  byCode: 'shippingMethod',
  byId: 'shippingMethodId',
  required: false,
};

/**
 * Requests a return label for a shipment (docs/interface.md, 15.9 Return label). A repeated request
 * may create, and bill, another label (docs/assumptions.md). Therefore an operator decides, unless
 * the operation is declared repeatable.
 */
export const returnLabelCreate = defineKind<Label>({
  name: 'return_label.create',
  schema: labelRequest,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'ask operator' },
  check: (payload, _reference, context) => findCodeProblems(payload, methodMember, context),
  push: createLabel,
});

async function createLabel(payload: Label, context: PushContext): Promise<PushResult> {
  const { shipmentId, paperless } = payload;
  const shippingMethodId = await findNamedId(payload, methodMember, context);
  const query = encodeQuery({
    ...(shippingMethodId === null ? {} : { shippingMethodId }),
    ...(paperless ? { paperless: 'true' } : {}),
  });
  const answer = await context.send({ operation, path: { shipmentId }, query });
  const label = decodeEnvelope(operation, answer.body);
  if (label === null)
    throw new NotFoundError(`the service made no label for shipment ${shipmentId}`);
  if (!isObject(label)) throw makeUndecodableError(`${operation}: the answer has no label`);
  return { result: label, reread: { stream: shipments, id: shipmentId } };
}
