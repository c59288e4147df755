import type { FastifyReply } from 'fastify';
import { ZodError } from 'zod';
import { nok, type Operation } from '../operations/operation.ts';
import { type ErrorSource, Refusal } from '../refusal.ts';

/** An error of a request, with the part of the request that caused it. */
interface Problem {
  readonly title: string;
  readonly source?: ErrorSource;
}

/**
 * Answers a request that is not accepted, in the form of its generation: JSON:API errors for v3, a NOK envelope for
 * older operations, and an OAuth error for the token. docs/interface.md does not show the errors of v3 and of the
 * token; their forms are our assumption.
 */
export function answerError(error: unknown, operation: Operation | null, reply: FastifyReply): FastifyReply {
  const { status, problems } = describeError(error);
  const name = operation?.name ?? '';
  if (name === 'common.token') {
    const code = error instanceof Refusal && status === 400 ? 'invalid_grant' : 'invalid_request';
    return reply.code(status).send({ error: code, error_description: joinTitles(problems) });
  }
  if (/^(oldest|v2|common)\./.test(name)) {
    // Older operations report logical errors in the envelope, with status 200 (docs/interface.md, 4.1 Outcomes).
    const isLogical = error instanceof Refusal || error instanceof ZodError;
    return reply.code(isLogical && status !== 415 ? 200 : status).send(nok(joinTitles(problems)));
  }
  return reply.code(status).send({ errors: problems.map((problem) => ({ status: String(status), ...problem })) });
}

/** Returns the status of an error and its problems in words. */
export function describeError(error: unknown): { status: number; problems: Problem[] } {
  if (error instanceof Refusal)
    return {
      status: error.status,
      problems: [{ title: error.message, ...(error.source && { source: error.source }) }],
    };
  if (error instanceof ZodError) return { status: 400, problems: error.issues.map(toProblem) };
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return { status, problems: [{ title: error instanceof Error ? error.message : 'An unknown error' }] };
}

function toProblem({ path, message }: ZodError['issues'][number]): Problem {
  const place = path.map(String);
  if (place.length === 0) return { title: message };
  return { title: `${place.join('.')}: ${message}`, source: { pointer: `/${place.join('/')}` } };
}

function joinTitles(problems: readonly Problem[]): string {
  return problems.map(({ title }) => title).join('; ');
}
