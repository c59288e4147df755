/**
 * Fields: how members of a resource become columns. The decoder, the row and its type follow from a
 * table of fields. A value that does not fit is named by its path, never quoted.
 */

import { findUnstorable, isObject, type Json, toWholeNumber } from '../../core/json.ts';
import { readDate, readDateTime } from '../../core/time.ts';
import { type DecodingProblem, type Resource, toId } from './jsonapi.ts';

/**
 * The effect of erasing an order on a column: it becomes null, or only the area of a postcode
 * stays.
 */
export type Erasing = 'null' | 'area';

/**
 * How a member is read, and the SQL type of its column. Absent and null both mean that there is no
 * value.
 */
export interface Field<Value> {
  /** SQL type of the column; null if the member has no column. */
  readonly sql: string | null;
  /**
   * Returns the value of the column. @param zone IANA time zone of times without a zone designator
   * @throws RangeError with the reason why the resource is quarantined
   */
  readonly read: (value: unknown, zone: string) => Value;
  /** Set if the column holds personal data. */
  readonly erasing?: Erasing;
}

/** Marks a field that holds personal data. */
export const personalField = <Value>(
  field: Field<Value>,
  erasing: Erasing = 'null',
): Field<Value> => ({
  ...field,
  erasing,
});

/** The reason and place of a value that does not fit, below the member that is read. */
class PlacedError extends RangeError {
  readonly path: string;

  constructor(path: string, reason: string) {
    super(reason);
    this.path = path;
  }
}

function describeType(value: unknown): string {
  if (value === undefined || value === null) return 'no value';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a text';
  if (JSON.isRawJSON(value) || typeof value === 'number') return 'a number';
  return isObject(value) ? 'an object' : 'a boolean';
}

/** Returns the digits of a number as text; other values unchanged. */
export function toDigits(value: unknown): unknown {
  if (JSON.isRawJSON(value)) return value.rawJSON;
  return typeof value === 'number' ? String(value) : value;
}

/** Makes a field whose `read` returns undefined for a value that does not fit. */
const defineField = <Value>(
  sql: string,
  expected: string,
  read: (value: unknown, zone: string) => Value | undefined,
): Field<Value | null> => ({
  sql,
  read: (value, zone) => {
    if (value === null || value === undefined) return null;

    const found = read(value, zone);
    if (found !== undefined) return found;

    throw new RangeError(`must be ${expected}, not ${describeType(value)}`);
  },
});

export const text = defineField('text', 'a text', (value) =>
  typeof value === 'string' ? value : undefined,
);

export const flag = defineField('boolean', 'true or false', (value) =>
  typeof value === 'boolean' ? value : undefined,
);

/** A whole number that fits into Postgres' integer. */
export const count = defineField('integer', 'a whole number below 2147483648', (value) => {
  const number = typeof value === 'number' ? value : toWholeNumber(value);
  if (!Number.isInteger(number)) return undefined;
  return Number(number) >= -(2 ** 31) && Number(number) < 2 ** 31 ? Number(number) : undefined;
});

export const date = defineField('date', 'a text', (value) =>
  typeof value === 'string' ? readDate(value) : undefined,
);

/**
 * A time. Without a zone designator it is read in the client's zone (docs/interface.md, 2.1 Paths
 * and formats).
 */
export const time = defineField('timestamptz', 'a text', (value, zone) =>
  typeof value === 'string' ? readDateTime(value, zone) : undefined,
);

/** An object whose members the client chooses, kept unchanged. */
export const json = defineField('jsonb', 'an object', (value) =>
  isObject(value) ? value : undefined,
);

const decimalForm = /^-?\d+(\.\d+)?([eE][+-]?\d{1,2})?$/;

/**
 * A decimal with its original digits. It may come as a number or as a string (docs/interface.md,
 * 8.1 Fields). Exponents of three or more digits are refused, because Postgres cannot store all of
 * them.
 */
export const numeric = defineField('numeric', 'a decimal number', (value) => {
  const digits = toDigits(value);
  const isDecimal = typeof digits === 'string' && digits.length <= 100 && decimalForm.test(digits);
  return isDecimal ? digits : undefined;
});

