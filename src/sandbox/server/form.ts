import { Refusal } from '../refusal.ts';

const maxMembers = 20_000;
const maxIndex = 2_000;
const maxSteps = 5;

type Node = { [name: string]: Node | string };

/**
 * Reads a form whose names may lead into lists and objects, as in `OrderItems[0].Sku` or `OrderItems[0][Sku]`.
 * @throws Refusal where a name is given twice, leads through a value, or counts too far
 */
export function readForm(text: string): unknown {
  const root: Node = Object.create(null);
  let members = 0;
  for (const [name, value] of new URLSearchParams(text)) {
    if (++members > maxMembers) throw new Refusal(400, `The form has more than ${maxMembers} members`);
    setIn(root, name, value);
  }
  return listsOf(root);
}

function setIn(root: Node, name: string, value: string): void {
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

/** Objects whose names are all numbers become lists. */
function listsOf(node: Node | string): unknown {
  if (typeof node === 'string') return node;
  const entries = Object.entries(node);
  const isList = entries.length > 0 && entries.every(([name]) => /^\d{1,4}$/.test(name));
  if (!isList) return Object.fromEntries(entries.map(([name, value]) => [name, listsOf(value)]));
  if (entries.some(([name]) => Number(name) > maxIndex)) throw new Refusal(400, `A list counts beyond ${maxIndex}`);
  return entries.sort(([left], [right]) => Number(left) - Number(right)).map(([, value]) => listsOf(value));
}
