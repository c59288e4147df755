import { outboxKinds } from '../../../src/sync/push/kinds/registry.ts';
import { toPayloadSchema } from '../../../src/sync/push/payload/payload.ts';

/** The parts of a JSON Schema that the schemas of payloads use. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly anyOf?: readonly Schema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false | Schema;
  readonly items?: Schema;
}

/**
 * Returns the text of src/client/generated/payloads.ts: a type for the payload of each kind, made from its schema. It
 * needs no other package, so programs of the ERP can compile with it.
 */
export function renderPayloadTypes(): string {
  const kinds = outboxKinds.map((kind) => ({ name: kind.name, schema: toPayloadSchema(kind) as Schema }));
  return `${[
    '/** Made by `npm run golden` from the schemas of all kinds. Do not edit it. */',
    '',
    ...kinds.map(
      ({ name, schema }) =>
        `/** Payload of ${name}. */\nexport interface ${toTypeName(name)} ${renderObject(schema, '')}\n`,
    ),
    '/** The payload types of all kinds of outbox rows. */',
    'export interface Payloads {',
    ...kinds.map(({ name }) => `  '${name}': ${toTypeName(name)};`),
    '}',
    '',
    '/** Kinds of outbox rows. */',
    'export type OutboxKind = keyof Payloads;',
  ].join('\n')}\n`;
}

const toTypeName = (kind: string) =>
  `${kind.replaceAll(/(?:^|[._])([a-z])/g, (_found, letter: string) => letter.toUpperCase())}Payload`;

function render(schema: Schema, indent: string): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map((branch) => render(branch, indent)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const).replaceAll('"', "'");
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  return [schema.type ?? 'unknown']
    .flat()
    .map((type) => renderType(type, schema, indent))
    .join(' | ');
}

function renderType(type: string, schema: Schema, indent: string): string {
  if (type === 'array') return `readonly ${render(schema.items ?? {}, indent)}[]`;
  if (type === 'object') return renderObject(schema, indent);
  return type === 'integer' ? 'number' : type;
}

/** Absent members may also be given as undefined, which JSON leaves out. */
function renderObject({ properties, required = [], additionalProperties }: Schema, indent: string): string {
  if (properties === undefined) return '{ readonly [member: string]: unknown }';
  if (additionalProperties !== false) throw new Error('a schema with members also takes others');
  const inner = `${indent}  `;
  const lines = Object.entries(properties).flatMap(([name, schema]) => {
    const isRequired = required.includes(name);
    const comment = schema.description === undefined ? [] : [`${inner}/** ${schema.description} */`];
    const type = render(schema, inner);
    return [
      ...comment,
      `${inner}readonly ${name}${isRequired ? '' : '?'}: ${type}${isRequired ? '' : ' | undefined'};`,
    ];
  });
  return lines.length === 0 ? '{\n  readonly [member: string]: never;\n}' : ['{', ...lines, `${indent}}`].join('\n');
}
