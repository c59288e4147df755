/** Reads the query and the body of a request, and records what docs/interface.md does not show. */

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Oddity } from '../findings.ts';
import { normalizeBody, readBoolean } from '../normalize-body.ts';
import { flag, type Operation, type Parameters, selectBody } from '../operations/operation.ts';
import { badParameter, Refusal } from '../refusal.ts';
import type { World } from '../world.ts';

/** How a request is compared with its operation. */
interface Reading {
  /** Whether unknown parameters and other spellings are refused. */
  readonly isStrict: boolean;
  /**
   * Whether names are compared without their case, and values have other spellings: in the older
   * generations.
   */
  readonly isOlder: boolean;
  /** Whether a list of texts is decoded before it is split. */
  readonly decodesBeforeSplit: boolean;
  readonly record: (oddity: Oddity) => void;
}

/** Reads a request. Strict refuses what docs/interface.md does not show, else it is adapted. */
export function readInput(
  operation: Operation,
  request: FastifyRequest,
  { strictness: { strict = false }, findings, clock, switches }: World,
): { readonly query: unknown; readonly body: unknown } {
  const { name, replacedBy, advised, described } = operation;
  const record = (oddity: Oddity) => findings.add(request.client, name, oddity);
  if (advised !== null) findings.noteCall(request.client, name, advised, clock.nowMs());
  if (replacedBy !== null) record({ code: 'deprecated_call', member: '', meant: replacedBy });
  if (!described) record({ code: 'not_in_description', member: '' });

  const reading = {
    isStrict: strict,
    isOlder: /^(oldest|v2)\./.test(name),
    decodesBeforeSplit: switches.decodesBeforeSplit,
    record,
  };
  const query = readQuery(splitUrl(request.url)[1], operation, reading);
  return { query, body: readBody(operation, request, reading) };
}

/** Divides a URL at its question mark. */
export function splitUrl(url: string): [string, string] {
  const [path = '', ...query] = url.split('?');
  return [path, query.join('?')];
}

function readBody(
  operation: Operation,
  { body, bodyText, headers }: FastifyRequest,
  { isStrict, isOlder, record }: Reading,
): unknown {
  const schema = selectBody(operation, isStrict);
  if (schema === null) return null;

  const { form } = operation;
  const isForm = headers['content-type']?.startsWith(formType) ?? false;
  if (isForm && form === 'never') record({ code: 'form_body', member: '' });
  const takesForms = form !== 'never' || (isOlder && !isStrict);
  if (isForm && !takesForms) throw new Refusal(415, 'The body must be JSON');
  if (!isForm && form === 'only') throw new Refusal(415, `The body must be ${formType}`);

  const given = isForm ? readForm(bodyText ?? '') : (body ?? null);
  const normalized = normalizeBody(given, schema, { isOlder, isForm, record });
  return schema.parse(isStrict ? given : normalized);
}

/**
 * Parses a raw query string. An encoded comma belongs to its text; in lists of names and ids, it
 * separates values.
 */
function readQuery(
  rawQuery: string,
  { query: parameters, required }: Operation,
  reading: Reading,
): unknown {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const name = findName(decodeText(rawName), parameters, reading);
    if (name === null) continue;
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');

    const schema = parameters[name] ?? z.never();
    const read = schema.safeParse(readValue(name, rest.join('='), schema, reading));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }

  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values;
}

/**
 * Returns the name of the parameter that a client means, or null. Strict mode refuses any other
 * name.
 */
function findName(
  sent: string,
  parameters: Parameters,
  { isStrict, isOlder, record }: Reading,
): string | null {
  if (Object.hasOwn(parameters, sent)) return sent;

  const names = isOlder ? Object.keys(parameters) : [];
  const meant = names.find((name) => name.toLowerCase() === sent.toLowerCase());
  const code = meant === undefined ? 'unknown_parameter' : 'odd_case';
  record({ code, member: sent, meant });
  if (isStrict) throw badParameter(sent, 'is not a parameter of this operation');
  return meant ?? null;
}

function readValue(
  name: string,
  raw: string,
  schema: z.ZodType,
  { isStrict, isOlder, decodesBeforeSplit, record }: Reading,
): string | string[] {
  if (schema instanceof z.ZodArray) {
    // docs/interface.md, 2.5: a comma in a text is encoded.
    if (schema.element instanceof z.ZodString && !decodesBeforeSplit)
      return raw.split(',').map(decodeText);
    if (/%2c/i.test(raw)) record({ code: 'encoded_comma', member: name });
    return decodeText(raw).split(',');
  }

  const text = decodeText(raw);
  const meant = schema === flag && isOlder ? readBoolean(text) : undefined;
  if (meant === undefined || text === String(meant)) return text;
  record({ code: 'wrong_type', member: name, meant: 'true or false' });
  return isStrict ? text : String(meant);
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}

export const formType = 'application/x-www-form-urlencoded';
const maxMembers = 20_000;
const maxIndex = 2_000;
const maxSteps = 5;

type FormNode = { [name: string]: FormNode | string };

/**
 * Parses a form. Names may address members of lists and objects, as in `OrderItems[0].Sku` or
 * `OrderItems[0][Sku]`.
 */
function readForm(text: string): unknown {
  const root: FormNode = Object.create(null);
  const members = [...new URLSearchParams(text)];
  if (members.length > maxMembers)
    throw new Refusal(400, `The form has more than ${maxMembers} members`);
  for (const [name, value] of members) addMember(root, name, value);
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

  const entries = Object.entries(node).map(([name, value]) => [name, toLists(value)] as const);
  const isList = entries.length > 0 && entries.every(([name]) => /^\d{1,4}$/.test(name));
  if (!isList) return Object.fromEntries(entries);
  if (entries.some(([name]) => Number(name) > maxIndex))
    throw new Refusal(400, `A list counts beyond ${maxIndex}`);
  return entries.sort(([left], [right]) => Number(left) - Number(right)).map(([, value]) => value);
}