/** A list of texts; empty if there is none. */
export const texts: Field<readonly string[]> = {
  sql: 'text[]',
  read: (value) => {
    if (value === null || value === undefined) return [];
    if (!Array.isArray(value))
      throw new RangeError(`must be a list of texts, not ${describeType(value)}`);

    const wrong = value.findIndex((entry) => typeof entry !== 'string');
    if (wrong >= 0)
      throw new PlacedError(String(wrong), `must be a text, not ${describeType(value[wrong])}`);

    return value;
  },
};

const noId = 'must be an id: a whole number from 1 to 9007199254740991';

/** The id of a resource. It must not be absent. */
export const ownId: Field<number> = {
  sql: 'bigint',
  read: (value) => {
    const id = toId(value);
    if (id === null) throw new RangeError(noId);
    return id;
  },
};

function readLink(link: unknown, path: string): number {
  if (!isObject(link)) throw new PlacedError(path, `must be an object, not ${describeType(link)}`);

  const id = toId(link.id);
  if (id === null) throw new PlacedError(`${path}.id`, noId);

  if (typeof link.type !== 'string')
    throw new PlacedError(`${path}.type`, `must be a text, not ${describeType(link.type)}`);
  return id;
}

function readData(relationship: unknown): Json | null {
  if (relationship === null || relationship === undefined) return null;
  if (!isObject(relationship))
    throw new RangeError(`must be an object, not ${describeType(relationship)}`);
  return relationship.data ?? null;
}

/** A relationship to one resource: its id. */
export const one: Field<number | null> = {
  sql: 'bigint',
  read: (relationship) => {
    const data = readData(relationship);
    return data === null ? null : readLink(data, 'data');
  },
};

/** A relationship to one resource that may have no id (docs/interface.md, 7.6 Create). */
export const oneOrUnnamed: Field<number | null> = {
  sql: 'bigint',
  read: (relationship) => {
    const data = readData(relationship);
    if (data === null) return null;

    const members = isObject(data) ? data : {};
    if (isObject(data) && (data.id ?? null) === null) return null;
    return readLink({ type: '', ...members }, 'data');
  },
};

/**
 * A relationship to several resources: their ids; null if the resource does not list them. It has
 * no column.
 */
export const many: Field<readonly number[] | null> = {
  sql: null,
  read: (relationship) => {
    const data = readData(relationship);
    if (data === null) return null;
    if (!Array.isArray(data))
      throw new PlacedError('data', `must be a list, not ${describeType(data)}`);

    return data.map((link, index) => readLink(link, `data.${index}`));
  },
};

export type Fields = Readonly<Record<string, Field<unknown>>>;

/** The fields of a type of resource. */
export interface ResourceFields<
  Attributes extends Fields = Fields,
  Relationships extends Fields = Fields,
> {
  /** The member `type` of the resource. */
  readonly type: string;
  readonly attributes: Attributes;
  readonly relationships: Relationships;
  /** Every field with its path and column, in the order of the columns. */
  readonly columns: readonly FieldColumn[];
}

interface FieldColumn {
  readonly from: 'attributes' | 'relationships';
  readonly member: string;
  readonly path: string;
  readonly column: string;
  readonly field: Field<unknown>;
}

/** The column of a member: `readyToPickOn` is `ready_to_pick_on`. */
type SnakeCase<
  Name extends string,
  Done extends string = '',
> = Name extends `${infer First}${infer Rest}`
  ? SnakeCase<
      Rest,
      First extends Lowercase<First> ? `${Done}${First}` : `${Done}_${Lowercase<First>}`
    >
  : Done;

/** The column of a relationship: `shipping_method_id`. The ids of several have no column. */
type LinkColumn<Member extends string, Value> = Value extends number | null
  ? `${SnakeCase<Member>}_id`
  : `${SnakeCase<Member>}_ids`;

export type ValueOf<Of> = Of extends Field<infer Value> ? Value : never;

/** The row of a resource: its id, its columns, and the resource as received. */
export type RowOf<Of> =
  Of extends ResourceFields<infer Attributes, infer Relationships>
    ? { readonly id: number; readonly raw: Json } & {
        readonly [Member in keyof Attributes as SnakeCase<Member & string>]: ValueOf<
          Attributes[Member]
        >;
      } & {
        readonly [Member in keyof Relationships as LinkColumn<
          Member & string,
          ValueOf<Relationships[Member]>
        >]: ValueOf<Relationships[Member]>;
      }
    : never;

