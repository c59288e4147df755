import { z } from 'zod';
import type { Dialect } from '../options.ts';
import { resourceSchema, toOneOrNone } from './jsonapi.ts';

const selfLinks = z.strictObject({ self: z.string() });
const relatedLinks = z.strictObject({ related: z.string() });
const productSchema = resourceSchema('product', { sku: z.string(), name: z.string() }, null).extend({
  links: selfLinks,
});
const richSchemas = new WeakMap<z.ZodType, z.ZodType>();

/** Returns the schema of an operation's answers in a dialect. */
export function answerSchema({ name, answer }: { name: string; answer: z.ZodType }, dialect: Dialect): z.ZodType {
  if (dialect === 'plain' || !name.startsWith('v3.')) return answer;
  const rich = richSchemas.get(answer) ?? toRichSchema(answer);
  richSchemas.set(answer, rich);
  return rich;
}

/** Returns the schema of what `toRichAnswer` makes of the answers of a schema. */
function toRichSchema(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodArray)
    return schema.clone({ ...schema.def, element: toRichSchema(schema.element as z.ZodType) });
  if (schema instanceof z.ZodOptional) return toRichSchema(schema.unwrap() as z.ZodType).optional();
  if (schema instanceof z.ZodUnion) return z.union(schema.options.map((option) => toRichSchema(option as z.ZodType)));
  if (!(schema instanceof z.ZodObject)) return schema;
  const { shape } = schema as z.ZodObject<z.ZodRawShape>;
  if ('attributes' in shape) return toRichResource(shape);
  if (!('data' in shape)) return schema;
  return z.strictObject({
    ...shape,
    data: toRichSchema(shape.data as z.ZodType),
    included: toIncluded(shape.included),
  });
}

function toRichResource(shape: z.ZodRawShape): z.ZodObject {
  const { attributes, relationships, included, ...others } = shape;
  const isSlipItem = shape.type instanceof z.ZodLiteral && shape.type.value === 'inboundPackingSlipItem';
  const given = relationships instanceof z.ZodObject ? relationships.shape : {};
  const all: z.ZodRawShape = isSlipItem ? { ...given, product: toOneOrNone('product') } : given;
  return z.strictObject({
    ...others,
    attributes: attributes instanceof z.ZodObject ? toRichAttributes(attributes.shape) : (attributes as z.ZodType),
    ...(Object.keys(all).length > 0 && { relationships: z.strictObject(mapShape(all, toRichRelationship)) }),
    links: selfLinks,
    included: toIncluded(included),
  });
}

/** Null attributes are left out. */
function toRichAttributes(shape: z.ZodRawShape): z.ZodObject {
  return z.strictObject(
    mapShape(shape, (schema) => (schema instanceof z.ZodNullable ? (schema.unwrap() as z.ZodType).optional() : schema)),
  );
}

function toRichRelationship(schema: z.ZodType): z.ZodType {
  const { data } = (schema as z.ZodObject<{ data: z.ZodType }>).shape;
  const rich = z.strictObject({ data, links: relatedLinks });
  return data instanceof z.ZodNullable ? rich.nullable() : rich;
}

/** The included resources of `plain`, and products. */
function toIncluded(included: z.core.$ZodType | undefined): z.ZodType {
  const plain = included instanceof z.ZodOptional ? (included.unwrap() as z.ZodArray<z.ZodType>) : null;
  const items = plain === null ? productSchema : z.union([toRichSchema(plain.element), productSchema]);
  return z.array(items).optional();
}

function mapShape(shape: z.ZodRawShape, map: (schema: z.ZodType) => z.ZodType): z.ZodRawShape {
  return Object.fromEntries(Object.entries(shape).map(([name, schema]) => [name, map(schema as z.ZodType)]));
}
