import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** Phrases that readers stumble over, each with what to write instead. */
const banned: readonly (readonly [RegExp, string])[] = [
  [/\bso (many|much|often|long)\b/i, 'a number, or "as long as"'],
  [/\bstands\b/i, 'is, holds'],
  [/\b(go|goes|going|went) on\b/i, 'continue'],
  [/\b(whoever|whomever)\b/i, 'the one who, or a name'],
  [/\bnone but\b|\bnone of [^.]* from it\b/i, 'only'],
  [/\ball the same\b/i, 'nevertheless, or nothing'],
  [/\bmend(s|ed|ing)?\b/i, 'fix, correct, repair'],
  [/\bput(s|ting)? (it |them )?right\b/i, 'correct'],
  [/\blet(s|ting)? (it |them )?go of\b/i, 'release'],
  [/\bwhat (came|comes|became|becomes) of\b/i, 'the outcome of'],
  [/\bat the (most|least)\b/i, 'at most, at least'],
  [/\bbur(y|ied|ies)\b/i, 'mark as dead'],
];

/** Files whose text people read. */
const files = globSync(
  [
    '{src,jobs,config,tools,bench,test}/**/*.ts',
    'docs/*.md',
    '*.md',
    'deploy/*.{json,yml,yaml}',
    '.env.example',
    'migrations/*.sql',
  ],
  {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    exclude: ['**/node_modules/**', 'src/erp/generated/**', 'test/language.test.ts'],
  },
).sort();

test.each(banned)('no file says %s', (phrase, instead) => {
  const found = files.flatMap((file) =>
    readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')
      .split('\n')
      .flatMap((line, index) => (phrase.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
  );
  expect(found, `write instead: ${instead}`).toEqual([]);
});
