/**
 * The checks that place, change and cancel orders.
 */

import { describeAnswer, isDone, readAttribute } from '../answer.ts';
import type { Check } from '../check.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import { checkItemCancel } from './item-cancel.ts';
import { checkOptional } from './optional.ts';
import type { OrderOptions, SharedOrder, WriteSession } from './session.ts';
import { checkTakes, checkUpdate } from './update.ts';

const noOrder = cannotTell('no order was placed');

/**
 * Returns the checks that write, in their order. They place orders on hold with a number that begins with `VERIFY-`. The
 * caller calls `cleanUp` of the session afterwards, whatever happens.
 */
export function createWriteChecks(session: WriteSession): readonly Check[] {
  let shared: SharedOrder | null = null;
  const withOrder = (check: (shared: SharedOrder, session: WriteSession) => Promise<Finding>) => () =>
    shared === null ? Promise.resolve(noOrder) : check(shared, session);
  return [
    {
      id: 'request-included',
      section: '7.9',
      assumption:
        '`included` of a request is inside `data`: of orders (also changed ones), returns (also replaced ones) and slips.',
      quoted: true,
      run: async () => {
        const placed = await placeFirst(session);
        shared = placed.shared;
        return placed.finding;
      },
    },
    {
      id: 'billing-address',
      section: '7.6',
      assumption: 'An order without a billing address is billed to its delivery address',
      quoted: true,
      run: withOrder(checkBilling),
    },
    {
      id: 'read-back',
      section: '7.5',
      assumption: 'An order is found by its number directly after it was placed.',
      run: withOrder(async ({ payload }) =>
        (await session.find(payload.externalOrderNumber)) === null
          ? differs('the order is not found yet; a lost answer takes longer to settle')
          : holds('the order is found'),
      ),
    },
    {
      id: 'route-v3.orders.update',
      section: '7.7',
      assumption: 'The method and the path of `v3.orders.update` are those of config/operations.ts.',
      replaces: 'route-v3.orders.update',
      run: withOrder(checkUpdate),
    },
    {
      id: 'update-takes',
      section: '7.7',
      assumption: 'An update takes attributes only, also a new order number.',
      quoted: true,
      run: withOrder(checkTakes),
    },
    {
      id: 'required-members',
      section: '7.9',
      assumption: 'The interface does not say that these members are required.',
      quoted: true,
      run: withOrder(checkOptional),
    },
    {
      id: 'item-cancel',
      section: '8.3',
      assumption: 'The attributes `{"quantity": 0}` cancel an order item.',
      quoted: true,
      replaces: 'route-v3.orderItems.cancel',
      run: withOrder(checkItemCancel),
    },
    {
      id: 'order-cancel',
      section: '7.8',
      assumption: 'DELETE /v3/orders/{id} cancels every item of an order that is not fulfilled.',
      run: withOrder(checkCancel),
    },
  ];
}

/** Places the first order: as the outbox does, and if that is refused, in the other forms. */
async function placeFirst(session: WriteSession): Promise<{ shared: SharedOrder | null; finding: Finding }> {
  const { included = 'inside', billingAddress = 'copy' } = session.service.operation('v3.orders.create');
  const otherPlace = included === 'inside' ? 'top' : 'inside';
  const otherBilling = billingAddress === 'copy' ? 'omit' : 'copy';
  const forms: Required<OrderOptions>[] = [
    { included, billingAddress },
    { included: otherPlace, billingAddress },
    { included, billingAddress: otherBilling },
    { included: otherPlace, billingAddress: otherBilling },
  ];
  const refusals: string[] = [];
  for (const options of forms) {
    const made = await session.makePayload();
    if ('problem' in made) return { shared: null, finding: cannotTell(made.problem) };
    const placed = await session.place(made.payload, made.orderTypeId, options);
    const problem = 'refused' in placed ? placed.refused : placed.order.items.length > 0 ? null : 'taken without items';
    const words = `included ${options.included}, billing address ${options.billingAddress}`;
    if ('refused' in placed || problem !== null) {
      refusals.push(`${words}: ${problem}`);
      continue;
    }
    const evidence = [...refusals, `${words}: taken with ${placed.order.items.length} items`].join('; ');
    const setting = entry('v3.orders.create', { included: options.included });
    const finding =
      options.included === included
        ? holds(evidence)
        : differs(`${evidence}; returns and slips were not tried, and may need the same`, setting);
    return { shared: { ...made, order: placed.order, options }, finding };
  }
  return { shared: null, finding: cannotTell(`every form was refused: ${refusals.join('; ')}`) };
}

/** Judges the billing address of the first order, and places an order in the other form to learn whether it is taken. */
async function checkBilling({ options, order }: SharedOrder, session: WriteSession): Promise<Finding> {
  const inUse = session.service.operation('v3.orders.create').billingAddress ?? 'copy';
  const took = options.billingAddress ?? 'copy';
  const words = `${describeBilling[took]}: taken, the order shows ${order.addresses.length} addresses`;
  if (took !== inUse)
    return differs(`${describeBilling[inUse]}: refused; ${words}`, entry('v3.orders.create', { billingAddress: took }));
  const made = await session.makePayload();
  if ('problem' in made) return holds(words);
  const other = took === 'copy' ? 'omit' : 'copy';
  const placed = await session.place(made.payload, made.orderTypeId, { ...options, billingAddress: other });
  return holds(`${words}; ${describeBilling[other]}: ${'refused' in placed ? placed.refused : 'taken, too'}`);
}

const describeBilling = { copy: 'with a copy of the delivery address', omit: 'without a billing address' } as const;

async function checkCancel({ order: { id } }: SharedOrder, session: WriteSession): Promise<Finding> {
  const answer = await session.service.call('v3.orders.cancel', { path: { id } });
  const { items } = await session.read(id);
  const open = items.filter((item) => readAttribute(item, 'quantity') !== 0).length;
  const words = `${describeAnswer(answer)}; ${open} of ${items.length} items are open`;
  return isDone(answer) && open === 0 ? holds(words) : differs(words);
}
