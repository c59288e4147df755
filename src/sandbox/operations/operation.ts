/** The operations: how they are defined, and the schemas and parts of their requests. */

import { z } from 'zod';
import type { CallAdvice } from '../findings.ts';
import { notFound, ruleBroken } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import type { Members, Texts } from '../store/model.ts';
import type { StoredRow } from '../store/sorted-rows.ts';
import type { World } from '../world.ts';
import type { Zone } from '../zone.ts';

/**
 * Query parameters by name. An array schema gets the values between the commas, any other the whole
 * text.
 */
export type Parameters = Readonly<Record<string, z.ZodType>>;
export type ParameterValues<P extends Parameters> = {
  readonly [Name in keyof P]: z.output<P[Name]> | undefined;
};

export const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/, 'must hold whole numbers')
  .transform(Number)
  .pipe(z.int().min(0));
export const notEmpty = z.string().min(1, 'must not be empty');

/** Returns the schema of a list that is not empty and has no value twice. */
export const uniqueList = <T extends z.ZodType>(element: T) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, 'must hold each value once')
    .meta({ uniqueItems: true });
export const texts = z.array(notEmpty).min(1);
/** Order numbers of at most 50 characters each (docs/interface.md, 5.1 Values). */
export const orderNumbers = uniqueList(
  notEmpty.max(50, 'must hold values of at most 50 characters'),
);
export const ids = z.array(wholeNumber).min(1);
export const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .pipe(z.boolean());

const sizeLimits = 'must be from 1 to 100';
/** The parameters of paged lists (docs/interface.md, 2.4 Paging). */
export const paging = {
  'page[cursor]': wholeNumber.meta({ default: 0 }),
  'page[size]': wholeNumber
    .pipe(z.int().min(1, sizeLimits).max(100, sizeLimits))
    .meta({ default: 100 }),
} as const;

/** Returns the boolean that clients write as true, True, 1 or '1', and likewise for false. */
export function readBoolean(value: string | number | boolean): boolean | undefined {
  const text = String(value).toLowerCase();
  if (text === 'true' || text === '1') return true;
  return text === 'false' || text === '0' ? false : undefined;
}

/** A checked request of a client. */
export interface Call<Query = unknown, Body = unknown> {
  readonly world: World;
  /** The client that sent the request. Operations that are open to all must not use it. */
  readonly client: Client;
  readonly query: Query;
  readonly body: Body;
  /** Parameters of the path. */
  readonly path: Readonly<Record<string, string>>;
  /** Links to other pages are made of it. */
  readonly address: { readonly origin: string; readonly path: string; readonly rawQuery: string };
  readonly nowMs: number;
  /** Real milliseconds by which lists and searches lag behind writes. */
  readonly lagMs: number;
}

/** Returns the id in the path. Refuses what is not a whole number. */
export function readId({ path: { id = '' } }: Call): number {
  if (!/^\d{1,15}$/.test(id)) throw notFound(`id: ${id.slice(0, 20)}`);
  return Number(id);
}

/**
 * Returns a row of a list as this caller sees it, which may be an earlier version. Returns null if
 * it is hidden.
 */
export const viewRow = <T extends StoredRow>({ client, nowMs, lagMs }: Call, row: T): T | null =>
  client.visibility.selectVersion(row, nowMs, lagMs);

/** Returns a row that was requested by id. Refuses one that does not exist or is hidden. */
export function requireRow<T extends StoredRow>(
  { client, nowMs }: Call,
  type: string,
  row: T | undefined,
): T {
  if (row === undefined || client.visibility.isHidden(row, nowMs)) throw notFound(type);
  return row;
}

