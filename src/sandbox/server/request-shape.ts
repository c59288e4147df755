import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../core/json.ts';
import { badParameter, Refusal, ruleBroken } from '../refusal.ts';
import type { Unlike } from '../unlike.ts';

const otherPaging = ['v3.returnItems.list', 'v3.inbounds.list'];

/**
 * Checks that a request has the form that the switch `unlike` demands. Returns its body in the form that the operation
 * knows.
 * @throws Refusal if the form is another one
 */
export function applyUnlike(name: string, rawQuery: string, body: unknown, unlike: Unlike): unknown {
  if (otherPaging.includes(name)) checkPageSize(rawQuery, unlike.pageSize);
  if (!name.startsWith('v3.') || !isObject(body) || !isObject(body.data)) return body;
  const { requestIncluded, cancelAttributes } = unlike;
  if (requestIncluded === 'inside' && body.included !== undefined)
    throw new Refusal(400, 'included belongs inside data', { pointer: '/included' });
  if (requestIncluded === 'top' && body.data.included !== undefined)
    throw new Refusal(400, 'included belongs at the top', { pointer: '/data/included' });
  if (name !== 'v3.orderItems.cancel' || cancelAttributes === null) return body;
  if (!isDeepStrictEqual({ ...body.data }.attributes, cancelAttributes))
    throw ruleBroken(`attributes must be ${JSON.stringify(cancelAttributes)}`, '/data/attributes');
  return { ...body, data: { ...body.data, attributes: { quantity: 0 } } };
}

function checkPageSize(rawQuery: string, rule: Unlike['pageSize']): void {
  const isGiven = /(^|&)page(\[|%5B)size(\]|%5D)=/i.test(rawQuery);
  if (rule === 'refused' && isGiven) throw badParameter('page[size]', 'is not known here');
  if (rule === 'required' && !isGiven) throw badParameter('page[size]', 'is required');
}
