import { z } from 'zod';
import type { CallAdvice, Oddity } from '../findings.ts';
import { readBoolean } from '../normalize-body.ts';
import type { Switches } from '../options.ts';
import { badParameter, notFound } from '../refusal.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { StoredRow } from '../store/listing.ts';
import type { Simulation } from '../store/simulation.ts';
import type { SandboxClient, World } from '../world.ts';

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
  .pipe(z.int());
/** Returns the schema of a list that is not empty and has no value twice. */
export const uniqueList = <T extends z.ZodType>(element: T) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, 'must hold each value once')
    .meta({ uniqueItems: true });
export const texts = z.array(z.string().min(1, 'must not be empty')).min(1);
/** Order numbers of at most 50 characters each (docs/interface.md, 5.1 Values). */
export const orderNumbers = uniqueList(
  z.string().min(1, 'must not be empty').max(50, 'must hold values of at most 50 characters'),
);
export const ids = z.array(wholeNumber).min(1);
/** A date of a filter. Both bounds are exclusive (docs/interface.md, 2.5 Filters). */
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
export const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .pipe(z.boolean());

const numberBetween = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(
      z.int().min(min, `must be from ${min} to ${max}`).max(max, `must be from ${min} to ${max}`),
    );
/** The parameters of paged lists (docs/interface.md, 2.4 Paging). */
export const paging = {
  'page[cursor]': numberBetween(0, Number.MAX_SAFE_INTEGER).meta({ default: 0 }),
  'page[size]': numberBetween(1, 100).meta({ default: 100 }),
} as const;

/** How a query is compared with the parameters of its operation. */
export interface QueryReading {
  /** Whether unknown parameters and other spellings are refused. */
  readonly isStrict: boolean;
  /**
   * Whether names are compared without their case, and booleans have other spellings: in the older
   * generations.
   */
  readonly isOlder: boolean;
  /** Whether a list of texts is decoded before it is split. */
  readonly decodesBeforeSplit: boolean;
  readonly record: (oddity: Oddity) => void;
}

/**
 * Parses a raw query string, and records what the parameters do not show. An encoded comma belongs
 * to its text; in lists of names and ids, it separates values.
 */
export function readQuery<P extends Parameters>(
  rawQuery: string,
  parameters: P,
  required: readonly string[],
  reading: QueryReading,
): ParameterValues<P> {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const sent = decodeText(rawName);
    const name = findName(sent, parameters, reading);
    if (name === null) continue;
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');
    const schema = parameters[name] ?? z.never();
    const read = schema.safeParse(readValue(name, rest.join('='), schema, reading));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }
  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values as ParameterValues<P>;
}

/**
 * Returns the name of the parameter that a client means, or null. Strict mode refuses any other
 * name.
 */
function findName(
  sent: string,
  parameters: Parameters,
  { isStrict, isOlder, record }: QueryReading,
): string | null {
  if (Object.hasOwn(parameters, sent)) return sent;
  const names = isOlder ? Object.keys(parameters) : [];
  const meant = names.find((name) => name.toLowerCase() === sent.toLowerCase());
  const oddity = { member: sent, shape: 'parameter' };
  record(
    meant === undefined
      ? { ...oddity, code: 'unknown_parameter' }
      : { ...oddity, code: 'odd_case', meant },
  );
  if (isStrict) throw badParameter(sent, 'is not a parameter of this operation');
  return meant ?? null;
}

