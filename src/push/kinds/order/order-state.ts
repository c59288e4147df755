import type { Operation } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import type { Json } from '../../../core/json.ts';
import type { OrderRow } from '../../../pull/streams/orders.ts';
import { toColumn } from '../../../service/decoding/fields.ts';
import type { Resource } from '../../../service/decoding/jsonapi.ts';
import { PayloadError, type PushContext } from '../../kind.ts';
import {
  type AnsweredOrder,
  type FoundOrder,
  orderInclude,
  readChangedOrder,
} from './find-order.ts';
import { assertKept, listMembers, selectRelationships } from './order-loss.ts';

/** The attributes of an order that a change may name. An absent member keeps its value. */
interface ChangedAttributes {
  readonly preferredShippingDate?: string | null | undefined;
  readonly metadata?: Readonly<Record<string, string | null | undefined>> | null | undefined;
}

/** Members of an order that an update sends. Members that the service sets are never sent back. */
const members = [
  'externalOrderNumber',
  'reference',
  'consumerReference',
  'promotionCode',
  'locale',
  'email',
  'phoneNumber',
  'vatNumber',
  'fulfillFrom',
  'preferredShippingDate',
  'allowPartialDelivery',
  'onHold',
  'metadata',
] as const;
/**
 * Members that must not be null (docs/interface.md, 7.1 Fields). If the order does not show them,
 * they are omitted.
 */
const neverNull: ReadonlySet<string> = new Set(['externalOrderNumber', 'locale', 'onHold']);
/** Members that an empty text erases (docs/interface.md, 7.1 Fields). Null erases the others. */
const erasedByEmpty: ReadonlySet<string> = new Set([
  'reference',
  'consumerReference',
  'promotionCode',
]);

/**
 * Returns the state to send: the order's current values with the change applied. An absent member
 * keeps its value, null is sent as null, and '' erases. Merges metadata member by member. The
 * service refuses a preferred shipping date in the past: if the order has one that the change
 * keeps, null is sent instead, with a note.
 * @param today today by the service's clock, in the client's time zone
 * @param maybeCarriedOut true if an earlier attempt may have been carried out; then its date may
 *   have passed since
 * @throws PayloadError if the change asks for a date in the past
 */
export function buildWantedState(
  current: OrderRow,
  change: ChangedAttributes,
  today: string,
  maybeCarriedOut = false,
): { attributes: { readonly [member: string]: Json }; note: string | null } {
  const asked: Readonly<Record<string, unknown>> = { ...change };
  const stored: Readonly<Record<string, unknown>> = current;
  const state = Object.fromEntries(
    members.map((name) => [name, asked[name] === undefined ? stored[toColumn(name)] : asked[name]]),
  );
  const wantedDate = change.preferredShippingDate;
  const isSetAlready = maybeCarriedOut && current.preferred_shipping_date === wantedDate;
  if (typeof wantedDate === 'string' && wantedDate < today && !isSetAlready)
    throw new PayloadError([
      `preferredShippingDate: ${wantedDate} is before today, ${today}, which the service refuses`,
    ]);
  if (change.metadata) state.metadata = mergeMetadata(current.metadata, change.metadata);

  const { preferredShippingDate: date } = state;
  const passed = typeof date === 'string' && date < today;
  if (passed) state.preferredShippingDate = null;
  const erased = Object.entries(state).map(
    ([name, value]) => [name, value === '' && !erasedByEmpty.has(name) ? null : value] as const,
  );
  const sent = erased.filter(([name, value]) => value !== null || !neverNull.has(name));
  const note = passed ? `preferredShippingDate ${date} had passed and was sent as null` : null;

  return { attributes: Object.fromEntries(sent) as { [member: string]: Json }, note };
}

function mergeMetadata(
  current: Readonly<Record<string, unknown>> | null,
  change: Readonly<Record<string, string | null | undefined>>,
): Record<string, unknown> {
  const merged = { ...current, ...change };
  return Object.fromEntries(
    Object.entries(merged).filter(([, value]) => value !== null && value !== undefined),
  );
}

/** A change of an order, as the body of an update asks for it. */
interface WantedChange {
  readonly attributes: { readonly [member: string]: Json };
  readonly relationships?: Readonly<Record<string, object>>;
  readonly included?: readonly object[];
}

/**
 * Returns the body of an update (docs/interface.md, 7.7 Update). Relationships that the change does
 * not name are omitted, or sent back as they are if a switch says so.
 */
export function buildUpdate(
  order: Resource,
  { attributes, relationships: changed = {}, included = [] }: WantedChange,
  { included: place, sendsRelationships }: Pick<Operation, 'included' | 'sendsRelationships'>,
): object {
  const relationships = { ...(sendsRelationships ? selectRelationships(order) : {}), ...changed };
  const data = {
    id: order.id,
    type: 'order',
    attributes,
    ...(Object.keys(relationships).length > 0 && { relationships }),
  };

  if (included.length === 0) return { data };

  return place === 'top' ? { data, included } : { data: { ...data, included } };
}

/**
 * Changes the number of an order. Its other members stay, except a preferred shipping date in the
 * past.
 * @returns the order with its new number, and the note of `buildWantedState`
 * @throws LostMembersError if something else is gone or changed
 */
export async function changeNumber(
  context: PushContext,
  found: FoundOrder,
  number: string,
): Promise<AnsweredOrder & { readonly note: string | null }> {
  const { attributes, note } = buildWantedState(found.order, {}, found.today);
  const change = { attributes: { ...attributes, externalOrderNumber: number } };
  const named = ['externalOrderNumber', ...(note === null ? [] : ['preferredShippingDate'])];
  const renamed = await sendUpdate(context, found, change, named);
  if (renamed.order.external_order_number === number) return { ...renamed, note };
  throw makeUndecodableError('v3.orders.update: the answer does not have the new number');
}

/**
 * Sends an update of an order, and checks that it changed nothing that the row does not name.
 * @param named the members that the row names
 * @throws LostMembersError if something else is gone or changed
 */
export async function sendUpdate(
  context: PushContext,
  { order: { id }, resource }: FoundOrder,
  change: WantedChange,
  named: readonly string[],
): Promise<AnsweredOrder> {
  const operation = 'v3.orders.update';
  const before = listMembers(resource);
  const body = buildUpdate(resource, change, context.operations[operation]);
  const request = { operation, path: { id }, query: orderInclude, body } as const;
  const answer = await context.send(request, { id, present: before.keys() });
  const changed = await readChangedOrder(operation, answer, id, context);
  await assertKept(context, before, changed, named);

  return changed;
}
