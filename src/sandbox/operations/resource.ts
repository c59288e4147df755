/**
 * The resources of v3. Each is declared once, with its members, relationships and includes. The
 * schemas of its answers, its answers, and its operations that list and get follow from that.
 */

import { z } from 'zod';
import type { Switches } from '../options.ts';
import { badParameter } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import { type Filter, type Listing, readRows, type StoredRow } from '../store/listing.ts';
import {
  type Call,
  day,
  defineFields,
  defineOperation,
  type Fields,
  type Operation,
  type Parameters,
  paging,
  readId,
  requireRow,
  uniqueList,
  viewRow,
} from './operation.ts';

export const text = z.string().nullable();
/** A shipment time: seven digits of a second, without a zone. */
export const localDateTime = z.iso.datetime({ local: true, precision: 7 });
export const metadata = z.record(z.string(), z.unknown());

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
  /**
   * Whether included resources are always inside the resource, never at the top of the document.
   */
  readonly isInsideOnly: boolean;
  readonly includeNames: readonly string[];
  /** The parameter `include`, if there is something to include. */
  readonly query: Parameters;
  readonly render: (row: Row, client: Client) => ResourceObject;
  readonly renderIncluded: (
    row: Row,
    client: Client,
    names: readonly string[],
  ) => readonly ResourceObject[];
}

interface ResourceDefinition<Row> {
  readonly attributes: Fields<Row>;
  readonly relationships?: Fields<Row>;
  /** The resources that can be included, by the value of the parameter `include`. */
  readonly includes?: Readonly<Record<string, Include<Row>>>;
  readonly isInsideOnly?: boolean;
}

interface Include<Row> {
  readonly schema: z.ZodType;
  readonly render: (row: Row, client: Client) => readonly ResourceObject[];
}

const identifier = (type: string) => z.strictObject({ id: z.int(), type: z.literal(type) });

/** Declares a link to one resource. */
export const one = <Row>(type: string, read: (row: Row, client: Client) => number) =>
  [
    z.strictObject({ data: identifier(type) }),
    (row: Row, client: Client) => ({ data: { id: read(row, client), type } }),
  ] as const;

/** Declares a link to one resource or none. */
export const oneOrNone = <Row>(type: string, read: (row: Row) => number | null) =>
  [
    z.strictObject({ data: identifier(type).nullable() }),
    (row: Row) => {
      const id = read(row);
      return { data: id === null ? null : { id, type } };
    },
  ] as const;

/** Declares links to several resources. */
export const many = <Row>(type: string, read: (row: Row) => readonly StoredRow[]) =>
  [
    z.strictObject({ data: z.array(identifier(type)) }),
    (row: Row) => ({ data: read(row).map(({ id }) => ({ id, type })) }),
  ] as const;

/** Declares what a value of `include` adds. */
export const include = <Row, Part extends StoredRow>(
  part: Pick<Resource<Part>, 'schema' | 'render'>,
  read: (row: Row) => readonly Part[],
): Include<Row> => ({
  schema: part.schema,
  render: (row, client) => read(row).map((each) => part.render(each, client)),
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
  { attributes, relationships, includes = {}, isInsideOnly = false }: ResourceDefinition<Row>,
): Resource<Row> {
  const own = defineFields(attributes);
  const links = relationships && defineFields(relationships);
  const includeNames = Object.keys(includes);
  const parts = new Set(Object.values(includes).map((part) => part.schema));
  const included = parts.size > 0 ? { included: z.array(z.union([...parts])).optional() } : {};
  const top = isInsideOnly ? {} : included;
  const schema = z.strictObject({
    id: z.int(),
    type: z.literal(type),
    attributes: own.schema,
    ...(links && { relationships: links.schema }),
    ...included,
  });

  return {
    type,
    plural: toPlural(type),
    schema,
    document: z.strictObject({ data: schema, ...top }),
    page: z.strictObject({ data: z.array(schema).max(100), links: linksSchema, ...top }),
    isInsideOnly,
    includeNames,
    query: parts.size > 0 ? { include: uniqueList(z.enum(includeNames)) } : {},
    render: (row, client) => ({
      id: row.id,
      type,
      attributes: own.show(row, client),
      ...(links && { relationships: links.show(row, client) }),
    }),
    renderIncluded: (row, client, names) =>
      names.flatMap((name) => includes[name]?.render(row, client) ?? []),
  };
}

/** Returns the name of the list of a resource. */
export const toPlural = (type: string): string => `${type}${type.endsWith('s') ? 'es' : 's'}`;

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
  { client, world: { switches } }: Call,
  resource: Resource<Row>,
  rows: readonly Row[],
  names: readonly string[],
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const data = rows.map((row) => resource.render(row, client));
  const parts = rows.map((row) => resource.renderIncluded(row, client, names));
  const included = parts.flat();
  if (switches.included === 'top' && !resource.isInsideOnly && included.length > 0)
    return { data, included };

  const addParts = (shown: ResourceObject, index: number) =>
    parts[index]?.length ? { ...shown, included: parts[index] } : shown;
  return { data: data.map(addParts) };
}

/**
 * Returns the page of the rows that pass a filter, as this caller sees it, in ascending order of
 * id.
 */