/** Returns the name of the column of an attribute. */
export const toColumn = (member: string) =>
  member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Declares the fields of a type of resource. Columns of relationships end with `_id`. */
export function defineFields<Attributes extends Fields, Relationships extends Fields>(
  type: string,
  {
    attributes,
    relationships,
  }: { readonly attributes: Attributes; readonly relationships: Relationships },
): ResourceFields<Attributes, Relationships> {
  const columns = [
    ...listColumns('attributes', attributes, () => ''),
    ...listColumns('relationships', relationships, ({ sql }) => (sql === null ? '_ids' : '_id')),
  ];
  return { type, attributes, relationships, columns };
}

function listColumns(
  from: FieldColumn['from'],
  fields: Fields,
  toEnding: (field: Field<unknown>) => string,
): FieldColumn[] {
  return Object.entries(fields).map(([member, field]) => {
    const column = `${toColumn(member)}${toEnding(field)}`;
    return { from, member, path: `${from}.${member}`, column, field };
  });
}

/**
 * Decodes one resource into its row. If that fails, returns the problem with the first member at
 * fault.
 * @param zone IANA time zone of times without a zone designator
 */
export function decodeRow<Of extends ResourceFields>(
  fields: Of,
  resource: Json,
  zone = 'UTC',
): { readonly row: RowOf<Of> } | { readonly problem: DecodingProblem } {
  let path = '';
  try {
    if (!isObject(resource))
      throw new RangeError(`must be an object, not ${describeType(resource)}`);

    path = 'id';
    const row: Record<string, unknown> = { id: ownId.read(resource.id, zone), raw: resource };

    path = 'type';
    if (resource.type !== fields.type) throw new RangeError(`must be ${fields.type}`);

    path = 'attributes';
    const attributes = readObject(resource.attributes);

    path = 'relationships';
    const relationships =
      fields.columns.at(-1)?.from === path ? readObject(resource.relationships ?? {}) : {};

    for (const { from, member, path: memberPath, column, field } of fields.columns) {
      path = memberPath;
      row[column] = field.read((from === 'attributes' ? attributes : relationships)[member], zone);
    }

    return { row: row as RowOf<Of> };
  } catch (error) {
    return { problem: toProblem(error, path) };
  }
}

/**
 * Returns the problem of a member.
 * @throws the error, if it is not one of a value
 */
function toProblem(error: unknown, path: string): DecodingProblem {
  if (!(error instanceof RangeError)) throw error;
  return {
    path: error instanceof PlacedError ? `${path}.${error.path}` : path,
    reason: error.message,
  };
}

function readObject(value: unknown): Resource {
  if (isObject(value)) return value;
  throw new RangeError(`must be an object, not ${describeType(value)}`);
}

/** Decodes an object of an older generation, whose members are not in `attributes`. */
export function decodeMembers<Of extends Fields>(
  fields: Of,
  value: Json,
  zone = 'UTC',
):
  | { readonly value: { readonly [Member in keyof Of]: ValueOf<Of[Member]> } }
  | { readonly problem: DecodingProblem } {
  let path = '';
  try {
    const members = readObject(value);
    const values: Record<string, unknown> = {};

    for (const [member, field] of Object.entries(fields)) {
      path = member;
      values[member] = field.read(members[member], zone);
    }

    return { value: values as { [Member in keyof Of]: ValueOf<Of[Member]> } };
  } catch (error) {
    return { problem: toProblem(error, path) };
  }
}

/** Maximum characters of a text that is a part of a key. An index takes no long ones. */
const maxKeyText = 200;

/** Returns a text that is a part of a key. */
export function toKeyText(value: string): string {
  if (value.length <= maxKeyText) return value;
  throw new RangeError(`is longer than ${maxKeyText} characters`);
}

/** Decodes an object whose `raw` is stored: it must hold only what Postgres can store. */
export function decodeStorable<Of extends Fields>(
  fields: Of,
  value: Json,
  zone?: string,
): ReturnType<typeof decodeMembers<Of>> {
  const decoded = decodeMembers(fields, value, zone);
  const reason = 'value' in decoded ? findUnstorable(value) : null;

  return reason === null ? decoded : { problem: { path: '', reason } };
}
