import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Oddity } from '../findings.ts';
import { isForm } from '../form.ts';
import { normalizeBody } from '../normalize-body.ts';
import type { Operation } from '../operations/operation.ts';
import { readQuery } from '../operations/parameters.ts';
import { Refusal } from '../refusal.ts';
import type { World } from '../world.ts';

/**
 * Reads the query and the body of a request, and records what docs/interface.md does not show. Unless the sandbox is
 * strict, what is odd is adapted or ignored.
 * @throws Refusal, ZodError if the request is not accepted
 */
export function readInput(
  operation: Operation,
  request: FastifyRequest,
  { strict: isStrict, onlyDescribed, findings }: World,
): { readonly query: unknown; readonly body: unknown } {
  const record = (oddity: Oddity) => findings.add(request.client, operation.name, oddity);
  const reading = { isStrict, isOlder: /^(oldest|v2)\./.test(operation.name), record };
  const { replacedBy, method, path, described } = operation;
  if (replacedBy !== null)
    record({ code: 'deprecated_call', member: '', shape: `${method} ${path}`, meant: replacedBy });
  if (!described) record({ code: 'not_in_description', member: '', shape: `${method} ${path}` });
  const [, rawQuery] = splitUrl(request.url);
  const query = readQuery(rawQuery, operation.query, operation.required, reading);
  const { form, body, describedBody } = operation;
  const schema = onlyDescribed ? describedBody : body;
  return { query, body: schema === null ? null : readBody({ schema, form }, request, reading) };
}

/**
 * Reads the body of a request.
 * @throws Refusal if the content type is wrong
 * @throws ZodError if the body does not match the schema
 */
function readBody(
  { schema, form }: { readonly schema: z.ZodType; readonly form: Operation['form'] },
  request: FastifyRequest,
  { isStrict, isOlder, record }: Parameters<typeof readQuery>[3],
): unknown {
  const isFormBody = isForm(request);
  if (isFormBody && form === 'never') record({ code: 'form_body', member: '', shape: 'form' });
  const takesForms = form !== 'never' || (isOlder && !isStrict);
  if (isFormBody ? !takesForms : form === 'only')
    throw new Refusal(415, isFormBody ? 'The body must be JSON' : 'The body must be application/x-www-form-urlencoded');
  const body = request.body ?? null;
  const normalized = normalizeBody(body, schema, { isOlder, isForm: isFormBody, record });
  return schema.parse(isStrict ? body : normalized);
}

/** Splits a URL into path and query at the first question mark. */
export function splitUrl(url: string): [string, string] {
  const mark = url.indexOf('?');
  return mark < 0 ? [url, ''] : [url.slice(0, mark), url.slice(mark + 1)];
}
