/**
 * The resources of v3. Each is declared once, with its members, relationships and includes. The
 * schemas of its answers, its answers, and its operations that list and get follow from that.
 */

import { z } from 'zod';
import type { Switches } from '../options.ts';
import { badParameter } from '../refusal.ts';
import type { ClientStore } from '../store/client-store.ts';
import {
  type Filter,
  type Listing,
  readRowsAfter,
  readRowsFrom,
  type Selection,
  type StoredRow,
} from '../store/listing.ts';
import {
  type Call,
  day,
  defineOperation,
  type Operation,
  type Parameters,
  paging,
  uniqueList,
} from './operation.ts';

/** A v3 resource object (docs/interface.md, 2.3 v3 resource objects). */
export interface ResourceObject {
  readonly id: number;
  readonly type: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly relationships?: Readonly<Record<string, unknown>>;
  readonly included?: readonly ResourceObject[];
  /** Only in the dialect `rich`. */
  readonly links?: { readonly self: string };
}

/** A member of a resource: the schema of its value in answers, and how to read it from a row. */
interface Member<Row> {
  readonly schema: z.ZodType;
  readonly read: (row: Row, store: ClientStore) => unknown;
}

interface ResourceDefinition<Row> {
  /** The attributes that are members of the row, with their schemas. */
  readonly attributes: { readonly [Name in keyof Row]?: z.ZodType };
  /** The attributes that are computed from the row. */
  readonly computed?: Readonly<Record<string, Member<Row>>>;
  readonly relationships?: Readonly<Record<string, Member<Row>>>;
  /** The resources that can be included, by the value of the parameter `include`. */
  readonly includes?: Readonly<Record<string, Include<Row>>>;
  /**
   * Whether included resources are always inside the resource, never at the top of the document.
   */
  readonly isInsideOnly?: boolean;
}

interface Include<Row> {
  readonly schema: z.ZodType;
  readonly render: (row: Row, store: ClientStore) => readonly ResourceObject[];
}

/** A kind of resource, with the schemas of its answers. */
export interface Resource<Row> {
  readonly type: string;
  /** The name of its list, in paths and in names of operations. */
  readonly plural: string;
  readonly schema: z.ZodType;
  /** The schema of an answer with one resource. */
  readonly document: z.ZodType;
  /** The schema of a page of a list. */
  readonly page: z.ZodType;
  readonly isInsideOnly: boolean;
  readonly includeNames: readonly string[];
  /** The parameter `include`, if there is something to include. */
  readonly query: Parameters;
  readonly render: (row: Row, store: ClientStore) => ResourceObject;
  readonly renderIncluded: (
    row: Row,
    store: ClientStore,
    names: readonly string[],
  ) => readonly ResourceObject[];
}

const identifier = (type: string) => z.strictObject({ id: z.int(), type: z.literal(type) });

/** Declares a link to one resource. */
export const one = <Row>(
  type: string,
  read: (row: Row, store: ClientStore) => number,
): Member<Row> => ({
  schema: z.strictObject({ data: identifier(type) }),
  read: (row, store) => ({ data: { id: read(row, store), type } }),
});

/** Declares a link to one resource or none. */
export const oneOrNone = <Row>(type: string, read: (row: Row) => number | null): Member<Row> => ({
  schema: z.strictObject({ data: identifier(type).nullable() }),
  read: (row) => {
    const id = read(row);
    return { data: id === null ? null : { id, type } };
  },
});

/** Declares links to several resources. */
export const many = <Row>(type: string, read: (row: Row) => readonly StoredRow[]): Member<Row> => ({
  schema: z.strictObject({ data: z.array(identifier(type)) }),
  read: (row) => ({ data: read(row).map(({ id }) => ({ id, type })) }),
});

/** Declares what a value of `include` adds. */
export const include = <Row, Part extends StoredRow>(
  part: Pick<Resource<Part>, 'schema' | 'render'>,
  read: (row: Row) => readonly Part[],
): Include<Row> => ({
  schema: part.schema,
  render: (row, store) => read(row).map((each) => part.render(each, store)),
});

/**
 * docs/interface.md does not show the members of `links`. This accepts every form that the switch
 * `links` can select.
 */
const linksSchema = z.strictObject({
  next: z.union([z.string(), z.strictObject({ href: z.string() }), z.null()]).optional(),
});

