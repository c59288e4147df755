import { globSync, readFileSync } from 'node:fs';
import { checkSync } from 'recheck';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

/**
 * The checker may take its time on a slow machine, but trusts its theory: it does not run each
 * attack that it finds, which takes much longer than to find it.
 */
const options = {
  timeout: null,
  attackTimeout: null,
  incubationTimeout: null,
  recallTimeout: -1,
};

/** Quadratic ones for texts that no outsider writes. */
const forOwnTexts = [
  // The URL of a database, from the operator.
  '/^postgres(?:ql)?:\\/\\/(?:[^@/]*@)?[^@/?]*,|[?&]host=[^&]*(?:,|%2c)/i',
  // Names of our own operations, and a time that a developer sends to the sandbox.
  '/[^a-z]+(\\w)/g',
  '/T.*(Z|[+-]\\d{2}:?\\d{2})$/i',
];

/** Returns the regular expressions of a syntax tree. */
function findLiterals(node: unknown): { pattern: string; flags: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  const literals = 'regex' in node ? [node.regex as { pattern: string; flags: string }] : [];
  return [...literals, ...Object.values(node).flatMap(findLiterals)];
}

const isLinear = (pattern: string, flags: string) =>
  checkSync(pattern, flags, options).status === 'safe';

// A regular expression that is not linear can block the event loop for as long as the author of a
// text wants. For each one, the checker finds a text on which the steps grow faster than the
// length, or proves that there is none.
test('every regular expression takes a number of steps that is linear in the length of the text', () => {
  const files = globSync(['src/**/*.ts', 'jobs/**/*.ts', 'config/**/*.ts']);
  const found = new Map(
    files
      .flatMap((file) => findLiterals(parseAst(readFileSync(file, 'utf8'), { lang: 'ts' })))
      .map((literal) => [`/${literal.pattern}/${literal.flags}`, literal]),
  );
  expect(found.size).toBeGreaterThan(100);
  const slow = [...found].filter(
    ([expression, { pattern, flags }]) =>
      !forOwnTexts.includes(expression) && !isLinear(pattern, flags),
  );
  expect(slow.map(([expression]) => expression)).toEqual([]);
});
