import type { FastifyReply } from 'fastify';
import { ZodError } from 'zod';
import { nok, type Operation } from '../operations/operation.ts';
import { Refusal, type Source } from '../refusal.ts';

/** What is wrong with a request, in words, with the place where it is. */
interface Problem {
  readonly title: string;
  readonly source?: Source;
}

/**
 * Answers a request that is not accepted, in the manner of its generation: JSON:API errors for v3, a NOK envelope for the
 * older ones, and an OAuth error for the token. The shapes of v3 errors and of the token's are decided here.
 */
export function answerError(error: unknown, operation: Operation | null, reply: FastifyReply): FastifyReply {
  const { status, problems } = describe(error);
  const name = operation?.name ?? '';
  if (name === 'common.token') {
    const code = error instanceof Refusal && status === 400 ? 'invalid_grant' : 'invalid_request';
    return reply.code(status).send({ error: code, error_description: words(problems) });
  }
  if (/^(oldest|v2|common)\./.test(name)) {
    // A request that could be read fails logically: the envelope says so, not the status (interface.md, Errors).
    const isLogical = error instanceof Refusal || error instanceof ZodError;
    return reply.code(isLogical && status !== 415 ? 200 : status).send(nok(words(problems)));
  }
  return reply.code(status).send({ errors: problems.map((problem) => ({ status: String(status), ...problem })) });
}

function describe(error: unknown): { status: number; problems: Problem[] } {
  if (error instanceof Refusal)
    return {
      status: error.status,
      problems: [{ title: error.message, ...(error.source && { source: error.source }) }],
    };
  if (error instanceof ZodError) return { status: 400, problems: error.issues.map(problemOf) };
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  return { status, problems: [{ title: error instanceof Error ? error.message : 'An unknown error' }] };
}

function problemOf({ path, message }: ZodError['issues'][number]): Problem {
  const place = path.map(String);
  if (place.length === 0) return { title: message };
  return { title: `${place.join('.')}: ${message}`, source: { pointer: `/${place.join('/')}` } };
}

function words(problems: readonly Problem[]): string {
  return problems.map(({ title }) => title).join('; ');
}
