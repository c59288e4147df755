/**
 * Decodes resources into rows, as their declarations say. One that cannot be decoded is quarantined
 * alone; the others are stored.
 */

import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { CodedError } from '../core/errors.ts';
import { findUnstorable, isObject, type Json } from '../core/json.ts';
import { decodeRow, type ResourceFields, toColumn } from '../service/decoding/fields.ts';
import {
  addIncluded,
  type DecodingProblem,
  type Document,
  findChildren,
  type IncludedIndex,
  indexIncluded,
  type Resource,
  readId,
  toId,
} from '../service/decoding/jsonapi.ts';
import type { MirrorRow, ResourceRows } from './sql/mirror-tables.ts';
import type { OrderLinks, QuarantineEntry } from './sql/quarantine.ts';

/** Maximum size, in characters of JSON, of a resource in quarantine with its included resources. */
const maxKept = 1_000_000;
/**
 * Maximum size of all resources of one page in quarantine. After that only the beginning of each is
 * kept.
 */
const maxKeptPerPage = 8_000_000;
/** Number of characters that are kept from the beginning of a resource that is too large. */
const keptBeginning = 2_000;
/**
 * Answers up to this size are not measured. Half of one may be an included resource, and the other
 * half resources of 100 characters that link to it: that makes 56 MB at most.
 */
const smallAnswer = 150_000;
/** Maximum size of a resource with its included resources that is written with its page. */
const maxWritten = 4_000_000;
/**
 * Maximum size of all resources that are written with one page. An included resource counts each
 * time it is linked.
 */
const maxWrittenPerPage = 64_000_000;

/**
 * Bounds what one page costs. An included resource is stored with each resource that links to it:
 * one of 10 MB, linked by 300 others, would make 3 GB. Measures each resource once.
 */
class PageSizes {
  readonly #isMeasured: boolean;
  readonly #sizes = new Map<Json, number>();
  #kept = 0;
  #written = 0;

  /**
   * @param size number of characters of the answer; null if it is not known or holds a single
   *   resource
   * @param sharesIncluded true if several resources may link to the same included resource
   */
  constructor(size: number | null, sharesIncluded = true) {
    this.#isMeasured = size !== null && size > (sharesIncluded ? smallAnswer : maxWritten);
  }

  /**
   * Returns why a resource with its included resources is too large to be written with this page;
   * else null.
   */
  findExcess(whole: Json): string | null {
    if (!this.#isMeasured) return null;
    const size = this.#measureWhole(whole);
    if (size > maxWritten)
      return `has ${size} characters with its included resources; the maximum is ${maxWritten}`;
    if (this.#written + size > maxWrittenPerPage)
      return (
        `is on a page of more than ${maxWrittenPerPage} characters, ` +
        'counting each included resource as often as it is linked'
      );
    this.#written += size;
    return null;
  }

  /**
   * Returns the JSON text of a resource for the quarantine. If it is too large: its id, its size
   * and its beginning.
   */
  toKeptText(whole: Json): string {
    const size = this.#measureWhole(whole);
    if (size <= maxKept && this.#kept + size <= maxKeptPerPage) {
      this.#kept += size;
      return JSON.stringify(whole);
    }
    const { id = null, type = null } = isObject(whole) ? whole : {};
    const tooLargeToKeep = `${size} characters; the first ${keptBeginning} are kept`;
    return JSON.stringify({
      ...(isShort(id) ? { id } : {}),
      ...(isShort(type) ? { type } : {}),
      tooLargeToKeep,
      begins: JSON.stringify(separate(whole).rest).slice(0, keptBeginning),
    });
  }

  #measureWhole(whole: Json): number {
    const { rest, included } = separate(whole);
    return included.reduce(
      (sum: number, part) => sum + this.#measure(part, part),
      this.#measure(whole, rest),
    );
  }

  #measure(key: Json, part: Json): number {
    const size = this.#sizes.get(key) ?? JSON.stringify(part).length;
    this.#sizes.set(key, size);
    return size;
  }
}

/** Separates a resource from its included resources. */
function separate(whole: Json): { readonly rest: Json; readonly included: readonly Json[] } {
  if (!isObject(whole) || !Array.isArray(whole.included)) return { rest: whole, included: [] };
  const { included, ...rest } = whole;
  return { rest, included };
}

const isShort = (value: Json) =>
  ['string', 'number'].includes(typeof value) && String(value).length <= 100;

