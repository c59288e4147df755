import { type BodySchema, describeTypes, hasType } from './body-schema.ts';
import type { Oddity } from './findings.ts';
import { describeShape } from './shape.ts';

/** How a body is compared with its schema. */
export interface BodyReading {
  /** Whether the names are compared without their case, and types are adapted: in the older generations. */
  readonly isOlder: boolean;
  /** In a form everything is a text, so that a text is not a wrong type. */
  readonly isForm: boolean;
  readonly record: (oddity: Oddity) => void;
}

type Scalar = string | number | boolean;

/**
 * Returns a text, number or boolean as a type of its schemas. Returns the value itself if it has one of these types, if
 * it cannot be adapted, or if it belongs to v3, whose types are not adapted.
 */
export function adaptScalar(
  value: unknown,
  schemas: readonly BodySchema[],
  place: string,
  { isOlder, isForm, record }: BodyReading,
): unknown {
  const accepts = (type: string) => schemas.some((schema) => hasType(schema, type));
  if (isSpacedDate(value, schemas)) {
    record({ code: 'date_with_space', member: place, shape: 'YYYY-MM-DD hh:mm:ss' });
    return isOlder ? value.replace(' ', 'T') : value;
  }
  // Forms write an empty text for an absent number or date; Odoo writes false for any absent value.
  const isEmpty = value === '' ? !schemas.some(acceptsAnyText) : value === false && !accepts('boolean');
  const isForNull = isEmpty && accepts('null');
  if (!isForNull && accepts(typeof value)) return value;
  if (!isForm)
    record({ code: 'wrong_type', member: place, shape: describeShape(value), meant: describeTypes(schemas) });
  if (!isOlder) return value;
  if (isForNull) return null;
  return convertScalar(value as Scalar, accepts) ?? value;
}

function convertScalar(value: Scalar, accepts: (type: string) => boolean): Scalar | undefined {
  if (typeof value === 'number' && accepts('string')) return String(value);
  if (typeof value === 'string' && accepts('number') && /^-?\d{1,15}(\.\d{1,10})?$/.test(value)) return Number(value);
  if (accepts('boolean')) return readBoolean(value);
  return undefined;
}

/** Returns the boolean that clients write as true, True, 1 or '1', and likewise for false. */
export function readBoolean(value: Scalar): boolean | undefined {
  const text = String(value).toLowerCase();
  if (text === 'true' || text === '1') return true;
  return text === 'false' || text === '0' ? false : undefined;
}

function isSpacedDate(value: unknown, schemas: readonly BodySchema[]): value is string {
  return (
    typeof value === 'string' &&
    schemas.some(({ format }) => format === 'date-time') &&
    /^\d{4}-\d\d-\d\d \d\d:\d\d/.test(value)
  );
}

const acceptsAnyText = (schema: BodySchema) =>
  hasType(schema, 'string') && schema.pattern === undefined && schema.format === undefined;
