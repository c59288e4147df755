import { optionalMembers } from '../../../../config/optional-members.ts';
import type { OrderPayload } from '../../../payloads/order.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import type { SharedOrder, WriteSession } from './session.ts';

const name = 'v3.orders.create';
/** The members that can be left out of an order that still names what is sent where. */
const members = optionalMembers[name].filter((member) => member === 'locale' || member.startsWith('deliveryAddress.'));

/** Places one more order for each member that we require, without that member. */
export async function checkOptional(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const inUse: readonly string[] = session.service.operation(name).optional ?? [];
  const tried: string[] = [];
  const isNeeded = new Map<string, boolean>();
  for (const member of members) {
    const made = await session.makePayload();
    if ('problem' in made) return cannotTell(made.problem);
    const placed = await session.place(omit(made.payload, member), made.orderTypeId, shared.options);
    isNeeded.set(member, 'refused' in placed);
    tried.push(`without ${member}: ${'refused' in placed ? placed.refused : 'taken'}`);
  }
  const untried = inUse.filter((member) => !isNeeded.has(member));
  const wanted = [...untried, ...members.filter((member) => !isNeeded.get(member))];
  const isSame = wanted.length === inUse.length && wanted.every((member) => inUse.includes(member));
  return isSame ? holds(tried.join('; ')) : differs(tried.join('; '), entry(name, { optional: wanted }));
}

/** Returns the payload without one member. The billing address, which is a copy, lacks it, too. */
function omit(payload: OrderPayload, member: string): OrderPayload {
  const [first = '', second] = member.split('.');
  const without = <T extends object>(whole: T, left: string) =>
    Object.fromEntries(Object.entries(whole).filter(([key]) => key !== left)) as T;
  if (second === undefined) return without(payload, first);
  return { ...payload, deliveryAddress: without(payload.deliveryAddress, second) };
}
