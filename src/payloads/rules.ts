import type { Json } from '../core/json.ts';

/**
 * Rules about several members of one payload, which a schema does not show. They need no settings and no switches. Each
 * returns its problems in words, such as `items[0].reason: give either …`.
 */

type Members = { readonly [member: string]: Json };

/** Returns true if a member is neither absent nor null. */
const isGiven = (value: Members, member: string): boolean => value[member] !== undefined && value[member] !== null;

/** The number of a new order must be the reference of its row, because lanes are made of references. */
export function findNumberProblems({ externalOrderNumber: number }: Members, reference: string): string[] {
  return typeof number === 'string' && number !== reference
    ? [`externalOrderNumber: must equal the reference of the row, ${reference}`]
    : [];
}

/** A change must change something. */
export const findEmptyProblems = (change: Members): string[] =>
  Object.keys(change).length === 0 ? ['payload: must name at least one member to change'] : [];

/** A cancelled item is named by its id or by its sku. */
export const findItemChoiceProblems = (wanted: Members): string[] =>
  isGiven(wanted, 'orderItemId') === isGiven(wanted, 'sku') ? ['payload: give either orderItemId or sku'] : [];

/** An entry of a service list is named by its code or by its id, not by both. */
export function findCodeChoiceProblems(
  value: Members,
  { byCode, byId, required }: { readonly byCode: string; readonly byId: string; readonly required: boolean },
  path = '',
): string[] {
  const given = Number(isGiven(value, byCode)) + Number(isGiven(value, byId));
  return given === 2 || (required && given === 0) ? [`${path}${byCode}: give either ${byCode} (code) or ${byId}`] : [];
}