function readValue(
  name: string,
  raw: string,
  schema: z.ZodType,
  { isStrict, isOlder, decodesBeforeSplit, record }: QueryReading,
): string | string[] {
  if (!(schema instanceof z.ZodArray)) {
    const text = decodeText(raw);
    const meant = schema === flag && isOlder ? readBoolean(text) : undefined;
    if (meant === undefined || text === String(meant)) return text;
    record({ code: 'wrong_type', member: name, shape: 'text', meant: 'true or false' });
    return isStrict ? text : String(meant);
  }
  const holdsTexts = schema.element instanceof z.ZodString;
  // docs/interface.md, 2.5: a comma in a text is encoded.
  if (holdsTexts && !decodesBeforeSplit) return raw.split(',').map(decodeText);
  if (/%2c/i.test(raw)) record({ code: 'encoded_comma', member: name, shape: 'list' });
  return decodeText(raw).split(',');
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A checked request of a client. */
export class Call<Query = unknown, Body = unknown> {
  readonly world: World;
  readonly query: Query;
  readonly body: Body;
  /** Parameters of the path. */
  readonly path: Readonly<Record<string, string>>;
  /** Links to other pages are made of it. */
  readonly address: { readonly origin: string; readonly path: string; readonly rawQuery: string };
  readonly #client: SandboxClient | undefined;
  /** Real milliseconds by which lists and searches lag behind writes. */
  readonly #lagMs: number;

  constructor(
    world: World,
    client: SandboxClient | undefined,
    input: Pick<Call<Query, Body>, 'query' | 'body' | 'path' | 'address'> & {
      readonly lagMs: number;
    },
  ) {
    this.world = world;
    this.#client = client;
    this.query = input.query;
    this.body = input.body;
    this.path = input.path;
    this.address = input.address;
    this.#lagMs = input.lagMs;
  }

  /** The virtual time now. It may be later than the arrival of the request. */
  get nowMs(): number {
    return this.world.clock.nowMs();
  }

  get switches(): Switches {
    return this.world.switches;
  }

  /** The simulation of the client that sent the request. */
  get simulation(): Simulation {
    return this.#requireClient().simulation;
  }

  get store(): ClientStore {
    return this.simulation.store;
  }

  /** The id in the path. Refuses what is not a whole number. */
  get id(): number {
    const text = this.path.id ?? '';
    if (!/^\d{1,15}$/.test(text)) throw notFound(`id: ${text.slice(0, 20)}`);
    return Number(text);
  }

  /**
   * Returns a row of a list as this caller sees it, which may be an earlier version. Returns null
   * if it is hidden.
   */
  viewRow<T extends StoredRow>(type: string, row: T): T | null {
    return this.#requireClient().visibility.selectVersion(type, row, this.nowMs, this.#lagMs);
  }

  /** Returns a row that was requested by id. Refuses one that does not exist or is hidden. */
  requireRow<T extends StoredRow>(type: string, row: T | undefined): T {
    if (row === undefined || this.#requireClient().visibility.isHidden(type, row.id, this.nowMs))
      throw notFound(type);
    return row;
  }

  /**
   * Records a write, so that lists can lag: before a row is changed, or with null after it was
   * created.
   */
  recordWrite(type: string, id: number, before: StoredRow | null): void {
    this.#requireClient().visibility.addWrite(type, id, before);
  }

  #requireClient(): SandboxClient {
    if (this.#client === undefined)
      throw new Error('An operation that needs a client was called without one');
    return this.#client;
  }
}

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
  /** The body without the members that `markExtra` marked. */
  readonly describedBody: z.ZodType | null;
  /** Whether the body may or must be form-encoded. */
  readonly form: 'never' | 'allowed' | 'only';
  readonly answer: z.ZodType;
  readonly run: (call: Call<never, never>) => unknown;
}

type OperationDefaults =
  | 'documented'
  | 'described'
  | 'replacedBy'
  | 'advised'
  | 'open'
  | 'required'
  | 'form';

interface OperationDefinition<P extends Parameters, B extends z.ZodType>
  extends Pick<Operation, 'name' | 'summary' | 'answer'>,
    Partial<Pick<Operation, OperationDefaults>> {
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
  return {
    documented: definition.described ?? true,
    described: true,
    replacedBy: null,
    advised: null,
    open: false,
    required: [],
    form: 'never',
    query: {},
    body: null,
    ...definition,
    method,
    path,
    describedBody: definition.body === undefined ? null : omitExtras(definition.body),
    run: run as Operation['run'],
  };
}

/**
 * Marks a member of a body that docs/interface.md does not show, but that clients of similar
 * services send.
 */
export const markExtra = <T extends z.ZodType>(member: T): T =>
  member.meta({ 'x-not-in-description': true });

function omitExtras(body: z.ZodType): z.ZodType {
  if (!(body instanceof z.ZodObject)) return body;
  const shape: Readonly<Record<string, z.ZodType>> = body.shape;
  const shown = Object.entries(shape).filter(
    ([, member]) => member.meta()?.['x-not-in-description'] !== true,
  );
  return shown.length === Object.keys(shape).length
    ? body
    : z.strictObject(Object.fromEntries(shown));
}

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
