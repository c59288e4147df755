import { globSync, readFileSync } from 'node:fs';
import { checkSync } from 'recheck';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

/**
 * Lets the checker finish on a slow machine, too. By default it gives an expression up after ten
 * seconds.
 */
const unhurried = {
  timeout: null,
  attackTimeout: null,
  incubationTimeout: null,
  recallTimeout: null,
};

/** Returns the regular expressions of a syntax tree. */
function findLiterals(node: unknown): { pattern: string; flags: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  const literals = 'regex' in node ? [node.regex as { pattern: string; flags: string }] : [];
  return [...literals, ...Object.values(node).flatMap(findLiterals)];
}

// A regular expression that is not linear can block the event loop for as long as the author of a
// text wants. For each one, the checker finds a text on which the steps grow faster than the
// length, or proves that there is none.
test('every regular expression takes a number of steps that is linear in the length of the text', {
  timeout: 1_200_000,
}, () => {
  const files = globSync(['src/**/*.ts', 'jobs/**/*.ts', 'config/**/*.ts']);
  const found = new Map(
    files
      .flatMap((file) => findLiterals(parseAst(readFileSync(file, 'utf8'), { lang: 'ts' })))
      .map((literal) => [`/${literal.pattern}/${literal.flags}`, literal]),
  );
  expect(found.size).toBeGreaterThan(100);
  const unsafe = [...found].filter(
    ([, { pattern, flags }]) => checkSync(pattern, flags, unhurried).status !== 'safe',
  );
  expect(unsafe.map(([expression]) => expression)).toEqual([]);
});