/** Declares a resource. */
export function defineResource<Row extends StoredRow>(
  type: string,
  {
    attributes,
    computed = {},
    relationships,
    includes = {},
    isInsideOnly = false,
  }: ResourceDefinition<Row>,
): Resource<Row> {
  const names = Object.keys(attributes) as (keyof Row & string)[];
  const [first, ...others] = [...new Set(Object.values(includes).map(({ schema }) => schema))];
  const part =
    first === undefined ? null : others.length === 0 ? first : z.union([first, ...others]);
  const included = part === null ? {} : { included: z.array(part).optional() };
  const schema = z.strictObject({
    id: z.int(),
    type: z.literal(type),
    attributes: z.strictObject({ ...(attributes as z.ZodRawShape), ...readSchemas(computed) }),
    ...(relationships && { relationships: z.strictObject(readSchemas(relationships)) }),
    ...included,
  });
  const top = isInsideOnly ? {} : included;
  const includeNames = Object.keys(includes);
  return {
    type,
    plural: toPlural(type),
    schema,
    document: z.strictObject({ data: schema, ...top }),
    page: z.strictObject({ data: z.array(schema).max(100), links: linksSchema, ...top }),
    isInsideOnly,
    includeNames,
    query: includeNames.length === 0 ? {} : { include: uniqueList(z.enum(includeNames)) },
    render: (row, store) => ({
      id: row.id,
      type,
      attributes: {
        ...Object.fromEntries(names.map((name) => [name, row[name]])),
        ...readMembers(computed, row, store),
      },
      ...(relationships && { relationships: readMembers(relationships, row, store) }),
    }),
    renderIncluded: (row, store, wanted) =>
      wanted.flatMap((name) => includes[name]?.render(row, store) ?? []),
  };
}

/** Returns the name of the list of a resource. */
export const toPlural = (type: string): string => `${type}${type.endsWith('s') ? 'es' : 's'}`;

const readSchemas = <Row>(members: Readonly<Record<string, Member<Row>>>): z.ZodRawShape =>
  Object.fromEntries(Object.entries(members).map(([name, { schema }]) => [name, schema]));

const readMembers = <Row>(
  members: Readonly<Record<string, Member<Row>>>,
  row: Row,
  store: ClientStore,
) =>
  Object.fromEntries(Object.entries(members).map(([name, { read }]) => [name, read(row, store)]));

/** Returns a document with one resource, and with the named includes. */
export function renderDocument<Row>(
  call: Call,
  resource: Resource<Row>,
  row: Row,
  includes: readonly string[] = readIncludes(call),
): Record<string, unknown> {
  const { data, ...rest } = placeIncluded(call, resource, [row], includes);
  return { data: data[0], ...rest };
}

const readIncludes = ({ query }: Call): readonly string[] =>
  (query as { include?: readonly string[] }).include ?? [];

/** Places the included resources inside each resource or at the top of the document. */
function placeIncluded<Row>(
  { store, switches }: Call,
  resource: Resource<Row>,
  rows: readonly Row[],
  names: readonly string[],
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const rendered = rows.map((row) => resource.render(row, store));
  const parts = rows.map((row) => resource.renderIncluded(row, store, names));
  const included = parts.flat();
  if (switches.included === 'top' && !resource.isInsideOnly && included.length > 0)
    return { data: rendered, included };
  return {
    data: rendered.map((shown, index) =>
      parts[index]?.length ? { ...shown, included: parts[index] } : shown,
    ),
  };
}

const maxPageSize = 100;
/**
 * An opaque cursor is an integer too (docs/interface.md, 2.4 Paging), but neither an id nor a
 * count.
 */
const opaqueStep = 17;
const opaqueBase = 1_000_003;

/**
 * Returns the page of a selection that a request asks for, as this caller sees it, in ascending
 * order of id.
 */
export function renderPage<Row extends StoredRow>(
  call: Call,
  resource: Resource<Row>,
  selection: Selection<Row>,
): Record<string, unknown> {
  const { 'page[cursor]': cursor = 0, 'page[size]': size = maxPageSize } = call.query as Record<
    string,
    number
  >;
  const { switches } = call;
  const shown: Row[] = [];
  let [hasMore, passed, lastId] = [false, 0, 0];
  const { afterId, position } = decodeCursor(cursor, switches.cursor);
  const rows =
    afterId === null ? readRowsFrom(selection, position) : readRowsAfter(selection, afterId);
  for (const row of rows) {
    if (shown.length === size) {
      hasMore = true;
      break;
    }
    passed++;
    lastId = row.id;
    const seen = call.viewRow(resource.type, row);
    if (seen !== null) shown.push(seen);
  }
  const hasNext = hasMore || (switches.emptyLastPage && shown.length === size);
  const next = hasNext ? encodeCursor(position + passed, lastId, switches.cursor) : null;
  return {
    ...placeIncluded(call, resource, shown, readIncludes(call)),
    links: toLinks(call, next),
  };
}

