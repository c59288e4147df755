/** What the schemas of payloads are made of. */

import { z } from 'zod';
import type { Operation } from '../../config/operations.ts';
import type { AnyKind, JsonObject } from './kind.ts';

/**
 * Maximum number of values in a payload, and in all payloads of a request: an order of 5,000 lines
 * with 14 members each, and more.
 */
export const maxPayloadValues = 100_000;

/** Returns a decimal as a JSON number that keeps all digits of the payload; or null as it is. */
export const asNumber = <Absent extends null | undefined>(value: number | string | Absent) =>
  typeof value === 'string' ? JSON.rawJSON(value) : value;

/** Returns the members that are neither absent nor null. */
export function pickGiven<T extends Record<string, unknown>>(
  members: T,
): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(members).filter(
    ([, value]) => value !== undefined && value !== null,
  );
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

/** Returns the attributes that are neither absent nor null, also those of the metadata. */
export const pickAttributes = ({
  metadata,
  ...others
}: Record<string, unknown> & { readonly metadata?: Record<string, unknown> | null | undefined }) =>
  pickGiven({ ...others, metadata: metadata ? pickGiven(metadata) : null });

/** Returns a link to a resource, as relationships have it; null without an id. */
export const linkTo = (type: string, id: number | null | undefined) =>
  id == null ? null : { data: { id, type } };

/** Returns the body of a request, with resources that are sent along at the place in use. */
export const makeBody = (
  data: object,
  included: readonly object[],
  { included: place }: Pick<Operation, 'included'>,
): object => (place === 'top' ? { data, included } : { data: { ...data, included } });

/**
 * Returns the JSON Schema of a kind's payload, as `fulfilment.outbox_schema(kind)` shows it.
 * `x-refused` has the reasons why certain members are refused.
 */
export function toPayloadSchema({ name, schema }: AnyKind): JsonObject {
  const members = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return { title: name, ...(members as JsonObject) };
}

/** Returns the reasons why a schema does not have certain members, as `refusing` gave it. */
export const readRefusals = (schema: z.ZodType) =>
  schema.meta()?.['x-refused'] as Readonly<Record<string, string>> | undefined;

/** Returns true if a member is neither absent nor null. */
export const isGiven = (value: JsonObject, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;

/** Marks members with personal data. They are masked wherever a payload is shown. */
export const personal = { 'x-personal': true } as const;

/** Describes members whose value is a code of a list of the service. */
export const codeOf = (list: string) => ({ description: `code of the service list ${list}` });

/** Describes members that have the id of an entry of a list of the service, instead of its code. */
export const idOf = (list: string, byCode: string) => ({
  description: `id of the service list ${list}, instead of ${byCode}`,
});

/**
 * Gives a payload the reasons, for people, why it does not have certain members; by path, without
 * places in lists.
 */
export const refusing = (refused: Readonly<Record<string, string>>) => ({ 'x-refused': refused });

/** Schema of a payload without members. */
export const noMembers = z.strictObject({});

/** An optional text. Null is the same as absent. */
export const optionalText = z.string().nullish();
/** An optional text with personal data. */
export const personalText = z.string().nullish().meta(personal);
/**
 * Returns the schema of a member that is required, unless `WAREHOUSE_OPERATIONS_FILE` makes it
 * optional. Then it may be absent or null.
 * @param path such as `items.sku` for a member of each entry of `items`
 */
export type RequireMember = <T>(
  path: string,
  schema: z.ZodType<T>,
) => z.ZodType<T | null | undefined>;

/** Returns how members are required if these may be absent (config/optional-members.ts). */
export const requireUnless =
  (optional: readonly string[] = []): RequireMember =>
  (path, schema) =>
    optional.includes(path) ? schema.nullish() : schema;

export const noOuterBlank = 'must not begin or end with a blank';
export const requiredText = z.string().min(1, 'must not be empty');
export const idNumber = z.int('must be a whole number').min(1, 'must be at least 1');
export const quantity = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000, 'must be at most 1000000');
export const day = z.iso
  .date('must be a date in the form YYYY-MM-DD')
  .refine((text) => text >= '1900', 'must not be before the year 1900');
const noDecimal = 'must be a number or a decimal text such as "9.95"';
/** A number, or its digits as a text so that no digit is lost. */
export const decimal = z.union(
  [z.number(), z.string().regex(/^-?(0|[1-9]\d{0,17})(\.\d{1,30})?$/, noDecimal)],
  {
    error: noDecimal,
  },
);
const noRate = 'must be a rate from 0 to 1, such as 0.21 for 21 %';
/** Digits above 1 that a JavaScript number rounds to 1. */
const aboveOne = /^1\.0*[1-9]/;
/** A rate from 0 to 1. */
export const rate = decimal
  .refine(
    (value) => Number(value) >= 0 && Number(value) <= 1 && !aboveOne.test(String(value)),
    noRate,
  )
  .meta({ description: 'rate: 0.21 is 21 %' });
/** An object with members that the ERP chooses. */
export const anyMembers = z.record(z.string(), z.unknown()).nullish().meta(personal);
/**
 * Returns the schema of an object that may have these texts only. A null text is the same as
 * absent.
 */
export const textsNamed = <const N extends string>(...names: readonly N[]) =>
  z
    .strictObject(
      Object.fromEntries(names.map((name) => [name, personalText])) as Record<
        N,
        typeof personalText
      >,
    )
    .nullish();
/**
 * Base64. White space is allowed, because encode() of Postgres breaks lines, and removed before
 * sending.
 */
export const base64Text = z
  .string()
  .transform((text) => text.replaceAll(/[ \t-\r]+/g, ''))
  .pipe(z.base64('must be base64'))
  .meta({ description: 'base64; white space is allowed' });
/** A pdf document in base64. */
export const documentContent = base64Text
  .refine((text) => text !== '', 'must not be empty')
  .meta({ ...personal, description: 'pdf document, base64; white space is allowed' });
