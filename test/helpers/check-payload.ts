import { operations as builtIn, type Operations } from '../../config/operations.ts';
import { findPayloadProblems } from '../../src/push/check-payload.ts';
import type { AnyKind, CodeLists } from '../../src/push/kind.ts';
import { makeKinds } from '../../src/push/kinds/registry.ts';
import { anyCode } from '../../src/push/setting-codes.ts';

/** Returns a kind of the outbox by its name. */
export function findKind(name: string, operations = builtIn): AnyKind {
  const kind = makeKinds(operations).find((known) => known.name === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kind;
}

interface CheckOptions {
  readonly reference?: string | undefined;
  readonly operations?: Operations;
  readonly codes?: CodeLists;
}

/** Checks a payload, or its text, as a worker does. Returns the words of its problems. */
export async function checkPayload(
  kind: string,
  payload: unknown,
  { reference, operations = builtIn, codes = anyCode }: CheckOptions = {},
): Promise<readonly string[]> {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const { signal } = new AbortController();
  const context = { owner: 'a test', operations, codes, signal };
  const given = { payload: text, reference };
  const problems = await findPayloadProblems(findKind(kind, operations), given, context);
  return problems.map((problem) => problem.text);
}
