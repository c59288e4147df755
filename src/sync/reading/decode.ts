import { setImmediate as letOthersGo } from 'node:timers/promises';
import type { z } from 'zod';
import { CodedError } from '../../core/errors.ts';
import { isObject, type Json, unstorableReason } from '../../core/json.ts';
import type { Family, MirrorRow } from '../../erp/mirror/tables.ts';
import type { QuarantineEntry } from '../../erp/pull/quarantine.ts';
import { type IncludedIndex, indexIncluded, withAllIncluded } from '../../warehouse/decoding/included.ts';
import {
  type Document,
  decodeWith,
  type Resource,
  readId,
  type Undecodable,
} from '../../warehouse/decoding/jsonapi.ts';
import { PageSizes } from './page-sizes.ts';

/** What belongs to a resource can only be told when it is read alone: each time it is met, or when it was changed. */
export type ReadById = 'always' | 'changed';

/** A resource as rows, or why it cannot be. */
export type Decoded =
  | { readonly family: Family; readonly warning?: string; readonly readById?: ReadById }
  | { readonly problem: Undecodable };

/** How a stream turns one resource, with what was included, into rows. */
export type DecodeResource = (resource: Resource, onTop: IncludedIndex) => Decoded;

/** Keeps what was made for a zone: a schema is compiled at its first use. There are as many as clients have zones. */
export function oncePerZone(make: (zone: string) => DecodeResource): (zone: string) => DecodeResource {
  const made = new Map<string, DecodeResource>();
  return (zone) => {
    const decode = made.get(zone) ?? make(zone);
    made.set(zone, decode);
    return decode;
  };
}

/**
 * Decodes what belongs to a resource, each to a row of the child table. One that cannot be decoded takes its parent along,
 * so that never half a resource is stored; the path names it.
 */
export function decodeChildren<T>(
  type: string,
  resources: readonly Resource[],
  schema: z.ZodType<T>,
  toRow: (child: T, resource: Resource) => MirrorRow,
): { readonly children: readonly MirrorRow[] } | Extract<Decoded, { readonly problem: Undecodable }> {
  const children: MirrorRow[] = [];
  for (const resource of resources) {
    const decoded = decodeWith(schema, resource);
    if ('problem' in decoded) {
      const path = `included.${type}.${readId(resource) ?? 'without id'}.${decoded.problem.path}`;
      return { problem: { ...decoded.problem, path } };
    }
    children.push(toRow(decoded.value, resource));
  }
  return { children };
}

export interface DecodedPage {
  readonly families: readonly Family[];
  readonly quarantined: readonly QuarantineEntry[];
  readonly warnings: readonly string[];
  /** Ids that have to be read alone for all that belongs to them. */
  readonly readById: ReadonlyMap<number, ReadById>;
  /** What each family was made of, with all that was included for it, by id of the parent. */
  readonly sources: ReadonlyMap<number, Json>;
}

/** A page without resources. */
export const emptyPage: DecodedPage = {
  families: [],
  quarantined: [],
  warnings: [],
  readById: new Map(),
  sources: new Map(),
};

/** So many resources are decoded at a stretch: some tenths of a millisecond. */
const stretch = 3;

/**
 * Decodes each resource of a document by itself: one that fails is set aside whole and takes no other with it. In between
 * it lets others go on, so that Postgres, which writes the page before, need not wait for its next statement.
 */