function decodeCursor(
  cursor: number,
  meaning: Switches['cursor'],
): { afterId: number | null; position: number } {
  if (cursor === 0 || meaning === 'offset') return { afterId: null, position: cursor };
  if (meaning === 'id') return { afterId: cursor, position: 0 };
  const position = (cursor - opaqueBase) / opaqueStep;
  if (!Number.isInteger(position) || position < 0)
    throw badParameter('page[cursor]', 'was not given out by this service');
  return { afterId: null, position };
}

function encodeCursor(position: number, lastId: number, meaning: Switches['cursor']): number {
  if (meaning === 'id') return lastId;
  return meaning === 'offset' ? position : position * opaqueStep + opaqueBase;
}

function toLinks(
  { address: { path, rawQuery, origin }, switches: { links } }: Call,
  cursor: number | null,
) {
  if (cursor === null) return links === 'relative' ? {} : { next: null };
  const others = rawQuery
    .split('&')
    .filter((part) => part !== '' && !/^page(\[|%5B)cursor(\]|%5D)=/i.test(part));
  const next = `${path}?${[...others, `page[cursor]=${cursor}`].join('&')}`;
  if (links === 'relative') return { next };
  return { next: links === 'string' ? `${origin}${next}` : { href: `${origin}${next}` } };
}

type Filterable<Row extends StoredRow, Name extends string> = Pick<
  Listing<Row, Name>,
  'filterByKeys' | 'filterByDays' | 'select'
>;

/** Parameters of a list, and the filters that their values ask for. */
interface FilterDefinition<Row extends StoredRow, Name extends string> {
  readonly parameters: Parameters;
  readonly read: (
    values: Readonly<Record<string, unknown>>,
    listing: Filterable<Row, Name>,
    store: ClientStore,
  ) => readonly Filter<Row>[];
}

/** Declares a filter for the rows whose key is one of the given values. */
export const byKeys = <Row extends StoredRow, Name extends string>(
  name: Name,
  schema: z.ZodType<readonly (string | number)[]>,
): FilterDefinition<Row, Name> => ({
  parameters: { [`filter[${name}][in]`]: schema },
  read: (values, listing) =>
    listing.filterByKeys(name, values[`filter[${name}][in]`] as readonly string[] | undefined),
});

/** Declares a filter for the rows between two days, both exclusive. */
export function byDays<Row extends StoredRow, Name extends string>(
  name: Name,
): FilterDefinition<Row, Name> {
  const [after, before] = [`filter[${name}][gt]`, `filter[${name}][lt]`];
  return {
    parameters: { [after]: day, [before]: day },
    read: (values, listing) =>
      listing.filterByDays(
        name,
        values[after] as string | undefined,
        values[before] as string | undefined,
      ),
  };
}

/** Declares a filter that finds the rows of each given value by itself. */
export const byValues = <Row extends StoredRow, Value>(
  parameter: string,
  schema: z.ZodType<readonly Value[]>,
  find: (values: readonly Value[], store: ClientStore) => Filter<Row>,
): FilterDefinition<Row, never> => ({
  parameters: { [parameter]: schema },
  read: ({ [parameter]: values }, _listing, store) =>
    values === undefined ? [] : [find(values as readonly Value[], store)],
});

/** Defines the operation that lists a resource, page by page. A row must pass all filters. */
export function defineList<Row extends StoredRow, Name extends string>(
  resource: Resource<Row>,
  {
    summary,
    listing,
    filters,
  }: {
    readonly summary: string;
    readonly listing: (store: ClientStore) => Filterable<Row, Name>;
    readonly filters: readonly FilterDefinition<Row, Name>[];
  },
): Operation {
  const parameters = filters.map((filter) => filter.parameters);
  return defineOperation<Parameters>({
    name: `v3.${resource.plural}.list`,
    route: `GET /v3/${resource.plural}`,
    summary,
    query: Object.assign({}, paging, resource.query, ...parameters) as Parameters,
    answer: resource.page,
    run: (call) => {
      const rows = listing(call.store);
      const wanted = filters.flatMap(({ read }) => read(call.query, rows, call.store));
      return renderPage(call, resource, rows.select(wanted));
    },
  });
}

/** Defines the operation that gets one resource by its id. */
export function defineGet<Row extends StoredRow>(
  resource: Resource<Row>,
  {
    summary,
    find,
    documented = true,
  }: { summary: string; find: (call: Call) => Row | undefined; documented?: boolean },
): Operation {
  return defineOperation({
    name: `v3.${resource.plural}.get`,
    route: `GET /v3/${resource.plural}/:id`,
    summary,
    documented,
    query: resource.query,
    answer: resource.document,
    run: (call) => renderDocument(call, resource, call.requireRow(resource.type, find(call))),
  });
}
