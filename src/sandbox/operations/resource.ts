/**
 * The resources of v3. Each is declared once, with its members, relationships and includes. The
 * schemas of its answers, its answers in both dialects, and its operations that list and get follow
 * from that.
 */

import { z } from 'zod';
import type { Switches } from '../options.ts';
import { badParameter } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import type { Members, Product } from '../store/model.ts';
import type { SortedRows, StoredRow } from '../store/sorted-rows.ts';
import {
  type Call,
  dateIn,
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
interface ResourceObject {
  readonly id: number;
  readonly type: string;
  readonly attributes: Members;
  readonly relationships?: Members;
  /** Only in the dialect `rich`. */
  readonly links?: { readonly self: string };
}

/** A kind of resource, with the schemas of its answers. */
export type Resource<Row extends StoredRow> = ReturnType<typeof defineResource<Row>>;

interface ResourceDefinition<Row> {
  readonly attributes: Fields<Row>;
  readonly relationships?: Fields<Row>;
  /** The resources that can be included, by the value of the parameter `include`. */
  readonly includes?: Readonly<Record<string, Include<Row>>>;
  /**
   * Whether included resources are always inside the resource, never at the top of the document.
   */
  readonly isInsideOnly?: boolean;
}

interface Include<Row> {
  readonly schema: z.ZodType;
  readonly render: (row: Row, client: Client) => readonly ResourceObject[];
}

/** Writes a resource in the dialect of the sandbox (docs/sandbox.md, Dialects). */
export function writeResource(resource: ResourceObject, client: Client): ResourceObject {
  if (client.options.dialect === 'plain') return resource;

  const { id, type, attributes, relationships } = resource;
  const self = `/v3/${toPlural(type)}/${id}`;
  const ofItem =
    type.endsWith('Item') && defineFields(productLink).show(attributes as never, client);
  // An absent relation is `null` in resources with an even id.
  const linked = Object.entries({ ...ofItem, ...relationships } as Record<
    string,
    { data: unknown }
  >).map(([name, { data }]) => {
    const isNull = data === null && id % 2 === 0;
    return [name, isNull ? null : { data, links: { related: `${self}/${name}` } }];
  });
  return {
    id,
    type,
    attributes: Object.fromEntries(
      Object.entries(attributes).filter(([, value]) => value !== null),
    ),
    ...(linked.length > 0 && { relationships: Object.fromEntries(linked) }),
    links: { self },
  };
}

const identifier = (type: string) => z.strictObject({ id: z.int(), type: z.literal(type) });

/** Declares a link to one resource. */
export const one = <Row>(type: string, read: (row: Row, client: Client) => number) =>
  [
    z.strictObject({ data: identifier(type) }),
    (row: Row, client: Client) => ({ data: { id: read(row, client), type } }),
  ] as const;

/** Declares links to resources whose ids the row has: `order` is a link to `orderId`. */
export const ownLinks = <Type extends string>(...types: readonly Type[]) =>
  Object.fromEntries(
    types.map((type) => [
      type,
      one(type, (row: Readonly<Record<`${Type}Id`, number>>) => row[`${type}Id`]),
    ]),
  );

/** Declares a link to the product that a row names by its sku. */
export const productLink = {
  product: one(
    'product',
    ({ sku }: { readonly sku: string }, { products }) => products.get(sku)?.id ?? 0,
  ),
};

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
export const include = <Row, Part>(
  {
    schema,
    render,
  }: {
    readonly schema: z.ZodType;
    readonly render: (part: Part, client: Client) => ResourceObject;
  },
  read: (row: Row, client: Client) => readonly Part[],
): Include<Row> => ({
  schema,
  render: (row, client) => read(row, client).map((part) => render(part, client)),
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
) {
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
    /** The name of its list, in paths and in names of operations. */
    plural: toPlural(type),
    schema,
    /** The schema of an answer with one resource. */
    document: z.strictObject({ data: schema, ...top }),
    /** The schema of a page of a list. */
    page: z.strictObject({ data: z.array(schema).max(100), links: linksSchema, ...top }),
    isInsideOnly,
    includeNames,
    /** The parameter `include`, if there is something to include. */
    query: parts.size > 0 ? { include: uniqueList(z.enum(includeNames)) } : ({} as Parameters),
    render(row: Row, client: Client): ResourceObject {
      const relationships = links && { relationships: links.show(row, client) };
      const { id } = row;
      return writeResource(
        { id, type, attributes: own.show(row, client), ...relationships },
        client,
      );
    },
    renderIncluded: (row: Row, client: Client, names: readonly string[]) =>
      names.flatMap((name) => includes[name]?.render(row, client) ?? []),
  };
}

/** Returns the name of the list of a resource. */
const toPlural = (type: string): string => `${type}${type.endsWith('s') ? 'es' : 's'}`;

/** A product as lists and included resources show it. */
export const product = defineResource<Product>('product', {
  attributes: { sku: z.string(), name: z.string() },
});

/** Returns a document with one resource, and with the named includes. */
export function renderDocument<Row extends StoredRow>(
  call: Call,
  resource: Resource<Row>,
  row: Row,
  includes: readonly string[] = readIncludes(call),
): Members {
  const { data, ...rest } = placeIncluded(call, resource, [row], includes);
  return { data: data[0], ...rest };
}

/** Returns a document with one resource and all that it can include. */
export const renderWhole = <Row extends StoredRow>(call: Call, resource: Resource<Row>, row: Row) =>
  renderDocument(call, resource, row, resource.includeNames);

const readIncludes = ({ query }: Call): readonly string[] =>
  (query as { include?: readonly string[] }).include ?? [];

/** Places the included resources inside each resource or at the top of the document. */
function placeIncluded<Row extends StoredRow>(
  { client, world: { switches } }: Call,
  resource: Resource<Row>,
  rows: readonly Row[],
  names: readonly string[],
): { readonly data: readonly ResourceObject[] } {
  const isRich = switches.dialect === 'rich';
  const add = <T extends object>(shown: T, parts: readonly ResourceObject[]) => {
    const included = isRich ? [...parts, ...listProducts(parts, client)] : parts;
    return included.length > 0 || isRich ? { ...shown, included } : shown;
  };

  const data = rows.map((row) => resource.render(row, client));
  const parts = rows.map((row) => resource.renderIncluded(row, client, names));
  if (switches.included === 'top' && !resource.isInsideOnly) return add({ data }, parts.flat());
  return { data: data.map((shown, index) => add(shown, parts[index] ?? [])) };
}

/** Renders the products of included resources, which the dialect `rich` includes too. */
function listProducts(parts: readonly ResourceObject[], client: Client): ResourceObject[] {
  const skus = new Set(parts.map(({ attributes }) => String(attributes.sku)));
  const products = [...skus].flatMap((sku) => client.products.get(sku) ?? []);
  return products.map((row) => product.render(row, client));
}

/** Returns the page of the rows that pass all tests, as this caller sees it, by ascending id. */
function renderPage<Row extends StoredRow>(
  call: Call,
  resource: Resource<Row>,
  rows: SortedRows<Row>,
  tests: readonly Test<Row>[],
): Members {
  const { switches } = call.world;
  const { 'page[cursor]': cursor = 0, 'page[size]': size = 100 } = call.query as Readonly<
    Record<string, number>
  >;
  const { afterId = 0, position = 0 } = decodeCursor(cursor, switches.cursor);
  let [passed, lastId] = [position, afterId];
  let hasNext = false;
  const shown: Row[] = [];

  const passing = rows.after(afterId).filter((row) => tests.every((test) => test(row)));
  for (const row of passing.drop(position)) {
    if (shown.length === size) {
      hasNext = true;
      break;
    }
    passed++;
    lastId = row.id;
    const seen = viewRow(call, row);
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

type Test<Row> = (row: Row) => boolean;
type Key = string | number | null;

/** Parameters of a list, and the test that their values ask for. */
interface Filter<Row> {
  readonly parameters: Parameters;
  readonly read: (values: Readonly<Record<string, never>>, client: Client) => Test<Row>;
}

/** Declares a filter for the rows whose key is one of the given values. */
export const byKeys = <Row>(
  name: string,
  schema: z.ZodType<readonly (string | number)[]>,
  readKey: (row: Row, client: Client) => Key,
  parameter = `filter[${name}][in]`,
): Filter<Row> => ({
  parameters: { [parameter]: schema },
  read: ({ [parameter]: keys }, client) => {
    const wanted = new Set<Key>(keys);
    return (row) => wanted.has(readKey(row, client));
  },
});

/**
 * Declares a filter for the rows between two days, both exclusive (docs/interface.md, 2.5 Filters).
 */
export const byDays = <Row>(
  name: string,
  readDay: (row: Row, client: Client) => string | number | null,
): Filter<Row> => {
  const [after, before] = [`filter[${name}][gt]`, `filter[${name}][lt]`];
  return {
    parameters: { [after]: dateIn, [before]: dateIn },
    read:
      ({ [after]: above = '', [before]: below = '9999-99-99' }, client) =>
      (row) => {
        const read = readDay(row, client);
        const found = typeof read === 'number' ? client.zone.day(read) : read;
        return found !== null && found > above && found < below;
      },
  };
};

interface ListDefinition<Row extends StoredRow> {
  readonly rows: (client: Client) => SortedRows<Row>;
  /** Creates the test for rows that are listed at all, which are not those that are too old. */
  readonly isListed?: (client: Client, nowMs: number) => Test<Row>;
  readonly filters?: readonly Filter<Row>[];
}

/** Defines the operation that lists a resource, page by page. A row must pass all filters. */
export function defineList<Row extends StoredRow>(
  resource: Resource<Row>,
  summary: string,
  { rows, isListed = () => () => true, filters = [] }: ListDefinition<Row>,
): Operation {
  const parameters = filters.map((filter) => filter.parameters);
  return defineOperation<Parameters>({
    name: `v3.${resource.plural}.list`,
    route: `GET /v3/${resource.plural}`,
    summary,
    query: Object.assign({}, paging, resource.query, ...parameters) as Parameters,
    answer: resource.page,
    run: (call) => {
      const { client, nowMs } = call;
      const values = call.query as Readonly<Record<string, never>>;
      const isGiven = (name: string) => Object.hasOwn(values, name);
      const tests = filters
        .filter((filter) => Object.keys(filter.parameters).some(isGiven))
        .map(({ read }) => read(values, client));
      return renderPage(call, resource, rows(client), [...tests, isListed(client, nowMs)]);
    },
  });
}

/** Defines the operation that gets one resource by its id. */
export function defineGet<Row extends StoredRow>(
  resource: Resource<Row>,
  summary: string,
  find: (client: Client, id: number, nowMs: number) => Row | undefined,
): Operation {
  return defineOperation({
    name: `v3.${resource.plural}.get`,
    route: `GET /v3/${resource.plural}/:id`,
    summary,
    query: resource.query,
    answer: resource.document,
    run: (call) => {
      const row = find(call.client, readId(call), call.nowMs);
      return renderDocument(call, resource, requireRow(call, resource.type, row));
    },
  });
}
