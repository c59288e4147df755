import { globSync, readFileSync } from 'node:fs';
import { checkSync } from 'recheck';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';

/** Regular expressions in a program's syntax tree, as they stand there. */
function literalsIn(node: unknown): { pattern: string; flags: string }[] {
  if (typeof node !== 'object' || node === null) return [];
  const own = 'regex' in node ? [node.regex as { pattern: string; flags: string }] : [];
  return [...own, ...Object.values(node).flatMap(literalsIn)];
}

// One that is not linear stops the event loop for as long as whoever wrote the text likes. The checker finds a text for each
// on which its steps grow faster than its length, or proves that there is none.
test('no regular expression takes more steps than a text is long, times a constant', { timeout: 60_000 }, () => {
  const files = globSync(['src/**/*.ts', 'jobs/**/*.ts', 'config/**/*.ts']);
  const found = files.flatMap((file) =>
    literalsIn(parseAst(readFileSync(file, 'utf8'), { lang: 'ts' })).map((literal) => ({ file, ...literal })),
  );
  expect(found.length).toBeGreaterThan(100);
  const unsafe = found.filter(({ pattern, flags }) => checkSync(pattern, flags).status !== 'safe');
  expect(unsafe).toEqual([]);
});
