/**
 * This folder: kinds that concern an inbound delivery. A slip is looked up by reference, warehouse,
 * day and lines, because its reference is not unique.
 */

import { z } from 'zod';
import type { Operation, Operations } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { inboundPackingSlips, slipItem } from '../../../pull/streams/inbound-packing-slips.ts';
import { decodeDocument, type Resource, readId } from '../../../service/decoding/jsonapi.ts';
import { describeLineDifference, readIncluded } from '../../answers.ts';
import { defineKind, type PushContext, type PushResult } from '../../kind.ts';
import { pickGiven } from '../../payload.ts';
import {
  day,
  personalText,
  quantity,
  requiredText,
  requireUnless,
  textsNamed,
} from '../../payloads/members.ts';
import { findSlips, readSlips } from './find-slips.ts';

const operation = 'v3.inboundPackingSlips.create';

function makeSlipPayload(operations: Operations) {
  const require = requireUnless(operations[operation].optional);
  const item = z.strictObject({
    sku: require('items.sku', requiredText),
    quantity: require('items.quantity', quantity),
  });

  return z.strictObject({
    expectedIn: require('expectedIn', requiredText.meta({ description: 'warehouse code' })),
    expectedOn: require('expectedOn', day),
    comments: personalText,
    metadata: textsNamed('serviceLevel', 'purchases', 'reference'),
    items: require('items', z.array(item).min(1, 'must have at least one entry')),
  });
}
type SlipPayload = z.infer<ReturnType<typeof makeSlipPayload>>;

/**
 * Announces goods to a warehouse (docs/interface.md, 14.4 Operations). The row's reference becomes
 * the slip's.
 */
export const inboundPackingSlipCreate = (operations: Operations) =>
  defineKind<SlipPayload>({
    name: 'inbound_packing_slip.create',
    schema: makeSlipPayload(operations),
    operation,
    notFoundMeansRoute: true,
    unknown: {
      do: 'look up',
      lookUp: {
        stream: inboundPackingSlips,
        find: findSlips,
        differs: ({ items }, resource) =>
          describeLineDifference(items ?? [], readIncluded(resource, slipItem)),
        resultOf: toResult,
        whenAbsent: 'ask operator',
        doubtsRefusal: false,
      },
    },
    push: createSlip,
  });

/** Returns the body that announces goods. `place` is the position of `included`. */
function toSlipDocument(
  payload: SlipPayload,
  reference: string,
  place: Operation['included'],
): object {
  const { items, metadata, ...others } = payload;
  const included = (items ?? []).map((item) => ({
    type: 'inboundPackingSlipItem',
    attributes: pickGiven(item),
  }));
  const data = {
    type: 'inboundPackingSlip',
    attributes: {
      ...pickGiven({ ...others, reference }),
      ...(metadata ? { metadata: pickGiven(metadata) } : {}),
    },
  };
  return place === 'top' ? { data, included } : { data: { ...data, included } };
}

async function createSlip(payload: SlipPayload, context: PushContext): Promise<PushResult> {
  const body = toSlipDocument(
    payload,
    context.row.reference,
    context.operations[operation].included,
  );
  const answer = await context.send({ operation, body });
  const document = decodeDocument(operation, answer.body, 'single');
  const [created] = readSlips(document);
  if (created === undefined || created.row.reference !== context.row.reference)
    throw makeUndecodableError(`${operation}: the answer describes another slip`);
  const { resource } = created;
  return {
    result: toResult(resource),
    reading: { stream: inboundPackingSlips, resource, escaped: document.escaped },
  };
}

function toResult(resource: Resource): PushResult['result'] {
  const items = readIncluded(resource, slipItem).map(({ id, sku }) => ({ id, sku }));
  return { inboundPackingSlipId: readId(resource), items };
}