/** How the resources of a stream become rows. */
export interface ResourceDeclaration {
  readonly table: string;
  readonly fields: ResourceFields;
  readonly children: readonly ChildDeclaration[];
  /** True if erasing an order masks these rows and `raw`. */
  readonly erasedWithOrders: boolean;
  /**
   * Warning about a resource that came without all resources that it links to; absent if that is
   * usual.
   */
  readonly incomplete?: string;
  /**
   * Relationship whose included resource a jsonb column of the parent keeps whole: `pickUpPoint` is
   * kept in `pick_up_point`, beside its id in `pick_up_point_id`.
   */
  readonly kept?: string;
}

/** Included resources that become rows of a table of their own. */
export interface ChildDeclaration {
  readonly table: string;
  readonly fields: ResourceFields;
  /** Column with the id of the parent. */
  readonly parentColumn: string;
  /** Relationship of the parent to one or to many; null if no relationship lists them. */
  readonly listedIn: string | null;
  /**
   * Role in which the parent links to one resource, which may have several roles. The key is then
   * the parent with the role.
   */
  readonly role?: string;
}

/**
 * When a resource must be read by id, because a list does not link its lines to it: always, or if
 * it changed.
 */
type ReadById = 'always' | 'changed';

/** A resource as rows, or the reason why it cannot be decoded. */
export type DecodedResource = DecodedRows | { readonly problem: DecodingProblem };

/** A resource as rows. */
interface DecodedRows extends ResourceRows {
  readonly warning?: string;
  /** Set if its lines came without a link to it. */
  readonly mustReadById?: ReadById;
}

/** A resource as rows, and its JSON with its included resources. */
export interface ReadResource extends DecodedRows {
  readonly source: Json;
}

/** Decodes one resource into rows. `onTop` holds the resources of the document's `included`. */
export type DecodeResource = (resource: Resource, onTop: IncludedIndex) => DecodedResource;

/**
 * Makes the function that decodes a resource and its included resources into rows, for a zone of
 * times without a zone.
 */
export function makeDecoder({
  fields,
  children: declared,
  kept,
  incomplete,
}: ResourceDeclaration): (zone: string) => DecodeResource {
  const childReaders = declared.map((child) => ({
    child,
    readIds: makeLinkReader(fields, child.listedIn),
  }));

  return (zone) => (resource, onTop) => {
    const read = decodeRow(fields, resource, zone);
    if ('problem' in read) return read;
    const { row } = read;

    const children: ResourceRows['children'][number][] = [];
    let isComplete = true;
    for (const { child, readIds } of childReaders) {
      const found = findChildren(resource, child.fields.type, readIds(row), onTop);
      const decoded = decodeChildren(child, row.id, found.resources, zone);
      if ('problem' in decoded) return decoded;

      isComplete &&= found.complete;
      const isNamed = readLinkData(resource, child.listedIn) !== undefined;
      const complete = found.complete && isNamed;
      children.push({ table: child.table, rows: decoded.rows, complete });
    }

    const parent = { ...row, raw: withoutIncluded(resource) };
    const whole = kept === undefined ? null : findKept(kept, resource, onTop);
    if (kept !== undefined) Object.assign(parent, { [toColumn(kept)]: whole ?? null });
    isComplete &&= whole !== undefined;

    const warning = isComplete || incomplete === undefined ? {} : { warning: incomplete };
    return { parent, children, ...warning };
  };
}

/**
 * Makes the function that reads the ids to which a row links by a relationship to one or to many;
 * null if the row does not list them.
 */
function makeLinkReader({ columns }: ResourceFields, relationship: string | null) {
  const link = columns.find(({ member }) => member === relationship);

  return (row: MirrorRow): readonly number[] | null => {
    const value = link === undefined ? null : (row[link.column] ?? null);
    if (value === null) return link === undefined || link.field.sql === null ? null : [];
    return Array.isArray(value) ? value : [value as number];
  };
}

/**
 * Decodes the resources that belong to a parent, each into a row of the child table. If one cannot
 * be decoded, returns its problem: then the whole parent is quarantined, so that no incomplete
 * resource is stored. The path names the child.
 */
