import { z } from 'zod';

/**
 * Returns a payload's schema in which these members may be absent or null. `items.sku` is the member `sku` of each entry
 * of `items`.
 */
export const makeOptional = <P>(schema: z.ZodType<P>, members: readonly string[]): z.ZodType<P> =>
  members.reduce<z.ZodType>((changed, member) => relax(changed, member.split('.')), schema) as z.ZodType<P>;

function relax(schema: z.ZodType, path: readonly string[]): z.ZodType {
  if (schema instanceof z.ZodOptional) return relax(schema.unwrap() as z.ZodType, path).optional();
  if (schema instanceof z.ZodNullable) return relax(schema.unwrap() as z.ZodType, path).nullable();
  if (schema instanceof z.ZodArray)
    return schema.clone({ ...schema.def, element: relax(schema.element as z.ZodType, path) });
  const [name = '', ...rest] = path;
  const member = schema instanceof z.ZodObject ? (schema.shape[name] as z.ZodType | undefined) : undefined;
  if (!(schema instanceof z.ZodObject) || member === undefined) throw new TypeError(`no payload has a member ${name}`);
  return schema.extend({ [name]: rest.length === 0 ? member.nullish() : relax(member, rest) });
}
