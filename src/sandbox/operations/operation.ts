import { z } from 'zod';
import { type PageRequest, page, type Rendered, single } from '../paging.ts';
import { notFound } from '../refusal.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Life } from '../store/life.ts';
import type { Selection } from '../store/listing.ts';
import type { HasId } from '../store/sorted-rows.ts';
import type { Inhabitant, World } from '../world.ts';
import type { Parameters, Values } from './parameters.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** One request of a client, read and checked. */
export class Call<Query, Body> {
  readonly world: World;
  readonly query: Query;
  readonly body: Body;
  /** Parameters of the path. */
  readonly path: Readonly<Record<string, string>>;
  readonly #inhabitant: Inhabitant | undefined;
  readonly #page: PageRequest;
  readonly #lagMs: number;

  constructor(
    world: World,
    inhabitant: Inhabitant | undefined,
    asked: { query: Query; body: Body; path: Readonly<Record<string, string>>; page: PageRequest; lagMs: number },
  ) {
    this.world = world;
    this.#inhabitant = inhabitant;
    this.query = asked.query;
    this.body = asked.body;
    this.path = asked.path;
    this.#page = asked.page;
    this.#lagMs = asked.lagMs;
  }

  /** Virtual time; it may have gone on since the request came. */
  get nowMs(): number {
    return this.world.clock.nowMs();
  }

  /** The part of the world that the bearer may see. */
  get life(): Life {
    if (this.#inhabitant === undefined) throw new Error('an operation that needs a client was reached without one');
    return this.#inhabitant.life;
  }

  get store(): ClientStore {
    return this.life.store;
  }

  /** The id in the path. @throws Refusal where it is none */
  get id(): number {
    const text = this.path.id ?? '';
    if (!/^\d{1,15}$/.test(text)) throw notFound(`id: ${text.slice(0, 20)}`);
    return Number(text);
  }

  /** A page of a list, as this caller sees it. */
  list<T extends HasId>(
    type: string,
    selection: Selection<T>,
    render: (row: T) => Rendered,
    included = this.world.switches.included,
  ): Record<string, unknown> {
    return page(selection, { ...this.#page, included }, (row) => {
      const seen = this.seen(type, row);
      return seen === null ? null : render(seen);
    });
  }

  /** A document with one resource. */
  one(rendered: Rendered, included = this.world.switches.included): Record<string, unknown> {
    return single(rendered, included);
  }

  /** A row of a list or search as this caller sees it, who may lag behind. */
  seen<T extends HasId>(type: string, row: T): T | null {
    return this.#sight.see(type, row, this.nowMs, this.#lagMs);
  }

  /** @throws Refusal where a row that was asked for by id does not exist, or cannot be seen yet */
  found<T extends HasId>(type: string, row: T | undefined): T {
    if (row === undefined || this.#sight.isHidden(type, row.id, this.nowMs)) throw notFound(type);
    return row;
  }

  /** To be called before a row is changed, and with null once it is made. */
  wrote(type: string, id: number, before: HasId | null): void {
    this.#sight.wrote(type, id, before);
  }

  get #sight() {
    if (this.#inhabitant === undefined) throw new Error('an operation that needs a client was reached without one');
    return this.#inhabitant.sight;
  }
}

/** One operation of the service, as interface.md describes it. Routes, OpenAPI document and coverage are made from these. */
export interface Operation {
  /** generation.resource.verb */
  readonly name: string;
  readonly method: Method;
  /** With `:name` for parameters. */
  readonly path: string;
  readonly summary: string;
  /** False where interface.md does not show method and path. */
  readonly documented: boolean;
  /** Needs no bearer token. */
  readonly open: boolean;
  readonly query: Parameters;
  /** Parameters that have to be given. */
  readonly required: readonly string[];
  /** Null where no body is read. */
  readonly body: z.ZodType | null;
  /** Whether the body may be, or has to be, form-encoded. */
  readonly form: 'never' | 'allowed' | 'only';
  readonly answer: z.ZodType;
  readonly run: (call: Call<never, never>) => unknown;
}

interface Definition<P extends Parameters, B extends z.ZodType> {
  readonly name: string;
  readonly route: `${Method} /${string}`;
  readonly summary: string;
  readonly documented?: false;
  readonly open?: true;
  readonly query?: P;
  readonly required?: readonly string[];
  readonly body?: B;
  readonly form?: 'allowed' | 'only';
  readonly answer: z.ZodType;
  readonly run: (call: Call<Values<P>, z.output<B>>) => unknown;
}

/** Defines an operation; the types of query and body in `run` are those of their schemas. */
// biome-ignore lint/complexity/noBannedTypes: an operation without parameters has none to name
export function operation<P extends Parameters = {}, B extends z.ZodType = z.ZodNull>(
  definition: Definition<P, B>,
): Operation {
  const [method, path] = definition.route.split(' ') as [Method, string];
  return {
    name: definition.name,
    method,
    path,
    summary: definition.summary,
    documented: definition.documented ?? true,
    open: definition.open ?? false,
    query: definition.query ?? {},
    required: definition.required ?? [],
    body: definition.body ?? null,
    form: definition.form ?? 'never',
    answer: definition.answer,
    run: definition.run as Operation['run'],
  };
}

/** The envelope of the older generations (interface.md, Conventions). */
export function envelope(result: z.ZodType) {
  return z.strictObject({ messageCode: z.enum(['OK', 'NOK']), message: z.string(), result: result.nullable() });
}

/** Everything went well. */
export const ok = (message: string, result: unknown = null) => ({ messageCode: 'OK', message, result });
/** It did not; nothing was changed. */
export const nok = (message: string) => ({ messageCode: 'NOK', message, result: null });
