/**
 * The schemas of the payloads of all outbox kinds, and the rules that need nothing but the payload. Workers check with
 * them before they send, and programs of the ERP before they insert (src/client). Nothing here reads a database.
 */

import { z } from 'zod';
import { isObject, type Json } from '../core/json.ts';
import { product, slipPayload } from './goods.ts';
import { cancelledItem, newAttachment, orderChange, orderPayload, orderRename } from './order.ts';
import { describeIssue, normalizeNumbers, type PayloadProblem } from './problems.ts';
import { deletedReturn, labelRequest, returnPayload, returnReplacement } from './return.ts';
import { findCodeChoiceProblems, findEmptyProblems, findItemChoiceProblems, findNumberProblems } from './rules.ts';

/** Schema of a payload without members. */
export const noMembers = z.strictObject({});

/** The schema of each kind, as it is without WAREHOUSE_OPERATIONS_FILE. */
export const payloadSchemas = {
  'order.create': orderPayload,
  'order.update': orderChange,
  'order.rename': orderRename,
  'order.cancel': noMembers,
  'order.release': noMembers,
  'order_item.cancel': cancelledItem,
  'order_attachment.create': newAttachment,
  'return.create': returnPayload,
  'return.replace': returnReplacement,
  'return.delete': deletedReturn,
  'inbound_packing_slip.create': slipPayload,
  'product.save': product,
  'return_label.create': labelRequest,
} as const satisfies Record<string, z.ZodType>;

type Members = { readonly [member: string]: Json };
const findReasonProblems = ({ items }: Members) =>
  (Array.isArray(items) ? items : []).flatMap((item, index) =>
    isObject(item)
      ? findCodeChoiceProblems(item, { byCode: 'reason', byId: 'reasonId', required: true }, `items[${index}].`)
      : [],
  );
const method = { byCode: 'shippingMethod', byId: 'shippingMethodId', required: false };

/** The further rules of each kind. */
const rules: Readonly<Record<string, (payload: Members, reference: string) => string[]>> = {
  'order.create': (payload, reference) => [
    ...findNumberProblems(payload, reference),
    ...findCodeChoiceProblems(payload, { byCode: 'orderType', byId: 'orderTypeId', required: true }),
    ...findCodeChoiceProblems(payload, method),
  ],
  'order.update': findEmptyProblems,
  'order_item.cancel': findItemChoiceProblems,
  'return.create': findReasonProblems,
  'return.replace': findReasonProblems,
  'return_label.create': (payload) => findCodeChoiceProblems(payload, method),
};

/** Returns every problem of a payload that needs neither settings nor switches to be found. */
export function findPayloadProblems(
  kind: keyof typeof payloadSchemas,
  reference: string,
  payload: Json,
): PayloadProblem[] {
  const value = normalizeNumbers(payload);
  const read = payloadSchemas[kind].safeParse(value, { reportInput: true });
  const wrong = read.success ? [] : read.error.issues.flatMap((issue) => describeIssue(issue));
  const further = isObject(value) ? (rules[kind]?.(value, reference) ?? []) : [];
  if (reference.trim() === '') further.unshift('reference: must not be empty');
  return [...wrong, ...further.map(splitProblem)];
}

function splitProblem(text: string): PayloadProblem {
  const at = text.indexOf(': ');
  return { path: text.slice(0, at), problem: text.slice(at + 2) };
}
