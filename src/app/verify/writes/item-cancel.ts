import type { Operation } from '../../../../config/operations.ts';
import { describeAnswer, readAttribute, readNumber } from '../answer.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import type { SharedOrder, WriteSession } from './session.ts';

const name = 'v3.orderItems.cancel';
type Form = Required<Pick<Operation, 'method' | 'path' | 'attributes'>>;

/** Cancels the first item of the order, in each form until one works. */
export async function checkItemCancel({ order }: SharedOrder, session: WriteSession): Promise<Finding> {
  const id = readNumber(order.items[0]?.id);
  if (id === null) return cannotTell('the order has no item');
  const { method, path, attributes = { quantity: 0 } } = session.service.operation(name);
  const inUse: Form = { method, path, attributes };
  const tried: string[] = [];
  for (const form of [inUse, ...listForms(inUse)]) {
    const json = { data: { id, type: 'orderItem', attributes: form.attributes } };
    const answer = await session.service.ask(form.method, form.path, { path: { id }, json });
    const { items } = await session.read(order.id);
    const item = items.find((one) => readNumber(one.id) === id);
    const isCancelled = readAttribute(item, 'quantity') === 0;
    tried.push(`${form.method} with ${Object.keys(form.attributes).join(', ')}: ${describeAnswer(answer)}`);
    if (!isCancelled) continue;
    if (form === inUse) return holds(tried.join('; '));
    const isSameForm = JSON.stringify(form.attributes) === JSON.stringify(attributes);
    const { attributes: _, ...route } = form;
    return differs(tried.join('; '), entry(name, isSameForm ? route : form));
  }
  return cannotTell(`${tried.join('; ')}; none cancels the item; ask for the method, the path and the attributes`);
}

function listForms(inUse: Form): Form[] {
  const bodies = [inUse.attributes, { quantity: 0 }, { cancelled: true }, { status: 'CANCELLED' }];
  const routes = (['PATCH', 'PUT', 'DELETE'] as const).map((method) => ({ method, path: '/v3/orderItems/{id}' }));
  const forms = routes.flatMap((route) => bodies.map((attributes) => ({ ...route, attributes })));
  const seen = new Set([JSON.stringify(inUse)]);
  return forms.filter((form) => {
    const text = JSON.stringify(form);
    return seen.has(text) ? false : seen.add(text) !== undefined;
  });
}
