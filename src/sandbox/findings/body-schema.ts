/** The parts of a JSON Schema that say which members and types a body may have. */
export interface BodySchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, BodySchema>>;
  readonly additionalProperties?: unknown;
  readonly items?: BodySchema;
  readonly anyOf?: readonly BodySchema[];
  readonly oneOf?: readonly BodySchema[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly format?: string;
  readonly deprecated?: boolean;
  readonly 'x-not-in-description'?: boolean;
}

/** Returns the schemas of which a value must match one. */
export function listAlternatives(schema: BodySchema): readonly BodySchema[] {
  const choices = schema.anyOf ?? schema.oneOf;
  return choices === undefined ? [schema] : choices.flatMap(listAlternatives);
}

export function hasType(schema: BodySchema, type: string): boolean {
  const types = listTypes(schema);
  return types.includes(type) || (type === 'number' && types.includes('integer'));
}

const typeWords = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
};

/** Returns the types of the schemas in words, for advice. */
export function describeTypes(schemas: readonly BodySchema[]): string {
  const types = new Set(schemas.flatMap(listTypes));
  const words = Object.entries(typeWords).filter(([type]) => types.has(type));
  return words.map(([, word]) => word).join(' or ');
}

function listTypes({ type = [] }: BodySchema): readonly string[] {
  return typeof type === 'string' ? [type] : type;
}