function decodeChildren(
  { fields, parentColumn, role }: ChildDeclaration,
  parentId: number,
  resources: readonly Resource[],
  zone: string,
):
  | { readonly rows: readonly MirrorRow[] }
  | Extract<DecodedResource, { readonly problem: unknown }> {
  const links = { [parentColumn]: parentId, ...(role !== undefined && { role }) };
  const rows: MirrorRow[] = [];

  for (const resource of resources) {
    const read = decodeRow(fields, resource, zone);
    if ('problem' in read) {
      const id = readId(resource) ?? 'without id';
      const path = `included.${fields.type}.${id}.${read.problem.path}`;
      return { problem: { ...read.problem, path } };
    }
    rows.push({ ...read.row, ...links });
  }

  return { rows };
}

/**
 * Returns the resource that a column keeps, null if none is linked, or undefined if it was not
 * included. One without an id can only be in the `included` of its parent.
 */
function findKept(
  relationship: string,
  resource: Resource,
  onTop: IncludedIndex,
): Json | undefined {
  const data = readLinkData(resource, relationship) ?? null;
  if (data === null) return null;

  const id = readId(data);
  return findChildren(resource, relationship, id === null ? null : [id], onTop).resources[0];
}

/**
 * Returns the `data` of a relationship: null if the resource says that it links to none; undefined
 * if the answer lacks it, which proves nothing.
 */
function readLinkData(resource: Resource, relationship: string | null): Json | undefined {
  const { relationships } = resource;
  const link =
    isObject(relationships) && relationship !== null ? relationships[relationship] : undefined;
  return isObject(link) ? link.data : undefined;
}

/** Returns a resource without its `included`, whose resources are stored as rows. */
function withoutIncluded(resource: Resource): Resource {
  if (!('included' in resource)) return resource;
  const { included: _included, ...rest } = resource;
  return rest;
}

/** The decoded resources of one page. */
export interface DecodedPage {
  readonly resources: readonly ReadResource[];
  readonly quarantined: readonly QuarantineEntry[];
}

/** Number of resources decoded in one turn of the event loop, in a fraction of a millisecond. */
const resourcesPerTurn = 10;

/**
 * Decodes each resource of a document separately. One that fails is quarantined as a whole; the
 * others are decoded. Yields to the event loop in between, so that the transaction of the previous
 * page can send its next statement.
 */
export async function decodePage(
  { data, included, escaped, size = null, readNo }: PageDocument,
  decode: DecodeResource,
): Promise<DecodedPage> {
  const onTop = indexIncluded(included);
  const sizes = new PageSizes(size, onTop.size > 0);
  const resources: ReadResource[] = [];
  const quarantined: QuarantineEntry[] = [];

  for (const [index, resource] of data.entries()) {
    if (index > 0 && index % resourcesPerTurn === 0) await yieldToEventLoop();

    const decoded: DecodedResource = isObject(resource)
      ? decode(resource, onTop)
      : { problem: { path: '', reason: 'is not a resource object' } };
    const source = addIncluded(resource, onTop);
    const problem =
      'problem' in decoded ? decoded.problem : findProblem(decoded, source, sizes, escaped);

    if (problem !== null) quarantined.push(toQuarantineEntry(source, problem, sizes));
    else resources.push(toReadResource(decoded as DecodedRows, source, readNo));
  }

  return { resources, quarantined };
}

/** The members of a document that are decoded. */
type PageDocument = Pick<Document, 'data' | 'included' | 'escaped'> & {
  readonly size?: number | null;
  /** Number of the reading; absent if it is drawn later. */
  readonly readNo?: number;
};

/** Completes a resource that was just decoded, without copying it: a page has many. */
function toReadResource(decoded: DecodedRows, source: Json, readNo?: number): ReadResource {
  if (readNo !== undefined) Object.assign(decoded.parent, { read_no: readNo });
  return Object.assign(decoded, { source });
}

/** Returns why a decoded resource cannot be written with its page; null if it can. */
function findProblem(
  resource: ResourceRows,
  whole: Json,
  sizes: PageSizes,
  escaped: boolean,
): DecodingProblem | null {
  const reason = sizes.findExcess(whole);
  if (reason !== null) return { path: '', reason };
  return escaped ? findUnstorableRow(resource) : null;
}

function findUnstorableRow({ parent, children }: ResourceRows): DecodingProblem | null {
  const rows = [parent, ...children.flatMap((set) => set.rows)];
  const reasons = rows.map(({ raw }) => findUnstorable(raw as Json));
  const index = reasons.findIndex((reason) => reason !== null);
  return index < 0
    ? null
    : { path: index === 0 ? '' : `included.${index - 1}`, reason: reasons[index] ?? '' };
}

