import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import type { Texts } from '../../store/model.ts';

const maxDepth = 20;

/** An id as a client sends it: a whole number, or its digits. */
export const idIn = z
  .union([z.int(), z.string().regex(/^\d{1,15}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int());
/** An id of the client's choice, to link resources of one request. */
export const provisionalId = z.union([z.int(), z.string().min(1)]);
/** Not given, null, or a text. */
export const textIn = z.string().nullish();
export const dateIn = z.iso.date('must be a date in the form YYYY-MM-DD');
export const quantityIn = z.int('must be a whole number').min(1, 'must be at least 1').max(1_000_000);

export const linkTo = (type: string) => z.strictObject({ data: z.strictObject({ id: idIn, type: z.literal(type) }) });
export const linksTo = (type: string) =>
  z.strictObject({ data: z.array(z.strictObject({ id: provisionalId.optional(), type: z.literal(type) })) });

/** Texts under certain names; what is null or missing is not there. */
export const textsOf = (...names: readonly string[]) =>
  z.strictObject(Object.fromEntries(names.map((name) => [name, textIn]))).nullish();
/** Members of the client's choice. */
export const ownMembers = z
  .record(z.string(), z.unknown())
  .refine((members) => isShallow(members, maxDepth), `must not be nested deeper than ${maxDepth} levels`);
export const anyMembers = ownMembers.nullish();

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isShallow(member, levels - 1));
}

/** The texts that were given, by name. */
export function textsIn(given: Readonly<Record<string, string | null | undefined>> | null | undefined): Texts {
  const entries = Object.entries(given ?? {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return Object.fromEntries(entries);
}

/** An empty text erases, and so does none (interface.md, v3 order). */
export const orNull = (text: string | null | undefined): string | null =>
  text === undefined || text === '' ? null : text;

/** A document whose resource comes with others: they stand inside `data` or beside it. */
export function documentIn<D extends z.ZodRawShape, I extends z.ZodType>(data: D, includedResource: I) {
  const included = z.array(includedResource).optional();
  return z.strictObject({ data: z.strictObject({ ...data, included }), included });
}

/** Resources that came along, each with its place in the request. */
export function includedIn<T>(body: {
  readonly data: { readonly included?: readonly T[] | undefined };
  readonly included?: readonly T[] | undefined;
}): { readonly resource: T; readonly pointer: string }[] {
  const inside = (body.data.included ?? []).map((resource, index) => ({
    resource,
    pointer: `/data/included/${index}`,
  }));
  return [...inside, ...(body.included ?? []).map((resource, index) => ({ resource, pointer: `/included/${index}` }))];
}

/** @throws Refusal where the body speaks of another resource than the path */
export function assertSameId(id: number, pathId: number): void {
  if (id !== pathId) throw ruleBroken(`The path names ${pathId}, the body ${id}`, '/data/id');
}
