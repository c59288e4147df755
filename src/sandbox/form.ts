import type { FastifyRequest } from 'fastify';
import { Refusal } from './refusal.ts';

const maxMembers = 20_000;
const maxIndex = 2_000;
const maxSteps = 5;

type FormNode = { [name: string]: FormNode | string };

/** Returns whether the body of a request is a form. */
export function isForm(request: FastifyRequest): boolean {
  return request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
}

/**
 * Parses a form. Names may address members of lists and objects, as in `OrderItems[0].Sku` or `OrderItems[0][Sku]`.
 * @throws Refusal if a name occurs twice, addresses a member of a value, or is too deep, or if a list or the form is
 *   too long
 */
export function readForm(text: string): unknown {
  const root: FormNode = Object.create(null);
  let members = 0;
  for (const [name, value] of new URLSearchParams(text)) {
    if (++members > maxMembers) throw new Refusal(400, `The form has more than ${maxMembers} members`);
    addMember(root, name, value);
  }
  return toLists(root);
}

function addMember(root: FormNode, name: string, value: string): void {
  const path = name.match(/[^.[\]]+/g) ?? [name];
  const last = path.pop() ?? name;
  if (path.length > maxSteps) throw new Refusal(400, 'A name leads too deep');
  let node = root;
  for (const step of path) {
    const next = node[step] ?? Object.create(null);
    if (typeof next === 'string') throw new Refusal(400, `${name} is a value and holds members`);
    node[step] = next;
    node = next;
  }
  if (node[last] !== undefined) throw new Refusal(400, `${name} is given twice`);
  node[last] = value;
}

/** Turns objects whose names are all numbers into lists. */
function toLists(node: FormNode | string): unknown {
  if (typeof node === 'string') return node;
  const entries = Object.entries(node);
  const isList = entries.length > 0 && entries.every(([name]) => /^\d{1,4}$/.test(name));
  if (!isList) return Object.fromEntries(entries.map(([name, value]) => [name, toLists(value)]));
  if (entries.some(([name]) => Number(name) > maxIndex)) throw new Refusal(400, `A list counts beyond ${maxIndex}`);
  return entries.sort(([left], [right]) => Number(left) - Number(right)).map(([, value]) => toLists(value));
}
