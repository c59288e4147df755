/** Shows rows of the outbox to people: masked, and with what to do about them. */

import { isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { hiddenValue, maskJson } from '../core/personal-data.ts';
import { shorten } from '../core/quote.ts';
import type { AnyKind } from './kind.ts';
import { outboxKinds } from './kinds/registry.ts';
import { maxPayloadValues, toPayloadSchema } from './payload.ts';
import type { OutboxDetail } from './sql/read-outbox.ts';

/**
 * Returns the payload of an outbox row as it is shown to a person. Personal data and members that
 * the row's kind does not know are masked.
 * @param maxLength maximum number of characters of a payload that is shown
 */
export function toShownPayload(
  row: { readonly kind: string; readonly payload: string },
  revealed: boolean,
  maxLength = Number.POSITIVE_INFINITY,
): Json {
  const { length } = row.payload;
  if (length > maxLength)
    return `cannot be shown: it has ${length} characters; see it with fulfilment-sync outbox show`;

  try {
    const payload = parseExact(row.payload, maxPayloadValues);
    const kind = outboxKinds.find(({ name }) => name === row.kind);
    return revealed ? payload : maskPayload(kind, payload);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return `cannot be shown: it ${error.message}`;
  }
}

/** The advice for the states in which a person may have to act. */
const advice = {
  pending:
    'The row is sent by itself as soon as the reason is gone. ' +
    'If a person must act, fulfilment-sync status and the overview say so.',
  dead:
    'Fix the cause. Then retry the row, replace its payload, mark it as done (if the service has ' +
    'carried it out already), or cancel it: fulfilment-sync outbox retry, replace, done, cancel. ' +
    'Until then it blocks the later rows of its lane.',
  undecided:
    'Check at the service whether it was carried out. If it was, mark the row as done ' +
    '(fulfilment-sync outbox done); else retry it (outbox retry), which sends it again.',
};

/** Tells an operator what to do with a row. */
export function adviseOperator({
  status,
  nextAttemptAt,
  because,
  waitsFor,
  result,
}: OutboxDetail): string {
  if (status === 'pending' && waitsFor !== null)
    return `It waits: ${because}. The row is sent by itself after that.`;
  if (status === 'pending' && because !== null) return advice.pending;
  if (status === 'dead') return advice.dead;
  if (status === 'done' && isObject(result) && result.modified === false)
    return 'The service cancelled nothing: nothing was left to cancel, or it was shipped already.';
  if (status !== 'unknown') return 'Nothing needs to be done.';

  return nextAttemptAt === null
    ? advice.undecided
    : 'A worker looks it up at the service. Nothing needs to be done.';
}

const plainTypes: ReadonlySet<unknown> = new Set([
  'string',
  'number',
  'integer',
  'boolean',
  'null',
]);

/**
 * Returns true if a JSON Schema allows only plain values, such as texts and numbers. `type` is one
 * name or several.
 */
const isPlain = ({ type, const: only }: { [member: string]: Json }) =>
  only !== undefined || (type !== undefined && [type].flat().every((name) => plainTypes.has(name)));

/** Maximum number of entries of a list, and of characters of a text, that are shown. */
const maxShownEntries = 100;
const maxShownLength = 500;

/**
 * Returns a payload without personal data, to be shown. Hides members that the kind's schema marks
 * as personal, and all members that it does not know, with their names: a name may be that of a
 * person. Long lists and texts are cut. The lengths of long hidden texts stay visible.
 */
export function maskPayload(kind: AnyKind | undefined, payload: Json): Json {
  return maskBy(kind === undefined ? null : toPayloadSchema(kind), payload);
}

function maskBy(schema: Json | null, value: Json): Json {
  if (value === null) return null;
  if (schema === null && isObject(value)) return maskMembers(value, () => false, hide);
  if (schema === null || !isObject(schema) || schema['x-personal'] === true) return hide(value);
  const choices = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? null;
  if (choices !== null) {
    // A nullable member is a choice between its schema and null.
    const others = choices.filter((choice) => !(isObject(choice) && choice.type === 'null'));
    const marked = others.some((choice) => isObject(choice) && choice['x-personal'] === true);
    if (marked) return hide(value);
    if (others.length === 1) return maskBy(others[0] ?? null, value);
    const arePlain = others.every((choice) => isObject(choice) && isPlain(choice));
    return arePlain && !isObject(value) && !Array.isArray(value) ? value : hide(value);
  }
  if (Array.isArray(value)) return mapFirst(value, (entry) => maskBy(schema.items ?? null, entry));
  if (!isObject(value)) return isPlain(schema) ? cut(value) : hide(value);

  const properties = isObject(schema.properties) ? schema.properties : {};
  return maskMembers(
    value,
    (name) => Object.hasOwn(properties, name),
    (name, member) => maskBy(properties[name] ?? null, member),
  );
}

const cut = (value: Json): Json =>
  typeof value === 'string' ? shorten(value, maxShownLength) : value;

function mapFirst(list: readonly Json[], mask: (entry: Json) => Json): Json[] {
  const shown = list.slice(0, maxShownEntries).map(mask);
  return shown.length < list.length
    ? [...shown, `… and ${list.length - shown.length} more`]
    : shown;
}

/** Masks the members whose names are known, and counts the others. */
function maskMembers(
  value: { [member: string]: Json },
  isKnown: (name: string) => boolean,
  mask: (name: string, member: Json) => Json,
): Json {
  const names = Object.keys(value);
  const known = names.filter(isKnown);
  const shown = known
    .slice(0, maxShownEntries)
    .map((name) => [name, mask(name, value[name] ?? null)] as const);
  const hidden = names.length - shown.length;
  const rest =
    hidden === 0
      ? []
      : [[hiddenValue, `${hidden} unknown member${hidden === 1 ? '' : 's'}`] as const];

  return Object.fromEntries([...shown, ...rest]);
}

/**
 * Returns the result of an outbox row without personal data, to be shown. Hides each member that is
 * not known to be harmless: the service may answer with anything, such as documents. Names of
 * members stay visible if they are like those of the interface.
 */
export function maskResult(value: Json): Json {
  if (!isObject(value)) return hide(value);
  const maskMember = (name: string, member: Json): Json => {
    // Our own words.
    if (name === 'note') return member;
    const kept = maskJson({ [name]: member });
    if (!isObject(kept) || !(name in kept)) return hide(member);
    if (isObject(member)) return maskResult(member);
    if (Array.isArray(member) && member.some(isObject)) return mapFirst(member, maskResult);
    return kept[name] ?? null;
  };

  return maskMembers(value, (name) => interfaceName.test(name), maskMember);
}

/** The names of the interface, such as `orderItems`. */
const interfaceName = /^[a-z][A-Za-z]{0,39}$/;

function hide(value: Json): Json {
  return typeof value === 'string' && value.length > 500
    ? `${hiddenValue} (${value.length} characters)`
    : hiddenValue;
}