function toQuarantineEntry(
  whole: Json,
  problem: DecodingProblem,
  sizes: PageSizes,
): QuarantineEntry {
  return makeQuarantineEntry(readId(whole), whole, problem, sizes.toKeptText(whole));
}

/**
 * Makes an entry for the quarantine. Reads what leads to its order, because an erasure must find
 * the entry.
 */
export function makeQuarantineEntry(
  resourceId: number | null,
  whole: Json,
  { path, reason }: DecodingProblem,
  document: string = JSON.stringify(whole),
): QuarantineEntry {
  return { resourceId, links: readOrderLinks(whole), memberPath: path, reason, document };
}

/** Number of included resources whose links are read, if the resource itself has none. */
const searchedIncluded = 100;

/**
 * Reads the ids and the number that lead to an order, from the resource or else from those included
 * with it.
 */
function readOrderLinks(whole: Json): OrderLinks {
  const { included } = isObject(whole) ? whole : {};
  const resources = [
    whole,
    ...(Array.isArray(included) ? included.slice(0, searchedIncluded) : []),
  ].filter(isObject);
  const find = <T>(read: (resource: Resource) => T | null): T | null =>
    resources.map(read).find((value) => value !== null) ?? null;
  const findLink = (name: string) => find((resource) => readLink(resource, name));

  return {
    order_id: findLink('order'),
    shipment_id: findLink('shipment'),
    order_item_id: findLink('orderItem'),
    shipment_item_id: findLink('shipmentItem'),
    return_merchandise_authorization_item_id: findLink('returnMerchandiseAuthorizationItem'),
    external_order_number: find(({ attributes, externalOrderNumber }) => {
      const number = isObject(attributes) ? attributes.externalOrderNumber : externalOrderNumber;
      return typeof number === 'string' && number !== '' ? number : null;
    }),
  };
}

/**
 * Reads the id of a relationship to one resource, or of a member such as `orderId`; null if there
 * is none.
 */
function readLink(resource: Resource, name: string): number | null {
  const data = readLinkData(resource, name) ?? null;
  return readId(Array.isArray(data) ? (data[0] ?? null) : data) ?? toId(resource[`${name}Id`]);
}

/** Moves resources that the database refused, each for its reason, to the quarantine. */
export function quarantineRefused(
  { resources, quarantined }: DecodedPage,
  refused: ReadonlyMap<ResourceRows, string>,
): DecodedPage {
  const sizes = new PageSizes(null);
  const entries = resources.flatMap((resource): QuarantineEntry[] => {
    const reason = refused.get(resource);
    if (reason === undefined) return [];

    const entry = toQuarantineEntry(resource.source, { path: '', reason }, sizes);
    const { read_no: readNo } = resource.parent;
    return [readNo === undefined ? entry : { ...entry, readNo }];
  });

  return {
    resources: resources.filter((resource) => !refused.has(resource)),
    quarantined: [...quarantined, ...entries],
  };
}

/**
 * Share of undecodable resources that fails the run. It tells a changed interface, which concerns
 * most resources, from single bad ones; in between lies nothing that an operator could tune.
 */
const maxQuarantinedShare = 0.2;
/**
 * Up to this number of undecodable resources, their share does not matter: a few must not stop the
 * stream.
 */
const toleratedQuarantined = 20;

/**
 * An error for a run in which too large a share of the resources cannot be decoded. The interface
 * may have changed.
 */
export class QuarantineShareError extends CodedError {
  constructor(quarantined: number, fetched: number, first: QuarantineEntry | undefined) {
    super(
      'quarantine_share',
      `${quarantined} of ${fetched} resources could not be decoded, more than a fifth; ` +
        'the cursor was not moved. The interface may have changed. ' +
        `One of them: ${first?.memberPath || 'the resource itself'}: ${first?.reason ?? 'unknown'}`,
    );
  }
}

/**
 * @throws QuarantineShareError if too many resources cannot be decoded: a changed interface must be
 * noticed
 */
export function checkQuarantineShare(
  quarantined: number,
  fetched: number,
  first: QuarantineEntry | undefined,
): void {
  if (quarantined > toleratedQuarantined && quarantined > fetched * maxQuarantinedShare)
    throw new QuarantineShareError(quarantined, fetched, first);
}
