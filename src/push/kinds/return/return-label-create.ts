import { z } from 'zod';
import type { Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { isObject } from '../../../core/json.ts';
import { shipments } from '../../../pull/streams/shipments.ts';
import { decodeEnvelope } from '../../../service/decoding/envelope.ts';
import { encodeQuery } from '../../../service/transport/query.ts';
import { defineKind, NotFoundError, type PushContext, type PushResult } from '../../kind.ts';
import { codeOf, idNumber, idOf, requiredText } from '../../payload.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../setting-codes.ts';

const operation = 'v2.returnLabel.get';
const schema = z.strictObject({
  shipmentId: idNumber,
  shippingMethod: requiredText.nullish().meta(codeOf('returnShippingMethods')),
  shippingMethodId: idNumber.nullish().meta(idOf('returnShippingMethods', 'shippingMethod')),
  paperless: z.boolean().nullish(),
});
type LabelRequest = z.infer<typeof schema>;

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
export const returnLabelCreate = (operations: Operations) =>
  defineKind<LabelRequest>({
    name: 'return_label.create',
    schema,
    operation,
    notFoundMeansRoute: false,
    unknown: { do: operations[operation].repeatable === true ? 'resend' : 'ask operator' },
    document: { kind: 'return_label', path: [] },
    check: (payload, _reference, { known }) => findCodeProblems(payload, methodMember, known),
    push: createLabel,
  });

async function createLabel(payload: LabelRequest, context: PushContext): Promise<PushResult> {
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