/** Records a write, so that lists can lag: before a row is changed, or after it was created. */
export function recordWrite(
  { client }: Call,
  row: StoredRow,
  kind: 'change' | 'creation' = 'change',
): void {
  client.visibility.addWrite(row.id, kind === 'change' ? row : null);
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** An operation of the service (docs/interface.md). */
export interface Operation {
  /** The form is `generation.resource.verb`. */
  readonly name: string;
  readonly method: Method;
  /** A parameter is written as `:name`. */
  readonly path: string;
  readonly summary: string;
  /** False if docs/interface.md does not show method and path. */
  readonly documented: boolean;
  /**
   * False if docs/interface.md does not name the operation at all, but clients of similar services
   * use it.
   */
  readonly described: boolean;
  /**
   * The call that replaces a deprecated operation (docs/interface.md, 1.2 Generations). Null if it
   * is not deprecated.
   */
  readonly replacedBy: string | null;
  /**
   * How often the interface advises to call it at most (docs/interface.md, 5.1 Values); null if it
   * does not.
   */
  readonly advised: CallAdvice | null;
  /** Whether the operation needs no bearer token. */
  readonly open: boolean;
  readonly query: Parameters;
  /** Names of the required query parameters. */
  readonly required: readonly string[];
  /** Null if the operation has no body. */
  readonly body: z.ZodType | null;
  /** Whether the body may or must be form-encoded. */
  readonly form: 'never' | 'allowed' | 'only';
  readonly answer: z.ZodType;
  readonly run: (call: Call<never, never>) => unknown;
}

const defaults = {
  documented: true,
  described: true,
  replacedBy: null,
  advised: null,
  open: false,
  required: [],
  query: {},
  body: null,
} as const;

interface OperationDefinition<P extends Parameters, B extends z.ZodType>
  extends Pick<Operation, 'name' | 'summary' | 'answer'>,
    Partial<Omit<Operation, 'name' | 'summary' | 'answer' | 'query' | 'body' | 'run'>> {
  readonly route: `${Method} /${string}`;
  readonly query?: P;
  readonly body?: B;
  readonly run: (call: Call<ParameterValues<P>, z.output<B>>) => unknown;
}

/** Defines an operation. `run` gets the query and the body with the types of their schemas. */
// biome-ignore lint/complexity/noBannedTypes: an operation without parameters has none to name
export function defineOperation<P extends Parameters = {}, B extends z.ZodType = z.ZodNull>({
  route,
  run,
  ...definition
}: OperationDefinition<P, B>): Operation {
  const [method, path] = route.split(' ') as [Method, string];
  // docs/interface.md shows no path of v2.
  const documented = (definition.described ?? true) && !definition.name.startsWith('v2.');
  const form = definition.name.startsWith('oldest.') ? 'allowed' : 'never';
  return {
    ...defaults,
    documented,
    form,
    ...definition,
    method,
    path,
    run: run as Operation['run'],
  };
}

/**
 * Marks a member of a body that docs/interface.md does not show, but that clients of similar
 * services send. A strict sandbox refuses it.
 */
export const markExtra = <T extends z.ZodType>(member: T): T =>
  member.meta({ 'x-not-in-description': true });

/** Returns the schema of an envelope (docs/interface.md, 2.2 Envelope). */
export function envelope(result: z.ZodType) {
  return z.strictObject({
    messageCode: z.enum(['OK', 'NOK']),
    message: z.string(),
    result: result.nullable(),
  });
}

/** Returns the envelope of a successful operation. */
export const ok = (message: string, result: unknown = null) => ({
  messageCode: 'OK',
  message,
  result,
});
/** Returns the envelope of a failed operation, which has changed nothing. */
export const nok = (message: string) => ({ messageCode: 'NOK', message, result: null });

/** Returns members of one type, whose names are a prefix and a suffix: `billingAddressStreet`. */
export function members<T extends z.ZodType, N extends string, P extends string = ''>(
  type: T,
  suffixes: readonly N[],
  prefix = '' as P,
) {
  return Object.fromEntries(suffixes.map((suffix) => [`${prefix}${suffix}`, type])) as Record<
    `${P}${N}`,
    T
  >;
}

/** How to read a member of an answer from a row. Without it, the row has that member. */
type Read<Row> = (row: Row, client: Client) => unknown;
/** The members of an answer: the schema of each, and how to read it. */
export type Fields<Row> = Readonly<Record<string, z.ZodType | readonly [z.ZodType, Read<Row>]>>;

/** Returns the schema of fields, and the function that shows them of a row. */
export function defineFields<Row>(fields: Fields<Row>) {
  const entries = Object.entries(fields).map(([name, field]): [string, z.ZodType, Read<Row>] =>
    field instanceof z.ZodType ? [name, field, (row) => (row as Members)[name]] : [name, ...field],
  );
  return {
    schema: z.strictObject(Object.fromEntries(entries.map(([name, schema]) => [name, schema]))),
    show: (row: Row, client: Client): Members =>
      Object.fromEntries(entries.map(([name, , read]) => [name, read(row, client)])),
  };
}

/** An id that the client chooses to link the resources of one request. */
export const provisionalId = z.union([z.int(), z.string().min(1)]);
/** A text, null, or absent. */
export const textIn = z.string().nullish();
/** A date of a body or a filter. */
export const dateIn = z.iso.date('must be a date in the form YYYY-MM-DD');
export const countryCodeIn = z
  .string()
  .regex(/^[A-Z]{2}$/, 'must be a country code of two letters');
export const quantityIn = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000);