export async function decodePage(
  document: Pick<Document, 'data' | 'included' | 'escaped'> & Partial<Pick<Document, 'size'>>,
  decode: DecodeResource,
): Promise<DecodedPage> {
  const onTop = indexIncluded(document.included);
  const sizes = new PageSizes(document.size ?? null, onTop.size > 0);
  const families: Family[] = [];
  const quarantined: QuarantineEntry[] = [];
  const warnings = new Set<string>();
  const readById = new Map<number, ReadById>();
  const sources = new Map<number, Json>();
  for (const [index, resource] of document.data.entries()) {
    if (index > 0 && index % stretch === 0) await letOthersGo();
    const decoded: Decoded = isObject(resource)
      ? decode(resource, onTop)
      : { problem: { path: '', reason: 'is no resource object' } };
    const whole = onTop.size === 0 ? resource : withAllIncluded(resource, onTop);
    const problem =
      'problem' in decoded ? decoded.problem : findProblem(decoded.family, whole, sizes, document.escaped);
    if (problem) quarantined.push(quarantineEntry(whole, problem, sizes));
    else if ('family' in decoded) {
      const { id } = decoded.family.parent;
      families.push(decoded.family);
      sources.set(id, whole);
      if (decoded.readById) readById.set(id, decoded.readById);
      if (decoded.warning !== undefined) warnings.add(decoded.warning);
    }
  }
  return { families, quarantined, warnings: [...warnings], readById, sources };
}

/** Returns why a decoded resource cannot be written with its page; null if it can. */
function findProblem(family: Family, whole: Json, sizes: PageSizes, escaped: boolean): Undecodable | null {
  const reason = sizes.findExcess(whole);
  if (reason !== null) return { path: '', reason };
  return escaped ? unstorable(family) : null;
}

function unstorable({ parent, children }: Family): Undecodable | null {
  const rows = [parent, ...children.flatMap((set) => set.rows)];
  const reasons = rows.map(({ raw }) => unstorableReason(JSON.stringify(raw)));
  const index = reasons.findIndex((reason) => reason !== null);
  return index < 0 ? null : { path: index === 0 ? '' : `included.${index - 1}`, reason: reasons[index] ?? '' };
}

function quarantineEntry(whole: Json, { path, reason }: Undecodable, sizes: PageSizes): QuarantineEntry {
  return { resourceId: readId(whole), memberPath: path, reason, document: sizes.toKeptText(whole) };
}

/** Puts resources that decode well but cannot be stored aside, with their reasons by id of the parent. */
export function setAside(page: DecodedPage, refused: ReadonlyMap<number, string>): DecodedPage {
  const own = new Map(page.families.map(({ parent }) => [parent.id, parent.read_no]));
  const sizes = new PageSizes(null);
  const put = [...refused].map(([id, reason]): QuarantineEntry => {
    const readNo = own.get(id);
    const entry = quarantineEntry(page.sources.get(id) ?? null, { path: '', reason }, sizes);
    return readNo === undefined ? entry : { ...entry, readNo };
  });
  return {
    ...page,
    families: page.families.filter(({ parent }) => !refused.has(parent.id)),
    quarantined: [...page.quarantined, ...put],
  };
}

/** The resource without its `included`, which is stored with the rows it makes. */
export function withoutIncluded(resource: Resource): Resource {
  const { included: _included, ...rest } = resource;
  return rest;
}

/** Up to this many bad resources their share does not matter: a few at the end of a list must not stop the stream. */
const fewQuarantined = 20;

/** Too large a share of the resources cannot be decoded: the interface may have changed. */
export class QuarantineShareError extends CodedError {
  constructor(quarantined: number, fetched: number, maxShare: number, first: QuarantineEntry | undefined) {
    super(
      'quarantine_share',
      `${quarantined} of ${fetched} resources could not be decoded, more than QUARANTINE_MAX_SHARE ${maxShare} allows; ` +
        'the cursor was kept. Did the interface change? ' +
        `One of them: ${first?.memberPath || 'the resource itself'}: ${first?.reason ?? 'unknown'}`,
    );
  }
}

/** @throws QuarantineShareError so that a changed interface does not quietly fill the quarantine */
export function checkQuarantineShare(
  quarantined: number,
  fetched: number,
  maxShare: number,
  first: QuarantineEntry | undefined,
): void {
  const few = maxShare === 0 ? 0 : fewQuarantined;
  if (quarantined > few && quarantined > fetched * maxShare) {
    throw new QuarantineShareError(quarantined, fetched, maxShare, first);
  }
}