export function renderPage<Row extends StoredRow>(
  call: Call,
  resource: Resource<Row>,
  filter: Filter<Row>,
): Record<string, unknown> {
  const { switches } = call.world;
  const { 'page[cursor]': cursor = 0, 'page[size]': size = 100 } = call.query as Readonly<
    Record<string, number>
  >;
  const { afterId = 0, position = 0 } = decodeCursor(cursor, switches.cursor);
  let [passed, lastId] = [position, afterId];
  let hasNext = false;
  const shown: Row[] = [];

  for (const row of readRows(filter, afterId).drop(position)) {
    if (shown.length === size) {
      hasNext = true;
      break;
    }
    passed++;
    lastId = row.id;
    const seen = viewRow(call, resource.type, row);
    if (seen !== null) shown.push(seen);
  }

  if (switches.emptyLastPage && shown.length === size) hasNext = true;
  const next = hasNext ? encodeCursor(passed, lastId, switches.cursor) : null;
  const links = toLinks(call, next);
  return { ...placeIncluded(call, resource, shown, readIncludes(call)), links };
}

/**
 * An opaque cursor is an integer too (docs/interface.md, 2.4 Paging), but neither an id nor a
 * count.
 */
const opaqueStep = 17;
const opaqueBase = 1_000_003;

function decodeCursor(
  cursor: number,
  meaning: Switches['cursor'],
): { afterId?: number; position?: number } {
  if (meaning === 'id') return { afterId: cursor };
  if (meaning === 'offset' || cursor === 0) return { position: cursor };

  const position = (cursor - opaqueBase) / opaqueStep;
  if (Number.isInteger(position) && position >= 0) return { position };
  throw badParameter('page[cursor]', 'was not given out by this service');
}

function encodeCursor(position: number, lastId: number, meaning: Switches['cursor']): number {
  if (meaning === 'id') return lastId;
  return meaning === 'offset' ? position : position * opaqueStep + opaqueBase;
}

function toLinks({ address, world }: Call, cursor: number | null) {
  const { links } = world.switches;
  if (cursor === null) return links === 'relative' ? {} : { next: null };

  const others = address.rawQuery
    .split('&')
    .filter((part) => part !== '' && !/^page(\[|%5B)cursor(\]|%5D)=/i.test(part));
  const next = `${address.path}?${[...others, `page[cursor]=${cursor}`].join('&')}`;
  if (links === 'relative') return { next };
  const href = `${address.origin}${next}`;
  return { next: links === 'string' ? href : { href } };
}

type Filterable<Row extends StoredRow, Name extends string> = Pick<
  Listing<Row, Name>,
  'filterByKeys' | 'filterByDays' | 'select'
>;

/** Parameters of a list, and the filters that their values ask for. */
interface FilterDefinition<Row extends StoredRow, Name extends string> {
  readonly parameters: Parameters;
  readonly read: (
    values: Readonly<Record<string, never>>,
    listing: Filterable<Row, Name>,
    client: Client,
  ) => Filter<Row> | undefined;
}

/** Declares a filter for the rows whose key is one of the given values. */
export const byKeys = <Row extends StoredRow, Name extends string>(
  name: Name,
  schema: z.ZodType<readonly (string | number)[]>,
): FilterDefinition<Row, Name> => {
  const parameter = `filter[${name}][in]`;
  return {
    parameters: { [parameter]: schema },
    read: ({ [parameter]: keys }, listing) => keys && listing.filterByKeys(name, keys),
  };
};

/** Declares a filter for the rows between two days, both exclusive. */
export function byDays<Row extends StoredRow, Name extends string>(
  name: Name,
): FilterDefinition<Row, Name> {
  const [after, before] = [`filter[${name}][gt]`, `filter[${name}][lt]`];
  return {
    parameters: { [after]: day, [before]: day },
    read: ({ [after]: above, [before]: below }, listing) =>
      above || below ? listing.filterByDays(name, above, below) : undefined,
  };
}

/** Declares a filter that finds the rows of its values by itself. */
export const byValues = <Row extends StoredRow, Value>(
  parameter: string,
  schema: z.ZodType<readonly Value[]>,
  find: (values: readonly Value[], client: Client) => Filter<Row>,
): FilterDefinition<Row, never> => ({
  parameters: { [parameter]: schema },
  read: ({ [parameter]: values }, _listing, client) => values && find(values, client),
});

/** Defines the operation that lists a resource, page by page. A row must pass all filters. */
export function defineList<Row extends StoredRow, Name extends string>(
  resource: Resource<Row>,
  summary: string,
  list: (client: Client) => Filterable<Row, Name>,
  filters: readonly FilterDefinition<Row, Name>[],
): Operation {
  const parameters = filters.map((filter) => filter.parameters);
  return defineOperation<Parameters>({
    name: `v3.${resource.plural}.list`,
    route: `GET /v3/${resource.plural}`,
    summary,
    query: Object.assign({}, paging, resource.query, ...parameters) as Parameters,
    answer: resource.page,
    run: (call) => {
      const listing = list(call.client);
      const values = call.query as Readonly<Record<string, never>>;
      const wanted = filters.flatMap(({ read }) => read(values, listing, call.client) ?? []);
      return renderPage(call, resource, listing.select(wanted));
    },
  });
}

/** Defines the operation that gets one resource by its id. */
export function defineGet<Row extends StoredRow>(
  resource: Resource<Row>,
  summary: string,
  find: (client: Client, id: number, nowMs: number) => Row | undefined,
  more: Partial<Pick<Operation, 'documented'>> = {},
): Operation {
  return defineOperation({
    name: `v3.${resource.plural}.get`,
    route: `GET /v3/${resource.plural}/:id`,
    summary,
    ...more,
    query: resource.query,
    answer: resource.document,
    run: (call) => {
      const row = find(call.client, readId(call), call.nowMs);
      return renderDocument(call, resource, requireRow(call, resource.type, row));
    },
  });
}