/** A whole number, or a text with its digits: in a form, or as the id of a resource. */
export const integerIn = z
  .union([z.int(), z.string().regex(/^-?\d{1,15}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int());
export const decimal = z.union([
  z.number(),
  z.string().regex(/^-?\d{1,15}(\.\d{1,10})?$/, 'must be a decimal'),
]);
/** A decimal that is kept as a number. */
export const numberIn = decimal.transform(Number);

/** A date or a date-time. */
export const dayIn = z
  .union(
    [z.iso.date(), z.iso.datetime({ local: true, offset: true }).meta({ format: 'date-time' })],
    'must be a date or a date-time',
  )
  .nullish();

/** Returns the day of a date or date-time: the local day at the warehouses, if it has a zone. */
export function toWarehouseDay(zone: Zone, text: string | null | undefined): string | null {
  if (!text) return null;
  return /T.*(Z|[+-]\d{2}:?\d{2})$/i.test(text) ? zone.day(Date.parse(text)) : text.slice(0, 10);
}

export const linkTo = (type: string) =>
  z.strictObject({ data: z.strictObject({ id: integerIn, type: z.literal(type) }) });
export const linksTo = (type: string) =>
  z.strictObject({
    data: z.array(z.strictObject({ id: provisionalId.optional(), type: z.literal(type) })),
  });

/** Returns the schema of an object with optional texts under the given names. */
export const namedTexts = (...names: readonly string[]) =>
  z.strictObject(Object.fromEntries(names.map((name) => [name, textIn]))).nullish();

const maxDepth = 20;
/** An object whose members the client chooses. */
export const clientMembers = z
  .record(z.string(), z.unknown())
  .refine((members) => isShallow(members, maxDepth), 'must not be nested deeper than 20 levels');

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isShallow(member, levels - 1));
}

/** Returns the given texts by name. Leaves out members that are null or absent. */
export function keepGivenTexts(given: object | null | undefined): Texts {
  const entries = Object.entries(given ?? {}).filter(([, text]) => typeof text === 'string');
  return Object.fromEntries(entries);
}

/**
 * Returns the named texts of an object, null for empty or absent ones: both erase the value
 * (docs/interface.md, 7.1 Fields).
 */
export const readTexts = <Name extends string>(
  given: { readonly [Key in Name]?: string | null | undefined },
  names: readonly Name[],
) =>
  Object.fromEntries(names.map((name) => [name, given[name] || null])) as Record<
    Name,
    string | null
  >;

/**
 * Returns the schema of a resource in a request. Its id is one that the client chose, if it has
 * one.
 */
export const resourceIn = <Type extends string, Members extends z.ZodRawShape>(
  type: Type,
  members: Members,
) => z.strictObject({ type: z.literal(type), id: provisionalId.optional(), ...members });

/**
 * Returns the schema of a document with included resources. These are inside `data` or at the top
 * of the document.
 */
export function documentIn<
  Type extends string,
  Members extends z.ZodRawShape,
  Part extends z.ZodType,
>(type: Type, members: Members, part: Part) {
  const included = z.array(part).optional();
  return z.strictObject({ data: resourceIn(type, { ...members, included }), included });
}

interface IncludingBody<T> {
  readonly data: { readonly included?: readonly T[] | undefined };
  readonly included?: readonly T[] | undefined;
}

/** Returns the included resources of a document. */
export const readIncluded = <T>({ data, included = [] }: IncludingBody<T>): readonly T[] => [
  ...(data.included ?? []),
  ...included,
];

/** Returns the included resources of one type. */
export const selectIncluded = <T extends { readonly type: string }, Type extends T['type']>(
  body: IncludingBody<T>,
  type: Type,
) =>
  readIncluded(body).filter(
    (part): part is Extract<T, { readonly type: Type }> => part.type === type,
  );

/** Refuses a body that names another resource than the path. */
export function assertSameId(id: number | undefined, pathId: number): void {
  if (id !== undefined && id !== pathId)
    throw ruleBroken(`The path names ${pathId}, the body ${id}`);
}
