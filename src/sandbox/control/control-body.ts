import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { normalizeBody } from '../normalize-body.ts';
import { badParameter } from '../refusal.ts';

/** Returns whether the body of a request is a form. The page sends forms, and programs usually send JSON. */
export function isForm(request: FastifyRequest): boolean {
  return request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
}

/**
 * Reads the body of a control call. In a form, empty fields are absent, and texts become the types of the schema.
 * @throws Refusal, ZodError if the body does not match the schema
 */
export function readControlBody<T extends z.ZodType>(request: FastifyRequest, schema: T): z.output<T> {
  if (!isForm(request)) return schema.parse(request.body);
  const record = ({ code, member }: { code: string; member: string }) => {
    if (code === 'unknown_member') throw badParameter(member, 'is unknown');
  };
  return schema.parse(normalizeBody(dropEmpty(request.body) ?? {}, schema, { isOlder: true, isForm: true, record }));
}

/** Removes empty texts, and then empty lists and objects. Returns undefined if nothing is left. */
function dropEmpty(value: unknown): unknown {
  if (typeof value === 'string') return value.trim() === '' ? undefined : value.trim();
  if (Array.isArray(value)) {
    const items = value.map(dropEmpty).filter((item) => item !== undefined);
    return items.length === 0 ? undefined : items;
  }
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const kept = dropEmpty(member);
    return kept === undefined ? [] : [[name, kept] as const];
  });
  return members.length === 0 ? undefined : Object.fromEntries(members);
}
