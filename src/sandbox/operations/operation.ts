import { z } from 'zod';
import { notFound } from '../refusal.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Selection, StoredRow } from '../store/listing.ts';
import type { Simulation } from '../store/simulation.ts';
import type { SandboxClient, World } from '../world.ts';
import { type PageRequest, type RenderedResource, renderDocument, renderPage } from './paging.ts';
import type { Parameters, ParameterValues } from './parameters.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A checked request of a client. */
export class Call<Query, Body> {
  readonly world: World;
  readonly query: Query;
  readonly body: Body;
  /** Parameters of the path. */
  readonly path: Readonly<Record<string, string>>;
  readonly #client: SandboxClient | undefined;
  readonly #page: PageRequest;
  readonly #lagMs: number;

  constructor(
    world: World,
    client: SandboxClient | undefined,
    input: { query: Query; body: Body; path: Readonly<Record<string, string>>; page: PageRequest; lagMs: number },
  ) {
    this.world = world;
    this.#client = client;
    this.query = input.query;
    this.body = input.body;
    this.path = input.path;
    this.#page = input.page;
    this.#lagMs = input.lagMs;
  }

  /** The virtual time now. It may be later than the arrival of the request. */
  get nowMs(): number {
    return this.world.clock.nowMs();
  }

  /** The simulation of the client that sent the request. */
  get simulation(): Simulation {
    if (this.#client === undefined) throw new Error('An operation that needs a client was called without one');
    return this.#client.simulation;
  }

  get store(): ClientStore {
    return this.simulation.store;
  }

  /**
   * The id in the path.
   * @throws Refusal if it is not a whole number
   */
  get id(): number {
    const text = this.path.id ?? '';
    if (!/^\d{1,15}$/.test(text)) throw notFound(`id: ${text.slice(0, 20)}`);
    return Number(text);
  }

  /** Returns a page of a list as this caller sees it. */
  renderList<T extends StoredRow>(
    type: string,
    selection: Selection<T>,
    render: (row: T) => RenderedResource,
    included = this.world.switches.included,
  ): Record<string, unknown> {
    return renderPage(selection, { ...this.#page, included }, (row) => {
      const viewRow = this.viewRow(type, row);
      return viewRow === null ? null : render(viewRow);
    });
  }

  /** Returns a document with one resource. */
  renderOne(rendered: RenderedResource, included = this.world.switches.included): Record<string, unknown> {
    return renderDocument(rendered, included);
  }

  /**
   * Returns a row of a list or search as this caller sees it, which may be an earlier version. Returns null if the
   * caller does not see the row.
   */
  viewRow<T extends StoredRow>(type: string, row: T): T | null {
    return this.#visibility.selectVersion(type, row, this.nowMs, this.#lagMs);
  }

  /**
   * Returns a row that was requested by id.
   * @throws Refusal if the row does not exist or is hidden
   */
  requireRow<T extends StoredRow>(type: string, row: T | undefined): T {
    if (row === undefined || this.#visibility.isHidden(type, row.id, this.nowMs)) throw notFound(type);
    return row;
  }

  /**
   * Records a write, so that lists can lag behind it. Call it before a row is changed, or after a row was created.
   * @param before the row as it is before the change; null if it was created
   */
  recordWrite(type: string, id: number, before: StoredRow | null): void {
    this.#visibility.addWrite(type, id, before);
  }

  get #visibility() {
    if (this.#client === undefined) throw new Error('An operation that needs a client was called without one');
    return this.#client.visibility;
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
  /** False if docs/interface.md does not name the operation at all, but clients of similar services use it. */
  readonly described: boolean;
  /** The call that replaces a deprecated operation (docs/interface.md, 1.2 Generations). Null if it is not deprecated. */
  readonly replacedBy: string | null;
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

interface OperationDefinition<P extends Parameters, B extends z.ZodType> {
  readonly name: string;
  readonly route: `${Method} /${string}`;
  readonly summary: string;
  readonly documented?: false;
  readonly described?: false;
  readonly replacedBy?: string;
  readonly open?: true;
  readonly query?: P;
  readonly required?: readonly string[];
  readonly body?: B;
  readonly form?: 'allowed' | 'only';
  readonly answer: z.ZodType;
  readonly run: (call: Call<ParameterValues<P>, z.output<B>>) => unknown;
}

/** Defines an operation. `run` gets the query and the body with the types of their schemas. */
// biome-ignore lint/complexity/noBannedTypes: an operation without parameters has none to name
export function defineOperation<P extends Parameters = {}, B extends z.ZodType = z.ZodNull>(
  definition: OperationDefinition<P, B>,
): Operation {
  const [method, path] = definition.route.split(' ') as [Method, string];
  return {
    name: definition.name,
    method,
    path,
    summary: definition.summary,
    documented: definition.documented ?? definition.described ?? true,
    described: definition.described ?? true,
    replacedBy: definition.replacedBy ?? null,
    open: definition.open ?? false,
    query: definition.query ?? {},
    required: definition.required ?? [],
    body: definition.body ?? null,
    describedBody: definition.body === undefined ? null : omitExtras(definition.body),
    form: definition.form ?? 'never',
    answer: definition.answer,
    run: definition.run as Operation['run'],
  };
}

/** Marks a member of a body that docs/interface.md does not show, but that clients of similar services send. */
export const markExtra = <T extends z.ZodType>(member: T): T => member.meta({ 'x-not-in-description': true });

function omitExtras(body: z.ZodType): z.ZodType {
  if (!(body instanceof z.ZodObject)) return body;
  const shape: Readonly<Record<string, z.ZodType>> = body.shape;
  const shown = Object.entries(shape).filter(([, member]) => member.meta()?.['x-not-in-description'] !== true);
  return shown.length === Object.keys(shape).length ? body : z.strictObject(Object.fromEntries(shown));
}

/** Returns the schema of an envelope (docs/interface.md, 2.2 Envelope). */
export function envelope(result: z.ZodType) {
  return z.strictObject({ messageCode: z.enum(['OK', 'NOK']), message: z.string(), result: result.nullable() });
}

/** Returns the envelope of a successful operation. */
export const ok = (message: string, result: unknown = null) => ({ messageCode: 'OK', message, result });
/** Returns the envelope of a failed operation, which has changed nothing. */
export const nok = (message: string) => ({ messageCode: 'NOK', message, result: null });
